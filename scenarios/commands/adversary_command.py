"""The command line of adversaries against online recommendation: `blindrec adversary`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from scenarios.backends.selection import InProcess
from scenarios.commands.flags import Figure, Json
from scenarios.show.figures import check_figure, deliver_figure
from scenarios.show.records import STDOUT, check_target, deliver

HELP = """Set an adversary of the p-REC paper against recommenders; print the bound beside the measurement.

\b
  theorem-6      loss: R rounds in which nobody can know, then voters halve; no algorithm loses less
  slow-halving   loss: every split repeated until the wrong half is out, B log2(N/P)
  claim-1        privacy: P adjacent steps between two clients, which must leak ln T together (p-rec-sim)
  theorem-15     privacy: 2P adjacent steps between two groups of peers, and their random configuration

Voters' and client's behaviour is written down in advance; recommendations are drawn, or given, and their likelihood is
computed with the coordinator's own code.

\b
  blindrec adversary slow-halving --recommender p-rec,p-rec-lean
  blindrec adversary theorem-15 --peers 3 --diversity 2 --radius 1 --rounds 1000
"""


def adversary(
    name: Annotated[str, typer.Argument(help="theorem-6, slow-halving, claim-1 or theorem-15.")],
    recommender: Annotated[str | None, typer.Option(help="Names, by ',' [those the adversary is about].")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds T [1000; theorem-6 500].")] = None,
    objects: Annotated[int | None, typer.Option(help="Objects m of a round [2].")] = None,
    voters: Annotated[int | None, typer.Option(help="Voters N [256].")] = None,
    peers: Annotated[int | None, typer.Option(help="Peers P [4; claim-1 10, theorem-15 3].")] = None,
    diversity: Annotated[int | None, typer.Option(help="D [0; theorem-15 2].")] = None,
    radius: Annotated[int | None, typer.Option(help="R [theorem-6 32, slow-halving 5, theorem-15 1, else 0].")] = None,
    seed: Annotated[int | None, typer.Option(help="First seed [0].")] = None,
    repeat: Annotated[int, typer.Option(help="Runs of an adversary that is random.")] = 60,
    json: Json = None,
    figure: Figure = None,
) -> None:
    """Set an adversary against recommenders; see `HELP`."""
    from scenarios.families.online.adversaries import rows_against, show_rows

    check_target(json)
    check_figure(figure)
    names = None if recommender is None else tuple(part.strip() for part in recommender.split(","))
    options = {
        "rounds": rounds,
        "objects": objects,
        "voters": voters,
        "peers": peers,
        "diversity": diversity,
        "radius": radius,
        "seed": seed,
    }
    rows = rows_against(name, names, options, repeat, InProcess(1))
    record = {"adversary": name, "rows": rows}
    deliver(json, record)
    deliver_figure(figure, "adversary", record)
    if json != STDOUT:
        show_rows(Console(), rows, f"blindrec adversary {name}")


adversary.__doc__ = HELP
