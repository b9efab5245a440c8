"""The schema of results: what pages and pictures compute with, by the family of a result and by its place in it.

A result is read through it once, where it is opened. Whatever stands in a result beside that is shown as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import named_recommenders as recommenders
from scenarios.given.files import pointed
from scenarios.given.values import brief

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 1e100
"""Numbers beyond it are refused: no axis can show them, and their sums and powers are no numbers."""
MOST_LETTERS, MOST_ROWS = 4000, 50_000
"""Of a text and of a table."""
Fits = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value: what it must be, in words, and whether one is that."""

    words: str
    fits: Fits

    def __or__(self, other: Leaf) -> Leaf:
        return Leaf(f"{self.words} or {other.words}", lambda value: self.fits(value) or other.fits(value))


@dataclass(frozen=True, slots=True)
class Table:
    """A list of at least so many values of one kind."""

    inner: Any
    least: int = 0
    most: int = MOST_ROWS


@dataclass(frozen=True, slots=True)
class Named:
    """An object with any names, whose values are of one kind."""

    inner: Any
    least: int = 0
    most: int = MOST_ROWS


def _between(low: float, high: float = LARGEST) -> Fits:
    return lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high


NULL = Leaf("null", lambda value: value is None)
ANY = Leaf("anything", lambda _: True)
TEXT = Leaf(
    f"a line of at most {MOST_LETTERS} letters",
    lambda value: isinstance(value, str) and len(value) <= MOST_LETTERS and value.isprintable(),
)
TRUTH = Leaf("true or false", lambda value: isinstance(value, bool))
NUMBER = Leaf("a number", _between(-LARGEST))
AMOUNT = Leaf("a number from 0", _between(0))
POSITIVE = Leaf("a number above 0", lambda value: AMOUNT.fits(value) and value > 0)
WHOLE = Leaf("a whole number from 0", lambda value: type(value) is int and value >= 0)
EPSILON = AMOUNT | Leaf('"inf"', lambda value: isinstance(value, str) and value == "inf")
Spec = Leaf | Table | Named | Mapping[str, Any] | tuple[Any, ...]
"""What a value must be; an object's names that end in ``?`` may be missing, and a tuple also admits null."""


def _each(names: str, leaf: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), leaf)


