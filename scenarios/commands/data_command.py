"""The command line of ratings files: `blindrec data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from scenarios.commands.flags import Figure, Json, with_fields
from scenarios.show.figures import check_figure, deliver_figure
from scenarios.show.records import STDOUT, check_target, deliver
from scenarios.show.tables import show_description
from scenarios.studies.compare.comparison_settings import Comparison

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
    from scenarios.config.settings import validated
    from scenarios.data.datasets import lines_skipped, tell_remarks
    from scenarios.data.rating_split import describe
    from scenarios.studies.compare.people_needed import SPLITS, needs_or_why, show_needs
    from scenarios.studies.compare.worlds import table_of
    from scenarios.studies.planner.plan_tables import show_learnable
    from scenarios.studies.planner.request import learnable_of

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
