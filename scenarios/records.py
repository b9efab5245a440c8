"""Records: a run's folder and its JSON, checked before the run and written after it, whole or not at all."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from actors.durable import make_folder
from actors.ledger_file import SUFFIX
from coordinator.protocol.budget import as_json
from coordinator.protocol.errors import InputError, LostError
from scenarios.config import Scenario
from scenarios.experiment import Run
from scenarios.files import to_json, try_file, try_folder, write_bytes, write_json
from scenarios.given import LARGEST, a_file
from scenarios.journal import FOLDER, FORMAT, MARK, kept_rounds, marked

STDOUT = "-"
_PACKAGES = ("blindrec", "ray", "numpy", "numba", "scipy", "scikit-learn", "pandas", "pyarrow")


def check_targets(out: Path | None, json_target: str | None) -> None:
    """Make sure that results will have a place, before anything runs.

    Raises
    ------
    InputError
        If the folder holds something, or a path cannot be written.
    """
    if out is not None:
        if out.exists() and not out.is_dir():
            raise InputError(f"output folder {out} is a file; name another one")
        if out.is_dir() and any(out.iterdir()):
            raise InputError(f"output folder {out} holds another run; name a new one")
        try_folder(out)
    if json_target not in (None, STDOUT):
        target = Path(str(json_target))
        if target.is_dir():
            raise InputError(f"json file {target} is a folder; name a file")
        try_file(target, f"json file {target} cannot be written", "name a file in an existing folder")


def claim(out: Path, scenario: Scenario, repeat: int = 1) -> None:
    """Make a folder the place of a run, or of the rest of one that was interrupted.

    Parameters
    ----------
    out : Path
    scenario : Scenario
        As asked for.
    repeat : int
        Seeds; kept for whoever resumes.

    Raises
    ------
    InputError
        If the folder holds anything else.
    LostError
        If it cannot be written, as on a full disk.
    """
    mark, wanted, held = out / FOLDER / MARK, {"format": FORMAT, **_identity(scenario)}, marked(out)
    if not mark.is_file():
        check_targets(out, None)
    elif _used(out) and {name: value for name, value in held.items() if name not in {"repeat", "run"}} != wanted:
        raise InputError(f"output folder {out} holds part of another run; name a new one, or the same scenario")
    run = held.get("run", "") if held and _used(out) else os.urandom(8).hex()
    try:
        make_folder(mark.parent)
        write_json(mark, {**wanted, "repeat": repeat, "run": run})
    except OSError as error:
        raise LostError(f"output folder {out} cannot be written ({error.strerror}); free space there") from None


def _used(out: Path) -> bool:
    """Return whether devices have booked anything there, or a round is kept."""
    return bool(kept_rounds(out)) or (out / "result.json").exists() or any((out / FOLDER).rglob(f"*{SUFFIX}"))


def _identity(scenario: Scenario) -> dict[str, Any]:
    """Return what makes a run the same run: the scenario as it was given, and the content of its ratings file."""
    given: dict[str, Any] = {name: as_json_values(scenario)[name] for name in sorted(scenario.model_fields_set)}
    if scenario.ratings is None:
        return {"scenario": given, "ratings_sha256": None}
    given["ratings"] = str(scenario.ratings.absolute())
    a_file(scenario.ratings, "ratings file", "name a file of ratings")
    try:
        return {"scenario": given, "ratings_sha256": hashlib.sha256(scenario.ratings.read_bytes()).hexdigest()}
    except OSError as error:
        raise InputError(f"{scenario.ratings} cannot be read ({error.strerror}); name a file of ratings") from None


def claimed(out: Path) -> tuple[Scenario, int]:
    """Return the scenario that an interrupted run's folder holds, and its number of seeds.

    Raises
    ------
    InputError
        If there is nothing to resume, or another version kept it.
    """
    if (out / "result.json").is_file():
        raise InputError(f"output folder {out} holds a finished run; there is nothing to resume")
    mark = out / FOLDER / MARK
    try:
        held = json.loads(mark.read_text(encoding="utf-8"))
        found, digest = held["format"], held.get("ratings_sha256")
        scenario = Scenario.model_validate(held["scenario"]) if found == FORMAT else None
        repeat = _seeds(held["repeat"])
    except OSError as error:
        raise InputError(f"output folder {out} holds no interrupted run ({error.strerror}: {mark.name})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"output folder {out}: {mark} is damaged; run the scenario in a new folder") from None
    if scenario is None:
        raise InputError(
            f"output folder {out} was kept in format {found}, this version of blindrec reads {FORMAT}; resume with the "
            "version that kept it"
        )
    if _identity(scenario)["ratings_sha256"] != digest:
        raise InputError(f"{scenario.ratings} has changed since the run in {out} began; run it in a new folder")
    return scenario, repeat


def _seeds(repeat: object) -> int:
    if type(repeat) is not int or not 1 <= repeat <= LARGEST:
        raise ValueError(repeat)
    return repeat


def as_json_values(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as JSON values that `blindrec run` takes."""
    values: dict[str, Any] = scenario.model_dump(mode="json")
    return {**values, "epsilon": "inf" if scenario.epsilon is None else str(scenario.epsilon)}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}


