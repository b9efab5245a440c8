"""The schema of results: what pages and pictures compute with, by the kind of a result and by its place in it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import named_recommenders as recommenders
from scenarios.config.files import MOST_RECORD, brief, json_object, pointed, read_file, read_table
from scenarios.pages.traced import Traced
from scenarios.show.records import PROVENANCE
from scenarios.store.manifest import FOLDER, MANIFEST

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 1e100  # Numbers beyond it are refused: no axis can show them, and their sums and powers are no numbers
MOST_LETTERS, MOST_ROWS = 4000, 50_000  # Of a text and of a table
REMEDY = "name a folder of --out or a file of --json"


@dataclass(frozen=True, slots=True)
class Spec:
    """What must stand at a place."""

    words: str
    fits: Callable[[Any], bool]
    # Of a value that fits: keys, what must stand there, and whether that may be missing
    parts: Callable[[Any], Iterable[tuple[Any, Spec, bool]]] = lambda _: ()

    def __or__(self, other: Spec) -> Spec:
        return Spec(
            f"{self.words} or {other.words}",
            lambda value: self.fits(value) or other.fits(value),
            lambda value: (self if self.fits(value) else other).parts(value),
        )


def values_of(inner: Spec, of: Any, least: int = 0, most: int = MOST_ROWS) -> Spec:
    """Return a list of values of one kind, or an object with any names and such values; so many at least and most."""
    return Spec(
        f"{'a list' if of is list else 'an object'} of {least} to {most} values",
        lambda value: isinstance(value, of) and least <= len(value) <= most,
        lambda value: [(key, inner, False) for key in (range(len(value)) if of is list else value)],
    )


def _number(low: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= LARGEST


NULL = Spec("null", lambda value: value is None)
NUMBER, AMOUNT = Spec("a number", _number(-LARGEST)), Spec("a number from 0", _number(0))
WHOLE = Spec("a whole number from 0", lambda value: type(value) is int and value >= 0)
EPSILON = AMOUNT | Spec('"inf"', lambda value: isinstance(value, str) and value == "inf")
_KNOWN: dict[str, Spec] = {
    "null": NULL,
    "text": Spec(
        f"a line of at most {MOST_LETTERS} letters",
        lambda value: isinstance(value, str) and len(value) <= MOST_LETTERS and value.isprintable(),
    ),
    "truth": Spec("true or false", lambda value: isinstance(value, bool)),
    "number": NUMBER,
    "amount": AMOUNT,
    "positive": Spec("a number above 0", lambda value: AMOUNT.fits(value) and value > 0),
    "whole": WHOLE,
    "epsilon": EPSILON,
    "share": NUMBER | NULL,
    "privacy": EPSILON | NULL,
    "ends": values_of(NUMBER | NULL, list, 2, 2),
    "shape": values_of(WHOLE, list, 2),
    "any": Spec("anything", lambda _: True),
    "figure": Spec("1-left, 1-right or 2", lambda value: value in ("1-left", "1-right", "2")),
    "recommender": Spec(  # its bounds and its colour are looked up
        "a recommender of blindrec", lambda value: isinstance(value, str) and value in recommenders()
    ),
}
_RECORDS = """
worth = mechanism: text; features: truth; epsilon: epsilon; worth users_here: number; people: positive or null;
    people_low people_high: share; here: number
design = design trust_model: text; decoder? choice? guarantee? neighbours?: text or null; private: truth;
    epsilon: epsilon; delta?: share;
    users users_here: amount or null; users_low? users_high?: share
bound = name: text; users: amount; binds: truth
advised = epsilon: epsilon; words: text
plan = target: text; items rated: amount; designs: list 1 design; bounds: list bound; recommended: design or null
forecast = ratings users items: whole; worth: list worth; advice: list advised; worth_not: text or null
spread = min lower_quartile median upper_quartile max: positive
learnable = epsilon: epsilon
data = ratings: whole; ratings_per_user ratings_per_item: spread; worth?: list worth; advice?: list advised;
    learnable?: list learnable or null
attack = plays?: amount
audit = design guarantee?: text; claimed measured exact?: privacy; confidence?: amount or null; attacks?: list attack
audits = audits? rows? mechanisms?: list audit

