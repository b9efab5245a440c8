"""Some people's ratings are public, and completed by a matrix of small trace norm, as in `blindrec two-tier`.

Its model tells ratings, and what people rate at all it leaves to popularity: a device weighs the probability that it
would like an item with how many public people rated it. As there, 400 private devices at most are asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.coins import derive
from coordinator.protocol.features import ItemFeatures, tastes
from coordinator.protocol.public_features import LEAST
from coordinator.protocol.rows import Rows
from coordinator.server.completion.fitting import Fitting
from scenarios.compare.row import Advised, Asked, Row
from scenarios.compare.rows.two_tier import split_people
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import World, table_of, world_of
from scenarios.data.datasets import RatingTable
from scenarios.places.in_process import InProcess
from scenarios.two_tier import experiment
from scenarios.two_tier.config import NONE, PRIVATE, TwoTier, needs_scale
from scenarios.two_tier.course import follow
from scenarios.two_tier.scale import MOST_UNDECLARED, PUBLISHED, scale_of
from scenarios.two_tier.split import UserSplit


def ratings_left(table: RatingTable, world: World) -> Rows:
    """Return everybody's ratings without those that are held out."""
    train = world.fold.train
    kept = np.isin(table.owners * table.count + table.items, train.owners * table.count + train.items)
    return table.valued(np.asarray(table.values, np.float64)).where(kept)


@dataclass(frozen=True, slots=True)
class Completed(Row):
    """Ratings that public people's tell, and what private devices release once about their completed ones.

    Attributes
    ----------
    how : str
        The mechanism of `blindrec two-tier`; `NONE` if no private device is asked.
    """

    mechanism: str
    order: int
    how: str

    trust_model: ClassVar[str] = "two-tier"
    asks: ClassVar[frozenset[str]] = frozenset({"public"})

    def fits(self, table: RatingTable) -> bool:
        """Return whether ratings differ, and have a finite scale where devices draw one."""
        levels = np.unique(table.values).size
        return levels > 1 and (not needs_scale(self.how) or table.source in PUBLISHED or levels <= MOST_UNDECLARED)

    def advise(self, world: World, asked: Asked) -> Advised:
        """Fit public people's ratings, and take in what private devices release."""
        dealt, fitting = settled(asked.wanted, asked.public, asked.seed)
        plan = experiment.plan_of(replace(dealt, wanted=_wanted(asked.wanted, asked.seed, self.how)), fitting)
        features = follow(plan, InProcess(1))[0].features
        rows, told, least = dealt.split.train, dealt.split.public_rows, asked.wanted.like_from
        rated = np.bincount(told.items, minlength=world.items).astype(np.float64)
        spread = max(float(np.std(told.values)), 1e-9)

        def scores(own: Any) -> Floats2:
            means = own.sum(axis=1)[:, None] / np.maximum(np.diff(own.indptr), 1)[:, None]
            found: Floats2 = rated * ndtr((completed(features, own) - (means if least is None else least)) / spread)
            return found

        holds = sparse.csr_array((rows.values, rows.items, rows.starts), shape=(rows.users, rows.count))
        _, private = split_people(world, asked)
        return Advised(popularity=rated, floor=LEAST, scorer=scores, holds=holds, people=private)


def _wanted(wanted: Comparison, seed: int, how: str) -> TwoTier:
    return TwoTier(ratings=wanted.ratings, mechanism=how, seed=seed)


@lru_cache(maxsize=8)
def settled(wanted: Comparison, public: float, seed: int) -> tuple[experiment.World, Fitting]:
    """Return who is public and how their ratings are fitted, which all rows share; rank and kappa are validated."""
    world, table = world_of(wanted, seed), table_of(wanted)
    people = split_people(world, Asked(wanted=wanted, epsilon=None, users=world.people, public=public, seed=seed))
    rows = ratings_left(table, world)
    order = np.random.default_rng(int.from_bytes(derive(seed, "devices that complete"))).permutation(people[1])
    split = UserSplit(train=rows, test=rows.block(0, 0), public=people[0], private=order[:PRIVATE])
    scale = scale_of(PUBLISHED.get(table.source), split.public_rows.values)
    dealt = experiment.World(wanted=_wanted(wanted, seed, NONE), split=split, scale=scale)
    return dealt, experiment.settle(dealt, InProcess(1))[0]


def completed(features: ItemFeatures, own: Any) -> Floats2:
    """Return the ratings ``mu + V u`` that devices complete their own to, shape (devices, N)."""
    starts, items = own.indptr.astype(np.int64), own.indices.astype(np.int32)
    found: Floats2 = (
        features.mean + tastes(features, starts, items, own.data - features.mean[items]) @ features.vectors.T
    )
    return found


ROWS = (
    Completed("trace norm", 60, NONE),
    Completed("PMC", 70, "pmc"),
    Completed("PMD", 80, "pmd"),
)
