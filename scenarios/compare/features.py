"""Public features of items, and what they add to advice on the device: nothing is sent for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.errors import InputError
from scenarios.given.values import a_file

PRIOR, STRENGTH = 10.0, 0.5
"""Likes that the average profile counts for beside a device's own, and how strongly profiles move scores."""
LIKE_ANY = 0.01
"""Share of likes that are thought to be of any item at random, so that no feature is expected never to be liked."""
FEWEST, MOST = 5, 500
"""A word counts as a feature if it stands beside so many items at least; a column of more words has none."""
_ITEM = (
    "itemid",
    "item",
    "movieid",
    "filmid",
    "bookid",
    "productid",
    "trackid",
    "songid",
    "isbn",
    "asin",
    "iid",
    "jokeid",
)
_YEAR = re.compile(r"\((\d{3})\d\)\s*$")
_NOTHING = ("", "(no genres listed)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Which items have which feature.

    Attributes
    ----------
    names : tuple of str
        Column and word of each feature, such as ``"genres: Drama"`` or ``"title: 1990s"``.
    has : ndarray of float64, shape (N, features)
        1 where an item has it.
    """

    names: tuple[str, ...]
    has: Floats2 = field(repr=False)

    def gains(self, liked: Floats2, likes: Floats, popularity: Floats) -> Floats2:
        """Return what features add to the logarithm of each score on each device, shape (devices, N).

        Parameters
        ----------
        liked : ndarray of float64, shape (devices, features)
            How many of a device's own likes have each feature.
        likes : ndarray of float64, shape (devices,)
            How many it has.
        popularity : ndarray of float64, shape (N,)
            Estimated popularity in any unit, none below 0.
        """
        catalogue = self.has.mean(axis=0)  # some features may be of no popular item
        liking = popularity @ self.has / max(float(popularity.sum()), 1e-300)
        rates = (1 - LIKE_ANY) * liking + LIKE_ANY * catalogue
        profile = (liked + PRIOR * rates) / (likes + PRIOR)[:, None]
        found: Floats2 = STRENGTH * np.log(profile / rates) @ self.has.T
        return found


def read_features(path: Path, item_labels: np.ndarray[tuple[int], np.dtype[np.object_]]) -> Features:
    """Read the features of a catalogue's items: words of its columns, split by ``|``, and decades of titles.

    Parameters
    ----------
    path : Path
        A CSV with a line of column names: the items' ids under a usual name or in its first column.
    item_labels : ndarray of str, shape (N,)
        Ids as the ratings file has them. Items that the file does not tell of have no feature.

    Raises
    ------
    InputError
        If it cannot be read, or tells nothing of these items.
    """
    remedy = "give a CSV with items' ids and columns of words split by '|'"
    try:
        table = pd.read_csv(a_file(path, "features file", remedy), dtype=str, keep_default_na=False)
    except (ValueError, OSError) as error:
        raise InputError(f"features file {path} cannot be read ({error}); {remedy}") from None
    named = [name for name in table if re.sub(r"[^a-z]", "", str(name).lower()) in _ITEM]
    item = named[0] if named else table.columns[0]
    place = pd.Series(np.arange(len(item_labels)), index=item_labels)
    known = table[item].map(place)
    table, rows = table[known.notna()], known[known.notna()].to_numpy(np.int64)
    found: dict[str, Floats] = {}
    for column in [name for name in table if name != item]:
        words = table[column].map(_words)
        every = words.explode().value_counts()
        if len(every) <= MOST:
            for word in sorted(every.index[every >= FEWEST]):
                one = np.zeros(len(item_labels))
                one[rows[words.map(lambda told, word=word: word in told).to_numpy(np.bool_)]] = 1
                found[f"{column}: {word}"] = one
    if not found:
        raise InputError(f"features file {path} tells nothing of these {len(item_labels)} items; {remedy}")
    return Features(names=tuple(found), has=np.stack(list(found.values()), axis=1))


def _words(cell: str) -> list[str]:
    """Return the words of a cell; of a title that ends in a year only its decade.

    >>> _words("Drama|Crime"), _words("Heat (1995)")
    (['Drama', 'Crime'], ['1990s'])
    """
    if year := _YEAR.search(cell):
        return [f"{year[1]}0s"]
    return [word.strip() for word in cell.split("|") if word.strip() not in _NOTHING]
