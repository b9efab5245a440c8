"""The summary of a comparison over all seeds, and its tables on a terminal."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from rich.console import Console

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import ADD_REMOVE, DELTA_IN_WORDS, REPLACE, as_json, parse_epsilon
from coordinator.protocol.trust_models import CHOSEN_RELATION, LADDER, PUBLIC_RATES, SHUFFLED, TRUST
from scenarios.data.datasets import RatingTable
from scenarios.show.intervals import CONFIDENCE
from scenarios.show.tables import (
    Cell,
    delta_text,
    interval_of,
    is_guaranteed,
    percent,
    ratio,
    relation_text,
    remark,
    short,
    show_rows,
    show_table,
    whole,
)
from scenarios.studies.compare.advisors import LIFTS, MODELS
from scenarios.studies.compare.comparison_settings import (
    PUBLIC,
    Comparison,
)
from scenarios.studies.compare.differences import differences
from scenarios.studies.compare.row import AGGREGATE, is_promise
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement, ListScores, rows_of
from scenarios.studies.compare.who_pays import best_for_groups, show_who_pays, who_pays
from scenarios.studies.compare.worlds import world_of
from scenarios.studies.crossing import among_files, is_close, over_seeds_and_people, people_for

NEIGHBOURS_NOTES = {
    REPLACE: "every epsilon is about one person's ratings replaced by any others, in all trust models alike; how many "
    "people there are is public",
    ADD_REMOVE: f"epsilon of {' and '.join(CHOSEN_RELATION)} is about one person added or removed, of all other rows "
    "about one person's ratings replaced, which takes up to twice the epsilon: compare no row of one with one of the "
    "other",
}
"""What results say of the relation of neighbours."""
POWERS = {name: model.power for name, model in TRUST.items() if model.power}
"""The power by which the required number of people depends on a share f of likes, by trust model: ``1 / f^power``.

Noise of a shuffler's counts hardly depends on the number of people, as that of a curator: each device adds less."""
FEATURES = " + features"  # What follows a mechanism's name where devices use public features, too
DELTAS_NOTE = f"delta is of each cell its own: {DELTA_IN_WORDS}"
RESAMPLED_NOTE = (
    "more people than the file has are drawn from it with replacement: the noise is what so many people would have, "
    "and nobody in the file is protected by it"
)


def summarize(
    settings: Comparison, units: Mapping[CompareKey, CompareMeasurement], table: RatingTable
) -> dict[str, Any]:
    """Return the result of a comparison as JSON values."""
    grouped: dict[tuple[Any, ...], list[tuple[CompareKey, CompareMeasurement, ListScores]]] = defaultdict(list)
    for key, unit in units.items():
        for list_scores in unit.scores:
            grouped[(*key[:-1], list_scores.features)].append((key, unit, list_scores))
    scores = [(key, list_scores) for key, unit in units.items() for list_scores in unit.scores]
    plain = {
        key.seed: list_scores
        for key, list_scores in scores
        if key[:2] == ("none", "popularity") and not list_scores.features
    }
    # Others were measured for the numbers of people alone
    groups = [of for of in grouped.values() if settings.is_on_grid(table.users, of[0][0].users)]
    rows = [
        _row(of, plain) | _promised(settings, of[0][0], of[0][1]) | beside
        for of, beside in zip(groups, differences(groups, plain), strict=True)
    ]
    lines = who_pays(settings.by, rows, groups, plain)
    resampled = [RESAMPLED_NOTE] if any(row["users"] > table.users for row in rows) else []
    relation = [NEIGHBOURS_NOTES[settings.relation]] if any(row["neighbours"] for row in rows) else []
    deltas = [DELTAS_NOTE] if settings.delta is None and any(row["delta"] for row in rows) else []
    return {
        "ratings": settings.ratings.name,
        "people_in_file": table.users,
        "items": table.count,
        "split_by": settings.split_by,
        "held_out": settings.held_out_name,
        "like_from": settings.like_from,
        "public_constants": {name: getattr(settings, name) for name in PUBLIC},
        "from_the_file": ["items"],
        "duplicates": settings.duplicates,
        "min_ratings": settings.min_ratings,
        "level": CONFIDENCE,
        "trust_models": list(settings.trust_models),
        "rungs": list(LADDER),
        "trust_in_words": {
            model: TRUST[model].description for model in dict.fromkeys(row["trust_model"] for row in rows)
        },
        "rows": rows,
        **({"who_pays": lines} if settings.by else {}),
        "neighbours": settings.relation,
        "delta": settings.delta,
        "people": [
            {**row, **_relation(settings, row, row["users"] or row["most"])} for row in _reached(settings, grouped)
        ],
        "warnings": [*resampled, *(relation if settings.relation == ADD_REMOVE else [])],
        "remarks": [
            *resampled,
            *relation,
            *deltas,
            *_unmeasured(settings, table.users),
            *better_rows(rows),
            *best_for_groups(lines),
            _taken(settings),
        ],
    }


