"""Pictures of one result: of experiments, plans, files of ratings, audits, bounds, adversaries and comparisons."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from scenarios.show.picture import (
    ABOVE,
    BELOW,
    DARK,
    GREY,
    LOOKS,
    PALETTE,
    STAR,
    Axis,
    FigurePanel,
    Mark,
    Picture,
    Pictures,
    Reference,
    Style,
    Tables,
    by_place,
    by_rung,
    epsilon_words,
    look,
    marks_of,
    rows,
    setting_of,
)
from scenarios.show.sweep_figures import clients_panels, clients_points
from scenarios.show.tables import SAFE, delta_text, is_guaranteed, name_of, trust_of

_SHARE = Axis("share", low=-0.02, high=1.02)
_MOST_BARS = 60  # Items beyond which standard errors are a band, since bars would touch
_POPULAR = "by popularity, which knows all ratings"
_SHARES = {
    "accuracy": ("items right", "measured", "measured"),
    "accuracy_predicted": ("items right", "predicted from exact moments", "predicted"),
    "exact": ("all items right", "measured", "measured"),
    "advice_liked": ("own top 10 liked", "measured", "measured"),
    "random_liked": ("own top 10 liked", "by chance", "chance"),
    "hit_rate": ("hit rate at 10", "measured", "measured"),
    "popularity_hit_rate": ("hit rate at 10", _POPULAR, "beside"),
    "random_hit_rate": ("hit rate at 10", "by chance", "chance"),
    "ndcg": ("NDCG at 10", "measured", "measured"),
    "popularity_ndcg": ("NDCG at 10", _POPULAR, "beside"),
    "random_ndcg": ("NDCG at 10", "by chance", "chance"),
    "top_50": ("true top 50 found", "measured", "measured"),
}


def run(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield items by score, what was measured beside what was predicted, and the course of several rounds."""
    heading = f"{record['design']}: {setting_of(record)}"
    if "items" in tables:
        alt = "Every item's score with its standard error, in order of scores, a colour and a marker for each cluster."
        yield Picture("items", "What the server learned", alt, [_items(tables["items"], heading)])
    alt = "Shares that were measured, with intervals where there are several seeds, beside predicted ones and chance."
    seeds = f"measured, {record['repeat']} seeds, 95 %" if record.get("repeat", 1) > 1 else "measured"
    marks = [mark._replace(label=seeds) if mark.label == "measured" else mark for mark in marks_of(record, _SHARES)]
    yield from rows("shares", "Measured beside predicted", alt, marks, heading, _SHARE)
    if "rounds" in tables and len(rounds := tables["rounds"]) > 1:
        alt = "Items in the pool of each round, and devices that have answered until then."
        course = pd.DataFrame({"round": range(1, len(rounds) + 1), "pool": rounds["pool"].to_numpy()})
        course["answered"] = rounds["answered"].cumsum().to_numpy()
        sides = Axis("items in the pool", "pool", low=0), Axis("devices that have answered", "answered", low=0)
        x = Axis("round", "round", ticks="whole")
        panels = [FigurePanel(points=course, x=x, y=y, looks={"": look(turn)}) for turn, y in enumerate(sides)]
        yield Picture("rounds", "Round by round", alt, panels, heading=heading, size=(4.6, 3.6))


def _items(items: pd.DataFrame, heading: str) -> FigurePanel:
    ordered = items.sort_values("score", ascending=False, ignore_index=True)
    errors = ordered["standard_error"].fillna(0.0)
    items = pd.DataFrame({"x": ordered.index, "score": ordered["score"], "kind": "item"})
    items = items.assign(low=items["score"] - errors, high=items["score"] + errors)
    items["label"] = "cluster " + ordered["cluster"].astype(str)
    points = items.loc[ordered.groupby("cluster").ngroup().sort_values(kind="stable").index]
    looks = by_place(points["label"], linestyle="", markersize=3.5)
    if len(points) > _MOST_BARS:
        band = items.assign(kind="band", label="standard error")
        points = pd.concat([band, points.assign(low=math.nan, high=math.nan)])
    kinds = {"band": {"facecolor": "0.85", "linewidth": 0, "label": "{}"}}
    x, y = Axis("items, by score", "x"), Axis("score, with its standard error", "score")
    return FigurePanel(points=points, x=x, y=y, looks=looks, kinds=kinds, title=heading)