experiment = guarantee? trust_model?: text; neighbours?: text or null; delta?: share; repeat?: whole;
    intervals?: named ends
run = experiment; design: text; epsilon? person_epsilon?: privacy; exact?: number or truth or null;
    accuracy? accuracy_predicted? hit_rate? popularity_hit_rate? random_hit_rate? ndcg? popularity_ndcg? random_ndcg?
    advice_liked? random_liked? top_50? ari? nmi?: share
online = experiment; recommender: text; epsilon_exact? epsilon_proved? epsilon_needed? voter_epsilon?
    privacy_loss_of_peers? privacy_loss_of_run?: privacy;
    loss? loss_bound? loss_random? rounds? objects? voters? peers? diversity? radius?: amount or null
two-tier = experiment; mechanism: text; public answered: amount; epsilon?: privacy;
    rmse? rmse_public_only? rmse_baseline? hit_rate? ndcg? popularity_hit_rate? popularity_ndcg?: share

client = recommender: recommender; to_random_share: number; to_random_share_low to_random_share_high: share;
    epsilon? epsilon_proved? epsilon_most? epsilon_exact?: privacy
recommenders = distinct_clients: whole; recommenders: list 1 client
compared = trust_model mechanism: text; features: truth; users: positive; public: amount or null; epsilon: privacy;
    ndcg: number; ndcg_low ndcg_high: share; neighbours?: text or null; delta? liar_likes? liar_share?: share
paid = by group: text; trust_model mechanism: text; features: truth; users: positive; public: amount or null;
    epsilon: privacy; people: positive; ndcg: number; ndcg_low ndcg_high to_popularity to_popularity_low: share;
    to_popularity_high: share
compare = people_in_file items: whole; who_pays?: list 1 paid; ratings: text;
    rows: list 1 compared; coordinator?: recommenders or null

scheme = label: text; items: positive; users predicted: amount or null; low high: share; epsilon?: privacy
least = adaptive: truth; items: positive; users: amount
step = pool undecided wrong users: amount
course = label: text; items: whole; steps: list 1 step
schemes = confidence rated epsilon: amount; schemes: list 1 scheme; bounds: list least; trajectory: course or null
point = axis: text; x loss: amount; recommender: recommender; environment: text or null;
    loss_low loss_high loss_bound loss_exact loss_lower_bound: share;
    epsilon_proved epsilon_exact epsilon_lower privacy_loss: privacy
panel = epsilon: truth; x same: text
points = points: list 1 point; panels: named panel; axes: named 1 6 any; epsilon?: privacy
base = ratings: text or null; planted: shape or null
curve = figure: figure; curve: text; x: amount; rmse: number; low high: share; epsilon?: privacy
guess = mechanism: text; epsilon: amount or null; known: whole; flip_found like_right rmse: share
summary = base: base; summary: list curve; attack: list guess or null; epsilon?: privacy
setting = epsilon? epsilon_proved?: privacy; items? rated?: amount or null;
    users? accuracy? hit_rate? ndcg? rmse? loss? mean?: share
