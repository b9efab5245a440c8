"""Pictures of studies: plans, files of ratings, audits, lower bounds, adversaries, and comparisons of trust models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from scenarios.show.figures import (
    DARK,
    GREY,
    LOOKS,
    Axis,
    FigurePanel,
    Mark,
    Picture,
    Pictures,
    Reference,
    Style,
    Tables,
    by_place,
    epsilon_words,
    look,
    marks_of,
    rows,
    setting_of,
)
from scenarios.show.sweep_figures import clients_panels, clients_points
from scenarios.show.tables import SAFE, name_of, trust_of


def plan(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield what each design needs: users beside the lower bound that binds, or, where users are fixed, epsilon."""
    epsilons = [row["epsilon"] for row in record["designs"] if row["private"]]
    sought = {row["users_here"] for row in record["designs"]} != {None} and len({*map(str, epsilons)}) > 1
    of, words = ("epsilon", "epsilon needed [nats]") if sought else ("users", "users needed")
    bound = next((row for row in record["bounds"] if row["binds"] and not sought), None)
    title = f"{record['target']}: N = {record['items']:,}, w = {record['rated']:,}"
    title += "" if sought else f", {epsilon_words(epsilons[0])}"
    how = {"color": DARK, "linestyle": "--"}
    lines = [] if bound is None else [(bound["users"], f"lower bound, any epsilon-LDP learner ({bound['name']})")]
    about: dict[str, Any] = {"references": [Reference(at, {**how, "label": label}, axis="x") for at, label in lines]}
    alt = "What each design needs on a logarithmic axis, by whom one has to trust; the recommended one is marked."
    name, heading, x = "needs", "What each design needs", Axis(words, scale="log")
    pictures = tuple(rows(name, heading, alt, _needs(record, of), title, x, **about))
    if not pictures:
        alt = "Nothing: no design reaches what was asked for."
        panels = [FigurePanel(marks=[Mark("no design at all", "", math.nan)], x=x, title=title, **about)]
        pictures = (Picture(name, heading, alt, panels),)
    yield from pictures
    yield from _worth_of(record)


def _needs(record: Mapping[str, Any], of: str) -> list[Mark]:
    """Return what each design of a plan needs, ``"users"`` or ``"epsilon"``, with the interval of simulated ones."""
    others = dict.fromkeys(trust_of(row) for row in record["designs"] if trust_of(row) != SAFE)
    looks = {SAFE: "measured", **dict(zip(others, ("chance", "beside", "at least", "proved"), strict=False))}
    marks = []
    for row in record["designs"]:
        best, trust = row == record["recommended"], trust_of(row)
        label, kind = (f"recommended: {trust}", "predicted") if best else (trust, looks[trust])
        ends = (row.get("users_low"), row.get("users_high")) if of == "users" else ()
        marks.append(Mark(name_of(row), label, row[of], LOOKS[kind], *ends))
    return marks


_HALF: Style = {"marker": "d", "color": look(0)["color"], "elinewidth": 6, "capsize": 0, "markeredgecolor": "black"}
_ALL: Style = {"marker": "|", "color": DARK, "markersize": 1}


