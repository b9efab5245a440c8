"""Softer attackers, who know of all others only what people are like: draws from the file, without the two in question.

What others add hides a person, too, so that these are right less often than those who know it. They are about: sums of
many are taken as normal, with the covariance of people in the file.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, special

from coordinator.protocol.arrays import Floats, Ints, Ints2
from scenarios.studies.compare.risk.histories import Games, Guesses
from scenarios.studies.compare.risk.report_tests import SubsetTest

OTHERS, LIKES, RELEASES = 1000, 2, 20_000
"""People whose histories stand for those of all others, likes of a person that are left out in turn, and subsets."""


@dataclass(frozen=True, slots=True)
class PersonRow:
    """A history, and its index among the people who stand for all others, if it is there."""

    items: Ints
    index: int | None


def rows_of(games: Games) -> tuple[Ints, list[PersonRow], list[list[PersonRow]]]:
    """Return who stand for all others, histories of people attacked, and those that they are told from."""
    coins = np.random.default_rng(games.people.size)
    histories = games.histories
    among = np.sort(coins.permutation(histories.people)[:OTHERS])
    places = {int(person): index for index, person in enumerate(among.tolist())}

    def row(person: int) -> PersonRow:
        start, stop = histories.liked.indptr[person : person + 2]
        return PersonRow(histories.liked.indices[start:stop].astype(np.int64), places.get(person))

    people = [row(person) for person in games.people.tolist()]
    return among, people, [[row(person) for person in others] for others in games.others.tolist()]


class LawOfOthers(ABC):
    """How often two histories are told apart among others who are drawn; subclasses say by what."""

    @abstractmethod
    def part(self, items: Ints) -> Floats:
        """Return what is compared of a history."""

    @abstractmethod
    def right(self, first: Floats, second: Floats, out: list[int]) -> float:
        """Return how often two histories are told apart by their parts, with these people out of all others."""

    def guesses(self, games: Games) -> Guesses:
        """Play both games."""
        _, people, others = rows_of(games)
        coins = np.random.default_rng(games.people.size)
        like, whose = list[float](), list[list[float]]()
        for person, of_person in zip(people, others, strict=True):
            out = [] if person.index is None else [person.index]
            likes = coins.permutation(person.items)[:LIKES].tolist()
            whole = self.part(person.items)
            without = (self.part(person.items[person.items != item]) for item in likes)
            like.append(float(np.mean([self.right(whole, rest, out) for rest in without])))
            whose.append(
                [
                    self.right(whole, self.part(other.items), out + ([] if other.index is None else [other.index]))
                    for other in of_person
                ]
            )
        return Guesses(like=np.array(like), whose=np.array(whose))


class SumsByLaw(LawOfOthers):
    """Sums of likes with Gaussian noise: ``Phi(sqrt(d' (sigma^2 I + n C)^-1 d) / 2)``.

    C is the covariance of others' vectors and d by how much the means of two histories differ.
    """

    def __init__(self, games: Games, *, deviation: float, most: int, users: int) -> None:
        among, _, _ = rows_of(games)
        liked = games.histories.liked[among]
        weights = np.minimum(1, most / np.maximum(np.diff(liked.indptr), 1))
        scaled = sparse.diags_array(weights) @ liked
        # Which likes are kept is chance, too: its variance adds to the noise of each item
        choice = np.asarray((sparse.diags_array(weights * (1 - weights)) @ liked).sum(axis=0)).ravel() / among.size
        self._scale = 1 / np.sqrt(1 + users * choice / deviation**2)
        self._rows: Any = (scaled @ sparse.diags_array(self._scale)).tocsr()
        ridge = deviation**2 * among.size / users
        gram = (self._rows @ self._rows.T).toarray()
        self._inverse = np.linalg.inv(gram + ridge * np.eye(among.size))
        self._deviation, self._most = deviation, most

    def part(self, items: Ints) -> Floats:
        """Return the mean of what is kept of a history."""
        means = np.zeros(self._scale.size)
        means[items] = min(1.0, self._most / max(items.size, 1))
        return means

    def right(self, first: Floats, second: Floats, out: list[int]) -> float:
        """See `LawOfOthers.right`."""
        shift = (first - second) * self._scale
        along = self._rows @ shift
        # By Woodbury's identity all is among people; the inverse without some of them follows from that with all, and
        # the mean that a covariance subtracts is a vector of ones there
        solved, ones = (self._without(vector, out) for vector in (along, np.ones(along.size)))
        distance = float(shift @ shift - along @ solved + solved.sum() ** 2 / ones.sum())
        return float(special.ndtr(math.sqrt(max(distance, 0.0)) / self._deviation / 2))

    def _without(self, vector: Floats, out: list[int]) -> Floats:
        solved = self._inverse @ vector
        if out:
            inside = self._inverse[np.ix_(out, out)]
            solved = solved - self._inverse[:, out] @ np.linalg.solve(inside, solved[out])
        return solved


class ShuffledByLaw(LawOfOthers):
    """ReportTest of the set mechanism that a shuffler mixed: a sum of n likelihood ratios, which is about normal."""

    def __init__(self, games: Games, test: SubsetTest) -> None:
        among, _, _ = rows_of(games)
        self._test, self._items = test, games.histories.liked.shape[1]
        coins = np.random.default_rng([test.values, test.subset_size])
        # A value each comes first in some subset, so that none is missed by all
        subsets = subsets_from(coins.permutation(test.values)[:RELEASES], test.values, test.subset_size, coins)
        places = np.repeat(np.arange(len(subsets)), test.subset_size)
        ones = np.ones(subsets.size)
        self._named: Any = sparse.csr_array((ones, (places, subsets.ravel())), (len(subsets), test.values)).tocsc()
        dummies = np.where(subsets >= self._items, subsets - self._items, test.values)
        self._dummy = dummies.min(axis=1)
        liked = games.histories.liked[among]
        self._others = np.stack(
            [self.part(liked.indices[start:stop]) for start, stop in zip(liked.indptr, liked.indptr[1:], strict=False)]
        )
        self._total = self._others.sum(axis=0)

    def part(self, items: Any) -> Floats:
        """Return by how much each subset is more likely of a history than at random."""
        named = np.minimum(np.asarray(self._named[:, items].sum(axis=1)).ravel(), self._test.subset_size).astype(int)
        if items.size <= self._test.padded:
            meets = (named > 0) | (self._dummy < self._test.padded - items.size)
        else:
            meets = self._test.meeting(items.size)[np.minimum(named, items.size)]
        return np.asarray((1 + (self._test.odds - 1) * meets) / self._test.total)

    def right(self, first: Floats, second: Floats, out: list[int]) -> float:
        """See `LawOfOthers.right`."""
        others = (self._total - self._others[out].sum(axis=0)) / (len(self._others) - len(out))
        variance = float(((first - second) ** 2 / others).mean())
        return 0.5 + math.sqrt(2 * variance / math.pi / self._test.devices) / 4


def subsets_from(first: Ints, values: int, size: int, coins: np.random.Generator) -> Ints2:
    """Return for each of the first values a uniform subset that it is in, shape (subsets, size)."""
    rest = coins.integers(values - 1, size=(first.size, size - 1))
    while True:  # what was drawn before is drawn again, until all differ
        order = np.argsort(rest, axis=1, kind="stable")
        ascending = np.take_along_axis(rest, order, axis=1)
        rows, places = np.nonzero(ascending[:, 1:] == ascending[:, :-1])
        if not rows.size:
            return np.column_stack([first, (first[:, None] + 1 + rest) % values])
        rest[rows, order[rows, places + 1]] = coins.integers(values - 1, size=rows.size)
