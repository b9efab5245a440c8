"""The experimenter's view of a file for one seed: its split for all rows, likes as a matrix, public features."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import PublicFeatures
from coordinator.protocol.rating_table import RowTable
from scenarios.data.datasets import RatingTable, marked_pairs, read_for, version_of
from scenarios.data.rating_split import GLOBAL_TIME, LikesFold, earlier, fold_of, hold_out, needs_times
from scenarios.data.side_tables import ItemDescriptions, descriptions_of
from scenarios.studies.compare.comparison_settings import Comparison

BLOCK = 1 << 22  # Number of scores that are computed at a time
SMALL = 1_500_000  # Ratings of a file of which eight worlds take no more memory than one row
EVALUATED = 50_000  # People whose lists are scored, at most: the standard error of a hit rate is .002 then
_ONE = threading.Lock()
_ANY: dict[str, Any] = {
    **dict.fromkeys(("epsilon", "scale", "public", "trust_models", "design"), ()),
    "seeds": 1,
    "seed": 0,
    "devices": 0,
    "mechanisms": None,
}
"""Settings that the world of a file does not depend on."""


@dataclass(frozen=True, kw_only=True)
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

    @cached_property
    def popularity(self) -> Floats:
        """How many people like each item, float64, shape (N,)."""
        return np.bincount(self.fold.liked.items, minlength=self.items).astype(np.float64)

    @cached_property
    def top_tenth(self) -> Ints:
        """The tenth of the catalogue that most people like; of equal items those with small numbers."""
        return np.argsort(-self.popularity, kind="stable")[: max(1, self.items // 10)]

    @property
    def evaluated(self) -> Ints:
        """People whose lists are scored, ascending: those with a like held out, of many ones a random sample."""
        people = self.fold.evaluated
        if people.size <= EVALUATED:
            return people
        # In all splits the same people come first, so that rows of all splits are about the same sample
        keys = np.random.default_rng(int.from_bytes(derive(0, "people evaluated"))).random(self.people)
        return np.sort(people[np.argpartition(keys[people], EVALUATED)[:EVALUATED]])

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
    """Return the world of a seed; the last two are cached, since all rows of a seed share one, and more of small files.

    Numbers of people are located in all seeds in turn, so that two worlds alone would be made again and again.
    """
    with _ONE:  # threads that begin together wait for the first
        settings = settings.model_copy(update=_ANY)
        world = _world_of_few if _read(settings).ratings <= SMALL else _world_of_many
        return world(settings, seed, versions_of(settings))


def _world(settings: Comparison, seed: int, *_: tuple[int, ...]) -> FileWorld:
    table = _read(settings)
    fold = fold_of(
        hold_out(
            table,
            held_out=_own_split(settings, table),
            like_from=settings.liked_from,
            seed=seed,
            split_by=settings.split_by,
        )
    )
    described = descriptions(settings)
    features = None if described is None else described.features
    return FileWorld(fold=fold, matrix=matrix_of(fold.liked), features=features)


def versions_of(settings: Comparison) -> tuple[int, ...]:
    """Return numbers that change when somebody writes to a file of a comparison."""
    files = settings.ratings, settings.features, settings.pairs_held_out
    return tuple(number for file in files for number in version_of(file))


def _own_split(settings: Comparison, table: RatingTable) -> float | Bools:
    """Return the share that is held out, or marks of the ratings that a file holds out."""
    if (path := settings.pairs_held_out) is None:
        return settings.share_held_out
    return marked_pairs(path, table, settings.columns, settings.bad_lines)


def check_split(settings: Comparison) -> None:
    """Refuse a file of what is held out that holds anything else than ratings of the comparison's."""
    _own_split(settings, table_of(settings))


def split_remarks(settings: Comparison) -> list[str]:
    """Say what a split of somebody's own means for intervals."""
    if settings.pairs_held_out is None:
        return []
    name, splits = settings.held_out_name, settings.seeds
    return [f"{name} says what is held out, in all {splits} splits alike: intervals are over coins and people alone"]


_world_of_few, _world_of_many = lru_cache(maxsize=8)(_world), lru_cache(maxsize=2)(_world)


def matrix_of(likes: RowTable[Any]) -> Any:
    """Return likes as a sparse matrix of ones, float32, shape (people, N)."""
    ones = np.ones(likes.items.size, np.float32)
    return sparse.csr_array((ones, likes.items, likes.starts), shape=(likes.users, likes.count))


def table_of(settings: Comparison) -> RatingTable:
    """Return the ratings of the people whom a comparison knows, read once: of those before the date, if one splits."""
    table = _read(settings.model_copy(update=_ANY))
    if needs_times(settings.split_by) and table.times is None:
        raise InputError(
            f"split_by is {settings.split_by}, but the ratings have no column of times; name it last in --columns"
        )
    return earlier(table, settings.share_held_out)[0] if settings.split_by == GLOBAL_TIME else table


def left_out(settings: Comparison) -> dict[str, int]:
    """Return how many people and items of the file nothing is known of before the date; nothing without a date."""
    if settings.split_by != GLOBAL_TIME:
        return {}
    fold, whole = world_of(settings, settings.seed).fold, _read(settings.model_copy(update=_ANY))
    unseen = fold.train.count - np.count_nonzero(fold.train.raters)
    return {"people_left_out": whole.users - fold.train.users, "items_unseen": int(unseen)}


def sampled(settings: Comparison) -> list[str]:
    """Say whose lists are scored, where these are a sample of the people with a like held out."""
    if table_of(settings).users <= EVALUATED:
        return []  # without a split, which may not be in memory any more
    world = world_of(settings, settings.seed)
    many, few = world.fold.evaluated.size, world.evaluated.size
    line = f"lists of {few:,} people are scored in each split, a random sample of the {many:,} with a like held out"
    return [line] if few < many else []


def dated(settings: Comparison) -> list[str]:
    """Say whom and what a date leaves out; nothing without a date."""
    counts = left_out(settings)
    line = (
        "after the date is held out: {people_left_out:,} people of the file rated nothing before it, are not known and "
        "cannot be evaluated; {items_unseen:,} items had no rating by then"
    )
    return [line.format(**counts)] if counts else []


def _read(settings: Comparison) -> RatingTable:
    how = {"times": True} if needs_times(settings.split_by) else {}
    return read_for(settings, min_ratings=settings.min_ratings, **how)


def descriptions(settings: Comparison) -> ItemDescriptions | None:
    """Return what the features file of a comparison says of its items, read once; None without such a file."""
    return _descriptions(settings.model_copy(update=_ANY), version_of(settings.ratings), version_of(settings.features))


def feature_remarks(settings: Comparison) -> list[str]:
    """Return how many items the features file describes, and by which columns."""
    described = descriptions(settings)
    return [] if described is None else [*described.remarks]


@lru_cache(maxsize=1)
def _descriptions(settings: Comparison, *_: tuple[int, ...]) -> ItemDescriptions | None:
    return descriptions_of(settings, _read(settings).item_labels)
