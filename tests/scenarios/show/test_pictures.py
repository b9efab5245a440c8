"""Every family of results has pictures that can be read, in colours that can be told apart, and the same every time."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from golden.making import golden
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from runs import faults, present

from coordinator.protocol.errors import InputError
from scenarios.show.drawing import draw_picture, readable
from scenarios.show.picture import (
    COLOURS,
    PALETTE,
    Axis,
    FigurePanel,
    Mark,
    Picture,
    Reference,
    by_place,
    by_rung,
    look,
)
from scenarios.show.records import ENDINGS, FAMILIES, pictures_of, rendered

CASES = (
    *("maxsense", "maxsense, two seeds", "sign, eliminate, centred", "file, set", "pairs, epsilon inf"),
    *("online, p-rec", "online, clients and a budget", "online, file", "two-tier, pmc", "two-tier, privunit"),
    *("plan", "bounds", "data", "adversary, slow-halving", "adversary, theorem-15"),
    *("years, every rung", "years, churn, stay"),
    *("sweep, adaptive", "sweep, adaptive, moments", "sweep, online", "sweep, online, file", "sweep, two-tier"),
)
"""Of the golden results: of each family some that look different."""
AUDIT = [
    {"design": "sign", "claimed": 1.0, "exact": 1.0, "measured": 0.99, "confidence": 0.95},
    {"design": "maxsense", "claimed": 1.0, "exact": 1.0, "measured": 0.98, "confidence": 0.95},
]
WORTH = [
    {"trust_model": model, "mechanism": name, "features": False, "epsilon": epsilon, "users": users, "public": None}
    | {"ndcg": ndcg, "ndcg_low": 0.9 * ndcg, "ndcg_high": 1.1 * ndcg}
    for model, name, epsilon, users, ndcg in (
        *(("none", name, None, 610, ndcg) for name, ndcg in (("popularity", 0.2), ("EASE", 0.205))),
        *(("local", "set", epsilon, 610 * 10**n, 0.05 * n * epsilon) for epsilon in (1.0, 2.0) for n in (1, 2, 3)),
        *(("curator", "laplace", of, 610 * 10**n, 0.052 * n * of) for of in (1.0, 2.0) for n in (1, 2, 3)),
    )
]


def people_needed(rungs: list[str]) -> Iterator[dict[str, Any]]:
    """What each rung needs, more the less is trusted; the last interval of each is open above."""
    for place, rung in enumerate(rungs[1:]):
        for name, factor in (("set", 1), ("ones", 2), ("pairs", 5), ("directions", 1 / 9)):
            for epsilon in (0.5, 1.0, 2.0, "inf"):
                users = round(1000 * 4**place * factor / (1 if epsilon == "inf" else float(epsilon)))
                ends = {"users_low": users // 2, "users_high": None if epsilon == 0.5 else 2 * users}
                key = {"trust_model": rung, "mechanism": name, "features": False, "epsilon": epsilon, "share": 0.95}
                yield {**key, "users": None if (rung, epsilon) == ("local", 0.5) else users, **ends}


def risks() -> Iterator[dict[str, Any]]:
    """Rows of risk at two epsilons: while trust holds, and of a row of which nothing but the bound is known."""
    for epsilon, whose in ((1.0, 0.59), (4.0, 0.68)):
        key = {"trust_model": "local", "epsilon": epsilon, "view": "holds", "bound": 0.98}
        ends = {"whose_low": whose - 0.01, "whose_high": whose + 0.01, "like_low": 0.501, "like_high": 0.503}
        yield {**key, "mechanism": "set", "worst": 0.72, "whose": whose, "like": 0.502, **ends}
        yield {**key, "mechanism": "ones", "view": "lies", "worst": None, "whose": None, "like": None}


def tables_of(case: dict[str, Any]) -> dict[str, pd.DataFrame]:
    found = {name: pd.DataFrame(case[name]) for name in ("items", "rounds") if isinstance(case.get(name), dict)}
    if "convergence" in case["result"]:
        iterations = pd.DataFrame(case["result"]["convergence"])
        found["iterations"] = iterations.assign(iteration=range(1, len(iterations) + 1))
    return found


def subjects() -> Iterator[tuple[str, str, dict[str, Any], dict[str, pd.DataFrame]]]:
    """Yield name, family, record and tables of what commands printed, and what is written down here."""
    for name in CASES:
        case = golden()[name]
        family = case["command"].split()[0]
        yield name, family, case["result"], tables_of(case)
    yield "audit of one", "audit", AUDIT[0], {}
    yield "audit of all", "audit", {"audits": AUDIT}, {}
    swept = golden()["sweep, users"]["result"]
    point = {"axis": "items", "kind": "measured", "label": "centred", "x": 1000.0}
    users = {"users": 6.9e6, "low": 6.2e6, "high": 7.8e6}
    points = pd.DataFrame([{**point, **users, "criterion": criterion} for criterion in ("exact", "share")])
    yield "sweep, users, one setting", "sweep", {**swept, "settings": swept["settings"][:1]}, {"figure": points}
    told = {"ratings": "ratings.csv", "people_in_file": 610, "items": 9724, "rows": WORTH, "coordinator": None}
    yield "compare", "compare", told, {}
    rungs = ["none", "curator", "two-servers", "shuffled", "local"]
    ladder = {**told, "trust_models": rungs, "rungs": rungs, "people": list(people_needed(rungs))}
    yield "compare, ladder", "compare", ladder, {}
    yield "risk", "risk", {"rows": list(risks())}, {}


SUBJECTS = {one[0]: one[1:] for one in subjects()}


def drawn(picture: Picture) -> Figure:
    figure = Figure()
    draw_picture(picture, figure)
    return figure


@pytest.mark.few(4)
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_result_has_pictures_that_can_be_read(name: str) -> None:
    family, record, tables = SUBJECTS[name]
    pictures = pictures_of(family, record, tables)
    assert len({one.name for one in pictures}) == len(pictures) > 0
    for picture in pictures:
        assert picture.title
        assert picture.alt.endswith(".")
        figure = drawn(picture)
        assert any(axes.has_data() for axes in figure.axes)
        assert list(faults(figure)) == []


def test_every_family_is_drawn() -> None:
    assert {family for family, *_ in SUBJECTS.values()} == set(FAMILIES)


def test_a_record_alone_has_pictures_where_it_says_enough() -> None:
    every = {"maxsense": ["shares"], "two-tier, pmc": ["errors", "advice"], "online, p-rec": ["loss", "privacy"]}
    assert {name: [one.name for one in pictures_of(*SUBJECTS[name][:2])] for name in every} == every


def test_the_ladder_is_a_curve_for_each_rung_and_the_first_picture_where_it_was_asked_for() -> None:
    _, record, _ = SUBJECTS["compare, ladder"]
    first, *others = pictures_of("compare", record)
    assert (first.name, [one.name for one in others]) == ("ladder", ["figure"])
    again = pictures_of("compare", {**record, "trust_models": [*record["rungs"], "two-tier"]})
    assert [one.name for one in again] == ["figure", "ladder"]
    assert [panel.title for panel in first.panels] == ["lists by popularity", "lists by pairs of items"]
    points = present(first.points)
    assert {*points["mechanism"]} == {"set", "pairs", "ones"}  # the best of each, and no directions
    assert {*points.loc[points["mechanism"] == "ones", "label"]} == {f"{rung}: ones" for rung in record["rungs"][1:]}
    shuffled = points[(points["label"] == "shuffled") & (points["list"] == first.panels[0].title)]
    assert shuffled["y"].tolist() == [32000, 16000, 8000]
    assert points[points["label"] == "local"]["x"].tolist() == [1.0, 2.0, 1.0, 2.0]
    old = {**record, "people": [row for row in record["people"] if row["trust_model"] in ("curator", "local")]}
    assert [one.name for one in pictures_of("compare", old)] == ["figure"]


def test_numbers_are_where_the_record_has_them() -> None:
    _, record, _ = SUBJECTS["adversary, slow-halving"]
    (axes,) = drawn(pictures_of("adversary", record)[0]).axes
    points = {float(x) for line in axes.get_lines() for x in np.atleast_1d(line.get_xdata())}
    assert points >= {row[name] for row in record["rows"] for name in ("loss", "loss_bound", "strikes_times_halvings")}
    _, record, tables = SUBJECTS["maxsense"]
    (axes,) = drawn(pictures_of("run", record, tables)[0]).axes
    heights = np.concatenate([bars.lines[0].get_ydata() for bars in axes.containers])  # type: ignore[attr-defined] # error bars
    np.testing.assert_array_equal(np.sort(heights), np.sort(tables["items"]["score"]))


@pytest.mark.parametrize(
    "ending", [pytest.param(one, marks=[pytest.mark.thorough] * (one != ".svg")) for one in ENDINGS]
)
def test_the_same_result_is_the_same_file(ending: str) -> None:
    first, again = (pictures_of(*SUBJECTS["maxsense"])[0] for _ in range(2))
    content = rendered(first, ending)
    assert content == rendered(again, ending)
    assert content.startswith({".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}[ending])
    if ending == ".svg":
        assert b"<text" not in content  # all text is paths, which look the same where a font is missing
        assert b"http" not in content.replace(b"http://www.w3.org", b"").split(b"<defs>", 1)[1]


@pytest.mark.thorough
def test_a_users_own_settings_change_nothing() -> None:
    from matplotlib import rc_context  # noqa: PLC0415 (only here)

    picture = pictures_of(*SUBJECTS["plan"])[0]
    with rc_context({"font.size": 20, "axes.grid": False, "svg.fonttype": "none"}):
        content = rendered(picture, ".svg")
    assert content == rendered(picture, ".svg")


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(InputError, match="family is 'runs'; choose among run, two-tier"):
        pictures_of("runs", {})


DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
PROTANOPIA = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
"""Of linear RGB, at full severity: Machado, Oliveira and Fernandes (2009), table 1."""
APART = 11.0  # CIE 1976 colour difference: some five times what can just be noticed in a good light (2.3)


def lab(colour: str, seen: Any) -> Any:
    """Return CIELAB of a colour as somebody sees it (white point D65)."""
    told = np.array(to_rgb(colour))
    linear = np.where(told <= 0.04045, told / 12.92, ((told + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(seen) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    scaled = xyz / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest(colours: tuple[str, ...], seen: Any) -> float:
    pairs = itertools.combinations([lab(one, seen) for one in colours], 2)
    return min(float(np.linalg.norm(one - other)) for one, other in pairs)


@pytest.mark.parametrize("seen", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all", "deuteranopia", "protanopia"])
def test_colours_can_be_told_apart(seen: Any) -> None:
    assert nearest(PALETTE, seen) > APART


def test_colours_that_cannot_be_told_apart_are_found() -> None:
    assert nearest(("#D62728", "#8C6D1F"), DEUTERANOPIA) < APART < nearest(("#D62728", "#8C6D1F"), np.eye(3))


def test_looks_are_different_beyond_the_colours() -> None:
    assert len({(*look(place).values(),) for place in range(77)}) == 77


def test_a_picture_that_cannot_be_read_is_found() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.errorbar([1, 2], [1, 2], yerr=0.5, label="one")
    axes.errorbar([1, 2], [1.2, 3], yerr=0.5, label="other")
    axes.annotate("here", (1.5, 2))
    axes.annotate("there", (1.5, 2))
    axes.set_xlabel("x")
    assert set(faults(figure)) == {
        "axis y of panel '' has no label",
        "text 'here' lies on 'there'",
        "an interval of 'one' lies on one of 'other'",
    }


def test_marks_of_a_row_stand_side_by_side() -> None:
    marks = [Mark("one", told, 0.5, low=0.4, high=0.6) for told in ("first", "second")]
    picture = Picture("rows", "", "", [FigurePanel(marks=marks, x=Axis("share"))])
    assert list(faults(drawn(picture))) == []


@pytest.mark.parametrize("name", ["a", "a name that takes half of the figure, with its decoder"])
def test_a_long_title_stands_whole_above_one_panel(name: str) -> None:
    title = "all items right with probability 0.95 and a share of 0.99 of the items right: N = 10,000, w = 1,000"
    panel = FigurePanel(marks=[Mark(name, "", 1), Mark("b", "", 2), Mark("c", "", 3)], x=Axis("users"), title=title)
    figure = drawn(Picture("rows", "", "", [panel], heading=f"a file's name: {title}\nand delta 0"))
    assert list(faults(figure)) == []
    assert figure.axes[0].get_title().split() == title.split()
    assert figure.get_suptitle().split() == ["a", "file's", "name:", *title.split(), "and", "delta", "0"]


def test_a_panel_is_drawn_as_it_is_declared() -> None:
    """Axes, intervals, series, reference lines and the legend: whatever a panel says stands in its picture."""
    points = pd.DataFrame({"label": ["a", "a", "b"], "t": [1.0, 100.0, 1.0], "y": [1.0, 2.0, 5.0]})
    points = points.assign(low=[0.5, 1.5, math.nan], high=[2.0, math.nan, math.nan])
    panel = FigurePanel(
        points=points,
        x=Axis("time [s]", "t", "log", ticks="value"),
        y=Axis("height", "y", low=0, high=9, ticks={0: "none", 9: "all"}),
        looks=by_place(["a", "b"]),
        title="heights",
        references=[Reference(4, {"label": "bound"}, "beside"), Reference(10, {}, axis="x")],
        key={"guess": {"linestyle": ":"}},
        top=8.0,
    )
    (axes,) = drawn(Picture("a", "a", "a", [panel])).axes
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("time [s]", "height", "heights")
    assert (axes.get_xscale(), axes.get_ylim()) == ("log", (0, 9))
    assert [one.get_text() for one in (*axes.get_xticklabels(), *axes.get_yticklabels())] == ["1", "100", "none", "all"]
    (bars,) = axes.containers
    spans = [segment[:, 1].tolist() for segment in bars.lines[2][0].get_segments()]  # type: ignore[attr-defined]
    assert spans == [[0.5, 2.0], [1.5, 8.0]]  # an open interval ends at the top
    assert axes.get_legend_handles_labels()[1] == ["b", "bound", "guess", "a"]
    assert [text.get_text() for text in axes.texts] == ["beside"]


def test_a_line_below_another_shows() -> None:
    points = pd.DataFrame({"label": ["a", "a", "b", "b"], "x": [1.0, 2.0] * 2, "y": [3.0, 4.0] * 2})
    panel = FigurePanel(points=points, x=Axis("x", "x"), y=Axis("y", "y"), looks=by_place(["a", "b"]))
    (axes,) = drawn(Picture("a", "a", "a", [panel])).axes
    below, above = axes.get_lines()
    assert below.get_linewidth() > 3 > above.get_linewidth()


def test_labels_are_plain_text() -> None:
    """A dollar in a name is a dollar, and no formula; powers of ten need none."""

    marks = [Mark("$y_", "$x^{$", 1), Mark("$z_", "$\\frac{$", 2)]
    panel = FigurePanel(marks=marks, x=Axis("$\\alpha$ $_"), title="$^$")
    picture = Picture("a", "a", "a", [panel], heading="$\\alpha$ $_")
    assert rendered(picture, ".svg").startswith(b"<?xml")
    assert [readable(value) for value in (1e6, 2.5e7, 1e-9, 12.0)] == ["10⁶", "2.5\u00d710⁷", "10⁻⁹", "12"]


def test_a_rung_has_one_colour_and_one_marker_in_every_picture() -> None:
    every = by_rung(["local", "shuffled: ones", "shuffled", "coordinator", "two-tier"])
    other = by_rung(["curator", "shuffled"])
    assert every["shuffled"] == other["shuffled"]
    assert every["shuffled: ones"]["color"] == every["shuffled"]["color"]
    assert every["shuffled: ones"]["mfc"] == "none"
    assert len({(look["color"], look["marker"]) for look in (*every.values(), other["curator"])}) == 5
    assert {name: look["color"] for name, look in every.items() if name in COLOURS} == {
        name: COLOURS[name][0] for name in ("local", "shuffled", "two-tier")
    }
