"""Records: a run's folder and its JSON, checked before the run and written after it, whole or not at all."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from coordinator.protocol.errors import InputError
from scenarios.config import Scenario
from scenarios.experiment import Run

_UMASK = os.umask(0)
os.umask(_UMASK)
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
        _try_folder(out)
    if json_target not in (None, STDOUT):
        target = Path(str(json_target))
        if target.is_dir():
            raise InputError(f"json file {target} is a folder; name a file")
        _try_file(target, f"json file {target} cannot be written", "name a file in an existing folder")


def _try_folder(folder: Path) -> None:
    complaint = f"output folder {folder} cannot be made"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{complaint} ({error.strerror}); name another one") from None
    _try_file(folder / "result.json", complaint, "name another one")


def _try_file(target: Path, complaint: str, remedy: str) -> None:
    place = target.resolve()
    try:
        if place.exists() and not place.is_file():
            place.open("a").close()
        else:
            tempfile.TemporaryFile(dir=place.parent).close()
    except OSError as error:
        raise InputError(f"{complaint} ({error.strerror}); {remedy}") from None


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}


def items_table(run: Run) -> pd.DataFrame:
    """Return the learned items: item, score, standard_error, cluster; public, as devices receive it."""
    model = run.outcome.model
    return pd.DataFrame(
        {
            "item": run.population.item_labels.astype(str),
            "score": model.score,
            "standard_error": model.error,
            "cluster": model.cluster,
        }
    )


def write_out(out: Path, scenario: Scenario, result: dict[str, Any], first: Run) -> None:
    """Write a run's folder: result.json, scenario.json, versions.json, items.parquet (of the first seed).

    Parameters
    ----------
    out : Path
        Existing, empty.
    scenario : Scenario
        As run.
    result : dict
        What `--json` prints.
    first : Run
        Whose items are written: that of the scenario's own seed.
    """
    as_run = scenario.model_dump(mode="json")
    as_run["epsilon"] = "inf" if scenario.epsilon is None else str(scenario.epsilon)
    write_json(out / "scenario.json", as_run)
    write_json(out / "versions.json", versions())
    _write(out / "items.parquet", items_table(first).to_parquet(index=False))
    write_json(out / "result.json", result)


def write_json(target: Path, value: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    _write(target, to_json(value).encode())


def _write(target: Path, content: bytes) -> None:
    """Write a file by way of a new one beside it; what is no regular file (a pipe, a device) is written as it is."""
    place = target.resolve()
    if place.exists() and not place.is_file():
        place.write_bytes(content)
        return
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o666 & ~_UMASK)
            Path(file.name).replace(place)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def to_json(value: dict[str, Any]) -> str:
    """Return strict JSON: no NaN, no infinity."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def deliver(json_target: str | None, result: dict[str, Any]) -> None:
    """Print the result on standard output (``"-"``), write it to a file, or do nothing (None)."""
    if json_target == STDOUT:
        sys.stdout.write(to_json(result))
    elif json_target is not None:
        write_json(Path(json_target), result)
