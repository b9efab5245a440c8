"""The experimenter's view of a file for one seed: its split for all rows, likes as a matrix, public features."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import PublicFeatures
from coordinator.protocol.rating_table import Held, Likes
from scenarios.data.datasets import RatingTable, read_for, version_of
from scenarios.data.item_files import read_descriptions
from scenarios.data.rating_split import judge_likes
from scenarios.studies.compare.comparison_settings import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class LikesFold:
    """One split of a file: what rows learn from, and likes that are held out."""

    train: Likes = field(repr=False)  # What every person rated, without what is held out, and whether it was liked
    liked: Held = field(repr=False)  # The likes among these
    # Likes that are held out. Dislikes that are held out count as not rated, so that they are candidates, too
    holdout: Held = field(repr=False)

    @property
    def evaluated(self) -> Ints:
        """People with a like that is held out, int64, ascending."""
        return np.flatnonzero(self.holdout.degrees)


def fold_of(
    table: RatingTable, *, like_from: float | None, share: float, seed: int, times: Floats | None = None
) -> LikesFold:
    """Split a table of ratings, at random or by time, so that held-out ratings have no influence on labels in training.

    Where ``like_from`` is given, a rating's label is its own alone: of a person's likes, and of its dislikes, ``share``
    is held out, rounded down, but at least one of two or more. Where it is not, a label depends on the person's mean,
    which nobody may know before the split: ``share`` of its ratings is held out in the same way, whatever they are,
    and both what is left and what is held out are judged by the mean of what is left. Training items and labels are
    then bit for bit the same, whatever the values of ratings that are held out.

    Shapes: ``times`` (ratings,).
    """
    permutation = np.random.default_rng(int.from_bytes(derive(seed, "comparison split"))).permutation(table.ratings)
    order = permutation if times is None else permutation[np.argsort(times[permutation], kind="stable")]
    late = np.empty(table.ratings, np.int64)
    late[order] = np.arange(table.ratings)
    if like_from is None:
        holdout = _latest(table, np.ones(table.ratings, np.bool_), late, share)
        likes = judge_likes(table, None, ~holdout)
        remedy = "none of what is held out is above its person's mean of the rest; name --like-from"
    else:
        likes = judge_likes(table, like_from)
        holdout = _latest(table, likes, late, share) | _latest(table, ~likes, late, share)
        remedy = "none has two likes, so that none can be held out; lower --like-from"
    if not (holdout & likes).any():
        raise InputError(f"of the {table.users} people {remedy}")
    rated = table.valued(likes)
    train, test = rated.where(~holdout), rated.where(holdout & likes).valued(None)
    return LikesFold(train=train, liked=train.where(train.values).valued(None), holdout=test)


def _latest(table: RatingTable, among: Bools, late: Ints, share: float) -> Bools:
    """Mark the latest share of every person's ratings among some of them, where ``late`` numbers ratings by time."""
    places = np.flatnonzero(among)
    owners = table.owners[places]
    places = places[np.argsort((owners + 1) * table.ratings - late[places])]  # no two are equal, so any sort will do
    counts = np.bincount(owners, minlength=table.users)
    takes = np.where(counts >= 2, np.maximum(1, np.floor(share * counts + 1e-9)), 0)
    rank = np.arange(places.size) - np.repeat(np.cumsum(counts) - counts, counts)
    latest = np.zeros(table.ratings, np.bool_)
    latest[places[rank < np.repeat(takes, counts)]] = True
    return latest


BLOCK = 1 << 22  # Number of scores that are computed at a time
_ONE = threading.Lock()
_ANY: dict[str, Any] = {
    **dict.fromkeys(("epsilon", "scale", "public", "trust_models", "design"), ()),
    "seeds": 1,
    "seed": 0,
    "devices": 0,
    "mechanisms": None,
}
"""Settings that the world of a file does not depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWorld:
    """A file, split."""

    fold: LikesFold  # The split
    matrix: Any = field(repr=False)  # shape (people, N); 1 where a person likes an item, without what is held out
    features: PublicFeatures | None  # Public features of items

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

    def of(self, people: Ints) -> FileWorld:
        """Return the world of some people alone."""
        fold = self.fold
        subset = LikesFold(train=fold.train.of(people), liked=fold.liked.of(people), holdout=fold.holdout.of(people))
        return FileWorld(fold=subset, matrix=self.matrix[people], features=self.features)

    def blocks(self, people: Ints) -> Iterator[Ints]:
        """Yield the people in blocks whose scores fit into memory."""
        size = max(1, BLOCK // self.items)
        for first in range(0, people.size, size):
            yield people[first : first + size]


def world_of(settings: Comparison, seed: int) -> FileWorld:
    """Return the world of a seed; the last two are cached, since all rows of a seed share one."""
    with _ONE:  # threads that begin together wait for the first
        return _world(
            settings.model_copy(update=_ANY), seed, version_of(settings.ratings), version_of(settings.features)
        )


@lru_cache(maxsize=2)
def _world(settings: Comparison, seed: int, *_: tuple[int, ...]) -> FileWorld:
    table = _read(settings)
    times = table.times if settings.split_by == "time" else None
    fold = fold_of(table, like_from=settings.liked_from, share=settings.held_out, seed=seed, times=times)
    liked = fold.liked
    ones = np.ones(liked.items.size, np.float32)
    matrix = sparse.csr_array((ones, liked.items, liked.starts), shape=(liked.users, liked.count))
    features = (
        None if settings.features is None else _features(settings.features, settings, version_of(settings.features))
    )
    return FileWorld(fold=fold, matrix=matrix, features=features)


def table_of(settings: Comparison) -> RatingTable:
    """Return the file's ratings, read once."""
    table = _read(settings.model_copy(update=_ANY))
    if settings.split_by == "time" and table.times is None:
        raise InputError(f"split_by is time, but {settings.ratings} has no column of times; name it last in --columns")
    return table


def _read(settings: Comparison) -> RatingTable:
    how = {"times": True} if settings.split_by == "time" else {}
    return read_for(settings, min_ratings=settings.min_ratings, **how)


@lru_cache(maxsize=1)
def _features(path: Path, settings: Comparison, _: tuple[int, ...]) -> PublicFeatures:
    return read_descriptions(path, _read(settings).item_labels).features
