"""The command line of ratings files: `blindrec data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from scenarios.app.flags import Figure, Json, with_fields
from scenarios.compare.settings import Comparison
from scenarios.pictures.figures import check_figure, deliver_figure
from scenarios.report.printing import show_description
from scenarios.report.records import STDOUT, check_target, deliver

_READ = ("columns", "duplicates", "bad_lines", "min_ratings", "like_from", "features")


@with_fields({name: Comparison.model_fields[name] for name in _READ})
def data(
    file: Annotated[Path, typer.Argument(help="MovieLens, Jester, or any CSV or Parquet file of ratings.")],
    *,
    json: Json = None,
    figure: Figure = None,
    **read: Any,
) -> None:
    """Tell what is in a file of ratings, what its users could let a server learn, and what recommendations take."""
    from scenarios.compare.needs import SPLITS, needs_or_why, show_needs
    from scenarios.compare.worlds import table_of
    from scenarios.data.datasets import lines_skipped, tell_remarks
    from scenarios.data.rating_split import describe
    from scenarios.given.settings import validated
    from scenarios.planner.shape import learnable_of
    from scenarios.planner.tables import show_learnable

    check_target(json)
    check_figure(figure)
    settings = validated(Comparison, None, {"ratings": file, "seeds": SPLITS, **read})
    table, like_from = table_of(settings), settings.liked_from
    described = describe(table, like_from)
    rows = learnable_of(table, like_from)
    recipe, why = needs_or_why(settings)
    record = {
        **described,
        **lines_skipped(settings, table),
        "remarks": table.remarks,
        "learnable": rows,
        "worth": recipe,
        "worth_not": why,
    }
    deliver(json, record)
    deliver_figure(figure, "data", record)
    if json != STDOUT:
        show_description(Console(), described, f"blindrec data {file.name}")
        tell_remarks(table, Console())
        show_learnable(Console(), rows)
        show_needs(Console(), recipe, why)
