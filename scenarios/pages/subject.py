"""What a page is about: a folder of `--out` or a file of `--json`, read and never written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.protocol.errors import InputError
from scenarios.given.files import MOST_RECORD, json_object, read_file, read_table
from scenarios.pages.schema import TABLES, check_record, check_table, kind_of
from scenarios.pages.values import Traced
from scenarios.report.records import PROVENANCE
from scenarios.store.manifest import FOLDER, MANIFEST

if TYPE_CHECKING:
    import pandas as pd

DOCUMENTS = {
    "result": "result.json",
    "scenario": "scenario.json",
    "versions": "versions.json",
    "mark": f"{FOLDER}/{MANIFEST}",
}
"""What a folder may hold, by the name that places on a page have for it."""
REMEDY = "name a folder of --out or a file of --json"


def _has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda record: all(name in record for name in names)


_FAMILIES: tuple[tuple[str, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("audit", _has("claimed", "measured", "confidence")),
    ("audit", lambda record: any(_is_audit(rows) for rows in record.values())),
    ("compare", _has("rows", "people_in_file", "public_constants")),
    ("plan", _has("designs", "recommended", "target")),
    ("data", _has("format", "ratings_per_user")),
    ("online", _has("recommender", "loss")),
    ("two-tier", _has("mechanism", "rmse", "private")),
    ("run", _has("design", "policy", "answered")),
    ("sweep", lambda record: "sweep" in record or {"settings", "fits"} <= {*record}),
)


def _is_audit(rows: Any) -> bool:
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], dict) and {"claimed", "measured"} <= {*rows[0]}


def family_of(record: Mapping[str, Any], path: Path) -> str:
    """Return which command a record is of, by its keys."""
    for name, fits in _FAMILIES:
        if fits(record):
            return name
    known = ", ".join(dict.fromkeys(name for name, _ in _FAMILIES))
    raise InputError(f"{path} holds a record that no report tells of; name a result of {known}")


@dataclass(frozen=True, slots=False, kw_only=True)
class Subject:
    """A result to tell of."""

    number: int  # Its place on the page, from 1
    path: Path  # Its folder or file
    family: str  # The command that it is of
    documents: Mapping[str, Mapping[str, Any]] = field(repr=False)  # Its JSON, by the names of `DOCUMENTS`
    sha256: str  # Digest of the result's file

    def of(self, document: str) -> Traced:
        """Return a document; one that is not there is empty."""
        return Traced(self.documents.get(document, {}), f"{self.number}/{document}#")

    @property
    def record(self) -> Traced:
        """What `--json` prints."""
        return self.of("result")

    @property
    def name(self) -> str:
        """What the page calls it: its folder's or its file's name."""
        return self.path.resolve().name

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The folder's tables by their names, for figures."""
        if not self.path.is_dir():
            return {}
        kind = kind_of(self.family, self.documents["result"])
        drawn = {name for family, name in TABLES if family == kind}
        return {
            path.stem: check_table(kind, path.stem, read_table(path, REMEDY), path)
            for ending in ("parquet", "csv")
            for path in sorted(self.path.glob(f"*.{ending}"))
            if path.stem in drawn
        }


def read_subject(path: Path, number: int) -> Subject:
    """Read a folder or a file."""
    if path.is_dir():
        if not (path / DOCUMENTS["result"]).exists():
            raise InputError(f"{path} holds no result.json; name a folder of --out whose command has ended")
        found = {name: path / file for name, file in DOCUMENTS.items() if (path / file).exists()}
        contents = {name: read_file(file, "result", REMEDY, MOST_RECORD) for name, file in found.items()}
        documents = {name: json_object(contents[name], str(found[name]), REMEDY) for name in found}
        content = contents["result"]
    else:
        content = read_file(path, "result", REMEDY, MOST_RECORD)
        documents = {"result": json_object(content, str(path), REMEDY)}
        if isinstance(told := documents["result"].pop(PROVENANCE, None), dict):
            documents["versions"] = told
    family = family_of(documents["result"], path)
    check_record(family, documents["result"], path)
    sha256 = hashlib.sha256(content).hexdigest()
    return Subject(number=number, path=path, family=family, documents=documents, sha256=sha256)
