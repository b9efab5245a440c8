"""The picture of an answer in Vega-Lite: worth against people, a curve a rung; below it, people for the target."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from scenarios.show.picture import COLOURS, SHAPES
from scenarios.studies.answer import (
    RUNGS,
    VOLUNTEERS,
    Answer,
    AtEpsilon,
    Cell,
    PeopleRange,
    people_text,
    times_text,
)

if TYPE_CHECKING:
    import altair

VEGA_LITE = "6.1"
"""The version that draws it: 6.4 shows "undefined" where the nearest point is hovered (vega-lite pull request 9707)."""
FONT = 'Inter, system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
WIDTH, HEIGHT, BAR = 560, 300, 23  # Pixels; of a rung's bar below
NAME = 15.5  # Pixels between two names at the left ends of curves
ROOM = 1.15  # By how much the axis of people exceeds the most of them
LEFT = 6.0  # By how much the fewest people exceed the axis' start, where names of curves stand


def colour(name: str) -> str:
    """Return a colour of the page's style sheet, so that light, dark and print are one picture."""
    return f"var(--{name})"


def specification(answer: Answer) -> dict[str, Any]:
    """Return the picture as Vega-Lite's JSON; its parameters ``epsilon``, ``shown``, ``every`` and ``small`` switch."""
    import altair as alt  # noqa: PLC0415 (an extra)

    chart = _Chart(answer)
    upper = chart.worth().properties(width=WIDTH, height=HEIGHT, title="NDCG at 10")
    bars = BAR * sum(key != VOLUNTEERS for key in chart.keys)
    title = f"people that it takes for {100 * answer.share:g} % (arrows: a bound)"
    lower = chart.needs().properties(width=WIDTH, height=bars, title=title)
    start = {"xmin": chart.least / LEFT, "epsilon": chart.epsilon, "shown": chart.keys, "every": False, "small": False}
    whole = alt.vconcat(upper, lower, spacing=12).add_params(
        *(alt.param(name=name, value=value) for name, value in start.items())
    )
    axis = {
        "labelColor": "quiet",
        "titleColor": "quiet",
        "domainColor": "line",
        "tickColor": "line",
        "gridColor": "grid",
    }
    whole = whole.configure(font=FONT, background="transparent", padding=2, aria=False).configure_view(stroke=None)
    whole = whole.configure_axis(
        labelFontSize=12, titleFontSize=12, titleFontWeight="normal", **{of: colour(name) for of, name in axis.items()}
    )
    heading = {"anchor": "start", "frame": "group", "color": colour("ink"), "fontSize": 13, "fontWeight": 600}
    made: dict[str, Any] = whole.configure_title(offset=8, **heading).to_dict() | {"datasets": chart.data}
    del made["$schema"]  # A link, and of another version than `VEGA_LITE`
    return made


def resolved(spec: Mapping[str, Any], theme: int = 0) -> dict[str, Any]:
    """Return the picture for notebooks and files, which know no style sheet: light (0) or dark (1), on paper."""
    text = re.sub(r"var\(--([\w-]+)\)", lambda match: COLOURS[match[1]][theme], json.dumps(spec))
    return {**json.loads(text), "background": COLOURS["paper"][theme]}


