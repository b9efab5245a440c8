"""The command line of plans: `blindrec plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.backends import check_backend, open_session
from scenarios.config import MOST_USERS as MOST_SIMULATED
from scenarios.config import Scenario, load_scenario
from scenarios.datasets import read_ratings, three_columns
from scenarios.kinds import LOCAL
from scenarios.planner.candidates import ANY_DESIGN
from scenarios.planner.check import check_plan
from scenarios.planner.cost import measure_cost
from scenarios.planner.needs import Target
from scenarios.planner.plan import TOO_MANY, Plan
from scenarios.planner.plan import plan as make_plan
from scenarios.planner.shape import NOT_THE_FILE, shape_of
from scenarios.planner.tables import show_check, show_cost, show_plan
from scenarios.populations import cluster_sizes
from scenarios.records import STDOUT, check_targets, deliver


def plan(
    items: Annotated[int | None, typer.Option(help="Items N of the catalogue [200].")] = None,
    rated: Annotated[int | None, typer.Option(help="Items w that a user rated [20].")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Privacy in nats; inf for none [1, or sought: --users].")] = None,
    like: Annotated[str | None, typer.Option(help="P(like): clusters by ',', user classes by ';' [0.9,0.1].")] = None,
    class_shares: Annotated[str | None, typer.Option(help="Shares of user classes [equal].")] = None,
    cluster_shares: Annotated[str | None, typer.Option(help="Shares of item clusters [equal].")] = None,
    theta: Annotated[float | None, typer.Option(help="Sensed items a user rated, on average [1].")] = None,
    success: Annotated[float | None, typer.Option(help="P(all items right) to reach [0.95].")] = None,
    accuracy: Annotated[float | None, typer.Option(help="Share of items right to reach, instead or as well.")] = None,
    users: Annotated[int | None, typer.Option(help="Users there are: tells what they achieve.")] = None,
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
) -> None:
    """Tell how many users each design needs, and which to use, from exact moments and before anything is run.

    With --users and no --epsilon it looks for the smallest epsilon instead. Designs that do not protect all that a
    device holds are shown for comparison, never recommended.
    """
    _check_counts(users, repeat, seed)
    _check_file_settings(ratings, columns, like_from)
    check_backend(backend, workers)
    check_targets(None, json)
    target = Target(success=0.95 if success is None and accuracy is None else success, accuracy=accuracy)
    given: dict[str, Any] = {"items": items, "rated": rated, "like": like, "class_shares": class_shares}
    given |= {"cluster_shares": cluster_shares, "theta": theta, "epsilon": epsilon}
    inverse = users is not None and epsilon is None
    if ratings is None:
        world = load_scenario(None, {**given, **ANY_DESIGN})
        cluster_sizes(world)
    else:
        world, users = _from_file(ratings, given, users, three_columns(columns), like_from)
    made = make_plan(world, target, users=users, inverse=inverse)
    _refuse_the_impossible(made)
    console = Console()
    not_for = None if ratings is None else NOT_THE_FILE
    if json != STDOUT:
        show_plan(console, made, f"blindrec plan: {target.words}", not_for)
    result = {**made.as_json(), "not_for": not_for}
    if made.recommended is not None and made.best is not None and (cost or check):
        spent, needed = parse_epsilon(made.best["epsilon"]), made.best["users"]
        if cost:
            result["cost"] = measure_cost(made.recommended.at(spent), needed).as_json()
        if check:
            if needed > MOST_SIMULATED:
                raise InputError(f"users is {needed} for the check; at most {MOST_SIMULATED} can be simulated")
            planned = made.recommended.at(spent, users=needed, seed=seed or 0)
            with open_session(backend, address=address, workers=workers) as session:
                result["check"] = check_plan(planned, session, repeat=repeat, console=Console(stderr=True))
    deliver(json, result)
    if json != STDOUT and "cost" in result:
        show_cost(console, result["cost"])
    if json != STDOUT and "check" in result:
        show_check(console, result["check"])


def _check_counts(users: int | None, repeat: int, seed: int | None) -> None:
    if users is not None and users < 1:
        raise InputError(f"users is {users}; it must be at least 1")
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; it must be at least 1")
    if seed is not None and not 0 <= seed < 1 << 63:
        raise InputError(f"seed is {seed}; it must be at least 0 and below 2^63")


def _check_file_settings(ratings: Path | None, columns: str | None, like_from: float | None) -> None:
    """Refuse what is about ratings files where there is none."""
    for name, value in (("columns", columns), ("like_from", like_from)):
        if ratings is None and value is not None:
            raise InputError(f"{name} is {value!r}, which is about ratings files; give --ratings too")


def _from_file(
    file: Path,
    given: dict[str, Any],
    users: int | None,
    columns: tuple[str, str, str] | None,
    like_from: float | None,
) -> tuple[Scenario, int]:
    """Return the world and the users of a file's shape."""
    theirs = [name for name in ("items", "rated", "like", "class_shares", "cluster_shares") if given[name] is not None]
    if theirs:
        raise InputError(f"{theirs[0]} is {given[theirs[0]]!r}, but {file} brings its own; give one of them")
    settings = {name: given[name] for name in ("epsilon", "theta") if given[name] is not None}
    shape = shape_of(read_ratings(file, columns=columns), like_from=like_from, **settings)
    return shape.world, users or shape.users


def _refuse_the_impossible(made: Plan) -> None:
    """Stop a plan in which every design that protects all a device holds needs more users than anybody has."""
    local = [row["note"] for row in made.rows if row["private"] and row["trust_model"] == LOCAL]
    if made.best is None and TOO_MANY in local:
        others = sorted({note for note in local if note and note != TOO_MANY})
        told = f" ({'; '.join(others)})" if others else ""
        raise InputError(
            f"{made.target.words} needs {TOO_MANY} with every design that protects all a device holds{told}; raise "
            "epsilon or ask for less"
        )
