"""The command line of the online sweep: `blindrec sweep online`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from coordinator.server.online.recommenders import compared_in, still_names
from scenarios.files import write_table
from scenarios.places.backends import check_backend, open_session
from scenarios.places.session import Session
from scenarios.records import STDOUT, check_target, deliver, write_result
from scenarios.sweep.folder import swept_in

WIDTH = 170
"""Columns of tables that no terminal limits."""

_STILL = ", ".join(still_names())
_HALVED = compared_in("theorem-6")
HELP = f"""Compare online recommenders: their loss and what they leak, beside the bounds; or on clients of a file.

Each panel of the figure is an axis; all else is as in --rounds, --objects, --voters, --peers, --diversity, --radius:

\b
  rounds          loss against T, all recommenders: the table
  ratio           loss against N/P, D = R = 0, the halving adversary of Theorem 6
  radius          loss against R, D = 0
  diversity       loss against D, with m = 3, R = 4, P = 8
  epsilon-rounds  epsilon against T; {_STILL} with D = R = 0
  epsilon-peers   epsilon against P at the same N/P; {_STILL} with D = R = 0

Worlds are random environments. Theorem 6's lower bound holds against its adversary, who halves the voters: on the
axes rounds and radius {", ".join(_HALVED[:-1])} and {_HALVED[-1]} meet that one, too, where N/P is a power of two.
Beside the loss stand the proved bound (L) and p-REC_sim's exact worst case; beside the exact privacy loss of runs
stand epsilon as proved, exactly for p-rec-sim (dynamic programme; an upper bound where T < N), and what it is at
least, by a constructed environment (m = 2) or p-REC's own chain of adjacent voters.

Recommenders are chosen an axis each; --recommenders names those for all axes where they apply. A round costs about 25
microseconds: the default is 9,360 runs, about 5 minutes on 2 idle cores. Axes take values:

\b
  blindrec sweep online --out compared
  blindrec sweep online --seeds 20 --axes rounds=100,1000,radius=0,8,ratio --out some

With --ratings there are no axes: all recommenders serve the same clients of a ratings file. The table tells the loss,
in numbers and as a share of the rounds, with intervals over clients, and its difference to random recommendations (as
expected, exactly) and to plurality, client by client; what P, D and R were measured; and the epsilon it takes.

\b
  blindrec sweep online --ratings ratings.csv --clients 50 --out served

Every finished run is kept in the folder at once: Ctrl-C loses only what is under way, and the same command goes on;
with more --seeds, --axes or --recommenders it goes on, too. The same seeds give the same numbers on every backend. At
the end the folder holds result.json, units.parquet (every run), table.csv, figure.png with figure.csv (every point in
it, bounds included) and versions.json.
"""


def online(
    out: Annotated[Path, typer.Option(help="Folder of the sweep: new, or of the same base, to go on.")],
    axes: Annotated[str | None, typer.Option(help="Some of them, by ',', with values after '=' [all].")] = None,
    recommenders: Annotated[str | None, typer.Option(help="Some of them, by ',' [each axis' own].")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of every recommender and setting [60; of a file: 1].")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds T [1000; of a file: all a client has].")] = None,
    objects: Annotated[int | None, typer.Option(help="Objects m of a round [2].")] = None,
    voters: Annotated[int | None, typer.Option(help="Voters N [256].")] = None,
    peers: Annotated[int | None, typer.Option(help="Peers P [4].")] = None,
    diversity: Annotated[int | None, typer.Option(help="Rounds D with several liked objects [5].")] = None,
    radius: Annotated[int | None, typer.Option(help="Rounds R in which a peer errs [5].")] = None,
    ratings: Annotated[Path | None, typer.Option(help="A file of real ratings.")] = None,
    clients: Annotated[int | None, typer.Option(help="Clients of the file, drawn anew for every seed [50].")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the file's user, item and rating columns.")] = None,
    like_from: Annotated[float | None, typer.Option(help="Ratings from here on are likes [above own mean].")] = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at the same time [all CPUs].")] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """Compare the recommenders; see `HELP`."""
    from scenarios.sweep.online_flags import sweep_of  # noqa: PLC0415 (the plotting library, only for this command)

    check_backend(backend, workers)
    planted = {"voters": voters, "peers": peers, "diversity": diversity, "radius": radius, "axes": axes}
    of_file = {"clients": clients, "columns": columns, "like_from": like_from}
    shared = {"recommenders": recommenders, "seeds": seeds, "rounds": rounds, "objects": objects}
    kind = sweep_of(ratings, planted=planted, of_file=of_file, shared=shared)
    check_target(json)
    opening = open_session(backend, address=address, workers=workers)

    def work(session: Session) -> Any:
        return kind.run(kind.wanted, session, out, Console(stderr=True))

    with swept_in(out, kind.wanted.content(), opening, work) as units:
        result = kind.summarize(kind.wanted, units)
        write_table(out / "units.parquet", kind.units_table(units))
        write_table(out / "table.csv", kind.rows_table(result))
        kind.draw(result, out)
        write_result(out, result)
    deliver(json, result)
    if json != STDOUT:
        kind.show(Console(width=None if sys.stdout.isatty() else WIDTH), result, f"sweep online, {backend}")
