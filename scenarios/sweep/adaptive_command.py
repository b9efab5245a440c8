"""The command line of the adaptive sweep: `blindrec sweep adaptive`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.files import write_table
from scenarios.places.backends import check_backend, open_session
from scenarios.places.session import Session
from scenarios.records import STDOUT, check_target, deliver, write_result
from scenarios.sweep.adaptive_settings import Comparison, check_comparison
from scenarios.sweep.adaptive_summary import summarize, units_table
from scenarios.sweep.adaptive_tables import rows_table, show
from scenarios.sweep.adaptive_units import Units, run_comparison
from scenarios.sweep.folder import swept_in
from scenarios.sweep.schemes import SCHEMES

WIDTH = 150
"""Columns of tables that no terminal limits."""

HELP = """Compare how many users it takes to get all labels right: one round against adaptive rounds, over items N.

\b
  paper              MaxSense in one round, the paper's decoder
  centred            MaxSense in one round, the centred decoder
  sign               sign sensing in one round
  adaptive-maxsense  MaxSense, decided items leave the pool
  adaptive-sign      sign sensing, decided items leave the pool
  adaptive-vectors   the same, a device chooses among --vectors sign vectors

All at the same chance of success, --confidence. An adaptive run stops by itself: its users are those that it asked, a
mean over seeds with Student's interval, beside the share of seeds with all labels right. One round needs the users at
which all labels are right in that share of the seeds: for every seed bisection finds the population where it gets them
right, and the users are a quantile of these, with an interval of order statistics. A 95 % quantile has an upper end
from 72 seeds on; with fewer it is open. Beside it stands what exact moments say (planned). Ratios are to adaptive-sign.

With --statistic moments nobody answers: sign sensing's sums are drawn from their exact moments, so that hundreds of
seeds at thousands of items take minutes. MaxSense is planned only, then.

\b
  blindrec sweep adaptive --items 100,300,1000 --out compared
  blindrec sweep adaptive --items 300,1000,3000 --seeds 400 --statistic moments --out emulated

Every finished run (scheme, items, seed) is kept in the folder at once: Ctrl-C loses only what is under way, and the
same command goes on; with more --seeds, --items or --schemes it goes on, too. At the end the folder holds result.json,
units.parquet (every run), table.csv, users.png with users.csv (every point, lower bounds included), trajectory.png with
trajectory.csv (one adaptive run, round by round) and versions.json.
"""


def adaptive(
    out: Annotated[Path, typer.Option(help="Folder of the sweep: new, or of the same settings, to go on.")],
    items: Annotated[str, typer.Option(help="Catalogues: numbers of items N.")] = "100,300,1000",
    rated: Annotated[int, typer.Option(help="Items w that a user rated, at most N.")] = 30,
    epsilon: Annotated[str, typer.Option(help="Privacy of a device's answer in nats; inf for no noise.")] = "1",
    like: Annotated[str, typer.Option(help="P(like): clusters by ',', user classes by ';'.")] = "0.9,0.1",
    class_shares: Annotated[str | None, typer.Option(help="Shares of user classes [equal].")] = None,
    cluster_shares: Annotated[str | None, typer.Option(help="Shares of item clusters [equal].")] = None,
    confidence: Annotated[float, typer.Option(help="P(all labels right) that all schemes are to have.")] = 0.95,
    seeds: Annotated[int, typer.Option(help="Runs of every scheme and catalogue.")] = 20,
    vectors: Annotated[int, typer.Option(help="Vectors of adaptive-vectors, a power of two up to 64.")] = 32,
    statistic: Annotated[str, typer.Option(help="devices answer, or moments: sign sensing is emulated.")] = "devices",
    schemes: Annotated[str | None, typer.Option(help="Some of them, by ',' [all].")] = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at the same time [all CPUs].")] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """Compare the schemes; see `HELP`."""
    check_backend(backend, workers)
    world = {"epsilon": epsilon, "like": like, "class_shares": class_shares, "cluster_shares": cluster_shares}
    wanted = Comparison(
        items=_items(items),
        schemes=_schemes(schemes, list(SCHEMES)),
        seeds=seeds,
        statistic=statistic,
        vectors=vectors,
        rated=rated,
        world={**world, "confidence": confidence},
    )
    check_comparison(wanted)
    check_target(json)
    opening = open_session(backend, address=address, workers=workers)

    def work(session: Session) -> Units:
        return run_comparison(wanted, session, out, Console(stderr=True))

    with swept_in(out, wanted.content(), opening, work) as units:
        from scenarios.sweep.adaptive_figure import draw  # noqa: PLC0415 (the plotting library, only where it draws)

        result = summarize(wanted, units)
        write_table(out / "units.parquet", units_table(units))
        write_table(out / "table.csv", rows_table(result))
        draw(result, out)
        write_result(out, result)
    deliver(json, result)
    if json != STDOUT:
        show(Console(width=None if sys.stdout.isatty() else WIDTH), result, f"sweep adaptive, {backend}")


def _items(told: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in told.split(","))
    except ValueError:
        raise InputError(f"items is {told!r}, no list of whole numbers; write it like 100,300,1000") from None
    if len(set(found)) < len(found):
        raise InputError(f"items is {told!r}; name each catalogue once")
    return tuple(sorted(found))


def _schemes(told: str | None, known: list[str]) -> tuple[str, ...]:
    names = known if told is None else [part.strip() for part in told.split(",")]
    for name in names:
        if name not in known:
            raise InputError(f"scheme {name!r} is unknown; choose among {', '.join(known)}")
    return tuple(name for name in known if name in names)
