"""A sweep from its grid to its folder: what `blindrec sweep sample-complexity` and `blindrec.sweep` have in common."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from scenarios.files import write_table
from scenarios.places.session import Session
from scenarios.records import write_result
from scenarios.sweep.figure import draw
from scenarios.sweep.folder import swept_in
from scenarios.sweep.grid import Grid
from scenarios.sweep.planned import add_plans
from scenarios.sweep.runner import Key, run_units
from scenarios.sweep.summary import settings_table, summarize, thresholds
from scenarios.sweep.threshold import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A finished sweep.

    Attributes
    ----------
    grid : Grid
        What was measured.
    result : dict
        What `--json` prints.
    table : DataFrame
        The threshold of every setting, seed, decoder and criterion.
    """

    grid: Grid
    result: dict[str, Any]
    table: pd.DataFrame


def measured(grid: Grid, opening: AbstractContextManager[Session], out: Path, console: Console) -> Swept:
    """Measure every unit that the folder does not hold yet, and write what all of them say there.

    Parameters
    ----------
    grid : Grid
        What to measure.
    opening : context manager
        Opens the backend; see `scenarios.places.backends.opened`.
    out : Path
        New, or the folder of the same grid.
    console : Console
        For progress.

    Returns
    -------
    Swept

    Raises
    ------
    InputError
        If the folder holds something else.
    InterruptedRunError, ResumableError
        On Ctrl-C, on a full disk, or where something was lost. What is finished is on disk.
    """

    def work(session: Session) -> dict[Key, Measured]:
        return run_units(grid, session, out, console)

    with swept_in(out, grid.content(), opening, work) as units:
        table = thresholds(grid, units)
        result = summarize(grid, table)
        add_plans(result, grid, units)
        write_table(out / "thresholds.parquet", table)
        write_table(out / "settings.csv", settings_table(result))
        draw(grid, result, out)
        write_result(out, result)
    return Swept(grid=grid, result=result, table=table)
