"""Online runs over several seeds, with progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios import report
from scenarios.online.config import OnlineScenario
from scenarios.online.kept_clients import KeptClients
from scenarios.online.results import record, summarize
from scenarios.online.run import OnlineRun, build_world, run_online
from scenarios.places.session import Session


def run_online_seeds(
    scenario: OnlineScenario,
    session: Session,
    *,
    repeat: int,
    devices_per_actor: int | None,
    console: Console,
    out: Path | None = None,
) -> tuple[OnlineRun, dict[str, Any]]:
    """Run seeds ``scenario.seed`` to ``scenario.seed + repeat - 1``.

    Parameters
    ----------
    scenario : OnlineScenario
        Its seed is the first.
    session : Session
        Where.
    repeat : int
        Number of seeds.
    devices_per_actor : int or None
        Size of a cohort of voters.
    console : Console
        For progress.
    out : Path, optional
        Folder in which every client is kept as soon as it is served; those that are there are not served again.

    Returns
    -------
    OnlineRun
        Of the first seed.
    dict
        The result, or the means over seeds with their intervals.
    """
    first: OnlineRun | None = None
    records: list[dict[str, Any]] = []
    for seed in range(scenario.seed, scenario.seed + repeat):
        world = build_world(scenario.model_copy(update={"seed": seed}))
        kept = None if out is None else KeptClients(out, seed)
        if kept:
            kept.check(console)
        rounds = sum(client.rounds for client in world.clients)
        with report.progress(console, rounds, f"seed {seed}", "rounds over") as over:
            run = run_online(
                world.scenario, session, devices_per_actor=devices_per_actor, world=world, over=over, kept=kept
            )
        records.append(record(run))
        first = first or run
    assert first is not None
    return first, records[0] if repeat == 1 else summarize(records)
