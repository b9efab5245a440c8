"""The law of agreements with signs of pairs, for more people than answer one by one; see `scenarios.compare.laws`.

A device adds up its pairs' products under fair signs. One of them, of size a, has the sum's sign on its side with
probability ``(1 + G(a)) / 2``, where ``G(a) = P(|R| < a) + P(|R| = a) / 2`` and R is the sum of the others. With up to
ten pairs all signs are gone through; with more, R is taken as normal, corrected by its fourth cumulant (Edgeworth).
"""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.mechanisms.pairs import pairs_of
from coordinator.protocol.messages import Query
from coordinator.protocol.signs import UNIT
from coordinator.server.statistics.anchor import AnchorStatistic
from scenarios.compare.splitting import Fold

FEW = 10
"""Pairs of a device whose signs are all gone through."""


@compiled
def _exactly(sizes: Floats, at: int) -> float:
    """Return G of one of a few products, by all signs of the others."""
    others = sizes.size - 1
    speaks = 0.0
    for signs in range(1 << others):
        total = 0.0
        for k in range(others):
            total += sizes[k + (k >= at)] * (1.0 if signs >> k & 1 else -1.0)
        gap = abs(sizes[at]) - abs(total)
        speaks += 1.0 if gap > 0.25 else (0.5 if gap > -0.25 else 0.0)
    return speaks / (1 << others)


@compiled
def _nearly(size: float, second: float, fourth: float) -> float:
    """Return G of one of many products from sums of squares and of fourth powers of all of them."""
    if second - size**2 <= 1e-12 * second:  # the others say nothing
        return 1.0
    spread = math.sqrt(second - size**2)
    far = abs(size) / spread
    kurtosis = -2 * (fourth - size**4) / spread**4
    density = math.exp(-far * far / 2) / math.sqrt(2 * math.pi)
    return math.erf(far / math.sqrt(2)) - density * (far**3 - 3 * far) * kurtosis / 12


@compiled
def _add_person(place: Ints, value: Floats, many: int, total: Floats) -> None:
    """Add a person's ``E[Q_ij S]`` of each pair that it rated to a total; places of the pool with their values."""
    squares, fourths, eighths = (value**2).sum(), (value**4).sum(), (value**8).sum()
    second, fourth, pair = (squares**2 - fourths) / 2, (fourths**2 - eighths) / 2, 0
    few = place.size * (place.size - 1) // 2 <= FEW
    sizes, at = np.empty(FEW), np.empty(FEW, np.int64)
    for i in range(place.size):
        for j in range(i + 1, place.size):
            low, high, size = min(place[i], place[j]), max(place[i], place[j]), value[i] * value[j]
            here = low * many - low * (low + 1) // 2 - low - 1 + high
            if few:
                sizes[pair], at[pair] = size, here
                pair += 1
            elif size != 0:
                total[here] += math.copysign(_nearly(size, second, fourth), size)
    for k in range(pair):
        if sizes[k] != 0:
            total[at[k]] += math.copysign(_exactly(sizes[:pair], k), sizes[k])


@compiled
def _add_up(
    starts: Ints, items: Indices, likes: Bools, places: Indices, centres: Indices, unit: int, total: Floats
) -> None:
    """Add what every person tells of each pair of the pool to a total."""
    many = centres.size
    place, value = np.empty(many, np.int64), np.empty(many)
    for person in range(starts.size - 1):
        found = 0
        for k in range(starts[person], starts[person + 1]):
            where = places[items[k]]
            if where >= 0:
                place[found], value[found] = where, (unit if likes[k] else -unit) - centres[where]
                found += 1
        _add_person(place[:found], value[:found], many, total)


def pair_means(query: Query, fold: Fold) -> Floats:
    """Return what answers without noise agree with each pair's sign on average, float64, shape (M (M - 1) / 2,).

    Parameters
    ----------
    query : Query
        About signs of pairs.
    fold : Fold
        People, of whom one at random answers.
    """
    assert query.pool is not None  # a device answers no other
    many, rows = query.pool.size, fold.train
    places = np.full(query.items, -1, np.int32)
    places[query.pool] = np.arange(many)
    centres, unit = (np.zeros(many, np.int32), 1) if query.centres is None else (query.centres, UNIT)
    total = np.zeros(pairs_of(many))
    _add_up(rows.starts, rows.items, rows.values, places, centres, unit, total)
    return total / rows.users


def pair_agreements(query: Query, means: Floats, users: int, coins: np.random.Generator) -> AnchorStatistic:
    """Draw how many answers agree with each pair's sign, where answers without noise do by `pair_means`."""
    agreed: Ints = coins.binomial(users, (1 + bit_channel(query.epsilon).contrast * means) / 2)
    none = np.zeros(0, np.int64)
    return AnchorStatistic(
        pairs=agreed, sensed=none, scores=none, ones=users // 2, asked=users, answered=users, refused=0
    )
