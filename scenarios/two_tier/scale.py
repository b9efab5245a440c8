"""The set S of ratings that there are: declared, or read off the public users' ratings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from scenarios.given.values import brief

if TYPE_CHECKING:
    from scenarios.data.datasets import RatingTable

MOST_UNDECLARED = 32
"""More different ratings than this are no scale that was meant as one."""
MOST_DECLARED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Range and levels of ratings.

    Attributes
    ----------
    lowest, highest : float
    levels : tuple of float, or None
        S, ascending; None where ratings are continuous.
    """

    lowest: float
    highest: float
    levels: tuple[float, ...] | None


def read_scale(value: Any) -> Any:
    """Read ``"1,2,3,4,5"`` or ``"0.5:5:0.5"`` (lowest, highest, step) as ascending levels."""
    if not isinstance(value, str):
        return value
    try:
        if ":" in value:
            low, high, step = (float(part) for part in value.split(":"))
            count = min(round((high - low) / step), MOST_DECLARED)  # one more than that is refused below
            levels = tuple(low + k * step for k in range(count + 1))
        else:
            levels = tuple(float(part) for part in value.split(","))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"scale is {brief(value)}; write it like 1,2,3,4,5 or 0.5:5:0.5") from None
    if not np.isfinite(levels).all() or any(b <= a for a, b in itertools.pairwise(levels)):
        raise ValueError(f"scale is {brief(value)}; give finite ratings, ascending")
    if not 1 <= len(levels) <= MOST_DECLARED:
        raise ValueError(f"scale is {brief(value)}; give 1 to {MOST_DECLARED} ratings")
    return levels


HALF_STARS = tuple(k / 2 for k in range(1, 11))
PUBLISHED = {"planted": HALF_STARS, "MovieLens CSV": HALF_STARS}
"""Scales that are known by the source's name."""


def scale_of(declared: tuple[float, ...] | None, public: Floats) -> Scale:
    """Return the scale: the declared one, or what public users' ratings show."""
    if declared is not None:
        return Scale(lowest=declared[0], highest=declared[-1], levels=declared)
    levels = np.unique(public)
    few = tuple(float(level) for level in levels) if levels.size <= MOST_UNDECLARED else None
    return Scale(lowest=float(levels[0]), highest=float(levels[-1]), levels=few)


def onto_scale(table: RatingTable, levels: tuple[float, ...]) -> RatingTable:
    """Return the table with every rating moved to the nearest level, the lower one of two."""
    sorted_levels = np.array(levels)
    middles = (sorted_levels[1:] + sorted_levels[:-1]) / 2
    return replace(table, values=sorted_levels[np.searchsorted(middles, table.values)])


def check_levels(table: RatingTable, levels: tuple[float, ...] | None, mechanism: str, *, declared: bool) -> None:
    """Refuse a scale that a mechanism has no choice on, or ratings that are not on it.

    Raises
    ------
    InputError
    """
    if levels is None:
        raise InputError(
            f"scale is not declared and ratings have more than {MOST_UNDECLARED} different values; "
            f"{mechanism} needs a scale S, give --scale, and --round-ratings if ratings are continuous"
        )
    if len(levels) < 2:
        raise InputError(
            f"scale has K = {len(levels)} rating, {levels[0]:g}; {mechanism} needs at least 2 to choose from"
        )
    name = "declared scale" if declared else "scale of public ratings"
    off = ~np.isin(table.values, levels)
    if off.any():
        place = int(np.argmax(off))
        raise InputError(
            f"{table.told(place)} with {table.values[place]:g}, which is not on the {name}; "
            "give --scale, and --round-ratings to move ratings onto it"
        )