class _Chart:
    """Layers of the picture over data sets that are named, since values are repeated in every layer that has them."""

    def __init__(self, answer: Answer) -> None:
        import altair as alt  # noqa: PLC0415 (an extra)

        self.alt, self.answer = alt, answer
        first = answer.by_epsilon[0]
        self.epsilon, self.keys = first.epsilon, [rung.key for rung in first.rungs]
        self.least, self.most = (end(cell.people for cell in answer.cells) for end in (min, max))
        self.top = 1.08 * max([answer.best.high, *(cell.worth.high for cell in answer.cells)])
        self.data = self._data()
        self.sets = {name: alt.NamedData(name=name) for name in self.data}
        self.shown = "datum.epsilon == epsilon && indexof(shown, datum.rung) >= 0"
        decades = {"values": [10**power for power in range(10)], "labelExpr": "format(datum.value, '~s')"}
        self.decades = decades
        self.scale = alt.Scale(type="log", domain=[alt.ExprRef("xmin"), self.most * ROOM], nice=False)
        hues = alt.Scale(domain=self.keys, range=[colour(key) for key in self.keys])
        self.hue = alt.Color("rung:N", scale=hues, legend=None)
        forms = alt.Scale(domain=self.keys, range=[SHAPES[key] for key in self.keys])
        self.shape = alt.Shape("rung:N", scale=forms, legend=None)
        self.dots: dict[str, Any] = {"filled": True, "size": 75, "opacity": 1}
        self.quiet: dict[str, Any] = {"color": colour("quiet"), "fontSize": 12}

    def _data(self) -> dict[str, list[dict[str, Any]]]:
        answer, end = self.answer, self.most * ROOM
        epsilons = [at.epsilon for at in answer.by_epsilon]
        goal = answer.share * answer.whole.value
        texts = {
            f"best {_short(answer.best.value)}": answer.best.value,
            f"popularity {_short(answer.popularity.value)}": answer.popularity.value,
            f"{100 * answer.share:g} % of {answer.of}": goal,
        }
        gap = NAME * self.top / HEIGHT
        return {
            "cells": [
                _cell(cell, epsilon)
                for cell in answer.cells
                for epsilon in (epsilons if cell.epsilon is None else [cell.epsilon])
            ],
            "levels": [{"y": y, "text": text, "people": self.least, "end": end} for text, y in texts.items()],
            "there": [{"people": answer.people, "text": f"your {answer.people:,} people"}],
            "goal": [{"y": goal, "y2": max(answer.whole.value, goal), "people": self.least, "end": end}],
            "names": [name for at in answer.by_epsilon for name in _names(answer, at, self.top, gap)],
            "needs": [
                _bar(rung.key, rung.needed, at.epsilon)
                for at in answer.by_epsilon
                for rung in at.rungs
                if rung.needed is not None
            ],
        }

    def _there(self) -> "altair.Chart":
        return self.alt.Chart(self.sets["there"]).mark_rule(color=colour("ink")).encode(x="people:Q")

    def worth(self) -> "altair.LayerChart":
        """Return worth against people: levels without privacy, the target, and each rung's best mechanism."""
        alt, of, dashed = self.alt, self.sets, {"color": colour("quiet"), "strokeDash": [4, 3]}
        x = alt.X(
            "people:Q",
            scale=self.scale,
            axis=alt.Axis(grid=False, tickSize=4, **self.decades),
            title="people who take part",
        )
        axis = alt.Axis(format=".2f", tickCount=5, domain=False, ticks=False)
        y = alt.Y("y:Q", scale=alt.Scale(domain=[0, self.top], nice=False), axis=axis, title=None)
        low, high = alt.Y("low:Q"), alt.Y2("high:Q")
        cells = alt.Chart(of["cells"]).transform_filter(self.shown)
        lead = cells.transform_filter("datum.leads")
        single = lead.transform_filter(f"datum.rung == '{VOLUNTEERS}' || datum.people == {self.answer.people}")
        names = alt.Chart(of["names"]).transform_filter(self.shown).encode(x, y, text="text:N")
        hover = alt.selection_point(
            name="hover",
            on="pointerover",
            nearest=True,
            clear="pointerout",
            fields=["rung", "people", "list"],
            empty=False,
        )
        titles = {"trusted": "trusted", "list": "mechanism", "n": "people", "worth": "NDCG at 10"}
        titles |= {"share": f"of {self.answer.of}", "right": "guess right"}
        tips = [alt.Tooltip(f"{field}:N", title=title) for field, title in titles.items()]
        bold: dict[str, Any] = {"fontSize": 12, "fontWeight": 600}
        levels, there = alt.Chart(of["levels"]), alt.Chart(of["there"])
        return alt.layer(
            alt.Chart(of["goal"]).mark_rect(color=colour("goal")).encode(x="people:Q", x2="end:Q", y="y:Q", y2="y2:Q"),
            levels.mark_rule(**dashed).encode(x="people:Q", x2="end:Q", y="y:Q"),
            levels.mark_text(align="left", dx=6, **self.quiet).encode(x=alt.value("width"), y="y:Q", text="text:N"),
            self._there(),
            there.mark_text(align="left", baseline="top", dx=6, dy=2, color=colour("ink"), **bold).encode(
                x="people:Q", y=alt.value(0), text="text:N"
            ),
            cells.transform_filter("every")
            .mark_line(strokeWidth=1, opacity=0.5)
            .encode(x, y, self.hue, detail="list:N"),
            lead.mark_area(fillOpacity=0.17, opacity=1).encode(x, low, high, self.hue),
            single.mark_rule(strokeWidth=1.5).encode(x, low, high, self.hue),
            lead.mark_line(strokeWidth=2.5).encode(x, y, self.hue),
            lead.mark_point(stroke=colour("paper"), strokeWidth=1, **self.dots).encode(
                x, y, fill=self.hue, shape=self.shape
            ),
            cells.transform_filter("every || datum.leads")
            .mark_point(size=200, strokeWidth=2)
            .encode(x, y, self.hue, tooltip=tips, opacity=alt.condition(hover, alt.value(1), alt.value(0)))
            .add_params(hover),
            names.mark_text(align="right", dx=-9, stroke=colour("paper"), strokeWidth=4, strokeJoin="round", **bold),
            names.mark_text(align="right", dx=-9, **bold).encode(self.hue),  # on paper, also where curves pass
        )

    def needs(self) -> "altair.LayerChart":
        """Return the people that the target takes, a row a rung: a dot and its interval, or an arrow for a bound."""
        alt = self.alt
        row, need = (
            alt.Y("rung:N", sort=self.keys, axis=None),
            alt.Chart(self.sets["needs"]).transform_filter(self.shown),
        )
        axis = alt.Axis(grid=True, domain=False, ticks=False, labels=False, **self.decades)
        low = alt.X("low:Q", scale=self.scale, title=None, axis=axis)
        arrow: dict[str, Any] = {"filled": True, "size": 90, "opacity": 1}
        return alt.layer(
            self._there(),
            need.mark_rule(strokeWidth=2.5).encode(low, alt.X2("high:Q"), row, self.hue),
            need.transform_filter("datum.value > 0")
            .mark_point(**self.dots)
            .encode(alt.X("value:Q"), row, self.hue, self.shape),
            need.transform_filter("datum.left").mark_point(shape="triangle-left", **arrow).encode(low, row, self.hue),
            need.transform_filter("datum.right")
            .mark_point(shape="triangle-right", **arrow)
            .encode(alt.X("high:Q"), row, self.hue),
            need.mark_text(align="left", dx=2, fontSize=12, fontWeight=600).encode(
                x=alt.value(0), y=row, color=self.hue, text="short:N"
            ),
            need.transform_filter("!small")
            .mark_text(align="left", dx=6, **self.quiet)
            .encode(x=alt.value("width"), y=row, text="words:N"),
        )


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _cell(cell: Cell, epsilon: float) -> dict[str, Any]:
    worth = cell.worth
    right = "always: public" if cell.epsilon is None else f"at most {times_text(cell.right)}"
    return {
        "rung": cell.rung,
        "epsilon": epsilon,
        "people": cell.people,
        "y": round(worth.value, 5),
        "low": round(worth.low, 5),
        "high": round(worth.high, 5),
        "leads": cell.leads,
        "trusted": RUNGS[cell.rung].party,
        "list": cell.mechanism,
        "n": f"{cell.people:,}",
        "worth": f"{_short(worth.value)} [{_short(worth.low)}, {_short(worth.high)}]",
        "share": f"{100 * cell.share.value:.0f} %",
        "right": right,
    }