columns = columns: named text; varied: list text; settings: list setting
sweep = settings?: list setting; most_users?: positive; share?: number; epsilon?: privacy
"""
"""Objects by their names, whose fields have a semicolon between them; one with a question mark may be missing."""


def _type(words: str) -> Spec:
    """Return a type: a name, ``list`` or ``named`` with the least and the most values, or alternatives."""
    first, *others = words.split(" or ")
    *how, name = first.split()
    spec = _KNOWN[name]
    if how:
        spec = values_of(spec, list if how[0] == "list" else Mapping, *map(int, how[1:]))
    return reduce(or_, map(_KNOWN.__getitem__, others), spec)


def _object(fields: str) -> Spec:
    """Return the type of an object with these fields; a name alone stands for those of that record."""
    parts: list[tuple[str, Spec, bool]] = []
    for names, _, words in (one.partition(":") for one in fields.split(";")):
        for name in names.split():
            optional = name.endswith("?")
            parts += [(name.removesuffix("?"), _type(words), optional)] if words else _KNOWN[name].parts({})
    return Spec("an object", lambda value: isinstance(value, Mapping), lambda _: parts)


for _line in filter(None, _RECORDS.replace("\n    ", " ").split("\n")):
    _name, _, _fields = _line.partition(" = ")
    _KNOWN[_name] = _object(_fields)
Fault = tuple[str, str, str]  # A place, the value there in words, and what must stand there


@dataclass(frozen=True, slots=True)
class Schema:
    """What a kind of record must hold."""

    family: str  # The command that it is of
    keys: str  # What only such records have
    record: str  # Its name among the records
    related: Callable[[Mapping[str, Any]], Fault | None] = lambda _: None  # What leaves must have in common
    tables: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # That pictures draw: numbers, other columns


def _plan(record: Mapping[str, Any]) -> Fault | None:
    private = any(row["private"] for row in record["designs"])
    return None if private else ("/designs", "no private design", "one that is private")


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
    names = [*record["varied"], *ends, *(() if record["varied"] else ("setting",))]
    missing = ((place, name) for place, row in enumerate(record["settings"]) for name in names if name not in row)
    fault = next(missing, None)
    return fault and (f"/settings/{fault[0]}/{pointed(fault[1])}", "nothing", "a value of the sweep")


def _base(record: Mapping[str, Any]) -> Fault | None:
    has_base = record["base"]["ratings"] is not None or record["base"]["planted"] is not None
    return None if has_base else ("/base/planted", "null", "what was planted, or the name of a file at /base/ratings")


_OF_RUNS = {"items": ("score standard_error", "cluster"), "rounds": ("pool answered", "")}
_STEPS = {"iterations": ("iteration objective", "")}
_UNITS = {"units": ("epsilon_proved privacy_loss_of_peers", "recommender")}
_FIGURE = {"figure": ("x users low high", "axis criterion kind label")}
SCHEMAS: Mapping[str, Schema] = {
    "audit": Schema("audit", "claimed measured confidence", "audit"),
    "audits": Schema("audit", "", "audits"),
    "compare": Schema("compare", "rows people_in_file public_constants", "compare"),
    "plan": Schema("plan", "designs recommended target", "plan", _plan),
    "data": Schema("data", "format ratings_per_user", "data"),
    "forecast": Schema("plan", "worth worth_not", "forecast"),
    "online": Schema("online", "recommender loss", "online", tables={"rounds": ("round liked", "client")}),
    "two-tier": Schema("two-tier", "mechanism rmse private", "two-tier", tables=_STEPS),
    "run": Schema("run", "design policy answered", "run", tables=_OF_RUNS),
    "schemes": Schema("sweep", "sweep schemes", "schemes"),
    "points": Schema("sweep", "sweep points", "points", _points),
    "recommenders": Schema("sweep", "sweep recommenders", "recommenders", tables=_UNITS),
    "summary": Schema("sweep", "sweep summary", "summary", _base),
    "columns": Schema("sweep", "sweep columns", "columns", _columns),
    "sweep": Schema("sweep", "sweep", "sweep", tables=_FIGURE),
    "fits": Schema("sweep", "settings fits", "sweep", tables=_FIGURE),
}
"""By kind of record; the first whose keys a record has is its own."""


def schema_of(record: Mapping[str, Any], path: object) -> Schema:
    """Return the schema of a record, by its keys."""
    lists = [rows for rows in record.values() if isinstance(rows, list) and rows and isinstance(rows[0], dict)]
    several = any({"claimed", "measured"} <= {*rows[0]} for rows in lists)
    if several and "claimed" in record:  # its attacks have such rows, too
        return SCHEMAS["audit"]
    for schema in SCHEMAS.values():
        if several if not schema.keys else {*schema.keys.split()} <= {*record}:
            return schema
    families = ", ".join(dict.fromkeys(schema.family for schema in SCHEMAS.values()))
    raise InputError(f"{path} holds a record that no report shows; name a result of {families}")


def check_record(schema: Schema, record: Mapping[str, Any], path: object) -> None:
    """Refuse a record that pages and pictures cannot compute with."""
    if fault := _fault(record, _KNOWN[schema.record], "") or schema.related(record):
        place, value, words = fault
        where = f"at {brief(place)}, where {words} must stand"
        raise InputError(f"{path} has {value} {where}; put it back as it was, or make it anew")


def _fault(value: Any, spec: Spec, place: str) -> Fault | None:
    """Return the first fault of a value."""
    if not spec.fits(value):
        return place, brief(value), spec.words
    for key, inner, optional in spec.parts(value):
        below = f"{place}/{pointed(str(key))}"
        if not isinstance(value, Mapping) or key in value:
            fault = _fault(value[key], inner, below)
        else:
            fault = None if optional else (below, "nothing", inner.words)
        if fault is not None:
            return fault
    return None


def check_table(columns: tuple[str, str], table: pd.DataFrame, path: object) -> pd.DataFrame:
    """Return a table of a folder as pictures draw it: numbers that axes can show, others are missing; and the rest."""
    import pandas as pd  # noqa: PLC0415 (the caller has loaded it)

    numbers, others = (names.split() for names in columns)
    for column in (*numbers, *others):
        if column not in table or table[column].map(lambda one: isinstance(one, (list, dict, bytes))).any():
            raise InputError(f"{path} has no column {column} that can be drawn; put it back as it was")
        if column in numbers:
            try:
                values = pd.to_numeric(table[column]).astype(float)
            except (ValueError, TypeError):
                raise InputError(f"{path}: column {column} must be a column of numbers; put it back") from None
            table[column] = values.where(values.abs() <= LARGEST, math.nan)
    return table


DOCUMENTS = {name: f"{name}.json" for name in ("result", "scenario", "versions")} | {"mark": f"{FOLDER}/{MANIFEST}"}
"""What a folder may hold, by the name that places on a page have for it."""


@dataclass(frozen=True, slots=False, kw_only=True)
class Subject:
    """A result to tell of: a folder of `--out` or a file of `--json`, read and never written."""

    number: int  # Its place on the page, from 1
    path: Path  # Its folder or file
    schema: Schema
    documents: Mapping[str, Mapping[str, Any]] = field(repr=False)  # Its JSON, by the names of `DOCUMENTS`
    sha256: str = ""  # Digest of the result's file

    @property
    def family(self) -> str:
        """The command that it is of."""
        return self.schema.family

    def of(self, document: str) -> Traced:
        """Return a document; one that is not there is empty."""
        return Traced(self.documents.get(document, {}), f"{self.number}/{document}#")

    @property
    def record(self) -> Traced:
        """What `--json` prints."""
        return self.of("result")

    @property
    def scenario(self) -> Mapping[str, Any] | None:
        """The scenario's file; of sweeps what all units depend on."""
        return self.documents.get("scenario") or self.documents.get("mark")

    @property
    def name(self) -> str:
        """What the page calls it: its folder's or its file's name."""
        return self.path.resolve().name

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The folder's tables by their names, for figures."""
        return {
            name: check_table(columns, read_table(path, REMEDY), path)
            for ending in ("parquet", "csv")
            for name, columns in self.schema.tables.items()
            if (path := self.path / f"{name}.{ending}").exists() and self.path.is_dir()
        }


def read_subject(path: Path, number: int) -> Subject:
    """Read a folder or a file."""
    files = {name: path / file for name, file in DOCUMENTS.items()} if path.is_dir() else {"result": path}
    if path.is_dir() and not files["result"].exists():
        raise InputError(f"{path} holds no result.json; name a folder of --out whose command has ended")
    contents = {
        name: read_file(file, "result", REMEDY, MOST_RECORD)
        for name, file in files.items()
        if name == "result" or file.exists()
    }
    documents = {name: json_object(content, str(files[name]), REMEDY) for name, content in contents.items()}
    if not path.is_dir() and isinstance(made := documents["result"].pop(PROVENANCE, None), dict):
        documents["versions"] = made
    digest = hashlib.sha256(contents["result"]).hexdigest()
    schema = schema_of(documents["result"], path)
    check_record(schema, documents["result"], path)
    return Subject(number=number, path=path, schema=schema, documents=documents, sha256=digest)
