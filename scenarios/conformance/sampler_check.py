"""Whether what devices release has the probabilities of their mechanism's channel."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import numpy as np

from coordinator.protocol.arrays import Bits2, Ints
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import Likelihood
from coordinator.protocol.messages import Query
from scenarios.conformance.enumerating import AnyChannel, chances, channel_of, sketched, streams_of
from scenarios.conformance.subject import PLAIN, ROUNDS, TINY, Subject, coins_of, every_rating
from scenarios.conformance.verdicts import Failed

ASKED = 1 << 20
"""Devices whose releases are counted."""
BLOCK = 1 << 15
PARTS = 3
"""Private sketches that are released."""
FALSE_ALARM = 1e-6
"""Probability that `sampler` fails a mechanism that follows its channel."""


def sampler(subject: Subject) -> str:
    """Check that releases of one private sketch have the channel's probabilities, counted over a million devices.

    Every value's count is held against its exact binomial law; all of them together fail an honest mechanism with
    probability 1e-6 at most (`FALSE_ALARM`, Bonferroni). An epsilon that is wrong by 3 % is seen. Each of the sketches
    is released in a round with a public seed of its own.
    """
    from scipy.stats import binom  # noqa: PLC0415 (the table of checks needs none of it)

    told, epsilons = 0.0, sorted({PLAIN, Fraction(subject.query(TINY, PLAIN).questions)})
    for epsilon in epsilons:  # where it is split over questions, also at 1 each
        for part, (number, seed) in enumerate(ROUNDS[:PARTS]):
            query = subject.query(TINY, epsilon, round_number=number, public_seed=seed)
            channel, public = channel_of(subject, query, epsilon), streams_of(query)[0]
            found, _ = sketched(subject, query, every_rating(TINY))
            known = sorted(found)
            sketch = known[part * (len(known) - 1) // (PARTS - 1)]
            expected = np.array([float(chance) for chance in chances(channel, found[sketch], query, public)])
            counts = released(subject, query, found[sketch], channel, public)
            doubt = 2 * np.minimum(binom.cdf(counts, ASKED, expected), binom.sf(counts - 1, ASKED, expected))
            worst = int(np.argmin(doubt))
            if doubt[worst] * expected.size * PARTS * len(epsilons) < FALSE_ALARM:
                raise Failed(
                    f"release {worst:0{query.bits}b} of sketch {list(sketch)} at epsilon {as_float(epsilon):g}: "
                    f"{counts[worst] / ASKED:.5f} of {ASKED} devices, the channel says {expected[worst]:.5f}"
                )
            told = max(told, float(np.abs(counts / ASKED - expected).max()))
    return f"{ASKED} devices a sketch, largest deviation {told:.5f}"


def released(subject: Subject, query: Query, private: Ints, channel: AnyChannel, public: np.uint64) -> Ints:
    """Return how often each release was drawn by `ASKED` devices that all have one private sketch.

    Where the channel is a likelihood given public coins, they all have one public stream, too.

    Raises
    ------
    Failed
        If what is drawn is no array of the query's bits.
    """
    counts = np.zeros(1 << query.bits, np.int64)
    weights = 1 << np.arange(query.bits)[::-1]
    for first in range(0, ASKED, BLOCK):
        block = cast("Bits2", np.repeat(private[None], BLOCK, axis=0))
        coins = coins_of(query, first, BLOCK)
        if isinstance(channel, Likelihood):
            bits = channel.draw(block, np.full(BLOCK, public), coins.release)
        else:
            bits = subject.device.randomize(block, query, coins)
        if bits.shape != (BLOCK, query.bits) or bits.max() > 1:
            raise Failed(f"randomize returns shape {bits.shape} for {BLOCK} devices of {query.bits} bits, or no bits")
        counts += np.bincount(bits @ weights, minlength=counts.size)
    return counts
