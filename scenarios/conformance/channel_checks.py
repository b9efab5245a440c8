"""Whether a mechanism's exact channel spends its epsilon, neither more nor less."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np

from coordinator.protocol.admitted import OwnPublic
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import Likelihood, LogRatio, odds_within
from coordinator.protocol.channels.channel import DUST
from scenarios.conformance.enumerating import MOST_BITS, AnyChannel, channel_of, enumerated
from scenarios.conformance.subject import MIDDLE, PLAIN, ROUNDS, RUN, TINY, Subject, every_rating
from scenarios.conformance.verdicts import Failed

SHORT = Fraction(1, 10**6)
"""By how much of epsilon a channel may fall short: coins are rounded towards more noise."""
DRAWN = 200
"""Ratings that are drawn in the middle world, where they cannot be enumerated."""


def log_ratio(subject: Subject) -> str:
    """Check that rows sum to one, and that no two private sketches are farther apart than epsilon, but some as far.

    It compares exact fractions over all that a device of a tiny catalogue can have rated, and looks whether epsilon is
    reached, there or in a larger catalogue: whoever spends it should use it. A likelihood tells floats, whose last
    digits may exceed it (`DUST`). One's own classes are asked at every epsilon in all `ROUNDS`, others at one in these.
    """
    every, told = isinstance(subject.public, OwnPublic), []
    places = [(epsilon, seen) for epsilon in subject.epsilons for seen in (ROUNDS if every else ROUNDS[:1])]
    for epsilon, (number, seed) in [*places, *([] if every else [(PLAIN, seen) for seen in ROUNDS[1:]])]:
        first = (number, seed) == ROUNDS[0]
        at = f"epsilon {as_float(epsilon):g}{'' if first else f', round {number}, public seed {seed.hex()[:8]}'}"
        query = subject.query(TINY, epsilon, round_number=number, public_seed=seed)
        channel = channel_of(subject, query, epsilon)
        found = enumerated(subject, query, channel, every_rating(TINY))
        ratio, pair = found.farthest()
        largest, slack = LogRatio.of(ratio), 0 if found.alike else DUST
        if not largest.within(epsilon * (1 + slack)):
            above = f"{largest.beyond(epsilon):.3g} above epsilon"
            raise Failed(f"{at}: log-ratio {float(largest):.9g} between {pair}, {above}")
        if not _states(channel, largest):
            raise Failed(f"{at}: the channel says {channel.epsilon:.9g}, enumerated it is {float(largest):.9g}")
        enough = odds_within(epsilon * (1 - SHORT))
        reached = found.reached(enough)
        if reached < enough:
            reached = max(reached, _in_the_middle(subject, epsilon, enough))
        if reached < enough:
            raise Failed(f"{at} is not spent: no two sketches are more than {_nats(reached):.9g} apart")
        if first:
            told.append(f"{_nats(reached):.9g} of {as_float(epsilon):g}")
    return f"largest {', '.join(told)}"


def at_the_runs_size(subject: Subject) -> str:
    """Check in closed form that a channel of the size of a run spends epsilon, neither more nor less."""
    told = []
    for epsilon, (number, seed) in product(subject.epsilons, ROUNDS):
        query = subject.query(RUN, epsilon, round_number=number, public_seed=seed)
        channel = channel_of(subject, query, epsilon)
        if isinstance(channel, Likelihood):
            spent = channel.claimed == epsilon
        else:
            largest = channel.log_ratio
            spent = largest.within(epsilon) and not largest.within(epsilon * (1 - SHORT))
        if not spent:
            at = f"epsilon {as_float(epsilon):g} of {RUN.items} items, round {number}"
            raise Failed(f"{at}: the channel's own is {channel.epsilon:.9g}")
        if (number, seed) == ROUNDS[0]:
            told.append(f"{channel.epsilon:.9g}")
    return f"{RUN.items} items: {', '.join(told)}"


def _in_the_middle(subject: Subject, epsilon: Fraction, enough: Fraction) -> Fraction:
    """Return the largest ratio over ratings that are drawn, where a release's values can be enumerated."""
    query = subject.query(MIDDLE, epsilon)
    if query.bits > MOST_BITS:
        return Fraction(1)
    drawn = np.random.default_rng(0).random((DRAWN, MIDDLE.items)) < np.linspace(0, 1, DRAWN)[:, None]
    ratings = [tuple(enumerate(row)) for row in drawn.tolist()]
    return enumerated(subject, query, channel_of(subject, query, epsilon), ratings).reached(enough)


def _states(channel: AnyChannel, largest: LogRatio) -> bool:
    """Return whether a channel says of itself that it gives away as much as an enumeration, finite, shows."""
    if isinstance(channel, Likelihood):
        return channel.claimed is None or largest.within(channel.claimed * (1 + DUST))
    stated, ratio = channel.log_ratio.ratio, largest.ratio
    return stated is None or (ratio is not None and ratio <= stated)


def _nats(ratio: Fraction) -> float:
    return float(LogRatio.of(ratio))
