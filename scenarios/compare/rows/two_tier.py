"""Some people's ratings are public. Models are learned from these, and weighed by what private devices tell, if any.

People are those of the file: a public person that was drawn twice would be a copy of one that is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.item_to_item import ItemToItem
from coordinator.protocol.public_features import LEAST
from coordinator.server.decoding.public_counts import PublicCounts
from scenarios.compare.item_models import ease, neighbours, of_gram, pair_advice
from scenarios.compare.row import Advised, Asked, Row, Scorer
from scenarios.compare.rows.local import SET
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import World
from scenarios.data.populations import public_people

KAPPA = 1.0
"""Pairs that every two items are thought to have, beside those counted: lifts of rare pairs are shrunk towards 1."""


def split_people(world: World, asked: Asked) -> tuple[Ints, Ints]:
    """Return who is public and who is private, the same people in all rows of a seed; at least one of each."""
    return public_people(world.people, asked.public, asked.seed)


@dataclass(frozen=True, slots=True)
class Public(Row):
    """A model of public people's likes alone, which private people apply to their own.

    Attributes
    ----------
    fit : callable or None
        Takes the public likes and the constants; None to rank items by how many public people like them.
    """

    mechanism: str
    order: int
    fit: Callable[[Any, Comparison], Scorer] | None = None

    trust_model: ClassVar[str] = "two-tier"
    asks: ClassVar[frozenset[str]] = frozenset({"public"})

    def advise(self, world: World, asked: Asked) -> Advised:
        """Learn from public people."""
        public, private = split_people(world, asked)
        likes = world.matrix[public]
        counts = likes.sum(axis=0).astype(np.float64)
        scorer = None if self.fit is None else self.fit(likes, asked.wanted)
        return Advised(popularity=counts, floor=0.5 if scorer is None else LEAST, scorer=scorer, people=private)


@dataclass(frozen=True, slots=True)
class Weighed(Row):
    """Popularity among public people and private devices' answers, weighted by their precision.

    Attributes
    ----------
    lifts : bool
        Whether public people's co-occurrences, as lifts, are multiplied by it and EASE applied.
    """

    mechanism: str
    order: int
    lifts: bool

    trust_model: ClassVar[str] = "two-tier"
    asks: ClassVar[frozenset[str]] = frozenset({"epsilon", "public"})

    def advise(self, world: World, asked: Asked) -> Advised:
        """Ask private devices by the set mechanism, and weigh."""
        public, private = split_people(world, asked)
        likes = world.matrix[public]
        declared = asked.wanted.model_copy(update={"counted": 0.0})  # what is weighed has to know w
        model = SET.answered(world.of(private), replace(asked, users=private.size, wanted=declared))
        sizes, counts = (np.rint(likes.sum(axis=axis)).astype(np.int64) for axis in (1, 0))
        of_public = PublicCounts(counts=counts, sizes=sizes)
        popularity, _ = of_public.posterior(model.score, model.error, asked.wanted.likes)
        if not self.lifts:
            return Advised(popularity=popularity, floor=LEAST, people=private)
        pool = np.sort(asked.ranked(popularity)[: asked.wanted.lift_items]).astype(np.int32)
        weights = of_gram(lifted(likes[:, pool], popularity[pool]), asked.wanted.ridge)
        lifts = ItemToItem(pool=pool, liked=popularity[pool], weights=weights)
        advice = pair_advice(lifts, popularity, asked.coins.permutation(world.items), noise=0.0)
        return replace(advice, people=private)


def lifted(likes: Any, popularity: Floats) -> Floats2:
    """Return co-occurrences of such popularity whose lifts are those of public people, shape (M, M), in public people.

    ``G_ij = P f_i f_j (n_ij + k) / (P g_i g_j + k)``, g the public rates; the diagonal is ``P f_i``.
    """
    people = likes.shape[0]
    rates = likes.sum(axis=0) / people
    together = (likes.T @ likes).toarray() + KAPPA
    gram: Floats2 = people * np.outer(popularity, popularity) * together / (people * np.outer(rates, rates) + KAPPA)
    np.fill_diagonal(gram, people * popularity)
    return gram


ROWS = (
    Public("popularity", 10),
    Public("item kNN", 20, lambda likes, told: neighbours(likes, told.neighbours)),
    Public("EASE", 30, lambda likes, told: ease(likes, told.ridge)),
    Weighed("popularity with set", 40, lifts=False),
    Weighed("lifts with set", 50, lifts=True),
)
