"""The command line of online recommendation: `blindrec online`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from coordinator.server.online.recommenders import found
from scenarios.datasets import three_columns
from scenarios.places.backends import check_backend, open_session
from scenarios.records import check_target
from scenarios.validation import validated

HELP = """Serve clients online: each round voters vote, one of m new objects is recommended, the client likes it or not.

p-REC hides the voters from the client: whatever the client sees, one voter more or less changes its probability by at
most a factor e^epsilon. The coordinator is trusted with the votes (trust model curator). Recommenders:

\b
"""
HELP += "\n".join(f"  {name:23}{one.about}" for name, one in found().items())
HELP += """

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


def online(
    scenario: Annotated[Path | None, typer.Argument(help="TOML file with the same names; flags win.")] = None,
    recommender: Annotated[str | None, typer.Option(help="See above [p-rec].")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds T [1000; of a file: all a client has].")] = None,
    objects: Annotated[int | None, typer.Option(help="Objects m of a round [2].")] = None,
    voters: Annotated[int | None, typer.Option(help="Voters N [256; of a file: its other users].")] = None,
    peers: Annotated[int | None, typer.Option(help="Peers P [4; of a file: as measured].")] = None,
    diversity: Annotated[int | None, typer.Option(help="Rounds D with several liked objects [5; measured].")] = None,
    radius: Annotated[
        int | None, typer.Option(help="Rounds R in which a peer errs [5; of a file: of least epsilon].")
    ] = None,
    clients: Annotated[int | None, typer.Option(help="Clients, served one after the other [1].")] = None,
    budget: Annotated[
        str | None, typer.Option(help="What all clients may learn of a voter, in nats [no limit].")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="Naive composition only: of all rounds [p-rec's].")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it [0].")] = None,
    ratings: Annotated[Path | None, typer.Option(help="A file of real ratings.")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the file's user, item and rating columns.")] = None,
    like_from: Annotated[float | None, typer.Option(help="Ratings from here on are likes [above own mean].")] = None,
    world: Annotated[Path | None, typer.Option(help="A TOML file with one client's rounds.")] = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Cohorts of voters at work at the same time [all CPUs].")] = None,
    devices_per_actor: Annotated[int | None, typer.Option(help="Size of a cohort [voters / workers].")] = None,
    repeat: Annotated[int, typer.Option(help="Run this many seeds from --seed on; report means.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="New folder: result, scenario, clients, rounds, voters; to go on in.")
    ] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """Serve clients online; see `HELP`."""
    # other commands need not wait for what this one loads
    from scenarios.online.config import OnlineScenario  # noqa: PLC0415
    from scenarios.online.keeping import served_in  # noqa: PLC0415
    from scenarios.online.report import report_online  # noqa: PLC0415

    flags = {name: value for name, value in locals().items() if name in OnlineScenario.model_fields}
    wanted = validated(OnlineScenario, scenario, {**flags, "columns": three_columns(columns)})
    check_backend(backend, workers)
    check_target(json)
    opening = open_session(backend, address=address, workers=workers)
    with served_in(
        wanted, opening, repeat=repeat, devices_per_actor=devices_per_actor, console=Console(stderr=True), out=out
    ) as (_, result):
        report_online(result, json)