_INTERVALS = Named(Table(NUMBER | NULL, 2, 2))
_EXPERIMENT = {"guarantee?": TEXT, "trust_model?": TEXT, "intervals?": _INTERVALS, "repeat?": WHOLE}
_WORTH = Table(
    {
        **_each("mechanism", TEXT),
        **_each("features", TRUTH),
        **_each("epsilon", EPSILON),
        **_each("worth users_here", NUMBER),
        "people": POSITIVE | NULL,
        **_each("people_low people_high", NUMBER | NULL),
    }
)
_SPREAD = _each("min lower_quartile median upper_quartile max", POSITIVE)
_DESIGN = {
    **_each("design trust_model", TEXT),
    **_each("decoder? choice? guarantee?", TEXT | NULL),
    "private": TRUTH,
    "epsilon": EPSILON,
    **_each("users users_here", AMOUNT | NULL),
    **_each("users_low? users_high?", NUMBER | NULL),
}
_AUDIT = {
    "design": TEXT,
    "guarantee?": TEXT,
    "claimed": EPSILON | NULL,
    "exact?": EPSILON | NULL,
    "measured": EPSILON | NULL,
    "confidence?": AMOUNT | NULL,
    "attacks?": Table({"plays?": AMOUNT}),
}
_RECOMMENDER = Leaf(
    "a recommender of blindrec", lambda value: isinstance(value, str) and value in recommenders()
)  # its bounds and its colour are looked up
_CLIENTS = {
    "distinct_clients": WHOLE,
    "recommenders": Table(
        {
            "recommender": _RECOMMENDER,
            "to_random_share": NUMBER,
            **_each("to_random_share_low to_random_share_high", NUMBER | NULL),
            **_each("epsilon? epsilon_proved? epsilon_most? epsilon_exact?", EPSILON | NULL),
        },
        1,
    ),
}
_SETTINGS = Table(
    {
        **_each("epsilon? epsilon_proved?", EPSILON | NULL),
        **_each("users? accuracy? hit_rate? ndcg? rmse? loss? mean?", NUMBER | NULL),
        **_each("items? rated?", AMOUNT | NULL),
    }
)
SCHEMAS: Mapping[str, Spec] = {
    "run": {
        **_EXPERIMENT,
        "design": TEXT,
        **_each("epsilon? person_epsilon?", EPSILON | NULL),
        **_each("accuracy? accuracy_predicted? hit_rate? popularity_hit_rate? random_hit_rate?", NUMBER | NULL),
        **_each("ndcg? popularity_ndcg? random_ndcg? advice_liked? random_liked? top_50? ari? nmi?", NUMBER | NULL),
        "exact?": NUMBER | TRUTH | NULL,
    },
    "online": {
        **_EXPERIMENT,
        "recommender": TEXT,
        **_each("epsilon_exact? epsilon_proved? epsilon_needed? voter_epsilon?", EPSILON | NULL),
        **_each("privacy_loss_of_peers? privacy_loss_of_run?", EPSILON | NULL),
        **_each("loss? loss_bound? loss_random? rounds? objects? voters? peers? diversity? radius?", AMOUNT | NULL),
    },
    "two-tier": {
        **_EXPERIMENT,
        "mechanism": TEXT,
        **_each("public answered", AMOUNT),
        "epsilon?": EPSILON | NULL,
        **_each("rmse? rmse_public_only? rmse_baseline? hit_rate? ndcg?", NUMBER | NULL),
        **_each("popularity_hit_rate? popularity_ndcg?", NUMBER | NULL),
    },
    "plan": {
        "target": TEXT,
        **_each("items rated", AMOUNT),
        "designs": Table(_DESIGN, 1),
        "bounds": Table({"name": TEXT, "users": AMOUNT, "binds": TRUTH}),
        "recommended": (_DESIGN,),
        "worth?": (_WORTH,),
    },
    "data": {
        "ratings": WHOLE,
        **_each("ratings_per_user ratings_per_item", _SPREAD),
        "worth?": (_WORTH,),
        "learnable?": (Table({"epsilon": EPSILON}),),
    },
    "compare": {
        "rows": Table(
            {
                **_each("trust_model mechanism", TEXT),
                "features": TRUTH,
                "users": POSITIVE,
                "public": AMOUNT | NULL,
                "epsilon": EPSILON | NULL,
                "ndcg": NUMBER,
                **_each("ndcg_low ndcg_high", NUMBER | NULL),
            },
            1,
        ),
        **_each("people_in_file items", WHOLE),
        "ratings": TEXT,
        "coordinator?": (_CLIENTS,),
    },
    "audit": _AUDIT,
    "audits": {f"{name}?": Table(_AUDIT) for name in ("audits", "rows", "mechanisms")},
    "schemes": {
        "schemes": Table(
            {
                "label": TEXT,
                "items": POSITIVE,
                **_each("users predicted", AMOUNT | NULL),
                **_each("low high", NUMBER | NULL),
                "epsilon?": EPSILON | NULL,
            },
            1,
        ),
        "bounds": Table({"adaptive": TRUTH, "items": POSITIVE, "users": AMOUNT}),
        "trajectory": (
            {"label": TEXT, "items": WHOLE, "steps": Table(_each("pool undecided wrong users", AMOUNT), 1)},
        ),
        **_each("confidence rated epsilon", AMOUNT),
    },
    "points": {
        "points": Table(
            {
                "axis": TEXT,
                "x": AMOUNT,
                "recommender": _RECOMMENDER,
                "environment": TEXT | NULL,
                "loss": AMOUNT,
                **_each("loss_low loss_high loss_bound loss_exact loss_lower_bound", NUMBER | NULL),
                **_each("epsilon_proved epsilon_exact epsilon_lower privacy_loss", EPSILON | NULL),
            },
            1,
        ),
        "panels": Named({"epsilon": TRUTH, "x": TEXT, "same": TEXT}),
        "axes": Named(ANY, 1, 6),
        "epsilon?": EPSILON | NULL,
    },
    "recommenders": _CLIENTS,
    "summary": {
        "base": {"ratings": TEXT | NULL, "planted": (Table(WHOLE, 2),)},
        "summary": Table(
            {
                "figure": Leaf("1-left, 1-right or 2", lambda value: value in ("1-left", "1-right", "2")),
                "curve": TEXT,
                "x": AMOUNT,
                "rmse": NUMBER,
                **_each("low high", NUMBER | NULL),
                "epsilon?": EPSILON | NULL,
            }
        ),
        "attack": (
            Table(
                {
                    "mechanism": TEXT,
                    "epsilon": AMOUNT | NULL,
                    "known": WHOLE,
                    **_each("flip_found like_right rmse", NUMBER | NULL),
                }
            ),
        ),
        "epsilon?": EPSILON | NULL,
    },
    "columns": {"columns": Named(TEXT), "varied": Table(TEXT), "settings": _SETTINGS},
    "sweep": {"settings?": _SETTINGS, "most_users?": POSITIVE, "share?": NUMBER, "epsilon?": EPSILON | NULL},
}
"""By family; of sweeps by the key that only records of a kind have."""
_KINDS = ("schemes", "points", "recommenders", "summary", "columns")
_NUMBERS = "a column of numbers"
TABLES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("run", "items"): {**_each("score standard_error", _NUMBERS), "cluster": ""},
    ("run", "rounds"): _each("pool answered", _NUMBERS),
    ("two-tier", "iterations"): _each("iteration objective", _NUMBERS),
    ("online", "rounds"): {"client": "", **_each("round liked", _NUMBERS)},
    ("recommenders", "units"): {"recommender": "", **_each("epsilon_proved privacy_loss_of_peers", _NUMBERS)},
    ("sweep", "figure"): {**_each("axis criterion kind label", ""), **_each("x users low high", _NUMBERS)},
}
"""Columns of the tables that pictures draw, by kind of a record and name; which are numbers."""


