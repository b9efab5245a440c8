"""The people of a file, as laws of sums see them; see `coordinator.protocol.law.People`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices, Ints
from coordinator.protocol.compiled import compiled, uint32
from coordinator.protocol.law import Weight
from coordinator.protocol.pools import OUTSIDE, pairs_of, places_in
from coordinator.protocol.rating_table import Held, Likes, RowTable, Values
from scenarios.data.rating_split import LikesFold

# Who is sampled more than once chooses anew each time which likes count, as long as so many likes are chosen in all;
# beyond that at least so often, and each choice stands for several people
MOST_CHOSEN, FEWEST_CHOICES = 1 << 20, 4
FEW = 10  # Up to this many pairs of a device, all combinations of their signs are enumerated


@dataclass(frozen=True)
class FilePeople:
    """Everybody in a file, each as likely to be behind a device."""

    fold: LikesFold = field(repr=False)
    pool: Indices | None = None  # The items that count; None for all
    # shape (people,); How many of the devices that are asked each person is behind; None: all are drawn in each round.
    # Likes, likers and totals are theirs; other means are those of the whole file
    copies: Floats | None = field(default=None, repr=False)

    classes: Sequence[tuple[float, Floats]] = ()
    rated: int = 0

    def among(self, pool: Indices | None) -> FilePeople:
        """Return the same people with a pool's items as their whole catalogue."""
        assert self.pool is None or pool is None  # pools are of all items
        return self if pool is None else replace(self, pool=pool)

    def sample(self, users: int, coins: np.random.Generator) -> FilePeople:
        """Return these people with how often each is asked in all rounds: everybody once, or a random sample."""
        people = self.fold.liked.users
        if users == people:
            return replace(self, copies=np.ones(people))
        return replace(self, copies=coins.multinomial(users, np.full(people, 1 / people)).astype(np.float64))

    @cached_property
    def liked(self) -> Held:
        """The likes of items that count, by their places."""
        return _inside(self.fold.liked, self.pool)

    @cached_property
    def judged(self) -> Likes:
        """The ratings of items that count, by their places."""
        return _inside(self.fold.train, self.pool)

    def likes(self, weight: Weight) -> Floats:
        """Return the mean of a weight of how many items a person likes."""
        return np.asarray(np.average(weight(self.liked.degrees.astype(np.float64)), axis=0, weights=self.copies))

    def likers(self, weight: Weight) -> Floats:
        """Return the mean of it where a person likes an item, and of 0 elsewhere."""
        rows = self.liked
        weights = weight(np.maximum(rows.degrees, 1).astype(np.float64))
        if self.copies is None:
            return np.asarray(_added_up(rows.starts, rows.items, weights, rows.count) / rows.users)
        return np.asarray(_added_up(rows.starts, rows.items, weights * self.copies, rows.count) / self.copies.sum())

    def raters(self, weight: Weight) -> tuple[Floats, Floats]:
        """Return the mean of a weight of how many items a person rated, where it likes and where it dislikes each."""
        rows = self.judged
        weights = weight(np.maximum(rows.degrees, 1).astype(np.float64))[rows.owners]
        liked, disliked = (
            np.bincount(rows.items, weights=np.where(mask, weights, 0.0), minlength=rows.count) / rows.users
            for mask in (rows.values, ~rows.values)
        )
        return liked, disliked

    def pairs(self, weight: Weight) -> Floats:
        """Return the mean of a weight of how many items a person likes where it likes both of a pair, and of 0."""
        rows = self.liked
        both = np.zeros((rows.count, rows.count))
        add_pairs(rows.starts, rows.items, weight(rows.degrees.astype(np.float64)), both)
        return both[np.triu_indices(rows.count, 1)] / rows.users

    def pair_signs(self, centres: Indices, unit: int) -> Floats:
        """Return how much more often than not a device's sign is that of each pair."""
        rows, total = self.judged, np.zeros(pairs_of(centres.size))
        _add_signs(rows.starts, rows.items, rows.values, centres, unit, total)
        return total / rows.users

    def totals(self, most: int, users: int, coins: np.random.Generator) -> Floats:
        """Draw how many people like each item if at most so many likes of each person count."""
        return np.asarray(self.limited(most, users, coins).power(2).sum(axis=0), np.float64)

    def pair_totals(self, most: int, users: int, coins: np.random.Generator) -> Floats2:
        """Draw how many like both of two items, or one of them on the diagonal."""
        likes = self.limited(most, users, coins)
        gram: Floats2 = (likes.T @ likes).toarray()
        return gram

    def limited(self, most: int, users: int, coins: np.random.Generator) -> Any:
        """Return people's likes, cut at random to a maximum per person: a sparse matrix (choices, M).

        A row is a choice of a person of the file, weighted by the root of how many people it stands for, so that
        ``X'X`` counts pairs.
        """
        rows, copies = self.liked, self.copies
        if copies is None:
            return self.sample(users, coins).limited(most, users, coins)
        numbers = np.minimum(rows.degrees, most)
        choices = np.minimum(copies, max(FEWEST_CHOICES, MOST_CHOSEN // max(int(numbers.sum()), 1))).astype(np.int64)
        owners = np.repeat(np.arange(rows.users), choices)
        starts = np.concatenate([[0], np.cumsum(numbers[owners])])
        places = _choose(rows.starts, owners, starts, coins.random(int(starts[-1])))
        roots = np.repeat(np.sqrt(copies[owners] / choices[owners]), numbers[owners])
        return sparse.csr_array((roots, rows.items[places], starts), (owners.size, rows.count))


def _inside(rows: RowTable[Values], pool: Indices | None) -> RowTable[Values]:
    """Return the ratings of a pool's items, by their places in it."""
    if pool is None:
        return rows
    places = places_in(pool, rows.count)
    inside = rows.where(places[rows.items] != OUTSIDE)
    return RowTable(starts=inside.starts, items=places[inside.items], values=inside.values, count=int(pool.size))


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
            index = uint32(places[k])
            for m in range(k + 1, starts[person + 1]):
                both[index, uint32(places[m])] += weight


@compiled
def _choose(starts: Ints, rows: Ints, ends: Ints, coins: Floats) -> Ints:
    """Return the places of each row's likes, so many as lie between its ends, of all that its person has (Floyd)."""
    places = np.empty(coins.size, np.int64)
    for row in range(rows.size):
        first, begin, stop = starts[rows[row]], ends[row], ends[row + 1]
        surplus = starts[rows[row] + 1] - first - (stop - begin)
        for at in range(begin, stop):
            last = surplus + at - begin
            index = first + np.int64(coins[at] * (last + 1)) if surplus else first + last
            for earlier in range(begin, at):
                if places[earlier] == index:
                    index = first + last
                    break
            places[at] = index
    return places


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
def _add_person(index: Ints, value: Floats, pool_size: int, total: Floats) -> None:
    """Add a person's ``E[Q_ij S]`` of each pair that it rated to a total; places of the pool with their values."""
    squares, fourths, eighths = (value**2).sum(), (value**4).sum(), (value**8).sum()
    second, fourth, pair = (squares**2 - fourths) / 2, (fourths**2 - eighths) / 2, 0
    few = index.size * (index.size - 1) // 2 <= FEW
    sizes, at = np.empty(FEW), np.empty(FEW, np.int64)
    for i in range(index.size):
        for j in range(i + 1, index.size):
            smaller, larger, size = min(index[i], index[j]), max(index[i], index[j]), value[i] * value[j]
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
def _add_signs(starts: Ints, places: Indices, likes: Bools, centres: Indices, unit: int, total: Floats) -> None:
    """Add every person's mean answer about each pair of the items that count to a total."""
    index, value = np.empty(centres.size, np.int64), np.empty(centres.size)
    for person in range(starts.size - 1):
        count = 0
        for k in range(starts[person], starts[person + 1]):
            index[count] = places[k]
            value[count] = (unit if likes[k] else -unit) - centres[places[k]]
            count += 1
        _add_person(index[:count], value[:count], centres.size, total)
