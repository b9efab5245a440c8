"""A folder becomes the place of an experiment, or of the rest of one, whichever it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from actors.durable import make_folder
from coordinator.protocol.errors import InputError, LostError
from scenarios.files import left_over, try_folder
from scenarios.given import file_sha256
from scenarios.store.chain import kept_records
from scenarios.store.mark import FOLDER, MARK, RUN, Mark, read_mark

M = TypeVar("M", bound=BaseModel)


def take(out: Path, wanted: Mark) -> None:
    """Make a folder the place of a run, or of the rest of one that was interrupted.

    A run that goes on keeps its name, even where nothing of it is found here: its ledgers may lie on other nodes.

    Parameters
    ----------
    out : Path
        Held by `scenarios.store.locking.sole`.
    wanted : Mark
        As asked for.

    Raises
    ------
    InputError
        If the folder holds anything else, its mark was changed, or the code has changed that the rest would be done by.
    LostError
        If it cannot be written, as on a full disk.
    """
    if not used(out):
        try_folder(out)
        _require_empty(out)
        before = read_mark(out)
        same = before is not None and before.identity == wanted.identity
        _write(replace(wanted, run=before.run) if before is not None and same else wanted, out)
        return
    if (held := read_mark(out)) is None:
        raise InputError(f"output folder {out} holds another run; name a new one")
    if held.identity != wanted.identity:
        raise InputError(f"output folder {out} holds part of another run; name a new one, or the same scenario")
    if held.kind != RUN and held.code_sha256 != wanted.code_sha256:  # a run holds its rounds against what it would ask
        raise InputError(
            f"the code of blindrec has changed since it began what is in {out}, and may end otherwise; go on with the "
            "version that began it, or start in a new folder"
        )
    if held.repeat != wanted.repeat:
        _write(replace(held, repeat=wanted.repeat), out)


def _write(mark: Mark, out: Path) -> None:
    try:
        make_folder(out / FOLDER)
        mark.write(out)
    except OSError as error:
        raise LostError(f"output folder {out} cannot be written ({error.strerror}); free space there") from None


def used(out: Path) -> bool:
    """Return whether devices have booked or answered anything there, or a record is kept."""
    booked = (one.is_file() for one in (out / FOLDER / "ledger").rglob("*"))
    return bool(kept_records(out)) or (out / "result.json").exists() or any(booked)


def _require_empty(out: Path) -> None:
    """Refuse a folder that holds more than a run leaves which was killed before anything was booked."""
    own = {out / FOLDER, out / FOLDER / MARK}
    for one in (*out.iterdir(), *out.glob(f"{FOLDER}/**/*")):
        inside = one.is_dir() and (out / FOLDER) in one.parents
        if not (one in own or inside or left_over(one)):
            raise InputError(f"output folder {out} holds another run ({one.name}); name a new one")


def values_of(scenario: BaseModel, *files: str) -> tuple[dict[str, Any], str | None]:
    """Return a scenario's given values as JSON, with absolute paths, and the digest of the file that it names.

    Parameters
    ----------
    scenario : BaseModel
    *files : str
        Names of its values that are paths; at most one of them is given.
    """
    values: dict[str, Any] = scenario.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    for name in files:
        if (path := getattr(scenario, name)) is not None:
            return {**values, name: str(path.absolute())}, file_sha256(path, f"{name} file")
    return values, None


def scenario_in(out: Path, mark: Mark, kind: type[M]) -> M:
    """Return the scenario of a mark.

    Raises
    ------
    InputError
        If it is none, as this version of blindrec has it.
    """
    try:
        return kind.model_validate(mark.scenario)
    except ValueError:
        raise InputError(
            f"output folder {out}: the scenario in {out / FOLDER / MARK} cannot be run; run it in a new folder"
        ) from None


def same_source(out: Path, mark: Mark, now: str | None, path: Path | None) -> None:
    """Refuse to go on where the file that a run reads has changed since it began.

    Raises
    ------
    InputError
    """
    if now != mark.source_sha256:
        raise InputError(f"{path} has changed since the run in {out} began; run it in a new folder")
