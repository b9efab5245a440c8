"""Rows of marks: what was measured beside what was predicted, proved or bounded, a row for each thing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scenarios.pictures.drawing import finished, legend, panels, shift
from scenarios.pictures.style import DARK, PALETTE, Style

MEASURED, PREDICTED, PROVED, LEAST, BESIDE, CHANCE = "measured", "predicted", "proved", "at least", "beside", "chance"
LOOKS: Mapping[str, Style] = {
    MEASURED: {"marker": "o", "color": PALETTE[0]},
    PREDICTED: {"marker": "D", "color": PALETTE[1], "mfc": "none", "markersize": 6},
    PROVED: {"marker": "|", "color": "black", "markersize": 12, "mew": 2},
    LEAST: {"marker": ">", "color": PALETTE[2], "mfc": "none", "markersize": 6},
    BESIDE: {"marker": "s", "color": PALETTE[3]},
    CHANCE: {"marker": "x", "color": DARK, "markersize": 5},
}
"""What marks look like, by what a number is."""
_BETWEEN = 6.0
"""Points between the marks of a row."""
_HIGH = 15.0
"""Points that a row of one mark takes."""


class Mark(NamedTuple):
    """A number in a row.

    Attributes
    ----------
    row : str
        What it is of.
    told : str
        What it is, in the legend's words; empty where the row says it.
    value : float or None
        Nothing is drawn where it is None, or no finite number.
    look : str
        One of `LOOKS`.
    low, high : float or None
        Ends of its interval; None where there is none, or where it is open.
    """

    row: str
    told: str
    value: Any
    look: str = MEASURED
    low: float | None = None
    high: float | None = None


def known(marks: Sequence[Mark]) -> list[Mark]:
    """Return those marks that can be drawn."""
    return [one for one in marks if isinstance(one.value, (bool, int, float)) and math.isfinite(one.value)]


def interval(record: Mapping[str, Any], name: str) -> tuple[float | None, float | None]:
    """Return the interval of a column of a record, of several seeds."""
    low, high = record.get("intervals", {}).get(name, (None, None))
    return low, high


def draw_rows(
    figure: Figure,
    marks: Sequence[Mark],
    *,
    title: str,
    words: str,
    logarithmic: bool = False,
    share: bool = False,
    line: tuple[str, float] | None = None,
) -> None:
    """Draw marks into an empty figure, a row for each thing; those of a row stand one below the other.

    Parameters
    ----------
    figure : Figure
    marks : sequence of Mark
        Those of `known`; at least one.
    title, words : str
        Of the panel and of its axis, with the unit.
    logarithmic : bool
        Whether the axis is.
    share : bool
        Whether it goes from 0 to 1.
    line : (str, float), optional
        What goes down through all rows, and where.
    """
    rows = list(dict.fromkeys(mark.row for mark in marks))
    most = max(sum(mark.row == row for mark in marks) for row in rows)
    inches = 0.85 + len(rows) * ((most - 1) * _BETWEEN + _HIGH) / 72
    (axes,) = panels(figure, 1, size=(7.2, inches))
    if line:
        axes.axvline(line[1], color=DARK, linestyle="--", linewidth=1, label=line[0])
    drawn: set[str] = set()
    for place, row in enumerate(rows):
        mine = [mark for mark in marks if mark.row == row]
        for turn, mark in enumerate(mine):
            told = None if mark.told in drawn else mark.told or None
            _draw(axes, mark, place, _BETWEEN * ((len(mine) - 1) / 2 - turn), told)
            drawn.add(mark.told)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if logarithmic:
        axes.set_xscale("log")
    elif share:
        axes.set_xlim(-0.02, 1.02)
    finished(axes, title, xlabel=words)
    legend(figure)


def _draw(axes: Axes, mark: Mark, place: int, above: float, told: str | None) -> None:
    how: dict[str, Any] = {"linestyle": "", **LOOKS[mark.look]}
    if (mark.low, mark.high) == (None, None):
        shift(axes.plot([mark.value], [place], label=told, **how), axes, y=above)
        return
    ends = ((mark.low, "<"), (mark.high, ">"))
    spans = [[0.0 if end is None else abs(mark.value - end)] for end, _ in ends]
    drawn = axes.errorbar([mark.value], [place], xerr=spans, elinewidth=1, label=told, **how).get_children()
    for open_to in (marker for end, marker in ends if end is None):
        drawn += axes.plot([mark.value], [place], **{**how, "marker": open_to, "markersize": 8, "mfc": "none"})
    shift(drawn, axes, y=above)


def setting_of(record: Mapping[str, Any]) -> str:
    """Return what a record says that it is about: N, w, users and epsilon, where they are known."""
    told = [
        f"{symbol}{value:,}" if not unit else f"{value:,} {unit}"
        for name, symbol, unit in (("items", "N = ", ""), ("rated", "w = ", ""), ("users", "", "users"))
        if isinstance(value := record.get(name), int)
    ]
    if record.get("epsilon") is not None:
        told.append(epsilon_told(record["epsilon"]))
    return ", ".join(told)


def epsilon_told(epsilon: float | str) -> str:
    """Return an epsilon of a record with its unit."""
    return f"epsilon {epsilon}" if isinstance(epsilon, str) else f"epsilon {epsilon:.4g} nats"
