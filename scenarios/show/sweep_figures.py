"""Pictures of sweeps of all kinds: what was measured against what varies, beside predictions and bounds."""

import itertools
import math
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from coordinator.server.online.recommenders import compared_in, named_recommenders, recommender_of
from scenarios.show.picture import (
    DARK,
    GREY,
    Axis,
    FigurePanel,
    Mark,
    Picture,
    Pictures,
    Reference,
    Style,
    Tables,
    by_place,
    look,
    setting_of,
)
from scenarios.show.tables import PANELS, attack_table, is_number

_WORDS = {"items": "items N", "rated": "rated items w", "epsilon": "epsilon [nats]"}
_NUMBERS = ("x", "y", "low", "high")


def _table(points: list[dict[str, Any]], columns: str, numbers: tuple[str, ...] = _NUMBERS) -> pd.DataFrame:
    return pd.DataFrame(points, columns=columns.split()).astype(dict.fromkeys(numbers, float))


# Users U* that it takes
_SUCCESS = {"exact": "all labels right", "share": "{:.4g} of labels right", "top": "{:.4g} of the top 50 right"}
_BOUNDS: dict[str, Style] = {
    "predicted": {"linestyle": ":", "zorder": 1.5},
    "lower bound": {"linestyle": "-", "color": "0.75", "linewidth": 4, "zorder": 1},
    "lower bound, capacity": {"linestyle": "--", "color": DARK, "linewidth": 1, "zorder": 1.2},
}
"""A broad line below a thin dashed one: both are seen where the capacity is the bound that binds."""


def users(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield U* against what varies, a panel a criterion and a name."""
    if "figure" not in tables:
        return
    points = tables["figure"]
    lost = (points["kind"] == "measured") & points["users"].isna()
    open_ones = points[lost].assign(users=record["most_users"], kind="not reached", low=math.nan, high=math.nan)
    every = pd.concat([points[points["users"].notna()], open_ones])
    looks = by_place(points.loc[points["kind"] == "measured", "label"])
    kinds: dict[str, Style] = {kind: {**how, "marker": "", "label": None} for kind, how in _BOUNDS.items()}
    kinds["not reached"] = {"linestyle": "", "marker": "^", "mfc": "none", "label": "{}, not reached"}
    names, criteria = (list(dict.fromkeys(points[column])) for column in ("axis", "criterion"))
    panels = []
    for criterion, name in itertools.product(criteria, names):
        here = every[(every["axis"] == name) & (every["criterion"] == criterion)]
        key = {kind: how for kind, how in _BOUNDS.items() if kind in {*here["kind"]}}
        x, y = Axis(_WORDS[name], "x", "log", ticks="value"), Axis("users U*", "users", "log")
        title = f"{_SUCCESS[criterion].format(record['share'])}, half of the seeds"
        about: dict[str, Any] = {"looks": looks, "kinds": kinds, "title": title, "key": key}
        panels.append(FigurePanel(points=here, x=x, y=y, top=record["most_users"], **about))
    same = {name: {str(row[name]): row[name] for row in record["settings"]} for name in _WORDS}
    alt = (
        "Users at which half of the seeds succeed, with intervals, against what varies; beside predictions and bounds."
    )
    heading = setting_of({name: next(iter(values.values())) for name, values in same.items() if len(values) == 1})
    across = max(len(names), min(len(panels), 2))
    yield Picture("figure", "Users that it takes", alt, panels, points, heading=heading, across=across)


# One round and several
_PLANNED: Style = {"linestyle": ":", "marker": "x", "markersize": 6, "linewidth": 1}
_COURSE = {"pool": "items in the round's pool", "undecided": "items undecided", "wrong": "labels in error"}
MEASURED, PREDICTED, BOUND = "measured", "predicted", "lower bound"
ANY = "any protocol"


def adaptive(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield users against items; and a trajectory, where an adaptive scheme ran."""
    lines: list[dict[str, Any]] = []
    for row in record["schemes"]:
        here = {"label": row["label"], "items": row["items"]}
        lines.append({"kind": MEASURED, **here, **{name: row[name] for name in ("users", "low", "high")}})
        lines.append({"kind": PREDICTED, **here, "users": row["predicted"]})
    for row in record["bounds"]:
        label = ANY if row["adaptive"] else "one round"
        lines.append({"kind": BOUND, "label": label, "items": row["items"], "users": row["users"]})
    table = _table(lines, "kind label items users low high", ("users", "low", "high"))
    points = table[table["users"].notna()].reset_index(drop=True)
    planned, measured = points["kind"] == PREDICTED, points.loc[points["kind"] == MEASURED, "label"]
    shown = points.assign(kind=points["kind"].mask(planned & ~points["label"].isin(measured), "alone"))
    looks = by_place(row["label"] for row in record["schemes"])
    looks |= {ANY: {"color": DARK, "linestyle": "--"}, "one round": {"color": GREY, "linestyle": "-."}}
    kinds: dict[str, Style] = {
        PREDICTED: {**_PLANNED, "label": None},
        "alone": {**_PLANNED, "label": "{}, from exact moments"},
        BOUND: {"label": "lower bound, {}", "zorder": 1},
    }
    title = f"all labels right with probability {record['confidence']:g}"
    title += f", w = {record['rated']}, epsilon {float(record['epsilon']):g} nats"
    x, y = Axis("items N", "items", "log", ticks="value"), Axis("users", "users", "log")
    key = {"one round, from exact moments": _PLANNED} if planned.any() else {}
    alt = "Users that each scheme needs for all labels, with intervals, against items; below them the lower bounds."
    panels = [FigurePanel(points=shown, x=x, y=y, looks=looks, kinds=kinds, title=title, key=key)]
    yield Picture("users", "Users in one round and in several", alt, panels, points, size=(8, 5.6))
    if (course := record["trajectory"]) is not None:
        steps = pd.DataFrame(course["steps"])
        steps.insert(0, "round", range(1, len(steps) + 1))
        long = steps.melt("users", [*_COURSE], "label", "items").replace({"label": _COURSE})
        title = f"one run of {course['label']}, {course['items']:,} items, round by round"
        x, y = Axis("users asked", "users", low=0), Axis("items", "items", "symlog", low=0)
        panels = [FigurePanel(points=long, x=x, y=y, looks=by_place(_COURSE.values()), title=title)]
        alt = "One adaptive run: items in the pool, items undecided and labels in error, against users asked."
        yield Picture("trajectory", "An adaptive run, round by round", alt, panels, steps)


# Online recommendation in planted worlds
HALVING = "halving"  # The environment of Theorem 6's adversary, as rows of a record name it
AGAINST, UPPER, EXACT = "measured, halving", "upper bound", "exact worst case"
LOWER, OWN = "lower bound, any algorithm", "lower bound, itself"
_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    MEASURED: ("measured, random environment", {"linestyle": "-"}),
    AGAINST: ("measured, Theorem 6's adversary", {"linestyle": "-", "linewidth": 0.7, "mfc": "white", "markersize": 5}),
    UPPER: ("proved upper bound", {"linestyle": "--", "linewidth": 1.0, "markersize": 3}),
    EXACT: ("exact worst case (dynamic programme)", {"linestyle": "", "mfc": "none", "markersize": 8}),
    LOWER: ("no algorithm below, Theorem 6's adversary", {"linestyle": "-.", "linewidth": 1.4, "marker": ""}),
    OWN: ("epsilon at least that (chain of voters)", {"linestyle": ":", "mfc": "white"}),
}
"""Kinds of lines, with their words and looks."""


