"""What a picture is: panels that say what is x, y, interval and series, which lines they have, what stands on axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd


COLOURS = MappingProxyType(
    {
        "curator": ("#1f5fe0", "#6f8ff7"),
        "two-servers": ("#00714f", "#49e3b9"),
        "shuffled": ("#7a2d0a", "#e8703a"),
        "local": ("#c2108a", "#fdaef3"),
        "two-tier": ("#826e10", "#e6e04a"),
        "ink": ("#15191e", "#eceff2"),
        "quiet": ("#505a65", "#a8b2bd"),
        "paper": ("#ffffff", "#14181d"),
        "panel": ("#f4f6f8", "#1c2127"),
        "line": ("#c9d0d7", "#3a434d"),
        "grid": ("#e6eaee", "#2a323a"),
        "goal": ("#edf1f5", "#20272f"),
        "warning": ("#6f1610", "#ffb4ab"),
        "warned": ("#fdeceb", "#3b1512"),
    }
)
"""Light and dark. Text in a rung's colour has a contrast of at least 4.6 with paper and panel, and no two rungs are
closer than 13.6 (CIEDE2000) for people who see no red, no green or no blue."""
SHAPES = MappingProxyType(
    {"curator": "square", "two-servers": "triangle-up", "shuffled": "circle", "local": "diamond", "two-tier": "cross"}
)
"""Of points of a rung, in Vega-Lite's words."""
RUNG_MARKERS = MappingProxyType({"curator": "s", "two-servers": "^", "shuffled": "o", "local": "D", "two-tier": "P"})
"""The same in matplotlib's."""
Style = Mapping[str, Any]  # Keywords of the plotting library for a line; with a ``facecolor`` intervals are a band
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colours of Okabe and Ito but yellow, which is hard to see on white; colour-blind people can tell them apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
"""As many as have no factor in common with the colours, so that a look comes again only after 77 lines."""
GREY, DARK = "0.6", "0.25"
BELOW, ABOVE = "<", ">"  # Bounds of points: the number lies below this one, or above it
LOOKS: Mapping[str, Style] = {
    "measured": {"marker": "o", "color": PALETTE[0]},
    "predicted": {"marker": "D", "color": PALETTE[1], "mfc": "none", "markersize": 6},
    "proved": {"marker": "|", "color": "black", "markersize": 12, "mew": 2},
    "at least": {"marker": ">", "color": PALETTE[2], "mfc": "none", "markersize": 6},
    "beside": {"marker": "s", "color": PALETTE[3]},
    "chance": {"marker": "x", "color": DARK, "markersize": 5},
}
"""What marks of a row look like, by what a number is."""
STAR: Style = {"marker": "*", "linestyle": "", "color": DARK, "markersize": 9}  # Above points whose ``starred`` is true


def look(index: int) -> dict[str, Any]:
    """Return colour and marker of a line by its place among all: no two of 77 look alike."""
    return {"color": PALETTE[index % len(PALETTE)], "marker": MARKERS[index % len(MARKERS)]}


def by_place(names: Iterable[str], **more: Any) -> dict[str, Style]:
    """Return the styles of lines that look different by their place among all; an empty name is in no legend."""
    return {name: {**look(index), "label": name or None, **more} for index, name in enumerate(dict.fromkeys(names))}


def by_rung(labels: Iterable[str]) -> dict[str, Style]:
    """Return the styles of curves of rungs: a colour and a marker a rung in every picture; others are by their place.

    A label is a rung, or a rung, a colon and what it shows of it, which then has hollow markers.
    """
    styles = by_place(labels)
    for label in styles:
        rung = label.partition(":")[0]
        if rung in RUNG_MARKERS:
            hollow = {} if label == rung else {"mfc": "none"}
            styles[label] = {"color": COLOURS[rung][0], "marker": RUNG_MARKERS[rung], "label": label, **hollow}
    return styles


@dataclass(frozen=True, slots=True)
class Axis:
    """What stands along a side of a panel."""

    label: str = ""  # Beside it, with the unit
    column: str = ""  # Of the points
    scale: str = "linear"  # Or log, or symlog, which is linear up to 1
    low: float | None = None  # Its ends; None: as the points have it
    high: float | None = None
    # The library's where there are none; a tick at every "value", at "whole" numbers, or words at numbers
    ticks: str | Mapping[float, str] = ""


