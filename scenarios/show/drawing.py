"""How panels are drawn: one style, lines with intervals, rows of marks, reference lines, one legend below all."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from cycler import cycler
from matplotlib import style, ticker
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import offset_copy

from scenarios.show.picture import ABOVE, BELOW, DARK, PALETTE, STAR, Axis, FigurePanel, Mark, Picture, Style

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
_SIZE, _WIDE = (6.4, 4.4), 7.2  # Inches of a panel, and how wide one of rows is
_BETWEEN, _ASIDE = 5.0, 27.0  # Points between intervals that would lie on each other, and of all of them together
_BETWEEN_ROWS, _HIGH = 6.0, 15.0  # Points between the marks of a row, and that a row of one mark takes
_ARROW = 1.6  # Times its number an arrow of a bound reaches
_OPEN = 1.12  # Times its height stands the arrow of a point whose interval is open
_MOST_BROAD = 40  # Lines of a panel beyond which no line is made broad below those that cover it
_FEW = 200  # Of the largest to the smallest number on a logarithmic axis: below it, 2 and 5 have ticks, too
_LINE = 0.04  # Of the height of a panel that a line of small text needs
_ROW = 0.17  # Inches that a row of a legend needs
_LETTER, _HANDLE, _TITLE = 4.4, 42.0, 5.2
"""Points that a letter of a legend takes, what stands before its words, and what a letter of a title takes."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style, whatever settings the user has made; they hold again afterwards."""
    with style.context(["default", dict(SETTINGS)]):
        yield