def _relation(settings: Comparison, row: Mapping[str, Any], users: int) -> dict[str, Any]:
    """Return neighbours and delta of a row's guarantee to so many people, None for each where it has none."""
    if row["epsilon"] in {None, "inf"}:
        return {"neighbours": None, "delta": None}
    of = rows_of(settings)[f"{row['trust_model']}: {row['mechanism']}"]
    return {"neighbours": of.neighbours(settings), "delta": of.delta(settings, users)}


def _promised(settings: Comparison, key: CompareKey, unit: CompareMeasurement) -> dict[str, Any]:
    """Return neighbours, delta and local epsilon of a row's guarantee, None for each where it has none.

    The local epsilon is that of a device's own report, which holds whoever lies.
    """
    private = key.epsilon not in {"", "inf"}
    relation = _relation(settings, {**key._asdict(), "epsilon": _number(key.epsilon)}, key.users)
    local = _number(key.epsilon) if TRUST[key.trust_model].reports else unit.epsilon_local
    return {
        "compared": key.trust_model != PUBLIC_RATES,
        **relation,
        "guaranteed": is_guaranteed({"epsilon": _number(key.epsilon), "users": key.users, **relation}),
        "epsilon_local": local if private else None,
        "messages": unit.messages,
    }


def _unmeasured(settings: Comparison, people: int) -> list[str]:
    """Say which rows are not measured with how many people, because their delta would promise nothing there."""
    largest, delta = max(settings.grid(people)), settings.delta
    rows = registered_rows()
    named = [(name, rows[name]) for name in rows if settings.includes(*name.split(": "))]
    if without := [name for name, row in named if not row.offered(settings)]:
        return [f"{', '.join(without)}: not measured with delta 0, with which they promise nothing"]
    left = [name for name, row in named if not is_promise(row.delta(settings, largest), largest)]
    if not left or not delta:
        return []
    limit = f"{math.floor(1 / delta) + 1:,} people on, where their delta, {delta:g}, would exceed 1 / n"
    return [f"{', '.join(left)}: not measured from {limit}"]


def _taken(settings: Comparison) -> str:
    """Say where the constants of mechanisms come from."""
    group = (
        f", and w of set and pairs what {percent(settings.counted)} of their devices report" if settings.counted else ""
    )
    of_file = "of the file only its number of items is taken, but by rows that say so"
    return f"constants of mechanisms are declared{group}; {of_file}"


def _row(
    of: Sequence[tuple[CompareKey, CompareMeasurement, ListScores]], plain: Mapping[int, ListScores]
) -> dict[str, Any]:
    key, unit, first = of[0]
    scores = [list_scores for *_, list_scores in of]
    columns: dict[str, Any] = {
        "trust_model": key.trust_model,
        "mechanism": key.mechanism,
        "features": first.features,
        "epsilon": _number(key.epsilon),
        "users": key.users,
        "public": float(key.public) if key.public else None,
        "simulated": unit.simulated,
    }
    for name in ("hit_rate", "ndcg", "recall"):
        columns |= _named(
            name,
            [getattr(list_scores, name) for list_scores in scores],
            [list_scores.resampled[name] for list_scores in scores],
        )
    pairs = [
        (list_scores, plain[key.seed])
        for key, _, list_scores in of
        if key.seed in plain and plain[key.seed].people == list_scores.people
    ]
    if len(pairs) == len(of):
        columns |= _named(
            "over_popularity",
            [list_scores.ndcg - other.ndcg for list_scores, other in pairs],
            [np.subtract(list_scores.resampled["ndcg"], other.resampled["ndcg"]) for list_scores, other in pairs],
            least=-1.0,
        )
    return {
        **columns,
        "coverage": float(np.mean([list_scores.coverage for list_scores in scores])),
        **{name: _mean_of([getattr(list_scores, name) for list_scores in scores]) for name in ("gini", "top_tenth")},
        "constant": _mean_of([unit.constant for _, unit, _ in of]),
        "liar_likes": None if unit.liar is None else unit.liar.likes,
        "liar_share": None
        if unit.liar is None
        else float(np.mean([list_scores.liar.share for _, list_scores, _ in of if list_scores.liar])),
        "seeds": len(of),
        "people": first.people,
        "seconds": float(np.mean([unit.seconds for _, unit, _ in of])),
    }


