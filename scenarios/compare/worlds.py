"""What the experimenter knows of a file for one seed: its split, likes as a matrix, and public features."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.public_features import PublicFeatures
from scenarios.compare.settings import Comparison
from scenarios.compare.splitting import Fold, fold_of
from scenarios.data.datasets import Dated, RatingTable, read_for, version_of
from scenarios.data.item_files import read_told

BLOCK = 1 << 22
"""Scores that are computed at a time."""
_ONE = threading.Lock()
_ANY = {
    "epsilon": (),
    "scale": (),
    "public": (),
    "seeds": 1,
    "seed": 0,
    "devices": 0,
    "trust_models": (),
    "mechanisms": None,
    "design": (),
}
"""What a file does not depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A file, split.

    Attributes
    ----------
    fold : Fold
        The split.
    matrix : sparse matrix of float32, shape (people, N)
        1 where a person likes an item, without what is held out.
    features : PublicFeatures or None
        Public features of items.
    """

    fold: Fold
    matrix: Any = field(repr=False)
    features: PublicFeatures | None

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
        return _world(wanted.model_copy(update=_ANY), seed, version_of(wanted.ratings), version_of(wanted.features))


@lru_cache(maxsize=2)
def _world(wanted: Comparison, seed: int, *_: tuple[int, ...]) -> World:
    dated = _read(wanted)
    times = dated.times if wanted.split_by == "time" else None
    fold = fold_of(dated.table, like_from=wanted.liked_from, share=wanted.held_out, seed=seed, times=times)
    liked = fold.liked
    ones = np.ones(liked.items.size, np.float32)
    matrix = sparse.csr_array((ones, liked.items, liked.starts), shape=(liked.users, liked.count))
    features = None if wanted.features is None else _features(wanted.features, wanted, version_of(wanted.features))
    return World(fold=fold, matrix=matrix, features=features)


def table_of(wanted: Comparison) -> RatingTable:
    """Return the file's ratings, read once.

    Raises
    ------
    InputError
        If it cannot be read, or is to be split by times that it does not have.
    """
    dated = _read(wanted.model_copy(update=_ANY))
    if wanted.split_by == "time" and dated.times is None:
        raise InputError(f"split_by is time, but {wanted.ratings} has no column of times; name it last in --columns")
    return dated.table


def _read(wanted: Comparison) -> Dated:
    how = {"times": True} if wanted.split_by == "time" else {}
    return read_for(wanted, min_ratings=wanted.min_ratings, **how)


@lru_cache(maxsize=1)
def _features(path: Path, wanted: Comparison, _: tuple[int, ...]) -> PublicFeatures:
    return read_told(path, _read(wanted).table.item_labels).features