class Reference(NamedTuple):
    """A line across a panel, at a number of an axis."""

    at: float
    style: Style  # With its label in the legend, if it has one
    beside: str = ""  # Words at its right end, outside of the panel
    axis: str = "y"


class Mark(NamedTuple):
    """A number in a row."""

    row: str  # What it is of
    label: str  # What it is, in the legend's words; empty where the row says it
    value: Any  # Nothing is drawn where it is None, or no finite number
    style: Style = LOOKS["measured"]
    low: float | None = None  # Ends of its interval; None where there is none, or where it is open
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FigurePanel:
    """Lines of a table of points, or marks in rows, over two axes, with intervals and reference lines."""

    # A line each kind and series, if it has these; its intervals are low to high, and a ``bound`` is drawn as an arrow
    points: pd.DataFrame | None = None
    marks: Sequence[Mark] = ()  # Instead of points: a row of marks for each thing, which then stands along the y axis
    x: Axis
    y: Axis = Axis()
    series: str = "label"  # Column of the names of lines
    looks: Mapping[str, Style] = field(default_factory=lambda: {"": look(0)})  # Of lines, by their names
    kinds: Mapping[str, Style] = field(default_factory=dict)  # And by their kinds; "{}" of a label is the line's name
    title: str = ""
    references: Sequence[Reference] = ()
    key: Mapping[str, Style] = field(default_factory=dict)  # More of the legend, by its words; grey without a colour
    top: float = math.nan  # Where intervals end that are open above

    def style(self, kind: str, name: str) -> dict[str, Any]:
        """Return the style of a line."""
        of_kind = self.kinds.get(kind, {})
        label = {"label": of_kind["label"].format(name)} if of_kind.get("label") else {}
        return {**self.looks.get(name, {}), **of_kind, **label}


@dataclass(frozen=True)
class Picture:
    """A picture of a result."""

    name: str  # Of its file, without an ending
    title: str  # What it shows, in a few words
    alt: str  # What somebody who cannot see it should know of it
    panels: Sequence[FigurePanel] = field(repr=False, compare=False)
    # All points in it, unless they stand in another file of the folder
    points: pd.DataFrame | None = field(default=None, repr=False, compare=False)
    heading: str = ""  # Above all panels
    size: tuple[float, float] | None = None  # Of a panel [inches]; None: the usual one, or as its rows need it
    across: int = 3  # Panels beside each other, at most


Pictures = Iterator[Picture]
Tables = Mapping[str, "pd.DataFrame"]  # Of a folder, by their names


def marks_of(record: Mapping[str, Any], columns: Mapping[str, tuple[str, str, str]]) -> list[Mark]:
    """Return marks of a record's columns, from row, words and one of `LOOKS`; with intervals of several seeds."""
    ends = record.get("intervals", {})
    return [
        Mark(row, label, record.get(name), LOOKS[kind], *ends.get(name, (None, None)))
        for name, (row, label, kind) in columns.items()
    ]


def rows(name: str, title: str, alt: str, marks: Sequence[Mark], heading: str, x: Axis, **more: Any) -> Pictures:
    """Yield the picture of those marks that can be drawn; nothing where none can."""
    numbers = [mark for mark in marks if isinstance(mark.value, (bool, int, float)) and math.isfinite(mark.value)]
    if shown := [mark for mark in numbers if mark.value > 0 or x.scale != "log"]:
        yield Picture(name, title, alt, [FigurePanel(marks=shown, x=x, title=heading, **more)])


def setting_of(record: Mapping[str, Any]) -> str:
    """Return what a record says that it is about: N, w, users and epsilon, where they are known."""
    every = [("N = {:,}", "items"), ("w = {:,}", "rated"), ("{:,} users", "users")]
    labels = [form.format(value) for form, name in every if isinstance(value := record.get(name), int)]
    return ", ".join([*labels, *([] if record.get("epsilon") is None else [epsilon_words(record["epsilon"])])])


def epsilon_words(epsilon: float | str) -> str:
    """Return an epsilon of a record with its unit."""
    return f"epsilon {epsilon}" if isinstance(epsilon, str) else f"epsilon {epsilon:.4g} nats"
