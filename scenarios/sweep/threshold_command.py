"""The command line of sweeps: `blindrec sweep sample-complexity`; `adaptive` and `online` are registered here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scenarios.places.backends import open_session
from scenarios.records import STDOUT, check_target, deliver
from scenarios.sweep.adaptive_command import HELP as ADAPTIVE_HELP
from scenarios.sweep.adaptive_command import adaptive
from scenarios.sweep.online_command import HELP as ONLINE_HELP
from scenarios.sweep.online_command import online

WIDTH = 140
"""Columns of tables that no terminal limits."""

HELP = """Find how many users it takes: the smallest U* with success in at least half of the seeds, a setting each.

Success is told in two ways: all labels right, as in the paper, and a share of them (99 %). For every seed bisection
finds the population where success begins; smaller populations are prefixes of larger ones, so that a device is
asked about once. U* is the median over seeds, its interval made of order statistics.

Built-in grids: maxsense-items, maxsense-rated, maxsense-epsilon, multi-maxsense, oracles, oracles-standard,
pairwise-rich, pairwise-scarce, standard, toys, and three that hold the planner to account: planner, planner-pairwise,
planner-open. A grid of your own:

\b
  seeds = 20
  decoders = ["centred", "paper"]
  [base]
  design = "maxsense"
  rated = 30
  [[grid]]
  items = [250, 500, 1000]
  epsilon = [0.5, 1]
  [[fit]]
  x = "items"
  per = ["log items"]
  criteria = ["exact"]
  where = {epsilon = 1}
  expected = 2

Keys of [base] and [[grid]] are those of a scenario. Lists of one [[grid]] table are combined in all ways;
rated_share = [1, 0.5] sets rated to a share of items. Fits are slopes of ln(U* / per) on ln x.

A third success, criteria = ["top"], is about a list by popularity: share = 0.8 of the 50 most popular items are among
the 50 of highest score. A file is swept by it alone: ratings = "ratings.csv" in [base], whose users are drawn again and
again, up to most_users = 40000000.

Every finished run is kept in the folder at once: Ctrl-C loses only what is under way, and the same command goes on;
with more --seeds it goes on, too. At the end the folder holds result.json, thresholds.parquet (every seed),
settings.csv, figure.png and figure.csv (every point in it, bounds included). What the planner says stands beside what
was measured; with `probe = 0.9` accuracy is measured, too, where the planner says 0.9.
"""

sweep = typer.Typer()


@sweep.callback(invoke_without_command=True)
def _sweeps(context: typer.Context) -> None:
    """Measure over a grid of settings: long, resumable runs."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@sweep.command("sample-complexity", help=HELP)
def sample_complexity(
    out: Annotated[Path, typer.Option(help="Folder of the sweep: new, or of the same grid, to go on.")],
    grid: Annotated[str, typer.Argument(help="A TOML file, or the name of a built-in grid.")] = "standard",
    seeds: Annotated[int | None, typer.Option(help="Runs of every setting [the grid's, or 20].")] = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs at the same time [all CPUs].")] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """Find U* for every setting of a grid; see `HELP`."""
    from scenarios.sweep.grid import load_grid  # noqa: PLC0415 (other commands need not wait for what sweeps load)
    from scenarios.sweep.measuring import measured  # noqa: PLC0415 (same)
    from scenarios.sweep.tables import show  # noqa: PLC0415 (same)

    wanted = load_grid(grid, seeds=seeds)
    check_target(json)
    opening = open_session(backend, address=address, workers=workers)
    result = measured(wanted, opening, out, Console(stderr=True)).result
    deliver(json, result)
    if json != STDOUT:
        show(Console(width=None if sys.stdout.isatty() else WIDTH), result, f"sweep {Path(grid).stem}, {backend}")


sweep.command("adaptive", help=ADAPTIVE_HELP)(adaptive)
sweep.command("online", help=ONLINE_HELP)(online)
