"""The command line of ratings files: `blindrec data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scenarios.app.flags import Figure, Json
from scenarios.given.settings import COLUMNS, LIKE_FROM
from scenarios.given.values import three_columns
from scenarios.pictures.writing import check_figure, deliver_figure
from scenarios.report.printing import show_description
from scenarios.report.records import STDOUT, check_target, deliver


def data(
    file: Annotated[Path, typer.Argument(help="MovieLens, Jester, or any CSV or Parquet file of ratings.")],
    columns: Annotated[str | None, typer.Option(help=COLUMNS)] = None,
    like_from: Annotated[float | None, typer.Option(help=LIKE_FROM)] = None,
    json: Json = None,
    figure: Figure = None,
) -> None:
    """Tell what is in a file of ratings, what its users could let a server learn, and what recommendations take."""
    from scenarios.compare.needs import needs
    from scenarios.compare.needs_table import show_needs
    from scenarios.data.datasets import read_ratings
    from scenarios.data.rating_split import describe
    from scenarios.planner.shape import learnable_of
    from scenarios.planner.tables import show_learnable

    check_target(json)
    check_figure(figure)
    table = read_ratings(file, columns=three_columns(columns))
    described = describe(table, like_from)
    rows = learnable_of(table, like_from)
    recipe = needs(table, like_from=like_from)
    record = {**described, "learnable": rows, "worth": recipe}
    deliver(json, record)
    deliver_figure(figure, "data", record)
    if json != STDOUT:
        show_description(Console(), described, f"blindrec data {file.name}")
        show_learnable(Console(), rows)
        show_needs(Console(), recipe)
