"""What pictures are made of: a style, panels, lines with intervals, rows of marks, legends beside the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from cycler import cycler
from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatter, LogLocator, NullFormatter, ScalarFormatter
from matplotlib.transforms import offset_copy

from coordinator.protocol.arrays import Floats

Style = Mapping[str, Any]
"""Keywords of the plotting library for a line."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colours of Okabe and Ito but yellow, which is hard to see on white; colour-blind people can tell them apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
"""As many as have no factor in common with the colours, so that a look comes again only after 77 lines."""
GREY, DARK = "0.6", "0.25"
SETTINGS: Mapping[str, Any] = {
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "errorbar.capsize": 2.0,
    "figure.titlesize": 10,
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # text that can be searched
    "savefig.dpi": 120,
    "text.parse_math": False,  # labels are words of users and folders: a $ is a $
    "svg.fonttype": "path",  # looks the same where a font is missing
    "svg.hashsalt": "blindrec",  # the same picture is the same file
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style, whatever settings the user has made; they hold again afterwards."""
    with style.context(["default", dict(SETTINGS)]):
        yield


def colour(place: int) -> str:
    """Return the colour of a line by its place among all."""
    return PALETTE[place % len(PALETTE)]


def look(place: int) -> dict[str, Any]:
    """Return colour and marker of a line by its place among all: no two of 77 look alike."""
    return {"color": colour(place), "marker": MARKERS[place % len(MARKERS)]}


POINTS: Style = {"linestyle": "-"}
"""How what was measured is drawn, beside its look."""
_BETWEEN, _ASIDE = 5.0, 27.0
"""Points between two intervals that would lie on each other, and what all of them may take together."""
_OPEN = 1.12
"""Times its height stands the arrow of a point whose interval is open."""
_FEW = 200
"""Of the largest to the smallest number on a logarithmic axis: below it, 2 and 5 have ticks, too."""
_LINE = 0.04
"""Of the height of a panel that a line of small text needs."""
_ROW = 0.17
"""Inches that a row of a legend needs."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LETTER, _HANDLE = 4.4, 42.0
"""Points that a letter of a legend takes, and what stands before its words."""


def panels(figure: Figure, count: int, *, across: int = 3, size: tuple[float, float] = (6.4, 4.4)) -> list[Axes]:
    """Give an empty figure so many panels of a size, and return them row by row."""
    columns = min(count, across)
    rows = -(-count // columns)
    figure.set_size_inches(size[0] * columns, size[1] * rows)
    figure.set_layout_engine("constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in every[count:]:
        unused.axis("off")
    return every[:count]


def lines(
    axes: Axes,
    points: pd.DataFrame,
    style: Callable[[str, str], Style],
    *,
    name: str = "label",
    x: str = "x",
    y: str = "y",
    top: float = math.nan,
) -> None:
    """Draw every line of a table of points; lines whose intervals would lie on each other stand side by side."""
    axes.margins(x=0.07)
    shifts = _shifts(points, name, x, y, top)
    for (kind, label), line in points.groupby(["kind", name], sort=False):
        ordered = line.sort_values(x)
        how = dict(style(str(kind), str(label)))
        if not ordered[["low", "high"]].notna().to_numpy().any():
            axes.plot(ordered[x], ordered[y], **how)
            continue
        height, low = (ordered[column].to_numpy(dtype=np.float64) for column in (y, "low"))
        high = ordered["high"].fillna(top).to_numpy(dtype=np.float64)
        spans = np.abs(np.nan_to_num(np.array([height - low, high - height]), nan=0.0))
        drawn = axes.errorbar(ordered[x], height, yerr=spans, elinewidth=1, **how).get_children()
        opened = np.isnan(high) & np.isfinite(low)
        arrow: dict[str, Any] = {"marker": "^", "color": how.get("color"), "markersize": 4, "linestyle": ""}
        drawn += axes.plot(ordered[x][opened], _OPEN * height[opened], **arrow)
        shift(drawn, axes, x=shifts[str(kind), str(label)])


def shift(drawn: Iterable[Artist], axes: Axes, *, x: float = 0.0, y: float = 0.0) -> None:
    """Move what is drawn aside [points], so that marks at the same place do not hide each other; limits stay."""
    aside = offset_copy(axes.transData, fig=axes.get_figure(root=True), x=x, y=y, units="points")
    for artist in drawn:
        artist.set_transform(aside)


def _shifts(points: pd.DataFrame, name: str, x: str, y: str, top: float) -> dict[tuple[str, str], float]:
    """Return how far every line stands from its place [points]: 0, unless its intervals would lie on another's."""
    barred = points[points[["low", "high"]].notna().any(axis=1)]
    ends = {"low": barred["low"].fillna(barred[y]), "high": barred["high"].fillna(top).fillna(_OPEN * barred[y])}
    apart: list[list[tuple[str, str]]] = []
    every = {
        (str(kind), str(label)): rows
        for (kind, label), rows in barred.assign(**ends).groupby(["kind", name], sort=False)
    }
    for key, rows in every.items():
        touched = [group for group in apart if any(_touch(rows, every[other], x) for other in group)]
        apart = [group for group in apart if group not in touched] + [[*chain(*touched), key]]
    return {
        key: min(_BETWEEN, _ASIDE / len(group)) * (place - (len(group) - 1) / 2)
        for group in apart
        for place, key in enumerate(group)
    }


def _touch(one: pd.DataFrame, other: pd.DataFrame, x: str) -> bool:
    both = one.merge(other, on=x)
    return bool(((both["low_x"] <= both["high_y"]) & (both["low_y"] <= both["high_x"])).any())


def covering(points: pd.DataFrame, kind: str, name: str, values: str) -> dict[tuple[str, str], int]:
    """Return for every line (kind, name) without intervals how many later ones of its kind coincide with it."""
    bare = points[points["low"].isna()]
    lines = {
        (str(one), str(label)): line.sort_values("x")[values].to_numpy(np.float64)
        for (one, label), line in bare.groupby([kind, name], sort=False)
    }
    keys = list(lines)
    return {
        key: sum(other[0] == key[0] and np.array_equal(lines[other], lines[key]) for other in keys[place + 1 :])
        for place, key in enumerate(keys)
    }


def broad(linewidth: float, above: int) -> Style:
    """Return how a line is drawn that so many others cover: it shows below them."""
    return {"linewidth": linewidth + 3 * above, "alpha": 0.5} if above else {"linewidth": linewidth}


def ticks(axes: Axes, values: Floats | pd.Series[float], *, logarithmic: bool = True) -> None:
    """Put a tick at every value of x, on a logarithmic axis; one that holds 0 is linear up to the next value."""
    every = np.unique(np.asarray(values, dtype=np.float64))
    if logarithmic and (every == 0).any():
        axes.set_xscale("symlog", linthresh=float(every[every > 0].min()) if every.size > 1 else 1.0)
    elif logarithmic:
        if every.size == 1:  # for panels that share one value matplotlib finds no limits
            axes.set_xlim(every[0] / 2, every[0] * 2)
        axes.set_xscale("log")
    axes.set_xticks(every, [f"{value:,.10g}" for value in every])
    axes.xaxis.minorticks_off()


def finished(axes: Axes, title: str, **words: Any) -> None:
    """Give a panel its title and the words of its axes, and numbers that can be read; all is drawn, scales are set."""
    axes.set(**words)
    axes.set_title(title)
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log" and not isinstance(axis.get_major_locator(), FixedLocator):
            few = max(low, high) < _FEW * min(low, high)
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
            axis.set_minor_formatter(NullFormatter())
        if isinstance(axis.get_major_formatter(), (LogFormatter, ScalarFormatter)):
            axis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))


def readable(value: float) -> str:
    """Return a number of an axis: with commas, or as a power of ten from a million on."""
    if 1e-3 <= abs(value) < 1e6 or not value:
        return f"{value:,.6g}"
    if abs(value) < 1e-300:  # ten to its exponent would be nothing
        return f"{value:.4g}"
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    digits = f"{value / 10**exponent:.4g}"
    power = f"10{str(exponent).translate(_RAISED)}"
    return power if digits == "1" else f"{digits}\u00d7{power}"


def explained(axes: Axes, styles: Mapping[str, Style], drawn: Sequence[str]) -> None:
    """Explain kinds of lines in the legend, in grey, where they are drawn."""
    for words, look in styles.items():
        if words in drawn:
            axes.plot([], [], **{"color": DARK, **look}, label=words)


def beside(axes: Axes, named: Mapping[str, float]) -> None:
    """Write words at heights on the right of a panel whose limits are set, as far apart as lines of text need."""
    low, high = axes.get_ylim()
    free = low
    for words, height in sorted(named.items(), key=lambda one: one[1]):
        free = max(height, free)
        axes.annotate(words, (1.01, free), xycoords=("axes fraction", "data"), fontsize=7, va="center", color=DARK)
        free += (high - low) * _LINE


def legend(figure: Figure) -> None:
    """Explain everything that is named in any panel, once, below all of them; the figure grows by that."""
    named = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in reversed(named)}
    if labels := list(dict.fromkeys(label for _, label in named)):
        widest = _HANDLE + _LETTER * max(map(len, labels))
        columns = max(1, min(len(labels), int(72 * figure.get_figwidth() / widest)))
        figure.legend([handles[one] for one in labels], labels, loc="outside lower center", ncols=columns)
        figure.set_figheight(figure.get_figheight() + 0.1 + _ROW * -(-len(labels) // columns))


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
_BETWEEN_ROWS = 6.0
"""Points between the marks of a row."""
_HIGH = 15.0
"""Points that a row of one mark takes."""


class Mark(NamedTuple):
    """A number in a row."""

    row: str  # What it is of
    told: str  # What it is, in the legend's words; empty where the row says it
    value: Any  # Nothing is drawn where it is None, or no finite number
    look: str = MEASURED  # One of `LOOKS`
    low: float | None = None  # Ends of its interval; None where there is none, or where it is open
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
    """Draw marks into an empty figure, a row for each thing; those of a row stand one below the other."""
    rows = list(dict.fromkeys(mark.row for mark in marks))
    most = max(sum(mark.row == row for mark in marks) for row in rows)
    inches = 0.85 + len(rows) * ((most - 1) * _BETWEEN_ROWS + _HIGH) / 72
    (axes,) = panels(figure, 1, size=(7.2, inches))
    if line:
        axes.axvline(line[1], color=DARK, linestyle="--", linewidth=1, label=line[0])
    drawn: set[str] = set()
    for place, row in enumerate(rows):
        mine = [mark for mark in marks if mark.row == row]
        for turn, mark in enumerate(mine):
            told = None if mark.told in drawn else mark.told or None
            _draw(axes, mark, place, _BETWEEN_ROWS * ((len(mine) - 1) / 2 - turn), told)
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
