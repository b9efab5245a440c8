"""What a page tells of a comparison and of a sweep: rows over settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from coordinator.protocol.mechanisms import public_halves as publics
from coordinator.protocol.public_half import LOCAL
from coordinator.server.server_half import TRUST_LOCAL
from scenarios.compare.rows.trusted import Paired
from scenarios.compare.settings import PUBLIC_RATES
from scenarios.compare.summary import RESAMPLED_NOTE
from scenarios.given.mechanisms import designs as halves
from scenarios.pages.promise import Promise, each, kind_of, merged, trusted
from scenarios.pages.subject import Subject
from scenarios.pages.told import Told
from scenarios.pages.values import NOTHING, Grid, Traced, grid_of, lines_of, shown, shown_interval, whole, words
from scenarios.two_tier.config import GUARANTEES, NONE

_COMPARED = ("mechanism", "features", "epsilon", "users", "public", "ndcg", "over_popularity", "hit_rate", "recall")
_SWEPT = {
    "settings": "Every setting",
    "schemes": "Every scheme",
    "points": "Every point",
    "summary": "Every point of the curves, means over seeds",
    "recommenders": "Every recommender",
    "fits": "Exponents",
    "ratios": "Ratios",
    "probes": "Shares of items right",
    "bounds": "Lower bounds",
    "attack": "What an attack guessed",
}


_PROVED = "epsilon_proved", "epsilon_most", "epsilon_exact"


def told_of_comparison(subject: Subject) -> Told:
    """Return what a page tells of a comparison."""
    record = subject.record
    rows = _rows(record, "rows")
    models = list(dict.fromkeys(str(row.value["trust_model"]) for row in rows))
    by_model = [grid_of(f"Trust model {name}", _where(rows, name), (*_COMPARED, "coverage")) for name in models]
    needed = _rows(record, "people")
    compared = [row for row in rows if row.value.get("compared", True)]
    private = [row for row in compared if row.get("epsilon") is not None]
    best = max(private or compared, key=lambda row: row.value["ndcg"], default=None)
    known = [
        row for row in _where(rows, "none") if row.value["mechanism"] == "popularity" and not row.value["features"]
    ]
    plain = known[0] if known else None
    panel = record.get("coordinator")
    keys = (
        "ratings",
        "people_in_file",
        "items",
        "split_by",
        "held_out",
        "like_from",
        "min_ratings",
        "public_constants",
    )
    noted = [told.get(place) for place in range(len(told.value))] if (told := record.get("remarks")) else []
    remarks = [one for one in noted if one]
    said = "{}: {} people and {} items, each mechanism on the same split."
    return Told(
        headline=[
            Markup(said).format(*(shown(record.get(key)) for key in keys[:3])),
            Markup("Best with an epsilon: {}; plain popularity, which knows all ratings: {}.").format(
                _advice(best), _advice(plain, name=False)
            ),
        ],
        trust=Markup(", ").join(trusted(row.get("trust_model")) for row in _first_of(rows, models)),
        asked=lines_of(record, (*keys, "duplicates", "from_the_file", "level")),
        promises=_compared(rows),
        believed=each("one person", [row.get("epsilon") for row in rows]),
        people=shown(record.get("people_in_file")),
        result=_advice(best),
        beside=Markup("plain popularity {}").format(_advice(plain, name=False)),
        grids=[
            *(one for one in by_model if one),
            *_present(grid_of("People for a share of plain popularity's NDCG", needed)),
            *(_panel(panel) if panel else ()),
        ],
        warnings=[shown(one) for one in remarks if one.value == RESAMPLED_NOTE],
        remarks=[shown(one) for one in remarks if one.value != RESAMPLED_NOTE],
    )


def told_of_sweep(subject: Subject) -> Told:
    """Return what a page tells of a sweep of any kind."""
    record = subject.record
    grids = [(name, grid_of(caption, rows)) for name, caption in _SWEPT.items() if (rows := _rows(record, name))]
    main = next((_rows(record, name) for name, _ in grids), [])
    every = [row.get(name) for row in main for name in ("epsilon", "epsilon_proved")] + [record.get("epsilon")]
    kind, model = record.get("sweep"), record.get("trust_model")
    lists = {name for name, _ in grids} | {"trajectory", "versions", "interval"}
    told = [name for name, value in record.items() if name not in lists and not value.rows()]
    result = _range(main, next((name for name in _MAIN if any(row.get(name) for row in main)), "users"))
    level = record.get("interval") or record.get("confidence")
    return Told(
        headline=[
            Markup("A sweep of {}{}.").format(
                shown(kind) if kind else "users that it takes",
                Markup(" over {}").format(shown(varied)) if (varied := record.get("varied")) else "",
            ),
            Markup("Measured: {}.").format(result),
            *([Markup("Intervals have the level {}.").format(shown(level))] if level else ()),
        ],
        trust=trusted(model) if model else Markup("as its settings say"),
        asked=lines_of(record, told),
        promises=_of_sweep(record, main),
        believed=each("one person, in such settings", every),
        people=_range(main, "users"),
        result=result,
        beside=NOTHING,
        grids=[grid for _, grid in grids if grid],
    )


_MAIN = ("accuracy", "hit_rate", "ndcg", "rmse", "loss", "mean")
"""What a sweep measured, if it is not users."""


def _of_sweep(record: Traced, rows: Sequence[Traced]) -> list[Promise]:
    """Return what a sweep's settings promise: by design, by mechanism of two tiers, or by what is proved."""
    values = [row.value for row in rows]
    if any("design" in row for row in values):
        return merged((_of_design(row), str(row["design"])) for row in values if "design" in row)
    if record.value.get("trust_model") == "two-tier":
        names = [str(row.get("curve") or row.get("mechanism")).split(":")[0] for row in values]
        return merged((kind_of(GUARANTEES.get(name, LOCAL)), name) for name in names)
    if any("recommender" in row for row in values):
        proved = [next((row[name] for name in _PROVED if row.get(name) is not None), None) for row in values]
        kinds = ["none" if one is None else "curator" for one in proved]
        return merged((kind, str(row["recommender"])) for kind, row in zip(kinds, values, strict=True))
    return merged([("local", "settings with a finite epsilon")])


