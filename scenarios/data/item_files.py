"""Files that describe items: their public features and their titles."""

import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import PublicFeatures
from scenarios.config.files import brief, read_file, require_text

Labels = np.ndarray[tuple[int], np.dtype[np.object_]]
FEWEST, MOST = 5, 500
"""A word is a feature if at least this many items have it; a column with more words than `MOST` has no features."""
_ITEM = re.compile("(item|movie|film|book|product|track|song|joke|i)id|item|isbn|asin")
_TITLE = ("title", "name", "item_name", "movie_title")
_YEAR = re.compile(r"\((\d{3})\d\)\s*$")
_NOTHING = ("", "(no genres listed)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDescriptions:
    """The descriptions of a catalogue's items."""

    features: PublicFeatures  # Words of its columns, split by ``|``, and decades of titles
    # shape (N,); Titles, with an item's id where the file does not name it; None without a column of titles
    titles: Labels | None = field(repr=False)


def read_text_table(path: Path, what: str, remedy: str) -> Any:
    """Return the table of a CSV with a line of names, whose cells are text."""
    import pandas as pd  # noqa: PLC0415 (it takes longer than a small run, which has no such file)

    try:
        content = read_file(path, what, remedy)
        require_text(len(content), f"{what} {path}")
        return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{what} {path} cannot be read ({error}); {remedy}") from None


def read_descriptions(path: Path, item_labels: Labels) -> ItemDescriptions:
    """Read a file's descriptions of a catalogue's items, whose ids are ``item_labels``, shape (N,)."""
    import pandas as pd  # noqa: PLC0415 (it takes longer than a small run, which has no such file)

    remedy = "give a CSV with items' ids and columns of words split by '|'"
    table = read_text_table(path, "features file", remedy)
    named = [name for name in table if _ITEM.fullmatch(re.sub(r"[^a-z]", "", str(name).lower()))]
    item = named[0] if named else table.columns[0]
    if not (again := table[item][table[item].duplicated()]).empty:
        raise InputError(
            f"features file {path} tells of {item} {brief(again.iloc[0])} in several lines, as files of ratings or "
            "tags do, which are about people and not public; give a CSV with one line for each item"
        )
    place = pd.Series(np.arange(len(item_labels)), index=item_labels)
    places = table[item].map(place)
    table, rows = table[places.notna()], places[places.notna()].to_numpy(np.int64)
    features: dict[str, Floats] = {}
    for column in [name for name in table if name != item]:
        words = table[column].map(_words)
        every = words.explode().value_counts()
        if len(every) <= MOST:
            for word in sorted(every.index[every >= FEWEST]):
                one = np.zeros(len(item_labels))
                one[rows[words.map(lambda cell, word=word: word in cell).to_numpy(np.bool_)]] = 1
                features[f"{column}: {word}"] = one
    if not features:
        raise InputError(f"features file {path} tells nothing of these {len(item_labels)} items; {remedy}")
    titles = None
    if called := [name for name in table if str(name).strip().lower() in _TITLE]:
        titles = item_labels.copy()
        titles[rows] = table[called[0]].to_numpy(dtype=np.object_)
    return ItemDescriptions(
        features=PublicFeatures(names=tuple(features), has=np.stack(list(features.values()), axis=1)), titles=titles
    )


def _words(cell: str) -> list[str]:
    """Return the words of a cell; of a title that ends in a year only its decade.

    >>> _words("Drama|Crime"), _words("Heat (1995)")
    (['Drama', 'Crime'], ['1990s'])
    """
    if year := _YEAR.search(cell):
        return [f"{year[1]}0s"]
    return [word.strip() for word in cell.split("|") if word.strip() not in _NOTHING]