def look_of(recommender: str) -> dict[str, Any]:
    """Return a recommender's look, by its place among all: the same in all pictures; black for what is about all."""
    names = list(named_recommenders())
    return look(names.index(recommender)) if recommender in names else {"color": "black"}


def online(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield a panel an axis: loss or epsilon of every recommender, with its bounds."""
    points = online_points(record)
    panels: list[FigurePanel] = []
    names, kinds = {*points["recommender"]}, {kind: how for kind, (_, how) in _KINDS.items()}
    looks = {name: {"linewidth": 1.2, **look_of(name)} for name in names}
    key = {name: {**look_of(name), "linewidth": 2} for name in named_recommenders() if name in names}
    for kind, (label, how) in _KINDS.items():
        key |= {label: {**how, "marker": "" if kind == LOWER else "o"}} if kind in {*points["kind"]} else {}
    for name, panel, letter in zip(record["axes"], map(record["panels"].get, record["axes"]), "abcdef", strict=False):
        here, title = points[points["axis"] == name], f"({letter}) {panel['same']}"
        x = Axis(panel["x"], "x", "log", ticks="value")
        y = Axis("privacy loss [nats]" if panel["epsilon"] else "disliked recommendations", "y", "log")
        about: dict[str, Any] = {"series": "recommender", "looks": looks, "kinds": kinds, "title": title}
        panels.append(FigurePanel(points=here, x=x, y=y, key={} if panels else key, **about))
    alt = "Loss or privacy loss of every recommender along each axis, beside proved bounds and exact worst cases."
    across = 2 if len(panels) in (2, 4) else 3
    yield Picture("figure", "Loss and epsilon beside their bounds", alt, panels, points, size=(4.6, 4.0), across=across)


def online_points(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return every point of the picture: what was measured at every value of an axis, and every bound beside it."""
    points: list[dict[str, Any]] = []
    for row in summary["points"]:
        recommender = recommender_of(row["recommender"])
        shared = {"axis": row["axis"], "recommender": row["recommender"], "x": row["x"]}
        if not recommender.in_figures:
            continue
        if summary["panels"][row["axis"]]["epsilon"]:
            columns = {MEASURED: "privacy_loss", UPPER: "epsilon_proved", EXACT: "epsilon_exact", OWN: "epsilon_lower"}
            points += [{**shared, "kind": kind, "y": row[column]} for kind, column in columns.items()]
            continue
        ends = {"low": row["loss_low"], "high": row["loss_high"]}
        points += [
            {**shared, "kind": AGAINST if row["environment"] == HALVING else MEASURED, "y": row["loss"], **ends},
            {**shared, "kind": UPPER, "y": row["loss_bound"] if recommender.bound_in_figures else None},
            {**shared, "kind": EXACT, "y": row["loss_exact"]},
            {**shared, "kind": LOWER, "recommender": "", "y": row["loss_lower_bound"]},
        ]
    table = _table(points, "axis kind recommender x y low high").drop_duplicates(ignore_index=True)
    positive: pd.DataFrame = table[np.isfinite(table["y"]) & (table["y"] > 0)]
    return positive.reset_index(drop=True)


# Online recommendation on a file of ratings
DIFFERENCE, EPSILON = "difference to random", "epsilon"
RATINGS = "ratings"  # What recommenders are compared in that serve clients of a file
_LEAKS = {
    "proved": ("epsilon_proved", "epsilon as proved", {"linestyle": "--"}),
    "run": ("privacy_loss_of_peers", "exact loss in the run", {"linestyle": "-"}),
}
"""Kinds of privacy loss, each with its column, its words and its look."""


def clients(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield what is saved against random lists; and where ``units`` are known what is leaked."""
    points = clients_points(record, tables.get("units"))
    alt = "What each recommender saves against random lists, with intervals, and the share of clients by privacy loss."
    panels = clients_panels(record, points)
    yield Picture("figure", "What is saved, and what is leaked", alt, panels, points, size=(6, 4.0))


def clients_panels(summary: Mapping[str, Any], points: pd.DataFrame) -> list[FigurePanel]:
    """Return the panels of points from `clients_points`."""
    title = f"{summary['distinct_clients']} clients, paired, 95 % intervals"
    zero = Reference(0, {"color": "0.5"}, axis="x")
    x = Axis("loss less random's expected loss [% of rounds]")
    means = points[points["panel"] == DIFFERENCE].replace(math.nan, None)[["recommender", "x", "low", "high"]]
    marks = [Mark(name, "", mean, look_of(name), low, high) for name, mean, low, high in means.to_numpy()]
    panels = [FigurePanel(marks=marks, x=x, title=title, references=[zero])]
    if len(leaked := points[points["panel"] == EPSILON]):
        x, y = Axis("privacy loss [nats]", "x", "log"), Axis("share of clients with at most that", "y")
        looks = {name: look_of(name) for name in leaked["recommender"]}
        kinds = {
            kind: {**how, "drawstyle": "steps-post", "markevery": [-1], "label": f"{{}}, {label}"}
            for kind, (_, label, how) in _LEAKS.items()
        }
        panels.append(FigurePanel(points=leaked, x=x, y=y, series="recommender", looks=looks, kinds=kinds))
    return panels


def clients_points(summary: Mapping[str, Any], units: pd.DataFrame | None) -> pd.DataFrame:
    """Return every point of the picture; of the result alone only differences."""
    points: list[dict[str, Any]] = []
    for row in summary["recommenders"]:
        ends = {end: row[f"to_random_share{suffix}"] for end, suffix in (("x", ""), ("low", "_low"), ("high", "_high"))}
        line = {"panel": DIFFERENCE, "recommender": row["recommender"], "kind": "mean", "y": -len(points)}
        points.append({**line, **{end: None if value is None else 100 * value for end, value in ends.items()}})
    bounded = [name for name in compared_in(RATINGS) if recommender_of(name).bounded]
    for name, (kind, (column, *_)) in itertools.product(bounded if units is not None else (), _LEAKS.items()):
        assert units is not None  # as above
        values = units.loc[units["recommender"] == name, column].to_numpy(np.float64)
        every = np.sort(values[np.isfinite(values) & (values > 0)])
        shares = (np.arange(every.size) + 1 + values.size - every.size) / max(values.size, 1)
        line = {"panel": EPSILON, "recommender": name, "kind": kind}
        points += [{**line, "x": float(x), "y": float(y)} for x, y in zip(every, shares, strict=True)]
    return _table(points, "panel recommender kind x y low high")


# Two tiers
_CURVES = {
    "1-left": ("public users, those with most ratings first", "Figure 1, left: how many public users it takes", "log"),
    "1-right": ("training ratings of public users", "Figure 1, right: users with most ratings, or random ones", "log"),
    "2": ("private devices that answered once", "Figure 2: what private devices add", "linear"),
}
_NAMES = {"most": "most ratings first", "random": "random users", "none": "public users only"}
_UNITS = {"flip_found": "share of releases", "like_right": "share of guesses", "rmse": "RMSE [rating points]"}
_DASHED: Style = {"linestyle": "--"}


def two_tier(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield the paper's figures, whose points stand in the summary, and what an attack shows."""
    base, summary = record["base"], pd.DataFrame(record["summary"])
    source = PurePath(base["ratings"]).name if base["ratings"] else "planted {:,} x {:,}".format(*base["planted"][:2])
    for name, table in summary.groupby("figure", sort=False) if len(summary) else ():
        label, title, scale = _CURVES[str(name)]
        looks = {
            curve: {**how, "label": _NAMES.get(curve, curve.replace(":", ", epsilon "))}
            for curve, how in by_place(map(str, table["curve"])).items()
        }
        if (baseline := "items' means") in looks:
            looks[baseline] |= _DASHED
        ends = {end: table[end].fillna(table["rmse"]).astype(float) for end in ("low", "high")}
        x, y = Axis(label, "x", scale), Axis("RMSE of held-out ratings [rating points]", "rmse")
        heading = f"{title} ({source})"
        points = table.assign(kind="", **ends)
        panels = [FigurePanel(points=points, x=x, y=y, series="curve", looks=looks, title=heading)]
        alt = f"Errors of held-out ratings with intervals, a line for each curve, against {label}."
        yield Picture(f"figure-{name}", title, alt, panels, size=(8, 5.2))
    if record["attack"]:
        points = attack_table(record["attack"])
        alt = "How well a server guesses a rating from one release, against the ratings that it knows already."
        yield Picture("attack", "What one release reveals", alt, attack_panels(points), points, size=(4, 4.2))


def attack_panels(points: pd.DataFrame) -> list[FigurePanel]:
    """Return guesses against known ratings, a panel a measure, a line a mechanism; from `attack_table`."""
    places = {rating_count: float(position) for position, rating_count in enumerate(sorted(points["known"].unique()))}
    looks = {**by_place(points["label"]), "none": {"label": "none", "color": DARK, **_DASHED}}
    x = Axis(
        "ratings that the server knows", "place", ticks={position: str(count) for count, position in places.items()}
    )
    panels = []
    for name, label in PANELS.items():
        here = points[["label", name]].assign(place=points["known"].map(places)).astype({name: float})
        whole = here[~here[name].isna().groupby(here["label"]).transform("any")]
        panels.append(FigurePanel(points=whole, x=x, y=Axis(_UNITS[name], name), looks=looks, title=label))
    return panels


# Results of any experiment
def results(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield every column against the first field that varies and whose values are finite numbers, if there is one."""
    rows, varied = record["settings"], record["varied"]
    axis = next((name for name in varied if all(is_number(row[name]) for row in rows)), "setting")
    every = []
    for name, row in itertools.product(record["columns"], rows):
        label = ", ".join(f"{field} {row[field]}" for field in varied if axis not in (field, "setting"))
        point = {"column": name, "kind": "measured", "label": label, "x": row[axis], "y": row[name]}
        every.append({**point, **{end: row[f"{name}_{end}"] for end in ("low", "high")}})
    points = pd.DataFrame(every, columns=["column", "kind", "label", *_NUMBERS])
    for name in _NUMBERS:
        points[name] = pd.to_numeric(points[name], errors="coerce").astype(float)
    points = points[points["y"].map(math.isfinite)].reset_index(drop=True)
    looks, panels = by_place(points["label"]), []
    for name, title in record["columns"].items():
        if len(here := points[points["column"] == name]):
            wide = here["x"].max() > 4 * here["x"].min() > 0
            x = Axis(_WORDS.get(axis, axis), "x", "log" if wide else "linear", ticks="value")
            panels.append(FigurePanel(points=here, x=x, y=Axis(name, "y"), looks=looks, title=title))
    alt = "Every measured column with its interval over seeds, a panel each, against the first number that varies."
    panels = panels or [FigurePanel(x=Axis())]
    yield Picture("figure", "What was measured over settings", alt, panels, points, size=(4.6, 3.6))


KINDS: Mapping[str, Callable[[Mapping[str, Any], Tables], Pictures]] = {
    "schemes": adaptive,
    "points": online,
    "recommenders": clients,
    "summary": two_tier,
    "columns": results,
    "ratios": users,
}
"""A key that only records of a kind have, with the pictures of that kind."""


def sweep(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield the pictures of a sweep; nothing if its kind has none."""
    kind = next((key for key in KINDS if key in record), None)
    yield from KINDS[kind](record, tables) if kind else ()
