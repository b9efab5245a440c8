"""Exact laws of the sums of devices' answers, for more people than can be simulated one by one."""

import math
from collections.abc import Callable

import numpy as np
import scipy

from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices, Ints
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.compiled import compiled, uint32
from coordinator.protocol.mechanisms import subsets_of
from coordinator.protocol.mechanisms.oracles import values_of
from coordinator.protocol.mechanisms.sets import Pairs, Set, group_of, ranges_of, together
from coordinator.protocol.messages import CENTRE_UNIT, Query
from coordinator.protocol.pools import pairs_of, pool_of
from coordinator.protocol.pools import pool_size as pool_count
from coordinator.protocol.statistics.counts import CountStatistic, GroupStatistic, of_group
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.value_channels import PADDED
from scenarios.data.rating_split import LikesFold


def shares_of(query: Query, fold: LikesFold) -> Floats:
    """Return how many of the people have each value in their sets, a share each: items, pairs, or numbers of likes.

    One of l likes in the pool is among the w of a set with probability ``min(1, w / l)``, a pair of them with
    ``min(1, w (w - 1) / l (l - 1))``.
    """
    liked, padded, pool = fold.liked, query.parameters[PADDED], pool_of(query)
    place = np.full(liked.count, -1, np.int32)
    place[pool] = np.arange(pool.size)
    starts, places = liked.starts, liked.items
    if pool.size < liked.count:
        starts, places = _inside(starts, places, place)
    likes = np.diff(starts).astype(np.float64)
    if together(query) == 0:
        ranges = ranges_of(pool_count(query))
        shares: Floats = np.bincount(np.minimum(np.frexp(likes)[1], ranges - 1), minlength=ranges) / liked.users
        return shares
    if together(query) == 1:
        weight = np.minimum(1, padded / np.maximum(likes, 1))
        return _added_up(starts, places, weight, pool.size) / liked.users
    both = np.zeros((pool.size, pool.size))
    add_pairs(starts, places, np.minimum(1, padded * (padded - 1) / np.maximum(likes * (likes - 1), 1)), both)
    return both[np.triu_indices(pool.size, 1)] / liked.users


@compiled
def _inside(starts: Ints, items: Indices, place: Indices) -> tuple[Ints, Indices]:
    """Return where the likes of each person in a pool start, and the places of these items there."""
    inside, places, count = np.zeros(starts.size, np.int64), np.empty(items.size, np.int32), 0
    for person in range(starts.size - 1):
        for k in range(starts[person], starts[person + 1]):
            if place[items[k]] >= 0:
                places[count] = place[items[k]]
                count += 1
        inside[person + 1] = count
    return inside, places[:count].copy()


@compiled
def _added_up(starts: Ints, items: Indices, weights: Floats, count: int) -> Floats:
    """Return the sum over people who like an item of a weight of each, shape (N,)."""
    total = np.zeros(count)
    for person in range(weights.size):
        for k in range(starts[person], starts[person + 1]):
            total[items[k]] += weights[person]
    return total


@compiled
def add_pairs(starts: Ints, places: Indices, weights: Floats, both: Floats2) -> None:
    """Add each person's weight to all pairs of its places, which ascend as a pool does, shape (places, places)."""
    for person in range(weights.size):
        weight = weights[person]
        for k in range(starts[person], starts[person + 1]):
            place = uint32(places[k])
            for m in range(k + 1, starts[person + 1]):
                both[place, uint32(places[m])] += weight


def group_counts(query: Query, fold: LikesFold, users: int, coins: np.random.Generator) -> GroupStatistic:
    """Sample how many subsets of a group's devices name each value.

    Where a device names one range of how many items it likes, all counts are sampled together, from their exact law.
    """
    rates, counts = subsets_of(query).reports(query), np.zeros(Pairs().values(query), np.int64)
    shares = shares_of(query, fold)
    chances = _chance(rates.others + rates.contrast * shares)
    counts[: shares.size] = (coins.binomial if together(query) else coins.multinomial)(users, chances)
    one = CountStatistic(sums=counts, ones=0, devices=users, answered=users, refused=0)
    return of_group(group_of(query), one)


