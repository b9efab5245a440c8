"""Records: a run's folder and its JSON, written after the run, whole or not at all."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from coordinator.protocol.budget import as_json
from coordinator.protocol.errors import InputError
from scenarios.config import Scenario
from scenarios.experiment import Run
from scenarios.files import to_json, try_file, write_bytes, write_json
from scenarios.popularity import liked_share, ranks

STDOUT = "-"
_PACKAGES = ("blindrec", "ray", "numpy", "numba", "scipy", "scikit-learn", "pandas", "pyarrow")


def check_target(json_target: str | None) -> None:
    """Make sure that a result can be written as JSON where it is wanted, before anything runs.

    Raises
    ------
    InputError
        If it cannot.
    """
    if json_target not in (None, STDOUT):
        target = Path(str(json_target))
        if target.is_dir():
            raise InputError(f"json file {target} is a folder; name a file")
        try_file(target, f"json file {target} cannot be written", "name a file in an existing folder")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}


def items_table(run: Run) -> pd.DataFrame:
    """Return the learned items: item, score, standard_error, cluster; public, as devices receive it.

    Where the server knows how sure it is, ``doubt`` is the probability that the cluster is another one, and ``decided``
    tells which items are decided at the scenario's confidence. Where scores are a list by popularity, ``rank`` is an
    item's place in it, and ``popularity``, which only the experimenter knows, the true share of devices that like it.
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
    if run.scenario.half.ranks:
        table["rank"], table["popularity"] = ranks(model.score), liked_share(run.population)
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
        Existing; see `scenarios.claiming.claim`.
    scenario : Scenario
        As run.
    result : dict
        What `--json` prints.
    first : Run
        Whose items are written: that of the scenario's own seed.
    """
    for name, table in (("items", items_table(first)), ("rounds", rounds_table(first))):
        table.attrs["releases_sha256"] = first.outcome.releases_sha256  # which run's table this is
        write_bytes(out / f"{name}.parquet", table.to_parquet(index=False))
    write_result(out, result, scenario.flat())


def write_result(out: Path, result: dict[str, Any], scenario: dict[str, Any] | None = None) -> None:
    """Write what every finished folder holds beside its tables: the scenario, the versions, and last the result."""
    if scenario is not None:
        write_json(out / "scenario.json", scenario)
    write_json(out / "versions.json", versions())
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
