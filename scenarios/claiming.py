"""A run's folder: claimed by a run before it begins, and found again by whoever goes on with it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.durable import make_folder
from actors.ledger_file import SUFFIX
from coordinator.protocol.errors import InputError, LostError
from scenarios.config import Scenario
from scenarios.files import left_over, try_folder
from scenarios.given import a_file
from scenarios.journal import kept_rounds
from scenarios.mark import FOLDER, MARK, Mark, new_name, read_mark
from scenarios.policies import code_digest


def claim(out: Path, scenario: Scenario, repeat: int = 1) -> None:
    """Make a folder the place of a run, or of the rest of one that was interrupted.

    A run that goes on keeps its name, even where nothing of it is found here: its ledgers may lie on other nodes.

    Parameters
    ----------
    out : Path
        Held by `scenarios.locking.sole`.
    scenario : Scenario
        As asked for.
    repeat : int
        Seeds; kept for whoever resumes.

    Raises
    ------
    InputError
        If the folder holds anything else, or its mark was changed.
    LostError
        If it cannot be written, as on a full disk.
    """
    given, ratings = _identity(scenario)
    if not _used(out):
        try_folder(out)
        _require_empty(out)
        before = read_mark(out)
        run = before.run if before is not None and before.identity == (given, ratings) else new_name()
        code = code_digest(scenario.policy)
        _write(Mark(run=run, scenario=given, ratings_sha256=ratings, code_sha256=code, repeat=repeat), out)
        return
    if (held := read_mark(out)) is None:
        raise InputError(f"output folder {out} holds another run; name a new one")
    if held.identity != (given, ratings):
        raise InputError(f"output folder {out} holds part of another run; name a new one, or the same scenario")
    if held.repeat != repeat:
        _write(replace(held, repeat=repeat), out)


def _write(mark: Mark, out: Path) -> None:
    try:
        make_folder(out / FOLDER)
        mark.write(out)
    except OSError as error:
        raise LostError(f"output folder {out} cannot be written ({error.strerror}); free space there") from None


def _used(out: Path) -> bool:
    """Return whether devices have booked anything there, or a round is kept."""
    return bool(kept_rounds(out)) or (out / "result.json").exists() or any((out / FOLDER).rglob(f"*{SUFFIX}"))


def _require_empty(out: Path) -> None:
    """Refuse a folder that holds more than a run leaves which was killed before anything was booked."""
    own = {out / FOLDER, out / FOLDER / MARK}
    for one in (*out.iterdir(), *out.glob(f"{FOLDER}/**/*")):
        inside = one.is_dir() and (out / FOLDER) in one.parents
        if not (one in own or inside or left_over(one)):
            raise InputError(f"output folder {out} holds another run ({one.name}); name a new one")


def _identity(scenario: Scenario) -> tuple[dict[str, Any], str | None]:
    """Return what makes a run the same run: the scenario as it was given, and the digest of its ratings file."""
    given: dict[str, Any] = {name: as_json_values(scenario)[name] for name in sorted(scenario.model_fields_set)}
    if scenario.ratings is None:
        return given, None
    given["ratings"] = str(scenario.ratings.absolute())
    a_file(scenario.ratings, "ratings file", "name a file of ratings")
    try:
        return given, hashlib.sha256(scenario.ratings.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{scenario.ratings} cannot be read ({error.strerror}); name a file of ratings") from None


def claimed(out: Path) -> tuple[Scenario, int]:
    """Return the scenario that an interrupted run's folder holds, and its number of seeds.

    Raises
    ------
    InputError
        If there is nothing to resume, another version kept it, or its mark was changed.
    """
    mark = read_mark(out)
    if mark is None and (out / "result.json").is_file():
        raise InputError(f"output folder {out} holds a finished run; there is nothing to resume")
    if mark is None:
        raise InputError(
            f"output folder {out} holds no interrupted run: nothing was kept there; blindrec run ... --out {out} "
            "begins one"
        )
    try:
        scenario = Scenario.model_validate(mark.scenario)
    except ValueError:
        raise InputError(
            f"output folder {out}: the scenario in {out / FOLDER / MARK} cannot be run; run it in a new folder"
        ) from None
    if _identity(scenario)[1] != mark.ratings_sha256:
        raise InputError(f"{scenario.ratings} has changed since the run in {out} began; run it in a new folder")
    return scenario, mark.repeat


def as_json_values(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as JSON values that `blindrec run` takes."""
    values: dict[str, Any] = scenario.model_dump(mode="json")
    return {**values, "epsilon": "inf" if scenario.epsilon is None else str(scenario.epsilon)}