_ERRORS = {
    "rmse": ("with private devices", "", "measured"),
    "rmse_public_only": ("public users alone", "", "beside"),
    "rmse_baseline": ("items' means", "", "chance"),
}
_ADVICE = {
    "hit_rate": ("hit rate at 10", "measured", "measured"),
    "popularity_hit_rate": ("hit rate at 10", "by popularity", "beside"),
    "ndcg": ("NDCG at 10", "measured", "measured"),
    "popularity_ndcg": ("NDCG at 10", "by popularity", "beside"),
}


def two_tier(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield errors beside those of public users alone, advice beside popularity, and how the model fitted."""
    epsilon = "" if record.get("epsilon") is None else f", {epsilon_words(record['epsilon'])}"
    heading = f"{record['mechanism']}{epsilon}: {record['public']:,} public users"
    heading += f", {record['answered']:,.10g} devices that answered"
    alt = "Errors of held-out ratings: with what private devices released, of public users alone, and of items' means."
    errors = Axis("RMSE of held-out ratings [rating points]")
    yield from rows("errors", "What private devices add", alt, marks_of(record, _ERRORS), heading, errors)
    alt = "Hit rate and NDCG of lists of ten, beside lists by popularity."
    yield from rows("advice", "What recommendations are worth", alt, marks_of(record, _ADVICE), heading, _SHARE)
    if "iterations" in tables:
        alt = "The server's objective over the EM iterations; it rises where more releases are to be explained."
        x, y = Axis("EM iterations", "iteration"), Axis("objective", "objective")
        panels = [FigurePanel(points=tables["iterations"][["iteration", "objective"]], x=x, y=y, title=heading)]
        yield Picture("iterations", "How the model was fitted", alt, panels)


_WORLD = {"T": "rounds", "m": "objects", "N": "voters", "P": "peers", "D": "diversity", "R": "radius"}
_LOSSES = {
    "loss": ("loss", "measured", "measured"),
    "loss_bound": ("loss", "proved, any world", "proved"),
    "loss_random": ("loss", "a random list, expected", "chance"),
}
_PRIVACY_LOSSES = {
    "epsilon_proved": ("privacy loss", "epsilon as proved", "proved"),
    "epsilon_exact": ("privacy loss", "epsilon, exact worst case", "predicted"),
    "epsilon_needed": ("privacy loss", "epsilon that any such loss needs", "at least"),
    "privacy_loss_of_peers": ("privacy loss", "this run's exact privacy loss", "measured"),
}


def online(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield clients' losses round by round, and loss and privacy loss beside their bounds."""
    numbers = {symbol: record.get(name) for symbol, name in _WORLD.items()}
    world = [f"{symbol} = {value:,.10g}" for symbol, value in numbers.items() if isinstance(value, (int, float))]
    heading = f"{record['recommender']}: {', '.join(world)}"
    if "rounds" in tables:
        rounds = tables["rounds"]
        disliked = (~rounds["liked"].astype(bool)).groupby(rounds["client"], sort=False).cumsum()
        columns = {"client": rounds["client"], "round": rounds["round"] + 1, "loss": disliked}
        points = pd.DataFrame({"kind": "client", **columns})
        clients = list(dict.fromkeys(points["client"].astype(str)))
        kinds: dict[str, Style] = {"client": {"drawstyle": "steps-post"}}
        looks = {client: {"color": color, "label": client} for client, color in zip(clients, PALETTE, strict=False)}
        if len(clients) > len(PALETTE):
            mean = points.groupby("round", as_index=False)["loss"].mean()
            points = pd.concat([points, mean.assign(kind="mean", client="mean of clients")])
            looks, kinds["mean"] = {}, {"color": "black", "linewidth": 2, "label": "{}"}
            kinds["client"] = {**kinds["client"], "color": GREY, "linewidth": 0.7}
        x, y = Axis("rounds", "round"), Axis("loss: disliked recommendations so far", "loss")
        panels = [FigurePanel(points=points, x=x, y=y, series="client", looks=looks, kinds=kinds, title=heading)]
        alt = "Disliked recommendations of every client so far, round by round."
        yield Picture("losses", "Clients' losses so far", alt, panels)
    alt = "The loss of a client that was measured, beside what is proved and what random lists lose."
    x = Axis("disliked recommendations of a client", scale="log")
    yield from rows("loss", "Loss beside its bound", alt, marks_of(record, _LOSSES), heading, x)
    alt = "The exact privacy loss of this run beside what is proved of the recommender."
    x = Axis("privacy loss [nats]", scale="log")
    yield from rows("privacy", "Privacy loss beside epsilon", alt, marks_of(record, _PRIVACY_LOSSES), heading, x)


def plan(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield what each design needs: users beside the lower bound that binds, or, where users are fixed, epsilon.

    Of a file it yields the people that private advice takes.
    """
    if "designs" not in record:
        yield from _worth_of(record)
        return
    epsilons = [row["epsilon"] for row in record["designs"] if row["private"]]
    sought = {row["users_here"] for row in record["designs"]} != {None} and len({*map(str, epsilons)}) > 1
    of, heading_x = ("epsilon", "epsilon needed [nats]") if sought else ("users", "users needed")
    bound = next((row for row in record["bounds"] if row["binds"] and not sought), None)
    title = f"{record['target']}: N = {record['items']:,}, w = {record['rated']:,}"
    title += "" if sought else f", {epsilon_words(epsilons[0])}"
    references = []
    if bound is not None:
        label = f"lower bound, any epsilon-LDP learner ({bound['name']})"
        references = [Reference(bound["users"], {"color": DARK, "linestyle": "--", "label": label}, axis="x")]
    others = dict.fromkeys(trust_of(row) for row in record["designs"] if trust_of(row) != SAFE)
    looks = {SAFE: "measured", **dict(zip(others, ("chance", "beside", "at least", "proved"), strict=False))}
    marks = []
    for row in record["designs"]:
        best, trust = row == record["recommended"], trust_of(row)
        label, kind = (f"recommended: {trust}", "predicted") if best else (trust, looks[trust])
        ends = () if sought else (row.get("users_low"), row.get("users_high"))  # of simulated ones
        marks.append(Mark(name_of(row), label, row[of], LOOKS[kind], *ends))
    alt = "What each design needs on a logarithmic axis, by whom one has to trust; the recommended one is marked."
    name, heading, x = "needs", "What each design needs", Axis(heading_x, scale="log")
    nothing = FigurePanel(marks=[Mark("no design at all", "", math.nan)], x=x, title=title, references=references)
    nobody = Picture(name, heading, "Nothing: no design reaches what was asked for.", [nothing])
    yield from [*rows(name, heading, alt, marks, title, x, references=references)] or [nobody]


_HALF: Style = {"marker": "d", "color": look(0)["color"], "elinewidth": 6, "capsize": 0, "markeredgecolor": "black"}
_ALL: Style = {"marker": "|", "color": DARK, "markersize": 1}


def data(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield what recommendations take where nobody is trusted, and how ratings are spread."""
    yield from _worth_of(record)
    marks = []
    for of in ("item", "user"):
        spread, row = record[f"ratings_per_{of}"], f"ratings of {'an' if of == 'item' else 'a'} {of}"
        quartiles = spread["lower_quartile"], spread["upper_quartile"]
        marks.append(Mark(row, "least to most", spread["median"], _ALL, spread["min"], spread["max"]))
        marks.append(Mark(row, "quartiles and median", spread["median"], _HALF, *quartiles))
    alt = "Least, quartiles and most ratings of a user and of an item, on a logarithmic axis."
    title = f"{record['ratings']:,} ratings: least, quartiles and most"
    yield from rows("ratings", "How ratings are spread", alt, marks, title, Axis("ratings", scale="log"))


def _worth_of(record: Mapping[str, Any]) -> Pictures:
    """Yield what lists are worth by people, where a record of a file has an answer."""
    if answer := record.get("answer"):
        yield from _worth_by_people({**record, "ratings": answer["file"], "people_in_file": record["users"]})


_AUDITED = {
    "claimed": ("claimed", "proved"),
    "exact": ("exact, of the channel", "predicted"),
    "measured": ("measured on releases, at least", "at least"),
}


def audit(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield epsilon as claimed, as the channel has it, and as an attack on releases shows it; of one design or all."""
    every = [row for name in ("audits", "rows", "mechanisms") for row in record.get(name, ())]
    audits = [record] if "claimed" in record else every
    marks = []
    for row in audits:
        design = str(row.get("design") or row.get("mechanism"))
        marks += marks_of(row, {name: (design, *how) for name, how in _AUDITED.items()})
    confidence = next((row["confidence"] for row in audits if row.get("confidence")), None)
    title = "privacy loss, claimed and found" + (f"; measured at confidence {confidence:g}" if confidence else "")
    alt = "Epsilon as claimed, as the exact channel has it, and the lower bound that an attack on releases shows."
    yield from rows("audit", "Privacy, claimed and found", alt, marks, title, Axis("epsilon [nats]"))


def bounds(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield the users that any learner needs, and which bound binds."""
    kinds = {True: ("binds", LOOKS["measured"]), False: ("holds, and says less", LOOKS["at least"])}
    valid = [row for row in record["bounds"] if row["valid"]]
    marks = [Mark(row["name"], label, row["users"], how) for row in valid for label, how in [kinds[row["binds"]]]]
    title = f"users that any epsilon-LDP learner needs: {setting_of(record)}".removesuffix(": ")
    alt = "Users that any epsilon-LDP learner needs, by every lower bound that holds, on a logarithmic axis."
    yield from rows("bounds", "Users that any learner needs", alt, marks, title, Axis("users", scale="log"))


_AGAINST_PRIVACY = {
    "total": ("all steps of the chain together", "measured"),
    "largest_step": ("the chain's largest step", "beside"),
    "epsilon_at_least": ("epsilon at least that", "at least"),
    "epsilon_needed": ("epsilon that any such loss needs", "at least"),
    "log_of_rounds": ("ln T", "predicted"),
    "epsilon_conjectured": ("epsilon as conjectured", "predicted"),
    "epsilon_proved": ("epsilon as proved", "proved"),
}
_AGAINST_LOSS = {
    "loss": ("measured, ± 2 standard errors", "measured"),
    "no_algorithm_expects_less": ("no algorithm expects less", "at least"),
    "strikes_times_halvings": ("B log2(N/P)", "predicted"),
    "loss_bound": ("proved, any world", "proved"),
}


def adversary(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield what an adversary costs or learns of each recommender, beside the bounds."""
    every = record["rows"]
    columns, label = _AGAINST_PRIVACY, "privacy loss [nats]"
    if any("loss_bound" in row for row in every):
        columns, label = _AGAINST_LOSS, "disliked recommendations"
    marks = []
    for row in every:
        reach = row.get("loss_error")
        ends = {"loss": [max(row["loss"] - 2 * reach, 0.0), row["loss"] + 2 * reach]} if reach else {}
        in_row = {name: (row["recommender"], *how) for name, how in columns.items()}
        marks += marks_of({**row, "intervals": ends}, in_row)
    same = {"T": "rounds", "steps": "steps", "seeds": "seeds"}
    values = {word: {row[name] for row in every if name in row} for word, name in same.items()}
    size = ", ".join(f"{word} = {next(iter(numbers)):,}" for word, numbers in values.items() if len(numbers) == 1)
    title = f"{record['adversary']}{': ' if size else ''}{size}"
    alt = f"What the adversary {record['adversary']} does to each recommender, beside what is proved."
    yield from rows("adversary", "An adversary beside the bounds", alt, marks, title, Axis(label, scale="log"))


def compare(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield NDCG against people, a curve for each trust model; the ladder; and what the coordinator's learners save."""
    ladder = list(_ladder(record))
    first = record.get("trust_models") is not None and record["trust_models"] == record["rungs"]
    yield from ladder if first else ()
    yield from _worth_by_people(record)
    yield from () if first else ladder
    yield from _who_pays(record.get("who_pays") or ())
    if panel := record.get("coordinator"):
        alt = "What each recommender of a trusted coordinator saves its clients against random lists, with intervals."
        panels = clients_panels(panel, clients_points(panel, None))
        yield Picture("coordinator", "What a trusted coordinator saves its clients", alt, panels, size=(6, 4.0))


def _worth_by_people(record: Mapping[str, Any]) -> Pictures:
    """Yield NDCG against people, a curve for each trust model and a panel for each epsilon."""
    if not (points := compared_points(record)).empty:
        alt = "NDCG at 10 against the people who contribute, a curve for each trust model, a panel for each epsilon."
        heading = f"{record['ratings']}: {record['people_in_file']:,} people, {record['items']:,} items"
        heading += "; the best mechanism of each trust model, chosen afterwards"
        heading += _relations(record["rows"])
        levels, curves = points[points["kind"] == "level"], points[points["kind"] == "curve"]
        epsilons = [epsilon for epsilon in dict.fromkeys(curves["epsilon"]) if epsilon] or [""]
        plain = by_rung(label.replace(_FEATURES, "") for label in curves["label"])
        dash = {label: "--" if "features" in label else "-" for label in points["label"]}
        plain |= {f"{label}{_FEATURES}": how for label, how in plain.items()}
        looks = {label: {**plain[label], "linestyle": dash[label], "label": label} for label in curves["label"]}
        y = Axis("NDCG at 10", "y", low=0, high=1.06 * min(points["high"].max(), 1.5 * points["y"].max()))
        panels = []
        for epsilon in epsilons:
            here = curves[curves["epsilon"].isin([epsilon, ""])].sort_values("y")
            here = here.drop_duplicates(["label", "x"], keep="last")
            references = []
            for label, at in zip(levels["label"], levels["y"], strict=True):
                beside = f"no privacy{label.removeprefix('none')}" if epsilon == epsilons[-1] else ""
                references.append(Reference(at, {"color": GREY, "linestyle": dash[label]}, beside))
            x = Axis("people who contribute; in two tiers, publicly", "x", "linear" if here.empty else "log")
            title = f"epsilon {epsilon.removesuffix('.0')}{' nats' * (epsilon != 'inf')}" if epsilon else "no privacy"
            key = {BEATING: STAR} if "starred" in here and here["starred"].any() else {}
            panels.append(FigurePanel(points=here, x=x, y=y, looks=looks, title=title, references=references, key=key))
        size = (5.2, 4.4)
        yield Picture("figure", "What recommendations are worth", alt, panels, points, heading=heading, size=size)


def _who_pays(lines: Sequence[Mapping[str, Any]]) -> Pictures:
    """Yield what lists are worth to groups of people beside popularity: a panel for each thing they are grouped by."""
    # Of each trust model and epsilon that is the row that is worth most to all groups together, chosen afterwards.
    panels = []
    for by in dict.fromkeys(line["by"] for line in lines):
        group_lines = [line for line in lines if line["by"] == by and line["to_popularity"] is not None]
        groups = {
            group: position for position, group in enumerate(dict.fromkeys(line["group"] for line in group_lines))
        }
        rows: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for line in group_lines:
            names = ("trust_model", "epsilon", "mechanism", "features", "users", "public")
            rows.setdefault(tuple(line[name] for name in names), []).append(line)
        best: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for key, of in rows.items():
            both = best.get(key[:2], of), of
            best[key[:2]] = max(both, key=lambda lines: sum(line["people"] * line["ndcg"] for line in lines))
        points = [
            {
                "label": f"{model}{'' if epsilon is None else f', epsilon {epsilon}'.removesuffix('.0')}",
                "x": groups[line["group"]],
                **{end: line[f"to_popularity{name}"] for end, name in (("y", ""), ("low", "_low"), ("high", "_high"))},
            }
            for (model, epsilon), of in best.items()
            for line in of
        ]
        if points:
            table = pd.DataFrame(points)
            x = Axis(f"people by {by}", "x", ticks={position: group for group, position in groups.items()})
            y = Axis("NDCG at 10 less popularity's, same people", "y")
            zero = Reference(0.0, {"color": GREY, "linestyle": ":"})
            panels.append(FigurePanel(points=table, x=x, y=y, looks=by_place(table["label"]), references=[zero]))
    if panels:
        alt = "What lists are worth to each group of people beside popularity's, with intervals, by trust model."
        yield Picture("who_pays", "Who pays", alt, panels, size=(7.0, 4.2), across=1)


_LISTS, _PAIRS = "lists by popularity", "lists by pairs of items"
_KINDS = {"pairs": _PAIRS, "pairs with EASE": _PAIRS, "directions": ""}
"""What lists of mechanisms are by, where that is not popularity: pairs, or something that the ladder does not show."""
_OWN_CURVES = {"ones"}  # Mechanisms that leave less than their rung's others if who is trusted lies


def _ladder(record: Mapping[str, Any]) -> Pictures:
    """Yield the people that a list takes against epsilon: a curve for each rung, a panel for what lists are by."""
    points = ladder_points(record)
    if not {*map(_rung, points["label"])} - {"curator", "local"}:
        return  # no rung between these
    labels = sorted({*points["label"]}, key=lambda label: (record["rungs"].index(_rung(label)), label))
    looks = by_rung(labels)
    y = Axis("people who contribute", "y", "log", low=points["y"].min() / 3, high=3 * points[["y", "high"]].max().max())
    there = Reference(record["people_in_file"], {"color": "black", "linestyle": ":", "label": "people in the file"})
    panels = [
        FigurePanel(
            points=points[points["list"] == kind],
            x=Axis("central epsilon [nats]", "x", "log", ticks="value"),
            y=y,
            looks=looks,
            title=kind,
            references=[there],
        )
        for kind in (_LISTS, _PAIRS)
        if kind in {*points["list"]}
    ]
    first = record["people"][0]
    of = "the best list" if first.get("of") == "best" else "plain popularity"
    heading = f"{record['ratings']}: people until lists are worth {first['share']:.0%} of {of} without privacy"
    heading += _relations(record["people"])
    alt = "People who are needed against epsilon, with intervals, bounds as arrows: a curve for each rung of trust."
    yield Picture("ladder", "The ladder of trust", alt, panels, points, heading=heading, size=(5.2, 4.4))


def _rung(label: str) -> str:
    return label.removesuffix(_FEATURES).partition(":")[0]


def _relations(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line of a heading that says neighbours and delta of rows, if they have any."""
    models: dict[str, dict[str, None]] = {}
    for row in (row for row in rows if row.get("neighbours")):
        models.setdefault(str(row["neighbours"]), {})[str(row["trust_model"])] = None
    if not models:
        return ""
    of = (f"{name} ({', '.join(named)})" if len(models) > 1 else name for name, named in models.items())
    deltas = delta_text(row.get("delta") for row in rows if row.get("neighbours"))
    return f"\nneighbours {', '.join(of)}; delta {deltas}"


def ladder_points(record: Mapping[str, Any]) -> pd.DataFrame:
    """Return the fewest people that a list needs, by rung, epsilon and kind of list: popularity or pairs.

    Where the smallest number of people that was measured is enough, or the largest is not, that number is a ``bound``.
    """
    # Messages with dummies are a curve of their own, since no local epsilon stands behind them.
    curves: dict[tuple[str, str, float], list[Mapping[str, Any]]] = {}
    for row in record.get("people") or ():
        kind, rung = _KINDS.get(row["mechanism"], _LISTS), row["trust_model"]
        if row["epsilon"] != "inf" and kind and rung in record.get("rungs", ()):
            label = f"{rung}: {row['mechanism']}" if row["mechanism"] in _OWN_CURVES else rung
            label += _FEATURES if row["features"] else ""
            curves.setdefault((kind, label, float(row["epsilon"])), []).append(row)
    rows = []
    for name, of in curves.items():
        best = min((row for row in of if row["users"]), key=lambda row: int(row["users"]), default=None)
        if best is not None:
            bounded = bool(best.get("at_most"))
            ends = best["users_low"], None if bounded else best["users_high"]
            rows.append([*name, best["users"], *ends, best["mechanism"], BELOW if bounded else ""])
        elif any(row.get("most") for row in of):  # an older result does not say it
            most = max(of, key=lambda row: int(row["most"]))
            rows.append([*name, most["most"], None, None, most["mechanism"], ABOVE])
    columns = ("list", "label", "x", "y", "low", "high", "mechanism", "bound")
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("x", "y", "low", "high"), float))


_FEATURES = " + features"
BEATING = "beats popularity on the same people; all stars hold at once at 95 %"


def compared_points(result: Mapping[str, Any]) -> pd.DataFrame:
    """Return the points of the figure: of each trust model the best row at every number of people who contribute.

    A curve ends where the guarantee of the row that leads it ends: another row that is left there is worse because of
    delta, and a curve through it would say that more people make lists worse. What guarantees nothing is no point.
    """
    # Rows that know more than their trust model's others, and say that they are not compared, are none of these.
    curves: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = {}
    for row in result["rows"]:
        level, popular = row["trust_model"] == "none", row["mechanism"] == "popularity"
        beside = level and (row["mechanism"] == "chance" or (row["features"] and not popular))
        if beside or not row.get("compared", True) or not (row["epsilon"] in (None, "inf") or is_guaranteed(row)):
            continue
        people = row["users"] if row["public"] is None else round(row["public"] * row["users"])
        label = f"{row['trust_model']}{': popularity' if level and popular else ''}"
        label += _FEATURES if row["features"] else ""
        curve = curves.setdefault((label, "" if row["epsilon"] is None else str(row["epsilon"])), {})
        curve.setdefault(people, []).append(row)
    points = []
    for (label, epsilon), curve in curves.items():
        leader: Mapping[str, Any] | None = None
        for people, cells in sorted(curve.items()):
            if leader and leader.get("delta") and leader["mechanism"] not in [row["mechanism"] for row in cells]:
                break
            leader = row = max(cells, key=lambda row: float(row["ndcg"]))
            line = {"kind": "level" if row["trust_model"] == "none" else "curve", "label": label, "x": people}
            ends = {"y": row["ndcg"], "low": row["ndcg_low"], "high": row["ndcg_high"]}
            starred = (row.get("to_popularity_low") or 0) > 0  # an older result has no differences
            points.append({**line, **ends, "epsilon": epsilon, "mechanism": row["mechanism"], "starred": starred})
    table = pd.DataFrame(points)
    return table if points and table["starred"].any() else table.drop(columns="starred", errors="ignore")


def risk(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield how often guesses are right, a row for each view of each row, and a panel for each epsilon."""
    names = {"whose": "whose history", "like": "likes an item", "worst": "worst two histories", "bound": "at most"}
    looks = {name: {**look(rank), "linestyle": ""} for rank, name in enumerate(names)}
    panels = []
    for epsilon in dict.fromkeys(row["epsilon"] for row in record["rows"]):
        marks = []
        for row in (row for row in record["rows"] if row["epsilon"] == epsilon):
            name = f"{row['trust_model']}: {row['mechanism']}"
            name += {"holds": "", "by law": ", others by law", "lies": ", if it lies"}[row["view"]]
            for of, label in names.items():
                ends = row.get(f"{of}_low"), row.get(f"{of}_high")
                marks.append(Mark(name, label, row[of], looks[of], *ends))
        shown = [mark for mark in marks if mark.value is not None]
        axis = Axis("share of guesses that are right", "value", low=0.5)
        panels.append(FigurePanel(marks=shown, x=axis, title=f"epsilon {epsilon:g}"))
    alt = (
        "How often the best attack guesses right whose history a message is of, whether a person likes an item, and "
        "which of the worst two histories it is, beside the bound by epsilon, a row for each view of each mechanism."
    )
    yield Picture("figure", "How often guesses are right", alt, panels, pd.DataFrame(record["rows"]), size=(6, 4.0))


def years(record: Mapping[str, Any], tables: Tables) -> Pictures:  # noqa: ARG001 (as others)
    """Yield the people that every schedule takes on each rung, and lists' worth by period where least is trusted."""
    rows = [row for row in record["rows"] if row["epsilon_horizon"] is not None]  # others keep no promise
    names = list(dict.fromkeys(row["schedule"] for row in rows))
    looks = {name: {**look(rank), "linestyle": "", "mfc": "none", "markersize": 7} for rank, name in enumerate(names)}
    marks = []
    for row in rows:
        ends = row["users_low"], row["users_high"]
        marks.append(Mark(row["trust_model"], row["schedule"], row["users_needed"], looks[row["schedule"]], *ends))
    for rung in dict.fromkeys(row["trust_model"] for row in rows):
        once = next(row["users_once"] for row in rows if row["trust_model"] == rung)
        marks.append(Mark(rung, "one period", once, {"marker": "|", "color": DARK, "markersize": 14, "mew": 2}))
    shown = [mark for mark in marks if mark.value is not None]
    panels = []
    if shown:
        when = "over all periods" if record.get("ratings") else "in every period"
        people = Axis(f"people for {100 * record['worth']:g} % of popularity {when}", "value", "log")
        panels.append(FigurePanel(marks=shown, x=people, title=f"epsilon {record['epsilon']:g} for all"))
    last = rows[-1]["trust_model"]  # that of least trust
    points = pd.DataFrame(
        [
            {"label": row["schedule"], "x": period, "y": ours / popular}
            for row in rows
            if row["trust_model"] == last
            for period, (ours, popular) in enumerate(zip(row["ndcg"], record["popularity"], strict=True), 1)
            if popular > 0
        ]
    )
    target = Reference(record["worth"], {"color": GREY, "linestyle": ":"}, f"{100 * record['worth']:g} %")
    panels.append(
        FigurePanel(
            points=points,
            x=Axis("period", "x", ticks="whole"),
            y=Axis("NDCG, of popularity's", "y", low=0),
            looks={name: {**look(rank), "label": name} for rank, name in enumerate(names)},
            title=f"{last}: {record['people']:,} people",
            references=[target],
        )
    )
    alt = (
        "Left: people for the target under one epsilon, a row for each rung of trust and a marker for "
        f"each schedule. Right: what lists are worth by period, {last}, with the people there are."
    )
    yield Picture("figure", "What it costs to keep asking", alt, panels, points, size=(5.6, 4.0))
