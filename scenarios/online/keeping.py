"""An online run from its first seed to its folder: what `blindrec online` and `blindrec resume` have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios.files import write_bytes
from scenarios.online.config import OnlineScenario
from scenarios.online.repeat import run_online_seeds
from scenarios.online.results import clients_table, rounds_table, voters_table
from scenarios.online.run import OnlineRun
from scenarios.places.session import Session
from scenarios.records import write_result
from scenarios.store.holding import done_in, require_counts
from scenarios.store.mark import ONLINE
from scenarios.store.taking import mark_of, take

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
    opening, out
        See `scenarios.store.holding.done_in`; it goes on after the last client that the folder keeps.
    repeat : int
        Number of seeds.
    devices_per_actor : int or None
        Size of a cohort of voters.
    console : Console
        For progress.

    Yields
    ------
    OnlineRun
        Of the first seed.
    dict
        The result.

    Raises
    ------
    InputError, InterruptedRunError, ResumableError
        As `scenarios.store.holding.done_in` does.
    """
    require_counts(repeat, devices_per_actor)
    with done_in(
        out,
        opening,
        claim=lambda folder: take(folder, mark_of(ONLINE, wanted, *FILES, repeat=repeat)),
        work=lambda session: run_online_seeds(
            wanted, session, repeat=repeat, devices_per_actor=devices_per_actor, console=console, out=out
        ),
        write=_write,
    ) as done:
        yield done


def _write(out: Path, done: tuple[OnlineRun, dict[str, Any]]) -> None:
    """Write tables of the first seed, the scenario, versions and the result, which comes last."""
    first, result = done
    for name, table in (("clients", clients_table), ("rounds", rounds_table), ("voters", voters_table)):
        write_bytes(out / f"{name}.parquet", table(first).to_parquet(index=False))
    write_result(out, result, first.scenario.model_dump(mode="json"))
