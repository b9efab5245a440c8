"""The command line of plans: `blindrec plan`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.config import MOST_USERS as MOST_SIMULATED
from scenarios.flags import with_settings
from scenarios.given import three_columns
from scenarios.mechanisms import shared_settings
from scenarios.own.importing import read_settings
from scenarios.places.backends import check_backend, open_session
from scenarios.planner.asking import Asked, planned_for
from scenarios.planner.check import check_plan
from scenarios.planner.cost import measure_cost
from scenarios.planner.tables import show_check, show_cost, show_plan
from scenarios.records import STDOUT, check_target, deliver


@with_settings(*shared_settings())
def plan(
    items: Annotated[int | None, typer.Option(help="Items N of the catalogue [200].")] = None,
    rated: Annotated[int | None, typer.Option(help="Items w that a user rated [20].")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Privacy in nats; inf for none [1, or sought: --users].")] = None,
    like: Annotated[str | None, typer.Option(help="P(like): clusters by ',', user classes by ';' [0.9,0.1].")] = None,
    class_shares: Annotated[str | None, typer.Option(help="Shares of user classes [equal].")] = None,
    cluster_shares: Annotated[str | None, typer.Option(help="Shares of item clusters [equal].")] = None,
    success: Annotated[float | None, typer.Option(help="P(all items right) to reach [0.95].")] = None,
    accuracy: Annotated[float | None, typer.Option(help="Share of items right to reach, instead or as well.")] = None,
    users: Annotated[int | None, typer.Option(help="Users there are: tells what they achieve.")] = None,
    design: Annotated[str | None, typer.Option(help="Your own design, to compare: package.module:Name.")] = None,
    setting: Annotated[list[str] | None, typer.Option(help="Your own design: name=value of a setting.")] = None,
    ratings: Annotated[Path | None, typer.Option(help="Plan for the shape of a ratings file.")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the file's user, item and rating columns.")] = None,
    like_from: Annotated[float | None, typer.Option(help="Ratings from here on are likes [above own mean].")] = None,
    cost: Annotated[bool, typer.Option("--cost", help="Time the recommended design here, and scale.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Run the recommended design at the planned users.")] = False,
    repeat: Annotated[int, typer.Option(help="Seeds of the check.")] = 5,
    seed: Annotated[int | None, typer.Option(help="First seed of the check [0].")] = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess, for the check.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Blocks of devices at the same time [all CPUs].")] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
    **settings: Any,
) -> None:
    """Tell how many users each design needs, and which to use, from exact moments and before anything is run.

    With --users and no --epsilon it looks for the smallest epsilon instead. Designs that do not protect all that a
    device holds are shown for comparison, never recommended.
    """
    _check_counts(repeat, seed)
    check_backend(backend, workers)
    check_target(json)
    asked = Asked(
        success=success,
        accuracy=accuracy,
        users=users,
        ratings=ratings,
        columns=three_columns(columns),
        like_from=like_from,
        items=items,
        rated=rated,
        epsilon=epsilon,
        like=like,
        class_shares=class_shares,
        cluster_shares=cluster_shares,
        settings=settings,
        own=_own(design, setting or ()),
    )
    made, result = planned_for(asked)
    console = Console()
    if json != STDOUT:
        show_plan(console, made, f"blindrec plan: {made.target.words}", result["not_for"])
    if made.recommended is not None and made.best is not None and (cost or check):
        spent, needed = parse_epsilon(made.best["epsilon"]), made.best["users"]
        if cost:
            result["cost"] = measure_cost(made.recommended.at(spent), needed).as_json()
        if check:
            if needed > MOST_SIMULATED:
                raise InputError(f"users is {needed} for the check; at most {MOST_SIMULATED} can be simulated")
            checked = made.recommended.at(spent, users=needed, seed=seed or 0)
            with open_session(backend, address=address, workers=workers) as session:
                result["check"] = check_plan(checked, session, repeat=repeat, console=Console(stderr=True))
    deliver(json, result)
    if json != STDOUT and "cost" in result:
        show_cost(console, result["cost"])
    if json != STDOUT and "check" in result:
        show_check(console, result["check"])


def _own(design: str | None, setting: Sequence[str]) -> dict[str, Any] | None:
    """Return a design of one's own with its settings, as a scenario takes them."""
    if design is None and not setting:
        return None
    if design is None or ":" not in design:
        raise InputError(
            f"design is {design!r}; a plan compares all of blindrec's already; leave it out, or name your own, "
            "package.module:Name"
        )
    return {"design": design, **read_settings(setting)}


def _check_counts(repeat: int, seed: int | None) -> None:
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; it must be at least 1")
    if seed is not None and not 0 <= seed < 1 << 63:
        raise InputError(f"seed is {seed}; it must be at least 0 and below 2^63")
