"""Online runs over several seeds, with progress."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios import report
from scenarios.online.config import OnlineScenario
from scenarios.online.results import record, summarize
from scenarios.online.run import OnlineRun, build_world, run_online
from scenarios.session import Session


def run_online_seeds(
    scenario: OnlineScenario,
    session: Session,
    *,
    repeat: int,
    devices_per_actor: int | None,
    console: Console,
) -> tuple[OnlineRun, dict[str, Any]]:
    """Run seeds ``scenario.seed`` to ``scenario.seed + repeat - 1``.

    Returns
    -------
    OnlineRun
        Of the first seed.
    dict
        The result, or the means over seeds with their intervals.
    """
    if devices_per_actor is not None and devices_per_actor < 1:
        raise InputError(f"devices_per_actor is {devices_per_actor}; it must be at least 1")
    first: OnlineRun | None = None
    records: list[dict[str, Any]] = []
    for seed in range(scenario.seed, scenario.seed + repeat):
        world = build_world(scenario.model_copy(update={"seed": seed}))
        rounds = sum(client.rounds for client in world.clients)
        with report.progress(console, rounds, f"seed {seed}", "rounds over") as over:
            run = run_online(world.scenario, session, devices_per_actor=devices_per_actor, world=world, over=over)
        records.append(record(run))
        first = first or run
    assert first is not None
    return first, records[0] if repeat == 1 else summarize(records)