def _mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean; None where an older folder has none."""
    return None if None in values else float(np.mean([value for value in values if value is not None]))


def _named(
    name: str, values: Sequence[float], resampled: Sequence[Floats | Sequence[float]], least: float = 0.0
) -> dict[str, float]:
    mean, low, high = over_seeds_and_people(values, resampled)
    return {name: mean, f"{name}_low": max(low, least), f"{name}_high": min(high, 1.0)}


def _number(epsilon: str) -> float | str | None:
    return as_json(parse_epsilon(epsilon)) if epsilon else None


Grouped = Mapping[tuple[Any, ...], Sequence[tuple[CompareKey, CompareMeasurement, ListScores]]]
"""Units of a row in all splits, by its name."""


def _reached(settings: Comparison, grouped: Grouped) -> list[dict[str, Any]]:
    """Return how many people each mechanism needs for the target; see `crossing.people_for`.

    Without ``--scale`` only the best rows of a rung are measured closely enough: others are left out.
    """
    curves: dict[tuple[Any, ...], dict[int, Floats]] = defaultdict(dict)
    base = _base(settings, grouped)
    for (*_, features), units in grouped.items():
        key = units[0][0]
        if key.epsilon and not key.public and key.trust_model != PUBLIC_RATES and base is not None:
            name = key.trust_model, key.mechanism, features, _number(key.epsilon)
            curves[name][key.users] = _with_samples({of.seed: list_scores for of, _, list_scores in units})
    if base is None or not curves:
        return []
    names, world = ("trust_model", "mechanism", "features", "epsilon"), world_of(settings, settings.seed)
    file_errors = {model: among_files(world.popularity, world.people, power) for model, power in POWERS.items()}
    rows = [
        {
            **dict(zip(names, name, strict=True)),
            "share": settings.worth,
            "of": settings.of,
            **people_for(curve, base, settings.worth, file_errors[name[0]]),
        }
        for name, curve in curves.items()
    ]
    return rows if settings.scale else [row for row in rows if is_close(row["few"], row["many"])]


def _base(settings: Comparison, grouped: Grouped) -> Floats | None:
    """Return the worth of the list without privacy that the target is a share of, None where that is not measured."""
    plain = {
        (name[1], name[-1]): _with_samples({key.seed: list_scores for key, _, list_scores in of})
        for name, of in grouped.items()
        if name[0] == "none" and (settings.of == "best" or (name[1] == "popularity" and not name[-1]))
    }
    return max(plain.values(), key=lambda worth: float(worth[:, 0].mean()), default=None)


def _with_samples(scores: Mapping[int, ListScores]) -> Floats:
    """Return NDCG of each seed, in their order, among everybody and among samples, shape (seeds, 1 + samples)."""
    return np.array([[scores[seed].ndcg, *scores[seed].resampled["ndcg"]] for seed in sorted(scores)])


def show(console: Console, result: Mapping[str, Any], title: str) -> None:
    """Print the measurements, a table for each trust model."""
    summary = f"{result['people_in_file']:,} people, {result['items']:,} items, split {result['split_by']}"
    remark(console, f"{title}: {result['ratings']}, {summary}")
    for model, rows in groupby(result["rows"], key=lambda row: str(row["trust_model"])):
        table_rows = list(rows)
        about = f"; {said}" if (said := relation_text(table_rows)) else ""
        if any(row["public"] for row in table_rows):
            _pivoted(
                console,
                table_rows,
                "public",
                percent,
                f"{model}: {TRUST[model].description}; NDCG by their share{about}",
            )
        elif any(row["epsilon"] is not None for row in table_rows):
            _pivoted(console, table_rows, "users", whole, f"{model}: {TRUST[model].description}; NDCG by people{about}")
            if model == SHUFFLED:
                title = f"{model}: what is left if the shuffler lies: epsilon of a device's own report, by people"
                if left := [row for row in table_rows if row["epsilon"] != "inf" and not row["features"]]:
                    _pivoted(console, left, "users", whole, title, _left)
        else:
            show_rows(console, _COLUMNS, table_rows, title=f"{model}: {TRUST[model].description}", words=("mechanism",))
    if reached := result["people"]:
        _people(console, reached)
    never = {(row["trust_model"], mechanism_of(row)) for row in reached if row["users"] is None}
    if ("curator", "popularity") in never:
        remark(console, _CUT.format(**result["public_constants"]))
    lied_to = [row for row in result["rows"] if row.get("liar_likes") is not None and not row["features"]]
    if lied_to:
        named = [
            {**row, "mechanism": f"{row['trust_model']}: {row['mechanism']}", "simulated": None} for row in lied_to
        ]
        _pivoted(console, named, "users", whole, _LIARS, _liar)
    if result.get("who_pays"):
        show_who_pays(console, result["who_pays"], mechanism_of)
    remark(console, *_constants(result["rows"]))
    remark(console, *result["remarks"], "intervals are of 95 %, over seeds and people")


def _constants(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which constants models of likes have, the mean over splits where a part of the likes chose them."""
    constants: dict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        if row["constant"] is not None and not row["features"]:
            public = "" if row["public"] is None else f" ({percent(row['public'])} public)"
            constants[f"{row['trust_model']}: {row['mechanism']}"][f"{row['constant']:.3g}{public}"] = None
    names = {name: model.constant for name, model in MODELS.items()} | {LIFTS: "kappa"}
    return [f"{name}: {names[name.split(': ')[1]]} {', '.join(values)}" for name, values in constants.items()]


