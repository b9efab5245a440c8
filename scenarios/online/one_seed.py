"""One seed of an online experiment, from its world to its record."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pandas as pd

from scenarios.app.experiment import Record, Running
from scenarios.online.config import OnlineScenario
from scenarios.online.kept_clients import KeptClients
from scenarios.online.results import clients_table, record, rounds_table, voters_table
from scenarios.online.run import OnlineRun, build_world, run_online


def serve_seed(scenario: OnlineScenario, running: Running) -> Record:
    """Serve the clients of one seed."""
    world = build_world(scenario)
    kept = None if running.out is None else KeptClients(running.out, scenario.seed)
    if kept:
        kept.check(running.console)
    rounds = sum(client.rounds for client in world.clients)
    with running.progress(rounds, scenario.seed, "rounds over", "rounds") as over:
        run = run_online(
            world.scenario,
            running.session,
            devices_per_actor=running.devices_per_actor,
            world=world,
            over=over,
            kept=kept,
        )
    return Record(values=record(run), scenario=run.scenario.again(), tables=partial(_tables, run))


def _tables(run: OnlineRun) -> Mapping[str, pd.DataFrame]:
    return {"clients": clients_table(run), "rounds": rounds_table(run), "voters": voters_table(run)}
