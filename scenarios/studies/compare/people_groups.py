"""Groups of people whose lists are looked at apart: by activity, by how rare their taste is, or by a column."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError, name_choices
from scenarios.config.files import brief
from scenarios.data.populations import read_text_table
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
    table = _people(settings.people_file)
    if by not in table.columns:
        raise InputError(f"by is {brief(by)}; {name_choices(by, [ACTIVITY, RARITY, *table.columns])}")
    column = table[by]
    names = sorted(column.unique())
    if len(names) > MOST_GROUPS:
        raise InputError(
            f"by is {brief(by)}, a column of {len(names)} values; give one of at most {MOST_GROUPS}, such as decades "
            "instead of ages"
        )
    labels = table_of(settings).user_labels.astype(str)
    places = column.map({name: place for place, name in enumerate(names)}).reindex(labels)
    return PeopleGroups(tuple(names), places.fillna(-1).to_numpy().astype(np.int64))


@lru_cache(maxsize=1)
def _people(path: Path) -> pd.DataFrame:
    """Return what a file says of people, as text, by their ids in its first column."""
    table: pd.DataFrame = read_text_table(path, "people file", "give a CSV with people's ids in its first column")
    ids = table.columns[0]
    if table[ids].duplicated().any():
        raise InputError(f"people_file is {brief(str(path))}, where {ids} names somebody twice; leave one line each")
    return table.set_index(ids)
