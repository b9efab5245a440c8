"""Testing a class's own draws against the likelihood that it states."""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.admitted import Own
from coordinator.protocol.arrays import Floats, Ints, Words
from coordinator.protocol.channels import COIN, CoinOf, Likelihood, MatrixChannel
from coordinator.protocol.guarding import guarded
from coordinator.protocol.messages import Query

DRAWS = 20_000
"""Draws for each private value."""
BLOCK = 1 << 16
"""Devices that draw at once; their private values are mixed like those of real devices."""
FALSE_ALARM = 1e-9
"""Largest probability that correct draws are refused, for one public coin."""


def _coins(block: int, devices: int) -> CoinOf:
    """Return coins for a test, instead of devices' own."""

    def coin(question: int) -> Words:
        return np.random.default_rng([20261122, block, question]).integers(0, 1 << 64, devices, dtype=np.uint64)

    return coin


def complaint_about_sampler(
    own: Own, channel: Likelihood, table: MatrixChannel, public: np.uint64, query: Query
) -> str | None:
    """Return how a class's draws differ from the likelihood that it states for a public coin, or None.

    The count of each release for each private value is compared with Chernoff's bound of its binomial law, for all of
    them together (Bonferroni).
    """
    width, values = channel.bits, len(table.rows)
    everybody = np.random.default_rng(20261122).permutation(np.repeat(np.arange(values, dtype=np.int32), DRAWS))
    counts, weights = np.zeros(values << width, np.int64), 1 << np.arange(width - 1, -1, -1, dtype=np.int64)
    for first in range(0, everybody.size, BLOCK):
        some = everybody[first : first + BLOCK]
        given = some[:, None].copy(), np.full(some.size, public, np.uint64), _coins(first, some.size)
        drawn = guarded(own.mechanism, "sampler", query.round, *given, function=channel.draw)
        if type(drawn) is not np.ndarray or drawn.shape != (some.size, width) or not np.isin(drawn, (0, 1)).all():
            return f"it draws no {width} bits a device, uint8 of 0 and 1; return shape (devices, {width})"
        released = drawn.astype(np.int64) @ weights
        counts += np.bincount((some.astype(np.int64) << width) + released, minlength=counts.size)
    stated = np.zeros((values, 1 << width))
    stated[:, : len(table.rows[0])] = [[coins / COIN for coins in row] for row in table.rows]
    counts = counts.reshape(stated.shape)
    doubt = _surprise(counts, stated)
    if doubt.max() <= math.log(2 * stated.size / FALSE_ALARM):
        return None
    value, release = np.unravel_index(int(doubt.argmax()), doubt.shape)
    seen, meant = counts[value, release], stated[value, release] * DRAWS
    told = f"private value {value} gave release {release} in {seen} of {DRAWS} draws, {meant:.6g} are stated"
    return f"its draws differ from its likelihood: {told}; no device was asked"


def _surprise(counts: Ints, stated: Floats) -> Floats:
    """Return Chernoff's exponent [nats]: the one-sided improbability of a count so far from its expected value."""
    seen = counts / DRAWS
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            np.where(share > 0, share * (np.log(share) - np.log(chance)), 0.0)
            for share, chance in ((seen, stated), (1 - seen, 1 - stated))
        ]
    surprise: Floats = DRAWS * (parts[0] + parts[1])
    return surprise