def better_rows(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return which rows beat plain popularity, a sentence for each trust model; all of them hold at once."""
    pairs = [row for row in rows if row.get("to_popularity_low") is not None]
    better = [row for row in pairs if row["to_popularity_low"] > 0]
    if not pairs:
        return []
    said = (
        "beats plain popularity's NDCG on the same people; that all rows named here do holds at 95 %, by "
        f"{len(pairs)} paired differences whose intervals hold at once"
    )
    if not better:
        by = f"{len(pairs)} paired differences whose intervals hold at once at 95 %"
        return [f"no row is shown to beat plain popularity's NDCG on the same people, by {by}"]
    lines = []
    for model in dict.fromkeys(row["trust_model"] for row in better):
        names: dict[str, list[str]] = defaultdict(list)
        for row in better:
            if row["trust_model"] == model:
                at = f" at epsilon {epsilon_text(row['epsilon'])}" if row["epsilon"] is not None else ""
                people = short(row["users"]) if row["public"] is None else f"{percent(row['public'])} public"
                names[mechanism_of(row) + at].append(people)
        lines.append(f"{model}: " + "; ".join(f"{name} ({', '.join(people)})" for name, people in names.items()))
    return [f"these rows beat{said.removeprefix('beats')}:", *lines]


def mechanism_of(row: Mapping[str, Any]) -> str:
    """Return the name of a row's mechanism, such as "set + features"."""
    return f"{row['mechanism']}{FEATURES}" if row["features"] else str(row["mechanism"])


def target_text(row: Mapping[str, Any]) -> str:
    """Return the target of a number of people in words."""
    return f"{100 * row['share']:g} % of {'plain popularity' if row['of'] == 'popularity' else 'the best list'}"


def epsilon_text(value: float | str | None) -> str:
    """Return an epsilon as tables show it; nothing for None."""
    return "" if value is None else str(value) if isinstance(value, str) else f"{value:g}"


_COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("mechanism", mechanism_of),
    ("NDCG", lambda row: ratio(row["ndcg"])),
    ("95 %", partial(interval_of, name="ndcg", write=ratio)),
    ("hit rate", lambda row: ratio(row["hit_rate"])),
    ("recall", lambda row: ratio(row["recall"])),
    ("catalogue", lambda row: percent(row["coverage"])),
)


def _pivoted(
    console: Console,
    rows: Sequence[Mapping[str, Any]],
    across: str,
    write: Callable[[float], str],
    title: str,
    cell: Callable[[Mapping[str, Any]], str] | None = None,
) -> None:
    """Print NDCG, or another cell: a line for each mechanism and epsilon, a column for each number of people."""
    values = sorted({row[across] for row in rows})
    cells = {(mechanism_of(row), row["epsilon"], row[across]): (cell or _cell)(row) for row in rows}
    lines: list[list[str] | None] = []
    for name in dict.fromkeys(name for name, *_ in cells):
        for epsilon in dict.fromkeys(key[1] for key in cells if key[0] == name):
            of_values = [cells.get((name, epsilon, value), "") for value in values]
            lines.append([name, epsilon_text(epsilon), *of_values])
        lines.append(None)
    columns = ("mechanism", "epsilon", *map(write, values))
    show_table(console, columns, lines[:-1], title=title, words=("mechanism",), names=2)
    sampled_users = sorted({row["users"] for row in rows if row["simulated"] == AGGREGATE and cell is None})
    if sampled_users:
        remark(console, f"from {sampled_users[0]:,} people on the sum of their answers was drawn from its law")