def _of_design(row: Mapping[str, Any]) -> str:
    known, public = halves().get(str(row["design"])), publics().get(str(row["design"]))
    if row.get("epsilon") == "inf" or (known is not None and not known.private):
        return "none"
    return kind_of(public.promise if public else LOCAL, known.trust if known else TRUST_LOCAL)


def _compared(rows: Sequence[Traced]) -> list[Promise]:
    """Return what the rows of a comparison promise: in two tiers it is their mechanism's word that counts."""
    return merged((_of_row(row.value), f"{row.value['trust_model']}: {row.value['mechanism']}") for row in rows)


def _of_row(row: Mapping[str, Any]) -> str:
    model, mechanism, epsilon = str(row["trust_model"]), str(row["mechanism"]), row.get("epsilon")
    if model == "none" or epsilon == "inf":
        return "none"
    if model == "curator":
        return "approximate" if row.get("delta", Paired.delta if mechanism == Paired.mechanism else None) else "curator"
    if model == PUBLIC_RATES:
        return "part"
    if model == "two-tier" and epsilon is None:
        return kind_of(GUARANTEES.get(mechanism.lower(), GUARANTEES[NONE]))
    return "local"


def _rows(record: Traced, name: str) -> list[Traced]:
    return found.rows() if (found := record.get(name)) else []


def _present(grid: Grid | None) -> list[Grid]:
    return [grid] if grid else []


def _where(rows: Sequence[Traced], model: str) -> list[Traced]:
    return [row for row in rows if row.value["trust_model"] == model]


def _first_of(rows: Sequence[Traced], models: Sequence[str]) -> list[Traced]:
    return [_where(rows, name)[0] for name in models]


def _advice(row: Traced | None, *, name: bool = True) -> Markup:
    """Return NDCG of a row, with its interval, and which row it is."""
    if row is None:
        return NOTHING
    ndcg = Markup("NDCG {}{}").format(shown(row.get("ndcg")), shown_interval(row.get("ndcg_low"), row.get("ndcg_high")))
    if not name:
        return ndcg
    features = " with features" if row.value["features"] else ""
    epsilon = Markup(" at epsilon {}").format(shown(one)) if (one := row.get("epsilon")) else ""
    whom = Markup(" by {} people").format(shown(row.get("users"), whole))
    mechanism = Markup("{}, {}").format(shown(row.get("trust_model")), shown(row.get("mechanism")))
    return Markup("{}{}{}{}: {}").format(mechanism, features, epsilon, whom, ndcg)


def _range(rows: Sequence[Traced], key: str) -> Markup:
    """Return the smallest and the largest of some rows' values, with the name of the column."""
    found = sorted((one for row in rows if (one := row.get(key))), key=Traced.number)
    if not found:
        return NOTHING
    ends = found[:1] if found[0].value == found[-1].value else [found[0], found[-1]]
    return Markup("{} {}").format(words(key), Markup(" to ").join(shown(one) for one in ends))


def _panel(panel: Traced) -> list[Grid]:
    """Return the coordinator's panel: its lines, and its tables."""
    plain = [key for key, value in panel.items() if not value.rows()]
    rows = [[Markup("{}").format(name), told] for name, told in lines_of(panel, plain)]
    lines = Grid(caption="The coordinator's panel", headings=["what", "value"], rows=rows)
    tables = [grid_of(f"The coordinator's panel: {words(key)}", value.rows()) for key, value in panel.items()]
    return [lines, *(one for one in tables if one)]
