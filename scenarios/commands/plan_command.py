"""The command line of plans: `blindrec plan`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios import log
from scenarios.backends.selection import AUTO, check_backend, open_session
from scenarios.commands.flags import Address, Backend, Figure, Json, Setting, Workers, with_fields
from scenarios.config.files import names_of_columns
from scenarios.config.identity import read_settings
from scenarios.config.mechanism_settings import all_settings, shared_settings
from scenarios.config.scenario import MOST_USERS as MOST_SIMULATED
from scenarios.config.scenario import Scenario
from scenarios.experiments import MAIN_JOB
from scenarios.show.figures import check_figure, deliver_figure
from scenarios.show.records import STDOUT, check_target, deliver
from scenarios.studies.compare.comparison_settings import Comparison

WORLD = ("like", "class_shares", "cluster_shares", "columns", "like_from", "duplicates", "bad_lines", "features")
"""Fields that a plan takes as a run does."""
_FIELDS = {name: (Comparison if name == "features" else Scenario).model_fields[name] for name in WORLD} | {
    name: all_settings()[name] for name in shared_settings()
}


@with_fields(_FIELDS)
def plan(
    items: Annotated[int | None, typer.Option(help="Items N of the catalogue [200].")] = None,
    rated: Annotated[int | None, typer.Option(help="Items w that a user rated [20].")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Privacy in nats; inf for none [1, or sought: --users].")] = None,
    success: Annotated[float | None, typer.Option(help="P(all items right) to reach [0.95].")] = None,
    accuracy: Annotated[float | None, typer.Option(help="Share of items right to reach, instead or as well.")] = None,
    users: Annotated[int | None, typer.Option(help="Users there are: tells what they achieve.")] = None,
    design: Annotated[str | None, typer.Option(help="Your own design, to compare: package.module:Name.")] = None,
    setting: Setting = None,
    ratings: Annotated[
        Path | None, typer.Option(help="Tell what private advice takes among a file's people; plan for its shape.")
    ] = None,
    worth: Annotated[
        float | None, typer.Option(help="Share of plain popularity's NDCG that advice is to reach [0.95].")
    ] = None,
    malicious: Annotated[float | None, typer.Option(help="Share of users that lies: what designs need then.")] = None,
    cost: Annotated[bool, typer.Option("--cost", help="Time the recommended design here, and scale.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Run the recommended design at the planned users.")] = False,
    repeat: Annotated[int, typer.Option(help="Seeds of the check.")] = 5,
    seed: Annotated[int | None, typer.Option(help="First seed of the check [0].")] = None,
    backend: Backend = AUTO,
    address: Address = None,
    workers: Workers = None,
    json: Json = None,
    figure: Figure = None,
    **others: Any,
) -> None:
    """Tell how many users each design needs, and which to use, from exact moments and before anything is run.

    With --users and no --epsilon it looks for the smallest epsilon instead. Designs that do not protect all that a
    device holds are shown for comparison, never recommended. For a file it first tells how many people like its own
    private advice takes, which is drawn from the file, and then plans for a block model of its shape.
    """
    from scenarios.studies.plan_of_file import planned
    from scenarios.studies.planner.plan_check import check_plan, measure_cost
    from scenarios.studies.planner.plan_tables import show_check, show_cost, show_plan
    from scenarios.studies.planner.request import PlanRequest
    from scenarios.studies.planner.withstanding import check_share, show_withstanding, withstanding

    _check_counts(repeat, seed)
    if malicious is not None:
        check_share(malicious)
    check_backend(backend, workers)
    check_target(json)
    check_figure(figure)
    world = {name: others.pop(name) for name in WORLD}
    request = PlanRequest(
        success=success,
        accuracy=accuracy,
        users=users,
        ratings=ratings,
        worth=worth,
        items=items,
        rated=rated,
        epsilon=epsilon,
        settings=others,
        own=_own(design, setting or ()),
        **{**world, "columns": names_of_columns(world["columns"]), "bad_lines": world["bad_lines"] or "refuse"},
    )
    made, result = planned(request)
    console = Console(quiet=json == STDOUT)
    if ratings is not None:
        from scenarios.studies.compare.people_needed import show_needs

        show_needs(console, result["worth"], result["worth_not"])
        console.print("\nand for a block model of the file's shape, to which it says nothing about lists:")
    show_plan(console, made, f"blindrec plan: {made.target.words}", result["not_for"])
    if malicious is not None:
        result["withstanding"] = withstanding(made, malicious, request.own)
        show_withstanding(console, result["withstanding"])
    if made.recommended is not None and made.best is not None and (cost or check):
        spent, needed = parse_epsilon(made.best["epsilon"]), made.best["users"]
        if cost:
            result["cost"] = measure_cost(made.recommended.at(spent), needed)
            show_cost(console, result["cost"])
        if check:
            if needed > MOST_SIMULATED:
                raise InputError(f"users is {needed} for the check; at most {MOST_SIMULATED} can be simulated")
            checked = made.recommended.at(spent, users=needed, seed=seed or 0)
            opening = open_session(
                backend, address=address, workers=workers, work=lambda: repeat * MAIN_JOB.work(checked)
            )
            with opening as session:
                result["check"] = check_plan(checked, session, repeat=repeat, console=log.console())
            show_check(console, result["check"])
    deliver(json, result)
    deliver_figure(figure, "plan", result)


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