def items_table(run: Run) -> pd.DataFrame:
    """Return the learned items: item, score, standard_error, cluster; public, as devices receive it.

    Where the server knows how sure it is, ``doubt`` is the probability that the cluster is another one, and ``decided``
    tells which items are decided at the scenario's confidence.
    """
    model, posterior = run.outcome.model, run.outcome.posterior
    table = pd.DataFrame(
        {
            "item": run.population.item_labels.astype(str),
            "score": model.score,
            "standard_error": model.error,
            "cluster": model.cluster,
        }
    )
    if posterior is not None:
        table["doubt"], table["decided"] = posterior.doubt, posterior.decided(1 - run.scenario.confidence)
    return table


def rounds_table(run: Run) -> pd.DataFrame:
    """Return the rounds, in order: what was asked, of which devices, and how many answered."""
    state = run.outcome.state
    rows = [
        {
            "round": ask.query.round,
            "design": ask.query.design,
            "epsilon": as_json(ask.query.epsilon),
            "pool": ask.query.items if ask.query.pool is None else ask.query.pool.size,
            "first_device": ask.first,
            "asked": counts.asked,
            "answered": counts.answered,
            "refused": counts.refused,
            "query_id": ask.query.id.hex(),
        }
        for ask, counts in zip(state.asked, state.counts, strict=True)
    ]
    return pd.DataFrame(rows).astype({"epsilon": float})


def write_out(out: Path, scenario: Scenario, result: dict[str, Any], first: Run) -> None:
    """Write a run's folder: result.json, scenario.json, versions.json; items and rounds (of the first seed).

    Parameters
    ----------
    out : Path
        Existing; see `claim`.
    scenario : Scenario
        As run.
    result : dict
        What `--json` prints.
    first : Run
        Whose items are written: that of the scenario's own seed.
    """
    write_json(out / "scenario.json", as_json_values(scenario))
    write_json(out / "versions.json", versions())
    write_bytes(out / "items.parquet", items_table(first).to_parquet(index=False))
    write_bytes(out / "rounds.parquet", rounds_table(first).to_parquet(index=False))
    write_json(out / "result.json", result)


def deliver(json_target: str | None, result: dict[str, Any]) -> None:
    """Print the result on standard output (``"-"``), write it to a file, or do nothing (None)."""
    if json_target == STDOUT:
        sys.stdout.write(to_json(result))
    elif json_target is not None:
        try:
            write_json(Path(json_target), result)
        except OSError as error:
            raise InputError(f"json file {json_target} cannot be written ({error.strerror}); name another") from None
