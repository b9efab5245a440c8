"""The command line of lower bounds: `blindrec bounds`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from coordinator.protocol.budget import as_float, as_json, parse_epsilon
from scenarios.commands.flags import Figure, Json
from scenarios.show.figures import check_figure, deliver_figure
from scenarios.show.records import STDOUT, check_target, deliver
from scenarios.show.tables import failing


def show_bounds(console: Console, record: Mapping[str, Any]) -> None:
    """Print lower bounds as a table, the one that binds marked, and below it what each of them holds for."""
    rows: Sequence[Mapping[str, Any]] = record["bounds"]
    title = f"users that any epsilon-LDP learner needs\n{failing(record['failure'], record['mistakes'])}"
    table = Table("bound", "users", "source", title=title, title_justify="left")
    table.columns[1].no_wrap = True
    holds: dict[str, list[str]] = {}
    for row in rows:
        users = f"{row['users']:,.0f}" if row["valid"] else "out of range"
        table.add_row(row["name"] + (" *" if row["binds"] else ""), users, row["source"])
        holds.setdefault(row["range"], []).append(row["name"])
    console.print(table)
    console.print("* the one that binds")
    for statement, names in holds.items():
        console.print(f"{', '.join(names)}: {'hold' if len(names) > 1 else 'holds'} for {statement}", highlight=False)


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

    check_target(json)
    check_figure(figure)
    user_bounds = all_bounds(
        items=items,
        rated=rated,
        epsilon=as_float(parse_epsilon(epsilon)),
        clusters=clusters,
        failure=failure,
        mistakes=mistakes,
        ours=ours,
    )
    rows = bounds_rows(user_bounds)
    settings = {"items": items, "rated": rated, "epsilon": as_json(parse_epsilon(epsilon)), "clusters": clusters}
    record = {**settings, "failure": failure, "mistakes": mistakes, "bounds": rows}
    deliver(json, record)
    deliver_figure(figure, "bounds", record)
    if json != STDOUT:
        show_bounds(Console(), record)
