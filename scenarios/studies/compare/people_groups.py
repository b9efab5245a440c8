"""Groups of people whose lists are looked at apart: by activity, by how rare their taste is, or by a column."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.errors import InputError, name_choices
from scenarios.config.files import brief
from scenarios.data.datasets import version_of
from scenarios.data.side_tables import SideTable, joined, read_side_table
from scenarios.studies.compare.comparison_settings import ACTIVITY, RARITY, Comparison
from scenarios.studies.compare.worlds import FileWorld, table_of

EDGES = (0.1, 0.5, 0.9)  # Shares of people between which the parts of a number end
PARTS = ("lowest tenth", "to the median", "to nine tenths", "highest tenth")
MOST_GROUPS = 20
"""Values of a column: with more groups than that intervals that hold at once say little of any."""


class PeopleGroups(NamedTuple):
    """A partition of the file's people."""

    names: tuple[str, ...]
    of: Ints  # shape (people,): each person's group by its place among the names, -1 for none


def groups_of(settings: Comparison, world: FileWorld, by: str) -> PeopleGroups:
    """Return the groups by one thing; it is computed from training ratings alone, or read from the people's file."""
    if by == ACTIVITY:
        return _parts(world.fold.train.degrees.astype(np.float64))
    if by == RARITY:
        return _parts(rarity(world))
    return _column(settings, by)


def rarity(world: FileWorld) -> Floats:
    """Return how rare people's taste is, shape (people,): the mean rank by popularity of their training likes.

    The most popular item has rank 1, and items that equally many people like share theirs. Nan where nothing is liked.
    """
    ranks, liked = scipy.stats.rankdata(-world.popularity), world.fold.liked
    totals = np.bincount(liked.owners, ranks[liked.items], minlength=world.people)
    rare: Floats = np.divide(totals, liked.degrees, out=np.full(world.people, np.nan), where=liked.degrees > 0)
    return rare


def check_columns(settings: Comparison) -> None:
    """Refuse columns that the people's file does not have, or has too many values of, before anything is measured."""
    for by in settings.by:
        if by not in (ACTIVITY, RARITY):
            _column(settings, by)


def _parts(values: Floats) -> PeopleGroups:
    """Return the parts of a number; who has the same number is in the same part, so that parts may be uneven."""
    there = np.isfinite(values)
    parts = np.searchsorted(np.quantile(values[there], EDGES), values, side="left")
    return PeopleGroups(PARTS, np.where(there, parts, -1))


def _column(settings: Comparison, by: str) -> PeopleGroups:
    if settings.people_file is None:
        raise InputError(
            f"by is {brief(by)}, a column, but no file has it; give --people-file, or choose {ACTIVITY} or {RARITY}"
        )
    table = _people(settings).table
    if by not in table.columns[1:]:
        raise InputError(f"by is {brief(by)}; {name_choices(by, [ACTIVITY, RARITY, *table.columns[1:]])}")
    column = table[by]
    names = sorted(column.unique())
    if len(names) > MOST_GROUPS:
        raise InputError(
            f"by is {brief(by)}, a column of {len(names)} values; give one of at most {MOST_GROUPS}, such as decades "
            "instead of ages"
        )
    rows, there = _joined(settings, table)
    places = np.full(table_of(settings).users, -1, np.int64)
    places[rows] = column[there].map({name: index for index, name in enumerate(names)}).to_numpy(np.int64)
    return PeopleGroups(tuple(names), places)


def people_remarks(settings: Comparison) -> list[str]:
    """Return how many of the ratings' people the people's file knows, where it is used."""
    if settings.people_file is None or not set(settings.by) - {ACTIVITY, RARITY}:
        return []
    side = _people(settings)
    rows, _ = _joined(settings, side.table)
    return [*side.remarks, f"the people file knows {rows.size:,} of the {table_of(settings).users:,} people"]


def _joined(settings: Comparison, table: pd.DataFrame) -> tuple[Ints, Bools]:
    """Return which of the ratings' people a table is about, and which of its rows are about one of them."""
    labels, file = table_of(settings).user_labels, f"people file {settings.people_file}"
    return joined(table.iloc[:, 0], labels, file, f"{labels.size} people")


def _people(settings: Comparison) -> SideTable:
    assert settings.people_file is not None  # callers check that there is one
    skip = settings.bad_lines == "skip"
    return _read(settings.people_file.absolute(), version_of(settings.people_file), skip=skip)


@lru_cache(maxsize=1)
def _read(path: Path, _: tuple[int, ...], *, skip: bool) -> SideTable:
    """Return what a file says of people, as text, with their ids in its first column."""
    side = read_side_table(path, "people file", "give a CSV with people's ids in its first column", skip=skip)
    ids = side.table.columns[0]
    if side.table[ids].duplicated().any():
        raise InputError(f"people_file is {brief(str(path))}, where {ids} names somebody twice; leave one line each")
    return side
