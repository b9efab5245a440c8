"""The command line of lower bounds: `blindrec bounds`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from coordinator.protocol.budget import as_float, as_json, parse_epsilon
from scenarios.app.flags import Figure, Json
from scenarios.pictures.writing import check_figure, deliver_figure
from scenarios.report.records import STDOUT, check_target, deliver


def bounds(
    items: Annotated[int, typer.Option(help="Items N, up to 10^9 and more.")],
    rated: Annotated[int, typer.Option(help="Items w that a user rated.")],
    epsilon: Annotated[str, typer.Option(help="Privacy of a user's answer in nats; inf for none.")] = "1",
    clusters: Annotated[int, typer.Option(help="Item clusters.")] = 2,
    failure: Annotated[float, typer.Option(help="Probability of failure that is allowed [0.5].")] = 0.5,
    mistakes: Annotated[int, typer.Option(help="Wrong items that still count as success.")] = 0,
    ours: Annotated[bool, typer.Option(help="Add two bounds that are not in the paper.")] = False,
    json: Json = None,
    figure: Figure = None,
) -> None:
    """Tell how many users any epsilon-LDP learner needs: all lower bounds of the Price of Privacy, and which binds."""
    from scenarios.theory.bounds import all_bounds, bounds_rows
    from scenarios.theory.bounds_tables import show_bounds

    check_target(json)
    check_figure(figure)
    found = all_bounds(
        items=items,
        rated=rated,
        epsilon=as_float(parse_epsilon(epsilon)),
        clusters=clusters,
        failure=failure,
        mistakes=mistakes,
        ours=ours,
    )
    rows = bounds_rows(found)
    asked = {"items": items, "rated": rated, "epsilon": as_json(parse_epsilon(epsilon)), "clusters": clusters}
    record = {**asked, "failure": failure, "mistakes": mistakes, "bounds": rows}
    deliver(json, record)
    deliver_figure(figure, "bounds", record)
    if json != STDOUT:
        show_bounds(Console(), record)