def data(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield what recommendations take where nobody is trusted, and how ratings are spread."""
    yield from _worth_of(record)
    marks = []
    for name, row in (("ratings_per_item", "ratings of an item"), ("ratings_per_user", "ratings of a user")):
        low, quarter, median, three_quarters, high = (
            record[name][end] for end in ("min", "lower_quartile", "median", "upper_quartile", "max")
        )
        marks.append(Mark(row, "least to most", median, _ALL, low, high))
        marks.append(Mark(row, "quartiles and median", median, _HALF, quarter, three_quarters))
    alt = "Least, quartiles and most ratings of a user and of an item, on a logarithmic axis."
    title = f"{record['ratings']:,} ratings: least, quartiles and most"
    yield from rows("ratings", "How ratings are spread", alt, marks, title, Axis("ratings", scale="log"))


def _worth_of(record: Mapping[str, Any]) -> Pictures:
    """Yield the people that private advice takes, where a record says it."""
    if not any(row["people"] and row["epsilon"] != "inf" for row in record.get("worth") or ()):
        return
    table = pd.DataFrame(record["worth"])
    columns = {"x": "epsilon", "y": "people", "low": "people_low", "high": "people_high"}
    points = pd.DataFrame({name: table[column].astype(float) for name, column in columns.items()})
    points["label"] = table["mechanism"] + table["features"].map({True: _FEATURES, False: ""})
    points = points[np.isfinite(points["x"]) & points["y"].notna()]
    panel = FigurePanel(
        points=points,
        x=Axis("epsilon [nats]", "x", "log", ticks="value"),
        y=Axis("people who contribute", "y", "log"),
        looks=by_place(points["label"]),
        title=f"until advice is worth {record['worth'][0]['worth']:.3g} of plain popularity, forecast",
        references=[
            Reference(table["users_here"].iloc[0], {"color": "black", "linestyle": ":", "label": "people there are"})
        ],
    )
    alt = "People like those of the file who are needed, with intervals, against epsilon; beside those there are."
    yield Picture("worth", "What recommendations take", alt, [panel])


_AUDITED = {
    "claimed": ("claimed", "proved"),
    "exact": ("exact, of the channel", "predicted"),
    "measured": ("measured on releases, at least", "at least"),
}


def audit(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield epsilon as claimed, as the channel has it, and as an attack on releases shows it; of one design or all."""
    every = [row for name in ("audits", "rows", "mechanisms") for row in record.get(name, ())]
    audits = [record] if "claimed" in record else every
    marks = [
        mark
        for row in audits
        for thing in [str(row.get("design") or row.get("mechanism"))]
        for mark in marks_of(row, {name: (thing, *how) for name, how in _AUDITED.items()})
    ]
    confidence = next((row["confidence"] for row in audits if row.get("confidence")), None)
    title = "privacy loss, claimed and found" + (f"; measured at confidence {confidence:g}" if confidence else "")
    alt = "Epsilon as claimed, as the exact channel has it, and the lower bound that an attack on releases shows."
    yield from rows("audit", "Privacy, claimed and found", alt, marks, title, Axis("epsilon [nats]"))


def bounds(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield the users that any learner needs, and which bound binds."""
    kinds = {True: ("binds", LOOKS["measured"]), False: ("holds, and says less", LOOKS["at least"])}
    valid = [row for row in record["bounds"] if row["valid"]]
    marks = [Mark(row["name"], words, row["users"], how) for row in valid for words, how in [kinds[row["binds"]]]]
    title = f"users that any epsilon-LDP learner needs: {setting_of(record)}".removesuffix(": ")
    alt = "Users that any epsilon-LDP learner needs, by every lower bound that holds, on a logarithmic axis."
    yield from rows("bounds", "Users that any learner needs", alt, marks, title, Axis("users", scale="log"))


_PRIVACY = {
    "total": ("all steps of the chain together", "measured"),
    "largest_step": ("the chain's largest step", "beside"),
    "epsilon_at_least": ("epsilon at least that", "at least"),
    "epsilon_needed": ("epsilon that any such loss needs", "at least"),
    "log_of_rounds": ("ln T", "predicted"),
    "epsilon_conjectured": ("epsilon as conjectured", "predicted"),
    "epsilon_proved": ("epsilon as proved", "proved"),
}
_LOSS = {
    "loss": ("measured, ± 2 standard errors", "measured"),
    "no_algorithm_expects_less": ("no algorithm expects less", "at least"),
    "strikes_times_halvings": ("B log2(N/P)", "predicted"),
    "loss_bound": ("proved, any world", "proved"),
}


def adversary(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield what an adversary costs or learns of each recommender, beside the bounds."""
    every = record["rows"]
    columns, words = _PRIVACY, "privacy loss [nats]"
    if any("loss_bound" in row for row in every):
        columns, words = _LOSS, "disliked recommendations"
    marks = []
    for row in every:
        reach = row.get("loss_error")
        ends = {"loss": [max(row["loss"] - 2 * reach, 0.0), row["loss"] + 2 * reach]} if reach else {}
        in_row = {name: (row["recommender"], *how) for name, how in columns.items()}
        marks += marks_of({**row, "intervals": ends}, in_row)
    # What is the same in all rows
    same = {
        word: {row[name] for row in every if name in row}
        for word, name in (("T", "rounds"), ("steps", "steps"), ("seeds", "seeds"))
    }
    size = ", ".join(f"{word} = {next(iter(values)):,}" for word, values in same.items() if len(values) == 1)
    title = f"{record['adversary']}{': ' if size else ''}{size}"
    alt = f"What the adversary {record['adversary']} does to each recommender, beside what is proved."
    yield from rows("adversary", "An adversary beside the bounds", alt, marks, title, Axis(words, scale="log"))


def compare(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield NDCG against people, a curve for each trust model, and what the coordinator's recommenders save."""
    if not (points := compared_points(record)).empty:
        alt = "NDCG at 10 against the people who contribute, a curve for each trust model, a panel for each epsilon."
        heading = f"{record['ratings']}: {record['people_in_file']:,} people, {record['items']:,} items"
        heading += "; the best mechanism of each trust model, chosen afterwards"
        panels, size = _compared(points), (5.2, 4.4)
        yield Picture("figure", "What recommendations are worth", alt, panels, points, heading=heading, size=size)
    if panel := record.get("coordinator"):
        alt = "What each recommender of a trusted coordinator saves its clients against random lists, with intervals."
        panels = clients_panels(panel, clients_points(panel, None))
        yield Picture("coordinator", "What a trusted coordinator saves its clients", alt, panels, size=(6, 4.0))


_FEATURES = " + features"


def compared_points(result: Mapping[str, Any]) -> pd.DataFrame:
    """Return the points of the figure: of each trust model the best row at every number of people who contribute.

    Rows that know more than their trust model's others, and say that they are not compared, are none of these.
    """
    best: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in result["rows"]:
        level, popular = row["trust_model"] == "none", row["mechanism"] == "popularity"
        if not row.get("compared", True):
            continue
        if level and (row["mechanism"] == "chance" or (row["features"] and not popular)):
            continue
        people = row["users"] if row["public"] is None else round(row["public"] * row["users"])
        label = f"{row['trust_model']}{': popularity' if level and popular else ''}"
        label += _FEATURES if row["features"] else ""
        name = (label, "" if row["epsilon"] is None else str(row["epsilon"]), people)
        if name not in best or row["ndcg"] > best[name]["ndcg"]:
            best[name] = row
    return pd.DataFrame(
        {
            "kind": "level" if row["trust_model"] == "none" else "curve",
            "label": label,
            "x": people,
            "y": row["ndcg"],
            "low": row["ndcg_low"],
            "high": row["ndcg_high"],
            "epsilon": epsilon,
            "mechanism": row["mechanism"],
        }
        for (label, epsilon, people), row in best.items()
    )


def _compared(points: pd.DataFrame) -> list[FigurePanel]:
    levels, curves = points[points["kind"] == "level"], points[points["kind"] == "curve"]
    epsilons = [one for one in dict.fromkeys(curves["epsilon"]) if one] or [""]
    plain = by_place(label.replace(_FEATURES, "") for label in curves["label"])
    dash = {label: "--" if "features" in label else "-" for label in points["label"]}
    looks = {
        label: {**plain[label.replace(_FEATURES, "")], "linestyle": dash[label], "label": label}
        for label in curves["label"]
    }
    most = 1.06 * min(points["high"].max(), 1.5 * points["y"].max())
    panels = []
    for epsilon in epsilons:
        here = curves[curves["epsilon"].isin([epsilon, ""])].sort_values("y")
        here = here.drop_duplicates(["label", "x"], keep="last")
        references = [
            Reference(
                at,
                {"color": GREY, "linestyle": dash[label]},
                f"no privacy{label.removeprefix('none')}" if epsilon == epsilons[-1] else "",
            )
            for label, at in zip(levels["label"], levels["y"], strict=True)
        ]
        words = "people who contribute; in two tiers, publicly"
        title = f"epsilon {epsilon.removesuffix('.0')}{' nats' * (epsilon != 'inf')}" if epsilon else "no privacy"
        panels.append(
            FigurePanel(
                points=here,
                x=Axis(words, "x", "linear" if here.empty else "log"),
                y=Axis("NDCG at 10", "y", low=0, high=most),
                looks=looks,
                title=title,
                references=references,
            )
        )
    return panels