def _names(answer: Answer, at: AtEpsilon, top: float, gap: float) -> list[dict[str, Any]]:
    """Return names at the left ends of curves, moved apart where they would touch."""
    ends: dict[str, Cell] = {}
    for cell in sorted(answer.cells, key=lambda cell: -cell.people):
        if cell.leads and cell.epsilon in (None, at.epsilon):
            ends[cell.rung] = cell
    ordered = sorted(ends.values(), key=lambda cell: cell.worth.value)
    heights = _apart([cell.worth.value for cell in ordered], gap, top)
    return [
        {
            "rung": cell.rung,
            "epsilon": at.epsilon,
            "people": cell.people,
            "y": height,
            "text": f"{RUNGS[cell.rung].short} {_short(cell.worth.value)}",
        }
        for cell, height in zip(ordered, heights, strict=True)
    ]


def _apart(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Return ascending heights of which no two are closer than the gap, moved as little as a relaxation finds."""
    moved = list(heights)
    for _ in range(200):
        for lower, upper in pairwise(range(len(moved))):
            lack = max(0.0, gap - (moved[upper] - moved[lower])) / 2
            moved[lower], moved[upper] = moved[lower] - lack, moved[upper] + lack
        if moved:
            moved[0], moved[-1] = max(moved[0], gap / 2), min(moved[-1], top - gap / 2)
    return moved


def _bar(key: str, needed: PeopleRange, epsilon: float) -> dict[str, Any]:
    """Return a rung's bar: its interval, with an arrow where it leaves what was measured."""
    left = needed.high is not None if needed.value is None else needed.low is None
    right = needed.low is not None if needed.value is None else needed.high is None
    if needed.value is not None:
        low, high = needed.low or needed.least / 1.25, needed.high or needed.most * 1.12
    elif left or right:
        low, high = ((needed.high or 0) / 1.6, needed.high or 0) if left else (needed.low or 0, 1.6 * (needed.low or 0))
    else:  # nothing is known: its name and words stand there alone
        low = high = needed.least
    return {
        "rung": key,
        "epsilon": epsilon,
        "value": needed.value or 0,
        "words": people_text(needed),
        "short": RUNGS[key].short,
        "left": left,
        "right": right,
        "low": low,
        "high": high,
    }
