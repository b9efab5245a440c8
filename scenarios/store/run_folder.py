"""An experiment's folder: claimed for a new run or the rest of an interrupted one, and locked until the result."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from actors.database import make_folder
from actors.keeper import LEDGER
from coordinator.protocol.errors import InputError, LostError
from scenarios.config.files import file_sha256, read_object
from scenarios.config.mechanism_settings import code_digest
from scenarios.config.signals import resumable
from scenarios.store.manifest import FOLDER, MANIFEST, PROGRESS, RUN, SWEEP, Manifest, read_manifest
from scenarios.store.record_log import RUN_FILE, count_records, drop, remove_records
from scenarios.store.whole_files import left_over, locked_folder, try_folder

M = TypeVar("M", bound=BaseModel)
RESULT = "result.json"
RUN_SHA256 = "run_sha256"  # Where ``versions.json`` of a finished run has `Manifest.whole`


def claim_folder(out: Path, manifest: Manifest) -> None:
    """Claim a folder for a new run, or for the rest of an interrupted one."""
    # A resumed run keeps its name even if its folder holds no record, because its ledgers may be on other nodes.
    if not used(out):
        try_folder(out)
        _require_empty(out)
        before = read_manifest(out)
        same = before is not None and before.identity == manifest.identity
        if not same:
            remove_records(out)  # of another run, which has none
        _write(replace(manifest, run=before.run) if before is not None and same else manifest, out)
        return
    if (stored := read_manifest(out)) is None:
        raise InputError(f"output folder {out} holds another run; name a new one")
    if stored.identity != manifest.identity:
        message = "another sweep; name a new one, or the same settings"
        message = message if stored.kind == SWEEP else "another run; name a new one, or the same scenario"
        raise InputError(f"output folder {out} holds part of {message}")
    # a main run may go on with changed code, because it compares stored rounds with the queries it would make
    if stored.kind != RUN and stored.code_sha256 != manifest.code_sha256:
        raise InputError(
            f"another version of blindrec began what is in {out}, and this one may give other results; resume with the "
            "version that began it, or start in a new folder"
        )
    if stored.repeat != manifest.repeat:
        _write(replace(stored, repeat=manifest.repeat), out)


def finished_result(out: Path, manifest: Manifest) -> dict[str, Any] | None:
    """Return a folder's result if its finished experiment is the same, else None."""
    if (out / FOLDER / MANIFEST).exists():
        return None
    try:
        versions = read_object(out / "versions.json", "name a new folder")
    except InputError:
        return None
    return read_result(out) if versions is not None and versions.get(RUN_SHA256) == manifest.whole else None


def read_result(out: Path) -> dict[str, Any] | None:
    """Return a folder's result, or None if there is none; refuse an unreadable one."""
    return read_object(out / RESULT, "put it back as it was, or run it in a new folder")


def _write(manifest: Manifest, out: Path) -> None:
    try:
        make_folder(out / FOLDER)
        manifest.write(out)
    except OSError as error:
        raise LostError(f"output folder {out} cannot be written ({error.strerror}); free space there") from None


def used(out: Path) -> bool:
    """Return whether a folder holds a result, a ledger entry, a record or a unit."""
    books = (out / FOLDER).glob(f"ledger/**/{LEDGER.name}")
    return (out / RESULT).exists() or any(books) or count_records(out) > 0


def _require_empty(out: Path) -> None:
    """Refuse a folder unless it is empty, or holds only the files of a run that was killed before any charge."""
    folder = out / FOLDER
    allowed = {folder, folder / MANIFEST, folder / PROGRESS, *folder.glob(f"{RUN_FILE.name}*")}
    for path in (*out.iterdir(), *out.glob(f"{FOLDER}/**/*")):
        inside = path.is_dir() and folder in path.parents
        if not (path in allowed or inside or left_over(path)):
            raise InputError(f"output folder {out} holds another run ({path.name}); name a new one")


def manifest_of(kind: str, scenario: BaseModel, *files: str, repeat: int = 1) -> Manifest:
    """Return the manifest of a new online or two-tier run."""
    values, source, _ = _values_of(scenario, files)
    return Manifest(kind=kind, scenario=values, source_sha256=source, code_sha256=code_digest(""), repeat=repeat)


def scenario_of(out: Path, manifest: Manifest, kind: type[M], *files: str) -> M:
    """Return the scenario of an online or two-tier run that was interrupted."""
    try:
        scenario = kind.model_validate(manifest.scenario)
    except ValueError:
        raise InputError(
            f"output folder {out}: the scenario in {out / FOLDER / MANIFEST} cannot be run; run it in a new folder"
        ) from None
    _, source, path = _values_of(scenario, files)
    require_source(out, manifest, source, path)
    return scenario


def _values_of(scenario: BaseModel, files: Iterable[str]) -> tuple[dict[str, Any], str | None, Path | None]:
    """Return a scenario's given values as JSON, with absolute paths, and the digest and path of its file."""
    values: dict[str, Any] = scenario.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    for name in files:
        if (path := getattr(scenario, name)) is not None:
            return {**values, name: str(path.absolute())}, file_sha256(path, f"{name} file"), path
    return values, None, None


def require_source(out: Path, manifest: Manifest, now: str | None, path: Path | None) -> None:
    """Refuse to resume if the file that a run reads has changed since it began."""
    if now != manifest.source_sha256:
        raise InputError(f"{path} has changed since the run in {out} began; run it in a new folder")


S = TypeVar("S")
T = TypeVar("T")


@contextmanager
def in_run_folder(
    out: Path | None, opening: AbstractContextManager[S], *, claim: Callable[[Path], None], work: Callable[[S], T]
) -> Iterator[T]:
    """Run an experiment in its folder and let the caller write the result there. Records for resuming it are kept."""
    with locked_folder(out), resumable(lambda: _resume_hint(out)):
        with opening as session:
            new = out is not None and read_manifest(out) is None
            if out is not None:
                claim(out)
            with _left_empty(out, new=new):
                done = work(session)
        yield done


@contextmanager
def _left_empty(out: Path | None, *, new: bool) -> Iterator[None]:
    """Remove a folder that keeps nothing on Ctrl-C, and on bad input if it is new and nobody has booked anything."""
    try:
        yield
    except KeyboardInterrupt:
        if out is not None and not count_records(out):
            drop(out)
        raise
    except InputError:
        if out is not None and new and not used(out):
            drop(out)
        raise


def require_counts(repeat: int, devices_per_actor: int | None) -> None:
    """Refuse an experiment with less than one seed, or with less than one device in a cohort."""
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; it must be at least 1")
    if devices_per_actor is not None and devices_per_actor < 1:
        raise InputError(f"devices_per_actor is {devices_per_actor}; it must be at least 1")


def _resume_hint(out: Path | None) -> str | None:
    """Say how many records there are and how to resume; None where there is nothing to resume from."""
    if out is None or not (records := count_records(out)) or not (manifest := read_manifest(out)):
        return None
    return manifest.resume_hint(records, out)
