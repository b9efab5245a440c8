"""Online recommendation as an experiment, `blindrec online`: a coordinator hides voters from clients."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pandas as pd

from coordinator.server.online.recommenders import found
from scenarios.app.experiment import Ended, Experiment, Running
from scenarios.online.config import OnlineScenario
from scenarios.online.kept_clients import KeptClients
from scenarios.online.results import COLUMNS, clients_table, record, rounds_table, voters_table
from scenarios.online.run import OnlineRun, build_world, run_online
from scenarios.report import progress
from scenarios.store.mark import ONLINE

_HELP = """Serve clients online: voters vote on m new objects a round, one is recommended, the client likes it or not.

p-REC hides the voters from the client: whatever the client sees, one voter more or less changes its probability by at
most a factor e^epsilon. The coordinator is trusted with the votes (trust model curator). Recommenders:

\b
"""
_HELP += "\n".join(f"  {name:23}{one.about}" for name, one in found().items())
_HELP += """

Without a file the environment is random: each client has P peers, who vote as it likes but in R rounds of their own;
it likes two objects in D rounds; all other voters vote at random. With --ratings users of a file are voters and
clients, a round is m titles that the client rated, and P, D and R are measured. With --world a TOML file writes one
client's rounds down (votes = a row a round, a number a voter; likes = a row a round, the objects that it likes).

The result tells the loss (disliked recommendations) beside its bound, epsilon as proved and, where it can be
computed, exactly, and this run's exact privacy loss: the largest log-likelihood ratio that one voter's absence makes.
With several --clients a voter's exposures add up (voter_epsilon); --budget lets voters stay away from more.

With --out every client is kept as soon as it is served: a run that was killed or interrupted goes on after the last one
by blindrec resume FOLDER, or by the same command.

\b
  blindrec online --recommender p-rec-lean --rounds 1000
  blindrec online --ratings ratings.csv --clients 50 --out served
"""


class Online(Experiment[OnlineScenario]):
    """Clients are served one after the other, from the votes of those who share their taste."""

    name = ONLINE
    kind = OnlineScenario
    columns = COLUMNS
    titled = "recommender"
    files = ("ratings", "world")
    help = _HELP

    def once(self, scenario: OnlineScenario, running: Running) -> Ended:
        """Serve the clients of one seed."""
        world = build_world(scenario)
        kept = None if running.out is None else KeptClients(running.out, scenario.seed)
        if kept:
            kept.check(running.console)
        rounds = sum(client.rounds for client in world.clients)
        with progress(running.console, rounds, f"seed {scenario.seed}", "rounds over") as over:
            run = run_online(
                world.scenario,
                running.session,
                devices_per_actor=running.devices_per_actor,
                world=world,
                over=over,
                kept=kept,
            )
        return Ended(record=record(run), scenario=run.scenario.again(), tables=partial(_tables, run))


def _tables(run: OnlineRun) -> Mapping[str, pd.DataFrame]:
    return {"clients": clients_table(run), "rounds": rounds_table(run), "voters": voters_table(run)}