def draw_picture(picture: Picture, figure: Figure) -> None:
    """Draw all panels of a picture into an empty figure, row by row, with one legend below them."""
    columns = min(len(picture.panels), picture.across)
    rows = -(-len(picture.panels) // columns)
    turns = Counter(mark.row for mark in picture.panels[0].marks)
    high = len(turns) * ((max(turns.values(), default=1) - 1) * _BETWEEN_ROWS + _HIGH) / 72
    width, height = picture.size or ((_WIDE, 0.85 + high) if turns else _SIZE)
    with styled():
        figure.set_size_inches(width * columns, height * rows)
        figure.set_layout_engine("constrained")
        every = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, panel in zip(every, picture.panels, strict=False):
            _draw_panel(axes, panel, width)
        for axes in every[len(picture.panels) :]:
            axes.axis("off")
        titles = [figure.suptitle(picture.heading)] if picture.heading else []
        _draw_legend(figure)
        _fold(figure, [*titles, *([every[0].title] if len(picture.panels) == 1 else [])])


def _fold(figure: Figure, titles: Sequence[Text]) -> None:
    """Wrap lines of titles that would leave the figure."""
    letters = 72 * figure.get_figwidth() / _TITLE
    long = [title for title in titles if 2 * max(map(len, title.get_text().split("\n"))) > letters]
    if long:  # others have room enough, wherever the axes stand
        figure.draw_without_rendering()
    for title in long:
        box, lines = title.get_window_extent(), title.get_text().split("\n")
        middle = (box.x0 + box.x1) / 2
        room = 2 * min(middle, figure.bbox.width - middle) - _BETWEEN_ROWS
        if box.width > room:
            most = int(max(map(len, lines)) * room / box.width)
            title.set_text("\n".join(textwrap.fill(line, most) for line in lines))
            more = title.get_text().count("\n") - len(lines) + 1
            figure.set_figheight(figure.get_figheight() + more * _ROW)


def _draw_panel(axes: Axes, panel: FigurePanel, width: float) -> None:
    if panel.y.scale != "linear":
        axes.set_yscale(panel.y.scale, **({"linthresh": 1} if panel.y.scale == "symlog" else {}))
    if panel.marks:
        _draw_marks(axes, panel.marks)
    if panel.points is not None and len(panel.points):
        _draw_lines(axes, panel, panel.points)
    for line in panel.references:
        (axes.axvline if line.axis == "x" else axes.axhline)(line.at, **{"linewidth": 1, "zorder": 1, **line.style})
    for label, how in panel.key.items():
        axes.plot([], [], **{"color": DARK, **how, "label": label})
    _finish_axes(axes, panel)
    if axes.get_xscale() == "log" and not axes.get_xlim()[0] > 0:
        axes.set_xlim(1, 10)  # nothing stands there, so nothing sets its ends
    small = 72 * width / (_TITLE * max(1, len(panel.title)))
    axes.set_title(panel.title, fontsize=max(6.0, 10 * min(1.0, small)))
    # Words of lines stand on the right, as far apart as lines of text need
    low, high = axes.get_ylim()
    free = low
    for at, label in sorted((line.at, line.beside) for line in panel.references if line.beside):
        free = max(at, free)
        axes.annotate(label, (1.01, free), xycoords=("axes fraction", "data"), fontsize=7, va="center", color=DARK)
        free += (high - low) * _LINE


def _draw_lines(axes: Axes, panel: FigurePanel, table: pd.DataFrame) -> None:
    """Draw every line of a table; lines whose intervals would lie on each other stand side by side."""
    x, y, series = panel.x.column, panel.y.column, panel.series
    columns: dict[str, Any] = {"kind": "", series: "", "low": math.nan, "high": math.nan, "bound": ""}
    points = table.assign(**{name: value for name, value in columns.items() if name not in table})
    every = {
        (str(kind), str(label)): line.sort_values(x, kind="stable")
        for (kind, label), line in points.groupby(["kind", series], sort=False)
    }
    axes.margins(x=0.07)
    shifts, covered = _shifts(every, x, y, panel.top), _covered(every, y)
    for key, every_point in every.items():
        line, how = every_point, panel.style(*key)
        if "facecolor" in how:
            axes.fill_between(line[x], line["low"], line["high"], **how)
            continue
        if len(bounds := every_point[every_point["bound"] != ""]):
            line = every_point[every_point["bound"] == ""]
            _draw_bounds(axes, bounds[x], bounds[y], bounds["bound"], how if line.empty else {**how, "label": None})
            if line.empty:
                continue
        if not line[["low", "high"]].notna().to_numpy().any():
            if above := covered[key]:  # it shows below those that cover it
                how |= {"linewidth": how.get("linewidth", 1.3) + 3 * above, "alpha": 0.5}
            axes.plot(line[x], line[y], **how)
            continue
        height, low = (line[column].to_numpy(dtype=np.float64) for column in (y, "low"))
        high = line["high"].fillna(panel.top).to_numpy(dtype=np.float64)
        opened, sunk = np.isnan(high) & np.isfinite(low), np.isnan(low) & np.isfinite(high)
        low = np.where(sunk, height / _ARROW, low)
        spans = np.abs(np.nan_to_num(np.array([height - low, high - height]), nan=0.0))
        artists = axes.errorbar(line[x], height, yerr=spans, elinewidth=1, **how).get_children()
        arrow: dict[str, Any] = {"color": how.get("color"), "markersize": 4, "linestyle": ""}
        artists += axes.plot(line[x][opened], _OPEN * height[opened], marker="^", **arrow)
        artists += axes.plot(line[x][sunk], height[sunk] / _ARROW, marker="v", **arrow)
        if "starred" in line and (starred := line["starred"].to_numpy(dtype=bool)).any():
            artists += axes.plot(line[x][starred], height[starred], **STAR, zorder=3)
        _shift(artists, axes, x=shifts[key])


def _draw_bounds(axes: Axes, x: pd.Series[Any], y: pd.Series[Any], bounds: pd.Series[Any], how: Style) -> None:
    """Draw an arrow from each bound to where the number lies, without a line to what was measured."""
    reach = np.where(bounds == BELOW, y - y / _ARROW, y * _ARROW - y)
    marks = {**how, "linestyle": "", "marker": "_", "markersize": 8}
    axes.errorbar(x, y, yerr=reach, uplims=bounds == BELOW, lolims=bounds == ABOVE, elinewidth=1, **marks)


def _shift(artists: Iterable[Artist], axes: Axes, *, x: float = 0.0, y: float = 0.0) -> None:
    """Move artists aside [points], so that marks at the same place do not hide each other; limits stay."""
    aside = offset_copy(axes.transData, fig=axes.get_figure(root=True), x=x, y=y, units="points")
    for artist in artists:
        artist.set_transform(aside)


Line = tuple[str, str]  # Kind and name of a line


def _shifts(every: Mapping[Line, pd.DataFrame], x: str, y: str, top: float) -> dict[Line, float]:
    """Return how far every line stands from its place [points]: 0, unless its intervals would lie on another's."""
    barred = {}
    for key, line in every.items():
        if len(rows := line[line[["low", "high"]].notna().any(axis=1)]):
            ends = {"low": rows["low"].fillna(rows[y]), "high": rows["high"].fillna(top).fillna(_OPEN * rows[y])}
            barred[key] = rows.assign(**ends)
    apart: list[list[Line]] = []
    for key, rows in barred.items():
        touched = [group for group in apart if any(_touch(rows, barred[other], x) for other in group)]
        apart = [group for group in apart if group not in touched] + [[*chain(*touched), key]]
    return {
        key: min(_BETWEEN, _ASIDE / len(group)) * (rank - (len(group) - 1) / 2)
        for group in apart
        for rank, key in enumerate(group)
    }


def _touch(line: pd.DataFrame, other: pd.DataFrame, x: str) -> bool:
    both = line.merge(other, on=x)
    return bool(((both["low_x"] <= both["high_y"]) & (both["low_y"] <= both["high_x"])).any())


def _covered(every: Mapping[Line, pd.DataFrame], y: str) -> dict[Line, int]:
    """Return for every line without intervals how many later ones of its kind coincide with it."""
    later: Counter[tuple[str, bytes]] = Counter()
    above = dict.fromkeys(every, 0)
    for key, line in reversed([*every.items()]) if len(every) <= _MOST_BROAD else ():
        if line["low"].isna().all():
            signature = key[0], line[y].to_numpy(np.float64).tobytes()
            above[key] = later[signature]
            later[signature] += 1
    return above


def _draw_marks(axes: Axes, marks: Sequence[Mark]) -> None:
    """Draw a row of marks for each thing; those of a row stand one below the other."""
    rows = list(dict.fromkeys(mark.row for mark in marks))
    labels: set[str] = set()
    for number, row in enumerate(rows):
        members = [mark for mark in marks if mark.row == row]
        for turn, mark in enumerate(members):
            label = None if mark.label in labels else mark.label or None
            _draw_mark(axes, mark, -number, _BETWEEN_ROWS * ((len(members) - 1) / 2 - turn), label)
            labels.add(mark.label)
    axes.set_yticks([-float(number) for number in range(len(rows))], rows)
    axes.set_ylim(0.5 - len(rows), 0.5)


def _draw_mark(axes: Axes, mark: Mark, height: int, above: float, label: str | None) -> None:
    how: dict[str, Any] = {"linestyle": "", **mark.style}
    if (mark.low, mark.high) == (None, None):
        how.pop("elinewidth", None)
        _shift(axes.plot([mark.value], [height], label=label, **how), axes, y=above)
        return
    ends = ((mark.low, "<"), (mark.high, ">"))
    spans = [[0.0 if end is None else abs(mark.value - end)] for end, _ in ends]
    artists = axes.errorbar([mark.value], [height], xerr=spans, label=label, **{"elinewidth": 1, **how}).get_children()
    for open_to in (marker for end, marker in ends if end is None):
        artists += axes.plot([mark.value], [height], **{**how, "marker": open_to, "markersize": 8, "mfc": "none"})
    _shift(artists, axes, y=above)


def _finish_axes(axes: Axes, panel: FigurePanel) -> None:
    """Set scales, ends, ticks and words of both axes, with numbers that can be read; all is drawn."""
    axes.set(xlabel=panel.x.label, ylabel=panel.y.label)
    if panel.x.ticks == "value" and panel.points is not None:
        _tick_values(axes, panel.points[panel.x.column], panel.x)
    elif panel.x.scale != "linear":
        axes.set_xscale(panel.x.scale)
    for declared, limit in ((panel.x, axes.set_xlim), (panel.y, axes.set_ylim)):
        if (declared.low, declared.high) != (None, None):
            limit(declared.low, declared.high)
    both = (panel.x, axes.xaxis, axes.get_xlim()), (panel.y, axes.yaxis, axes.get_ylim())
    for declared, axis, (low, high) in both:
        if isinstance(declared.ticks, Mapping):
            axis.set_ticks(list(declared.ticks), list(declared.ticks.values()))
        elif declared.ticks == "whole":
            axis.set_major_locator(ticker.MaxNLocator(integer=True))
        if axis.get_scale() == "log" and not isinstance(axis.get_major_locator(), ticker.FixedLocator):
            few = max(low, high) < _FEW * min(low, high)
            axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if few else (1,)))
            axis.set_minor_formatter(ticker.NullFormatter())
        if isinstance(axis.get_major_formatter(), (ticker.LogFormatter, ticker.ScalarFormatter)):
            axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: readable(value)))