def kind_of(family: str, record: Mapping[str, Any]) -> str:
    """Return the name of the schema that a record of a family has."""
    if family == "audit" and "claimed" not in record:
        return "audits"
    return next((key for key in _KINDS if key in record), family) if family == "sweep" else family


def check_record(family: str, record: Mapping[str, Any], path: object) -> None:
    """Refuse a record that pages and pictures cannot compute with."""
    kind = kind_of(family, record)
    if (fault := _fault(record, SCHEMAS[kind], "")) is None:
        fault = _CROSS[kind](record) if kind in _CROSS else None
    if fault is not None:
        place, value, words = fault
        raise InputError(
            f"{path} has {value} at {brief(place)}, where {words} must stand; put it back as it was, or make it anew"
        )


Fault = tuple[str, str, str]
"""A place, the value there in words, and what must stand there."""


def _fault(value: Any, spec: Any, place: str) -> Fault | None:
    """Return the first fault of a value."""
    if isinstance(spec, tuple):
        return None if value is None else _fault(value, spec[0], place)
    if isinstance(spec, Leaf):
        return None if spec.fits(value) else (place, brief(value), spec.words)
    if isinstance(spec, Mapping):
        fits, named = isinstance(value, Mapping), [(name, inner) for name, inner in spec.items()]
    else:
        fits = isinstance(value, Mapping if isinstance(spec, Named) else list) and spec.least <= len(value) <= spec.most
        places = value if isinstance(value, Mapping) else range(len(value) if fits else 0)
        named = [(str(name), spec.inner) for name in places]
    if not fits:
        return place, brief(value), _words(spec)
    for name, inner in named:
        key = name.removesuffix("?") if isinstance(spec, Mapping) else name
        below = f"{place}/{pointed(key)}"
        if isinstance(value, Mapping) and key not in value:
            fault = None if name.endswith("?") else (below, "nothing", _words(inner))
        else:
            fault = _fault(value[int(key)] if isinstance(value, list) else value[key], inner, below)
        if fault is not None:
            return fault
    return None


def _words(spec: Any) -> str:
    if isinstance(spec, tuple):
        return f"{_words(spec[0])}, or null,"
    if isinstance(spec, Leaf):
        return spec.words
    noun = "a list" if isinstance(spec, Table) else "an object"
    return noun if isinstance(spec, Mapping) else f"{noun} of {spec.least} to {spec.most} values"


def _plan(record: Mapping[str, Any]) -> Fault | None:
    if not any(row["private"] for row in record["designs"]):
        return "/designs", "no private design", "one that is private"
    return None


def _points(record: Mapping[str, Any]) -> Fault | None:
    for name in record["axes"]:
        if name not in record["panels"]:
            return f"/panels/{pointed(name)}", "nothing", "the panel of an axis"
        if not any(row["axis"] == name for row in record["points"]):
            return f"/axes/{pointed(name)}", "an axis", "one that points have"
    strange = (place for place, row in enumerate(record["points"]) if row["axis"] not in record["panels"])
    return next(((f"/points/{place}/axis", "an axis", "one that has a panel") for place in strange), None)


def _columns(record: Mapping[str, Any]) -> Fault | None:
    ends = [f"{name}{end}" for name in record["columns"] for end in ("", "_low", "_high")]
    for place, row in enumerate(record["settings"]):
        for name in (*record["varied"], *ends, "setting"):
            if name not in row and (name != "setting" or not record["varied"]):
                return f"/settings/{place}/{pointed(name)}", "nothing", "a value of the sweep"
    return None


def _summary(record: Mapping[str, Any]) -> Fault | None:
    base = record["base"]
    if base["ratings"] is None and base["planted"] is None:
        return "/base/planted", "null", "what was planted, or the name of a file at /base/ratings"
    return None


_CROSS: Mapping[str, Callable[[Mapping[str, Any]], Fault | None]] = {
    "plan": _plan,
    "points": _points,
    "columns": _columns,
    "summary": _summary,
}
"""What leaves of a record must have in common."""


def check_table(kind: str, name: str, table: pd.DataFrame, path: object) -> pd.DataFrame:
    """Return a table of a folder as pictures draw it: numbers that axes can show; others are missing."""
    import pandas as pd  # noqa: PLC0415 (the caller has loaded it)

    for column, words in TABLES.get((kind, name), {}).items():
        if column not in table or table[column].map(lambda one: isinstance(one, (list, dict, bytes))).any():
            raise InputError(f"{path} has no column {column} that can be drawn; put it back as it was")
        if words:
            try:
                numbers = pd.to_numeric(table[column]).astype(float)
            except (ValueError, TypeError):
                raise InputError(f"{path}: column {column} must be {words}; put it back as it was") from None
            table[column] = numbers.where(numbers.abs() <= LARGEST, math.nan)
    return table
