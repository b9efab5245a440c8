"""A result that a page is about: a folder or a file, read and never written; impossible numbers are refused."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.protocol.errors import InputError
from scenarios.config.files import MOST_RECORD, brief, json_object, pointed, read_file, read_table
from scenarios.show.records import PROVENANCE
from scenarios.store.manifest import FOLDER, MANIFEST

if TYPE_CHECKING:
    import pandas as pd

REMEDY = "name a folder of --out or a file of --json"
DOCUMENTS = {name: f"{name}.json" for name in ("result", "scenario", "versions")} | {"mark": f"{FOLDER}/{MANIFEST}"}
TABLES = ("items", "rounds", "iterations", "units", "figure")
"""Tables of a folder that pictures draw."""
_KEYS = {
    "claimed measured confidence": "audit",
    "rows epsilon_of_all": "years",
    "rows people_attacked": "risk",
    "rows people_in_file": "compare",
    "designs recommended target": "plan",
    "format ratings_per_user": "data",
    "rows answer_not": "plan",
    "recommender loss": "online",
    "mechanism rmse private": "two-tier",
    "design policy answered": "run",
    "sweep": "sweep",
    "settings fits": "sweep",
}
"""Keys that only records of a command have; the first that a record has say which it is of."""
LARGEST = 1e100  # Numbers beyond it are refused: no axis can show them, and their sums and powers are no numbers
MOST_LETTERS = 4000  # Of a text
_NUMBERS = frozenset(("ndcg", "hit_rate", "rmse", "loss", "accuracy", "accuracy_predicted", "low", "high"))
_AMOUNTS = frozenset((
    "rounds", "voters", "answered", "asked", "confidence", "claimed", "measured", "plays", "most", "least",
    "epsilon", "epsilon_proved", "epsilon_exact", "voter_epsilon", "person_epsilon", "copies_max",
    "people", "people_low", "people_high", "users", "users_low", "users_high",
))  # fmt: skip
"""Keys under which numbers stand, infinite ones, or nothing; of amounts from 0; or else tables."""


@dataclass(frozen=True, slots=False, kw_only=True)
class Subject:
    """A result to tell of."""

    number: int  # Its place on the page, from 1
    path: Path  # Its folder or file
    family: str  # The command that it is of
    documents: Mapping[str, Mapping[str, Any]] = field(repr=False)  # Its JSON, by the names of `DOCUMENTS`
    sha256: str  # Digest of the result's file

    @property
    def record(self) -> Mapping[str, Any]:
        """What `--json` prints."""
        return self.documents["result"]

    @property
    def versions(self) -> Mapping[str, Any]:
        """What made it."""
        return self.documents.get("versions", {})

    @property
    def scenario(self) -> Mapping[str, Any] | None:
        """The scenario's file; of sweeps what all units depend on."""
        return self.documents.get("scenario") or self.documents.get("mark")

    @property
    def name(self) -> str:
        """What the page calls it: its folder's or its file's name."""
        return self.path.resolve().name

    @cached_property
    def tables(self) -> dict[str, "pd.DataFrame"]:
        """The folder's tables by their names, for pictures; numbers that no axis can show are missing."""
        paths = [self.path / f"{name}.{ending}" for ending in ("parquet", "csv") for name in TABLES]
        tables = {path.stem: read_table(path, REMEDY) for path in paths if self.path.is_dir() and path.exists()}
        for table in tables.values():
            for column in table.select_dtypes("float"):
                table[column] = table[column].where(table[column].abs() <= LARGEST, math.nan)
        return tables


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
    if impossible := next(faults(documents["result"]), None):
        pointer, value, expected = impossible
        raise InputError(f"{path} has {brief(value)} at {brief(pointer)}, where {expected} must stand; make it anew")
    family, digest = family_of(documents["result"], path), hashlib.sha256(contents["result"]).hexdigest()
    return Subject(number=number, path=path, family=family, documents=documents, sha256=digest)


def family_of(record: Mapping[str, Any], path: object) -> str:
    """Return the command that a record is of, by its keys."""
    lists = [rows for rows in record.values() if isinstance(rows, list) and rows and isinstance(rows[0], dict)]
    if any({"claimed", "measured"} <= {*rows[0]} for rows in lists):
        return "audit"
    for keys, family in _KEYS.items():
        if {*keys.split()} <= {*record}:
            return family
    families = ", ".join(dict.fromkeys(sorted(_KEYS.values(), key=("risk", "years").__contains__)))
    raise InputError(f"{path} holds a record that no report shows; name a result of {families}")


def faults(record: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield places of values that nobody can have measured, the values, and in words what must stand there."""
    for pointer, key, value in _leaves("", "", {name: part for name, part in record.items() if name != "panels"}):
        if expected := _right(key, value):
            yield pointer, value, expected


def _leaves(pointer: str, key: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield place, key and value of everything in a document that holds nothing itself, and of its keys as texts."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield pointer, "", name
            yield from _leaves(f"{pointer}/{pointed(name)}", name, inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(f"{pointer}/{number}", "", inner)
    else:
        yield pointer, key, value


def _right(key: str, value: Any) -> str:
    """Return in words what must stand under a key in the place of a value, or nothing where that may stand there."""
    if isinstance(value, str):
        if len(value) > MOST_LETTERS or not value.replace("\n", " ").isprintable():
            return f"at most {MOST_LETTERS} letters, all printable,"
    elif isinstance(value, (int, float)) and not abs(value) <= LARGEST:
        return f"a number up to {LARGEST:g}"
    if key not in _NUMBERS | _AMOUNTS or value is None or value == "inf":
        return ""
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and (key in _NUMBERS or value >= 0)
    return "" if right else "a number" if key in _NUMBERS else "a number from 0"