def _tick_values(axes: Axes, values: pd.Series[Any], axis: Axis) -> None:
    """Put a tick at every value of x; a logarithmic axis that holds 0 is linear up to the next value."""
    every = np.unique(np.asarray(values, dtype=np.float64))
    if axis.scale == "log" and (every == 0).any():
        axes.set_xscale("symlog", linthresh=float(every[every > 0].min()) if every.size > 1 else 1.0)
    elif axis.scale == "log":
        if every.size == 1:  # for panels that share one value matplotlib finds no limits
            axes.set_xlim(every[0] / 2, every[0] * 2)
        axes.set_xscale("log")
    axes.set_xticks(every, [f"{value:,.10g}" for value in every])
    axes.xaxis.minorticks_off()


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


def _draw_legend(figure: Figure) -> None:
    """Explain everything that is named in any panel, once, below all of them; the figure grows by that."""
    named = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in reversed(named)}
    if labels := list(dict.fromkeys(label for _, label in named)):
        widest = _HANDLE + _LETTER * max(map(len, labels))
        columns = max(1, min(len(labels), int(72 * figure.get_figwidth() / widest)))
        figure.legend([handles[label] for label in labels], labels, loc="outside lower center", ncols=columns)
        figure.set_figheight(figure.get_figheight() + 0.1 + _ROW * -(-len(labels) // columns))