def _chance(rounded: Floats) -> Floats:
    """Return chances that rounding may have put a little below 0 or above 1."""
    return np.clip(rounded, 0, 1)


TENTH = 10  # The last place of a list
FEW = 10  # Up to this many pairs of a device, all combinations of their signs are enumerated


@compiled
def _exactly(sizes: Floats, at: int) -> float:
    """Return G of one of a few products, by enumerating all signs of the others."""
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
    """Return G of one of many products, from sums of squares and of fourth powers of all of them."""
    if second - size**2 <= 1e-12 * second:  # the others say nothing
        return 1.0
    spread = math.sqrt(second - size**2)
    far = abs(size) / spread
    kurtosis = -2 * (fourth - size**4) / spread**4
    density = math.exp(-far * far / 2) / math.sqrt(2 * math.pi)
    return math.erf(far / math.sqrt(2)) - density * (far**3 - 3 * far) * kurtosis / 12


@compiled
def _add_person(place: Ints, value: Floats, pool_size: int, total: Floats) -> None:
    """Add a person's ``E[Q_ij S]`` of each pair that it rated to a total; places of the pool with their values."""
    squares, fourths, eighths = (value**2).sum(), (value**4).sum(), (value**8).sum()
    second, fourth, pair = (squares**2 - fourths) / 2, (fourths**2 - eighths) / 2, 0
    few = place.size * (place.size - 1) // 2 <= FEW
    sizes, at = np.empty(FEW), np.empty(FEW, np.int64)
    for i in range(place.size):
        for j in range(i + 1, place.size):
            smaller, larger, size = min(place[i], place[j]), max(place[i], place[j]), value[i] * value[j]
            here = smaller * pool_size - smaller * (smaller + 1) // 2 - smaller - 1 + larger
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
    """Add every person's mean answer about each pair of the pool to a total."""
    pool_size = centres.size
    place, value = np.empty(pool_size, np.int64), np.empty(pool_size)
    for person in range(starts.size - 1):
        count = 0
        for k in range(starts[person], starts[person + 1]):
            where = places[items[k]]
            if where >= 0:
                place[count], value[count] = where, (unit if likes[k] else -unit) - centres[where]
                count += 1
        _add_person(place[:count], value[:count], pool_size, total)


def pair_means(query: Query, fold: LikesFold) -> Floats:
    """Return what answers without noise agree with each pair's sign on average, float64, shape (M (M - 1) / 2,)."""
    assert query.pool is not None  # a query about pairs has a pool
    pool_size, rows = query.pool.size, fold.train
    places = np.full(query.items, -1, np.int32)
    places[query.pool] = np.arange(pool_size)
    centres, unit = (np.zeros(pool_size, np.int32), 1) if query.centres is None else (query.centres, CENTRE_UNIT)
    total = np.zeros(pairs_of(pool_size))
    _add_up(rows.starts, rows.items, rows.values, places, centres, unit, total)
    return total / rows.users


def pair_agreements(query: Query, means: Floats, users: int, coins: np.random.Generator) -> AnchorStatistic:
    """Draw how many answers agree with each pair's sign, where answers without noise do by `pair_means`."""
    agreed: Ints = coins.binomial(users, _chance((1 + bit_channel(query.epsilon).contrast * means) / 2))
    none = np.zeros(0, np.int64)
    return AnchorStatistic(
        pairs=agreed, sensed=none, scores=none, ones=users // 2, devices=users, answered=users, refused=0
    )


Law = Callable[[Query, LikesFold, int, np.random.Generator], Statistic]
"""Takes a query, a file, a number of people and coins; returns the sum of their answers."""


