"""Theorem 15's random configuration, against any recommender: what it loses, and how far its patterns are apart.

Source: Gilbert, Liu, Yu, Theorem 15, and the spec's section 7. P voters v, or P voters v' in their place: 2P adjacent
steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Bits2, Floats, Ints
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.streams import device_streams
from coordinator.server.online.recommender import Promise
from coordinator.server.online.recommenders import recommender_of
from coordinator.server.online.service import by_coin, by_sequence
from scenarios.online.chains import groups
from scenarios.online.conditions import check
from scenarios.online.loss_bounds import loss_bound
from scenarios.online.privacy_bounds import epsilon_proved
from scenarios.online.privacy_lower_bounds import conjecture, own_lower_bound, theorem_15
from scenarios.online.replay import Pattern, likes_of, replay

LIKED = {1: (0,), 2: (1,), 3: (0, 1), 4: (0,)}
"""What the client likes in Settings 1 to 4."""
VOTES = {1: (0, 0), 2: (1, 1), 3: (0, 1), 4: (0, 1)}
"""What v and v' vote for."""


class Drawn(NamedTuple):
    """One configuration and one sequence of recommendations, drawn under v.

    Attributes
    ----------
    seed, apart, loss : int
        The seed; rounds in which v and v' disagree; disliked recommendations.
    ratio : float
        ``ln Pr[sequence]`` under v less under v' [nats]: its mean is the Kullback-Leibler divergence.
    """

    seed: int
    apart: int
    loss: int
    ratio: float


class Measured(NamedTuple):
    """What a recommender does under random configurations, beside the bounds on epsilon [nats].

    Attributes
    ----------
    recommender : str
    loss, ratio, ratio_error : float
        Mean disliked recommendations, mean log-ratio of v to v', and the latter's standard error.
    implied : float
        ``ratio / 2P``: epsilon is at least that.
    paper, conjectured : float
        Theorem 15's lower bound at this loss, for any algorithm; and our strengthening of it, a conjecture.
    own : float or None
        What p-REC's chain proves for p-REC; None for others.
    proved : float or None
        The proved epsilon.
    loss_bound : float or None
        What loss is expected at most.
    """

    recommender: str
    loss: float
    ratio: float
    ratio_error: float
    implied: float
    paper: float
    conjectured: float
    own: float | None
    proved: float | None
    loss_bound: float | None


def measure(
    recommender: str,
    rounds: int,
    peers: int,
    diversity: int,
    radius: int,
    seeds: Sequence[int],
    *,
    share: float | None = None,
    epsilon: float = math.inf,
) -> Measured:
    """Run `draw` once a seed and set the means beside the bounds (N = 2P, m = 2).

    Parameters
    ----------
    recommender, rounds, peers, diversity, radius, share, epsilon
        As for `draw`.
    seeds : sequence of int
        At least one.

    Returns
    -------
    Measured
    """
    if not seeds:
        raise InputError("no seeds: a mean needs at least one")
    drawn = [draw(recommender, rounds, peers, diversity, radius, seed, share=share, epsilon=epsilon) for seed in seeds]
    loss = float(np.mean([one.loss for one in drawn]))
    ratios: Floats = np.array([one.ratio for one in drawn])
    spread = float(ratios.std(ddof=1)) if len(drawn) > 1 and np.isfinite(ratios).all() else math.nan
    size = (rounds, 2, 2 * peers, peers, diversity, radius)
    at_least = max(loss, 1 / len(drawn))  # a mean of 0 in so few runs is no expectation of 0
    return Measured(
        recommender,
        loss,
        float(ratios.mean()),
        spread / math.sqrt(len(drawn)),
        float(ratios.mean()) / (2 * peers),
        theorem_15(*size, at_least),
        conjecture(*size, at_least),
        own_lower_bound(*size) if recommender_of(recommender).bounded else None,
        epsilon_proved(recommender, *size, epsilon),
        loss_bound(recommender, *size),
    )


def draw(
    recommender: str,
    rounds: int,
    peers: int,
    diversity: int,
    radius: int,
    seed: int,
    *,
    share: float | None = None,
    epsilon: float = math.inf,
) -> Drawn:
    """Draw a configuration, serve the client of P voters v, and ask how likely that was with v' in their place.

    Parameters
    ----------
    recommender : str
        Its name.
    rounds, peers, diversity, radius : int
        T, P, D and R.
    seed : int
        Everything random follows from it.
    share : float, optional
        p_3, how often v and v' are to disagree; ``(D + R) / 4T`` unless given.
    epsilon : float
        What one that takes an epsilon is given.

    Returns
    -------
    Drawn
    """
    check(rounds, 2, 2 * peers, peers, diversity, radius)
    settings = configuration(rounds, diversity, radius, seed, share=share)
    likes = likes_of([LIKED[setting] for setting in settings], 2)
    votes: Bits2 = np.array([VOTES[setting] for setting in settings], np.uint8)
    promise = Promise(rounds=rounds, objects=2, diversity=diversity, radius=radius, peers=peers, epsilon=epsilon)
    pattern, other = (Pattern(likes=likes, votes=votes, group=groups(*size)) for size in ((peers, 0), (0, peers)))
    served = replay(recommender, promise, pattern, by_coin(derive(seed, "recommendations")))
    against = replay(recommender, promise, other, by_sequence(served.chosen))
    apart = sum(setting > 2 for setting in settings)
    return Drawn(seed, apart, served.loss, served.log_likelihood - against.log_likelihood)


def configuration(rounds: int, diversity: int, radius: int, seed: int, *, share: float | None = None) -> list[int]:
    """Return the Settings of all rounds.

    Settings 1 and 2 alike often, else v and v' disagree: D times in Setting 3, then R times in Setting 4, then no more
    (Setting 1), so that both stay peers of the client.
    """
    share = (diversity + radius) / (4 * rounds) if share is None else share
    if not 0 <= share <= 1:
        raise InputError(f"share of disagreements is {share:g}: it is a probability; give 0 to 1, or D + R <= 4T")
    streams = device_streams(as_words(derive(seed, "theorem 15")), 0, rounds)
    points = (streams >> np.uint64(11)) * 2.0**-53
    apart = points < share
    used: Ints = np.cumsum(apart)
    settings = np.where(points < (1 + share) / 2, 1, 2)
    settings[apart] = np.where(used <= diversity, 3, np.where(used <= diversity + radius, 4, 1))[apart]
    return [int(setting) for setting in settings]