def _cell(row: Mapping[str, Any]) -> str:
    reach = (row["ndcg_high"] - row["ndcg_low"]) / 2
    return f"{ratio(row['ndcg']).lstrip('0')}±{f'{reach:.2f}' if reach >= 0.01 else f'{reach:.3f}'}".replace("±0", "±")


def _left(row: Mapping[str, Any]) -> str:
    return "none" if row["epsilon_local"] is None else f"{row['epsilon_local']:.3f}"


_CUT = (
    "curator: popularity counts {curated} likes of each person, which more people may not mend: raise --curated, or "
    "compare popularity (Gaussian)"
)
_LIARS = (
    "devices that lie: likes of an item that one is worth, and the share of them that lifts an item that nobody likes "
    "to rank ten, by people; of two servers with an ideal proof"
)


def _liar(row: Mapping[str, Any]) -> str:
    return f"{row['liar_likes']:.3g} ({100 * row['liar_share']:.2g} %)"


def _people(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print how many people reach 95 % of plain popularity."""
    epsilons = list(dict.fromkeys(row["epsilon"] for row in rows))
    by_name: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_name[f"{row['trust_model']}: {mechanism_of(row)}"].append(row)
    lines = []
    for name, of in by_name.items():
        about = [row for row in of if row.get("neighbours")]
        relation = (str(about[0]["neighbours"]), delta_text(row["delta"] for row in about)) if about else ("", "")
        cells = {row["epsilon"]: needed(row) for row in of}
        lines.append([name, *relation, *(cells.get(epsilon, "") for epsilon in epsilons)])
    title = f"people for {target_text(rows[0])}, at each epsilon, each with its interval"
    columns = ("mechanism", "neighbours", "delta", *map(epsilon_text, epsilons))
    show_table(console, columns, lines, title=title, words=("mechanism", "neighbours"))


def needed(row: Mapping[str, Any]) -> str:
    """Return how many people are needed, with the interval; an end outside of the measured range is shown as < or >.

    >>> row = {"users": 50_000, "users_low": 29_000, "users_high": None, "at_most": False, "least": 610, "most": 61_000}
    >>> needed(row), needed({**row, "users": 610, "at_most": True}), needed({**row, "users": None})
    ('50k [29k, > 61k]', '< 610', '> 61k')
    """
    if row["users"] is None or row["at_most"]:
        return f"> {short(row['most'])}" if row["users"] is None else f"< {short(row['users'])}"
    low, high = row["users_low"], row["users_high"]
    ends = (
        f"< {short(row['least'])}" if low is None else short(low),
        f"> {short(row['most'])}" if high is None else short(high),
    )
    return f"{short(row['users'])} [{', '.join(ends)}]"


MEANINGS = {
    "recall": "share of a person's held-out likes among the ten items ranked first",
    "coverage": "share of the items that stand on somebody's list",
    "liar_likes": "likes of one item that one liar is worth",
    "liar_share": "share of liars that lifts an item nobody likes to the tenth place",
    "ratings": "file of ratings",
    "people_in_file": "persons of the file before anything is left out",
    "public_constants": "settings that are declared and never taken from the file",
    "rows": "a row for each trust model, mechanism, epsilon and number of people",
    "features": "whether devices use public features of items",
    "simulated": "how the row was computed: device by device, or from the exact law of its sum",
    "seeds": "seeds, each with a split of its own",
    "over_popularity": "how much more NDCG than plain popularity, in pairs of the same people",
    "to_popularity": "difference in NDCG from plain popularity, in pairs of the same people",
    "hit_rate_to_popularity": "difference in hit rate from plain popularity, in pairs of the same people",
    "to_above": "difference in NDCG from the row named by above",
    "hit_rate_to_above": "difference in hit rate from the row named by above",
    "above": "the row that the next smaller trust is compared with",
    "compared": "whether the row counts among the others, for curves and numbers of people",
    "messages": "messages of a device on average",
    "trust_models": "trust models that were asked for",
    "rungs": "trust models of the ladder, from most trust to none",
    "trust_in_words": "what each trust model trusts whom with",
    "share": "share of plain popularity that a list is to reach",
    "at_most": "whether the fewest people that were measured already reach the share",
    "few": "largest number of people that was measured and falls short of the share",
    "many": "smallest number of people that was measured and reaches the share",
    "least": "fewest people that were measured",
    "most": "most people that were measured",
    "coordinator": "what a trusted coordinator saves its clients",
    "remarks": "what a reader must know of the comparison",
    "warnings": "those of the remarks that limit what may be believed",
    "devices": "devices that were simulated one by one",
}
"""Of results and rows of comparisons, where a run's columns have no such name."""