def mean_of_likers(fold: LikesFold, weights: Floats) -> Floats:
    """Return the mean over people of a weight of each where it likes an item and 0 elsewhere, shape (N,)."""
    liked = fold.liked
    return _added_up(liked.starts, liked.items, weights, liked.count) / liked.users


def tenth_share(fold: LikesFold, most: int) -> float:
    """Return the share of people in whose sets of at most so many likes the tenth most liked item is."""
    share = mean_of_likers(fold, np.minimum(1.0, most / np.maximum(fold.liked.degrees, 1)))
    return float(np.sort(share)[-TENTH])


def set_counts(query: Query, fold: LikesFold, users: int, coins: np.random.Generator) -> Statistic:
    """Draw how many subsets name each item; one of l likes is in a set of w with probability ``min(1, w / l)``."""
    if query.design != Set.name:  # a group that reports how many items it likes
        return group_counts(query, fold, users, coins)
    inclusion = np.minimum(1.0, query.parameters[PADDED] / np.maximum(fold.liked.degrees, 1))
    return _named(query, mean_of_likers(fold, inclusion), Set().values(query), users, coins)


def subset_counts(query: Query, fold: LikesFold, users: int, coins: np.random.Generator) -> CountStatistic:
    """Draw how many subsets name each item; a device's own value is one of its likes at random."""
    return _named(query, mean_of_likers(fold, 1 / np.maximum(fold.liked.degrees, 1)), values_of(query), users, coins)


def _named(query: Query, share: Floats, values: int, users: int, coins: np.random.Generator) -> CountStatistic:
    """Sample counts ``Binomial(n, q + (p - q) f)``; counts of values that are no items stay 0 and are not read."""
    rates, counts = subsets_of(query).reports(query), np.zeros(values, np.int64)
    counts[: pool_count(query)] = coins.binomial(users, _chance(rates.others + rates.contrast * share))
    return CountStatistic(sums=counts, devices=users, answered=users, refused=0, ones=0)


def sensed_scores(query: Query, fold: LikesFold, users: int, coins: np.random.Generator) -> ScoreStatistic:
    """Draw how many devices sensed each item, and how many of these answered 1.

    A device with l likes that senses each item with probability p has 1 with probability ``1 - (1-p)^l``, and always if
    it senses an item that it likes.
    """
    sensing, channel = query.parameters["sensing"], bit_channel(query.epsilon)
    silent = (1 - sensing) ** fold.liked.degrees.astype(np.float64)
    wrong, base = (1 - channel.contrast) / 2, float(1 - silent.mean())
    ones = wrong + channel.contrast * (base + mean_of_likers(fold, silent))
    sensed: Ints = coins.binomial(users, sensing, query.items)
    scores: Ints = coins.binomial(sensed, _chance(ones))
    answered_one = int(coins.binomial(users, float(np.clip(wrong + channel.contrast * base, 0, 1))))
    return ScoreStatistic(sensed=sensed, scores=scores, devices=users, answered=users, refused=0, ones=answered_one)


def sign_agreements(query: Query, fold: LikesFold, users: int, coins: np.random.Generator) -> ScoreStatistic:
    """Draw how many answers agree with each item's sign.

    Of l signed ratings the sum has the sign of one of them more often than not by ``C(l-1, (l-1)//2) / 2^(l-1)``.
    """
    rated = fold.train
    degrees = np.maximum(rated.degrees, 1)
    tie = np.asarray(scipy.stats.binom.pmf((degrees - 1) // 2, degrees - 1, 0.5))
    signed = np.where(rated.values, 1.0, -1.0) * tie[rated.owners]
    mean = np.bincount(rated.items, weights=signed, minlength=rated.count) / rated.users
    agreed: Ints = coins.binomial(users, _chance((1 + bit_channel(query.epsilon).contrast * mean) / 2))
    sensed = np.full(query.items, users, np.int64)
    return ScoreStatistic(sensed=sensed, scores=agreed, devices=users, answered=users, refused=0, ones=users // 2)
