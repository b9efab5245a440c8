"""An online run from its first seed to its folder: what `blindrec online` and `blindrec resume` have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.files import write_bytes, write_json
from scenarios.online.config import OnlineScenario
from scenarios.online.repeat import run_online_seeds
from scenarios.online.results import clients_table, rounds_table, voters_table
from scenarios.online.run import OnlineRun
from scenarios.policies import code_digest
from scenarios.records import versions
from scenarios.session import Session
from scenarios.store.holding import Experiment, done_in
from scenarios.store.mark import ONLINE, Mark
from scenarios.store.taking import same_source, scenario_in, take, values_of

FILES = ("ratings", "world")
"""Values of a scenario that name a file."""


@contextmanager
def served_in(
    wanted: OnlineScenario,
    opening: AbstractContextManager[Session],
    *,
    repeat: int,
    devices_per_actor: int | None,
    console: Console,
    out: Path | None,
) -> Iterator[tuple[OnlineRun, dict[str, Any]]]:
    """Serve the clients of all seeds and write their folder; let the caller report, then end the run.

    Parameters
    ----------
    wanted : OnlineScenario
        Its seed is the first.
    opening : context manager
        Opens the backend, once the folder is known to be free.
    repeat : int
        Number of seeds.
    devices_per_actor : int or None
        Size of a cohort of voters.
    console : Console
        For progress.
    out : Path or None
        New folder, or that of the same run, which goes on after the last client that it kept.

    Yields
    ------
    OnlineRun
        Of the first seed.
    dict
        The result.

    Raises
    ------
    InputError
        If something cannot be used; nobody voted.
    InterruptedRunError, ResumableError
        On Ctrl-C, or where something was lost, if the folder keeps clients that the run can go on from.
    """
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; it must be at least 1")
    if devices_per_actor is not None and devices_per_actor < 1:
        raise InputError(f"devices_per_actor is {devices_per_actor}; it must be at least 1")
    experiment = Experiment(
        claim=lambda folder: take(folder, mark_of(wanted, repeat)),
        work=lambda session: run_online_seeds(
            wanted, session, repeat=repeat, devices_per_actor=devices_per_actor, console=console, out=out
        ),
        write=_write,
    )
    with done_in(out, opening, experiment) as done:
        yield done


def mark_of(wanted: OnlineScenario, repeat: int) -> Mark:
    """Return the mark of a new run."""
    values, source = values_of(wanted, *FILES)
    return Mark(kind=ONLINE, scenario=values, source_sha256=source, code_sha256=code_digest(""), repeat=repeat)


def claimed_online(out: Path, mark: Mark) -> OnlineScenario:
    """Return the scenario of an online run that was interrupted.

    Raises
    ------
    InputError
        If it cannot be run any more, or the file that it reads has changed since.
    """
    wanted = scenario_in(out, mark, OnlineScenario)
    same_source(out, mark, values_of(wanted, *FILES)[1], wanted.ratings or wanted.world)
    return wanted


def _write(out: Path, done: tuple[OnlineRun, dict[str, Any]]) -> None:
    """Write tables of the first seed, the scenario, versions and the result, which comes last."""
    first, result = done
    for name, table in (("clients", clients_table), ("rounds", rounds_table), ("voters", voters_table)):
        write_bytes(out / f"{name}.parquet", table(first).to_parquet(index=False))
    write_json(out / "scenario.json", first.scenario.model_dump(mode="json"))
    write_json(out / "versions.json", versions())
    write_json(out / "result.json", result)
