"""The command line of two-tier sweeps: `blindrec sweep two-tier`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from scenarios.files import write_json, write_table
from scenarios.given import three_columns
from scenarios.places.backends import open_session
from scenarios.places.session import Session
from scenarios.records import STDOUT, check_target, deliver, versions
from scenarios.sweep.folder import measure_units, swept_in
from scenarios.two_tier.config import NONE, TwoTier, needs_scale
from scenarios.two_tier.experiment import read_table, world_of
from scenarios.two_tier.sweep_plan import ASKED, SweepPlan, plan_sweep
from scenarios.two_tier.sweep_units import ATTACK, SECOND, Key, Measured, Unit, measure, read_unit, write_unit
from scenarios.validation import validated

WIDTH = 120
"""Columns of tables that no terminal limits."""
HELP = """Draw the paper's figures over seeds: errors against public users, and against private devices that answer.

Figures: 1-left (uniform and weighted trace norm, users with most ratings first), 1-right (users with most ratings
against random ones at the same number of ratings), 2 (every mechanism, private devices batch by batch, and the paired
gain over public users only), attack (what one release tells a server that knows k ratings; the first seed only).
Rank, regularisation and the weights of noisy releases are chosen on held-out public users, a seed each.

Every finished unit is kept in the folder at once: Ctrl-C loses only what is under way, and the same command goes on.
At the end the folder holds result.json, points.csv (every seed), summary.csv, attack.csv and a picture a figure.
"""


def two_tier_sweep(
    out: Annotated[Path, typer.Option(help="Folder of the sweep: new, or of the same sweep, to go on.")],
    ratings: Annotated[Path | None, typer.Option(help="A file of ratings: MovieLens, Jester, CSV, Parquet.")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the file's user, item and rating columns.")] = None,
    planted: Annotated[str | None, typer.Option(help="users,items,ratings of planted data instead of a file.")] = None,
    figures: Annotated[str, typer.Option(help="Some of 1-left, 1-right, 2, attack.")] = "1-left,1-right,2",
    seeds: Annotated[int, typer.Option(help="Seeds, from --seed on.")] = 5,
    mechanisms: Annotated[str, typer.Option(help="Curves of Figure 2.")] = ",".join(ASKED),
    every: Annotated[int, typer.Option(help="Private devices between two points of Figure 2.")] = 100,
    public: Annotated[str | None, typer.Option(help="Figure 2: public users [100].")] = None,
    private: Annotated[int | None, typer.Option(help="Figure 2: private devices that answer [400].")] = None,
    private_by: Annotated[str | None, typer.Option(help="Figure 2: private devices, most or random [most].")] = None,
    rank: Annotated[int | None, typer.Option(help="Directions r of the features [validated].")] = None,
    regularisation: Annotated[float | None, typer.Option(help="kappa of the trace norm [validated].")] = None,
    m_step: Annotated[str | None, typer.Option(help="keep (the paper's) or prox (exact) [keep].")] = None,
    scale: Annotated[
        str | None, typer.Option(help="The set S, 1,2,3,4,5 or 0.5:5:0.5 [what public users gave].")
    ] = None,
    round_ratings: Annotated[bool, typer.Option("--round-ratings", help="Move ratings to the nearest in S.")] = False,
    holdout: Annotated[int | None, typer.Option(help="Test ratings of every user [10].")] = None,
    seed: Annotated[int | None, typer.Option(help="The first seed [0].")] = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Units at the same time [all CPUs].")] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """See `HELP`."""
    flags = {name: value for name, value in locals().items() if name in TwoTier.model_fields}
    base = validated(TwoTier, None, {**flags, "columns": three_columns(columns), "mechanism": NONE})
    check_target(json)
    wanted = _plan(base, figures=figures, seeds=seeds, curves=mechanisms.split(","), every=every)
    content = {"sweep": "two-tier", "base": base.model_dump(mode="json", exclude={"seed"})}
    opening = open_session(backend, address=address, workers=workers)

    def work(session: Session) -> tuple[dict[Key, Measured], list[dict[str, Any]]]:
        found = _measure(wanted, session, out)
        if ATTACK not in wanted.figures:
            return found, []
        from scenarios.two_tier.sweep_attack import attack_sweep  # noqa: PLC0415 (trees, only where they grow)

        return found, attack_sweep(base, session)

    with swept_in(out, content, opening, work) as (found, attacked):
        summary = _drawn(found, attacked, _title(base), out)
        result = {"trust_model": "two-tier", **content, "versions": versions(), "summary": summary, "attack": attacked}
        write_json(out / "result.json", result)
    deliver(json, result)
    if json != STDOUT:
        console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
        if summary:
            _show(console, pd.DataFrame(summary))
        if attacked:
            from scenarios.two_tier.attack_figure import show_attack  # noqa: PLC0415 (as in `_drawn`)

            show_attack(console, attacked)


def _drawn(found: dict[Key, Measured], attacked: list[dict[str, Any]], title: str, out: Path) -> list[dict[str, Any]]:
    """Write tables and pictures of what there is; return the summary's rows."""
    from scenarios.two_tier.attack_figure import draw_attack  # noqa: PLC0415 (plots, only where they are drawn)
    from scenarios.two_tier.sweep_figure import draw, points_of, summary_of  # noqa: PLC0415 (plots, likewise)

    if attacked:
        draw_attack(attacked, out)
    points = points_of(found)
    if points.empty:
        return []
    summary = summary_of(points)
    draw(summary, title, out)
    write_table(out / "points.csv", points)
    write_table(out / "summary.csv", summary)
    return _records(summary)


