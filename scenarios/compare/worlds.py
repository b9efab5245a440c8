"""What the experimenter knows of a file for one seed: its split, likes as a matrix, and public features."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Floats, Ints
from scenarios.compare.features import Features, read_features
from scenarios.compare.settings import Comparison
from scenarios.compare.splitting import Fold, fold_of
from scenarios.data.datasets import RatingTable, read_ratings

BLOCK = 1 << 22
"""Scores that are computed at a time."""
_ONE = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A file, split.

    Attributes
    ----------
    fold : Fold
        The split.
    matrix : sparse matrix of float32, shape (people, N)
        1 where a person likes an item, without what is held out.
    features : Features or None
        Public features of items.
    """

    fold: Fold
    matrix: Any = field(repr=False)
    features: Features | None

    @property
    def people(self) -> int:
        """The number of people in the file."""
        return self.fold.train.users

    @property
    def items(self) -> int:
        """The number of items N."""
        return self.fold.train.count

    @property
    def popularity(self) -> Floats:
        """How many people like each item, float64, shape (N,)."""
        return np.bincount(self.fold.liked.items, minlength=self.items).astype(np.float64)

    def of(self, people: Ints) -> World:
        """Return the world of some people alone."""
        fold = self.fold
        kept = Fold(train=fold.train.of(people), liked=fold.liked.of(people), held=fold.held.of(people))
        return World(fold=kept, matrix=self.matrix[people], features=self.features)

    def blocks(self, people: Ints) -> Iterator[Ints]:
        """Yield some of the people, so many at a time that their scores fit into memory."""
        size = max(1, BLOCK // self.items)
        for first in range(0, people.size, size):
            yield people[first : first + size]


def world_of(wanted: Comparison, seed: int) -> World:
    """Return the world of a seed; the last two are kept, since all rows of a seed share it."""
    with _ONE:  # threads that begin together wait for the first
        return _world(wanted.ratings, wanted.columns, wanted.like_from, wanted.held_out, wanted.features, seed)


@lru_cache(maxsize=2)
def _world(ratings: Any, columns: Any, like_from: float | None, share: float, features: Any, seed: int) -> World:
    table = _table(ratings, columns)
    fold = fold_of(table, like_from=like_from, share=share, seed=seed)
    liked = fold.liked
    ones = np.ones(liked.items.size, np.float32)
    matrix = sparse.csr_array((ones, liked.items, liked.starts), shape=(liked.users, liked.count))
    return World(fold=fold, matrix=matrix, features=_features(features, ratings, columns))


@lru_cache(maxsize=1)
def _table(ratings: Any, columns: Any) -> RatingTable:
    return read_ratings(ratings, columns=columns)


@lru_cache(maxsize=1)
def _features(path: Any, ratings: Any, columns: Any) -> Features | None:
    return None if path is None else read_features(path, _table(ratings, columns).item_labels)


def table_of(wanted: Comparison) -> RatingTable:
    """Return the file's ratings, read once."""
    return _table(wanted.ratings, wanted.columns)
