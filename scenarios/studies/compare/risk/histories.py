"""Two histories that an attacker tells apart, as far as its best test depends on them, and two games of many such.

In one game a person's history is told from that of another, drawn at random; in the other from the same history
without one of its likes. Messages of devices are alike up to a permutation of items, so that a best test depends on how
many items two histories have, and how many they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.coins import derive
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import judge_likes

MOST_PEOPLE, OTHERS = 600, 4
"""People who are attacked at most, and others whom each of them is told from."""


class HistoryPair(NamedTuple):
    """The sizes of two histories, and of what they share."""

    first: int
    second: int
    shared: int  # Items of both, rated alike
    opposite: int = 0  # Items that one likes and the other dislikes, where dislikes count

    @property
    def changes(self) -> int:
        """Items of one history alone."""
        return self.first + self.second - 2 * self.shared

    @classmethod
    def without_like(cls, size: int) -> Self:
        """Return how a history lies to the same without one of its items."""
        return cls(size, size - 1, size - 1)


@dataclass(frozen=True, slots=True)
class Scope:
    """The items of a history that a question is about."""

    pool: Indices | None = field(default=None, repr=False)  # None for all items
    rated: bool = False  # Whether dislikes count, too


class BestTest(Protocol):
    """The best test of two histories by what a view shows, or a bound on it."""

    @property
    def scopes(self) -> Sequence[Scope]:
        """What it depends on: an overlap for each."""

    @property
    def worst(self) -> float:
        """How often it is right of the two histories that it tells apart best."""

    def right(self, pairs: Sequence[HistoryPair]) -> float:
        """Return how often it tells two histories right that were equally likely, from 1/2 to 1."""


@dataclass(frozen=True, kw_only=True)
class Histories:
    """Everybody's history, as the experimenter knows it."""

    liked: Any = field(repr=False)  # shape (people, N); 1 where a person likes an item, sparse
    signed: Any = field(repr=False)  # The same with -1 where a person rated an item and does not like it

    @classmethod
    def of_table(cls, table: RatingTable, like_from: float | None) -> Self:
        """Return the histories of a file, nothing held out."""
        likes, shape = judge_likes(table, like_from), (table.users, table.count)
        signed = sparse.csr_array((np.where(likes, 1.0, -1.0), table.items, table.starts), shape)
        rows = table.where(likes)
        ones = np.ones(rows.items.size)
        return cls(liked=sparse.csr_array((ones, rows.items, rows.starts), shape), signed=signed)

    @property
    def people(self) -> int:
        """The number of people."""
        return int(self.liked.shape[0])

    @cached_property
    def likes(self) -> Ints:
        """How many items each person likes, shape (people,)."""
        return np.asarray(np.diff(self.liked.indptr).astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class Games:
    """People who are attacked, each told from some others: everybody at most once, since a device has one history."""

    histories: Histories
    people: Ints  # Those with a like, or a random sample of them
    others: Ints  # shape (people, others); For each of them random others, who may like nothing

    @classmethod
    def of(cls, histories: Histories, seed: int, *, most: int = MOST_PEOPLE, others: int = OTHERS) -> Self:
        """Return the games of a seed, which all rows share."""
        coins = np.random.default_rng(int.from_bytes(derive(seed, "people attacked")))
        people = np.sort(coins.permutation(np.flatnonzero(histories.likes))[:most])
        steps = coins.integers(1, histories.people, size=(people.size, others))
        return cls(histories=histories, people=people, others=(people[:, None] + steps) % histories.people)

    def overlaps(self, scope: Scope) -> list[list[HistoryPair]]:
        """Return the overlap of each person's history with those of others, within a scope."""
        matrix = self.histories.signed if scope.rated else self.histories.liked
        if scope.pool is not None:
            matrix = matrix.tocsc()[:, scope.pool].tocsr()
        sizes, of_person = np.diff(matrix.indptr), matrix[self.people]
        shared, opposite = (np.empty(self.others.shape, np.int64) for _ in range(2))
        for column, others in enumerate(self.others.T):
            products = of_person.multiply(matrix[others]).tocsr()
            shared[:, column] = (products > 0).sum(axis=1)
            opposite[:, column] = (products < 0).sum(axis=1)
        return [
            [
                HistoryPair(*map(int, pair))
                for pair in zip(np.full(others.size, sizes[person]), sizes[others], alike, unlike, strict=True)
            ]
            for person, others, alike, unlike in zip(self.people, self.others, shared, opposite, strict=True)
        ]

    def without_like(self, scope: Scope) -> tuple[Ints, Floats]:
        """Return the sizes of people's histories within a scope, and the share of each one's likes that is in it."""
        matrix = self.histories.signed if scope.rated else self.histories.liked
        if scope.pool is None:
            return np.diff(matrix.indptr)[self.people], np.ones(self.people.size)
        sizes = np.diff(matrix.tocsc()[:, scope.pool].tocsr().indptr)[self.people]
        return sizes, sizes / self.histories.likes[self.people]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """How often an attack is right of each person."""

    like: Floats = field(repr=False)  # shape (people,); Whether it likes an item, a mean over its likes
    whose: Floats2 = field(repr=False)  # shape (people, others); Whose history it is, for each of the others


def play(attack: BestTest, games: Games) -> Guesses:
    """Play both games."""
    overlaps = [games.overlaps(scope) for scope in attack.scopes]
    whose = [[attack.right(pairs) for pairs in zip(*person, strict=True)] for person in zip(*overlaps, strict=True)]
    sizes = [games.without_like(scope) for scope in attack.scopes]
    like = [
        without_like(attack, [(int(of[at]), float(shares[at])) for of, shares in sizes])
        for at in range(games.people.size)
    ]
    return Guesses(like=np.array(like), whose=np.array(whose))


def without_like(attack: BestTest, sizes: Sequence[tuple[int, float]]) -> float:
    """Return how often a history is told from itself without one of its likes, a mean over these.

    ``sizes`` are the history's within each scope, with the share of likes that is in it: the smallest scope of several
    holds what is in all of them.
    """
    right, inside = 0.0, 0.0
    for share in sorted({share for _, share in sizes if share}):
        pairs = [
            HistoryPair.without_like(size) if within >= share else HistoryPair(size, size, size)
            for size, within in sizes
        ]
        right += (share - inside) * attack.right(pairs)
        inside = share
    return right + (1 - inside) / 2