def _plan(base: TwoTier, *, figures: str, seeds: int, curves: list[str], every: int) -> SweepPlan:
    """Check everything that can be checked before a unit runs."""
    table = read_table(base)
    users, ratings = table.users, table.ratings - table.users * base.holdout
    plan = plan_sweep(base, figures=figures, seeds=seeds, curves=curves, users=users, ratings=ratings, every=every)
    choosy = [{"mechanism": curve} for curve in plan.curves if needs_scale(curve.partition(":")[0])]
    for update in (choosy or [{}]) if SECOND in plan.figures else [{"private": 0, "public": 2}]:
        world_of(base.model_copy(update=update), table)
    return plan


def _measure(wanted: SweepPlan, session: Session, out: Path) -> dict[Key, Measured]:
    def go(units: dict[Key, Unit]) -> dict[Key, Measured]:
        console = Console(stderr=True)
        return measure_units(units, measure, session, out, console, read=read_unit, write=write_unit)

    first = go(wanted.first())
    return {**first, **go(wanted.second(first))}


def _title(base: TwoTier) -> str:
    return base.ratings.name if base.ratings else "planted {:,} x {:,}".format(*(base.planted or (0, 0))[:2])


def _records(summary: pd.DataFrame) -> list[dict[str, Any]]:
    plain = summary.astype(object).where(summary.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def _show(console: Console, summary: pd.DataFrame) -> None:
    """Print each curve's ends, and what private devices gained."""
    table = Table("figure", "curve", "from", "RMSE", "to", "RMSE", "95 % interval", "gain", "95 % interval")
    for (figure, curve), line in summary.groupby(["figure", "curve"], sort=False):
        ordered = line.sort_values("x")
        first, last = ordered.iloc[0], ordered.iloc[-1]
        gain = [_number(last.get(name)) for name in ("gain", "gain_low", "gain_high")]
        cells = [f"{first['x']:,}", _number(first["rmse"]), f"{last['x']:,}", _number(last["rmse"])]
        ends = f"{_number(last['low'])} {_number(last['high'])}"
        table.add_row(str(figure), str(curve), *cells, ends, gain[0], f"{gain[1]} {gain[2]}")
    console.print(table)


def _number(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) and np.isfinite(value) else ""
