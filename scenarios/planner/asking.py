"""The request for a plan, by flags or from Python: it is checked here, and `scenarios.planner.plan.plan` answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from coordinator.server.server_half import TRUST_LOCAL
from scenarios.data.datasets import read_for
from scenarios.data.populations import cluster_sizes
from scenarios.given.config import Scenario
from scenarios.given.parsing import brief
from scenarios.given.run_spec import load_scenario
from scenarios.given.settings import BadLines, Duplicates, like_bar
from scenarios.planner.candidates import any_design
from scenarios.planner.needs import Target
from scenarios.planner.plan import TOO_MANY, DesignPlan, plan
from scenarios.planner.shape import NOT_THE_FILE, shape_of

_THEIRS = ("items", "rated", "like", "class_shares", "cluster_shares")
"""Settings that a file of ratings determines."""
_FILES = ("like_from", "duplicates", "bad_lines", "features", "worth")
"""Settings that say something about files of ratings alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The request; None stands for the default that `blindrec plan --help` shows."""

    success: float | None = None  # The target; see `scenarios.planner.needs.Target`
    accuracy: float | None = None
    # Number of users there are; without an epsilon the smallest epsilon is found for which they are enough
    users: int | None = None
    # A file whose shape to plan for, and how it is read; see `scenarios.data.datasets.read_ratings`
    ratings: Path | None = None
    columns: tuple[str, ...] | None = None
    like_from: float | None = None
    # Of a file, too: which rating counts where one was given again, what becomes of lines that cannot be read, public
    # features of items, and the share of plain popularity that advice is to keep; see `scenarios.compare.needs.needs`
    duplicates: Duplicates | None = None
    bad_lines: BadLines = "refuse"
    features: Path | None = None
    worth: float | None = None
    items: int | None = None  # The world, in all forms that `scenarios.given.config.Scenario` takes
    rated: int | None = None
    epsilon: Any = None
    like: Any = None
    class_shares: Any = None
    cluster_shares: Any = None
    # Settings that several mechanisms share, by their names; see `scenarios.given.mechanisms.shared_settings`
    settings: Mapping[str, Any] = field(default_factory=dict)
    own: dict[str, Any] | None = None  # A user's own design to plan for as well: ``design`` and its settings


def planned_for(request: Asked) -> tuple[DesignPlan, dict[str, Any]]:
    """Return the plan, and what `--json` prints of it."""
    if request.users is not None and request.users < 1:
        raise InputError(f"users is {request.users}; it must be at least 1")
    file_options = {"columns": request.columns and ",".join(request.columns)} | {
        name: getattr(request, name) for name in _FILES
    }
    for name, value in file_options.items() if request.ratings is None else ():
        if value not in (None, "refuse"):
            raise InputError(f"{name} is {brief(value)}, which is about ratings files; give --ratings too")
    success = 0.95 if request.success is None and request.accuracy is None else request.success
    target = Target(success=success, accuracy=request.accuracy)
    inverse = request.users is not None and request.epsilon is None
    if request.ratings is None:
        world, users = load_scenario(None, {**_world(request, *_THEIRS), **any_design()}), request.users
        cluster_sizes(world)
    else:
        world, users = _from_file(request.ratings, request)
    made = plan(world, target, users=users, inverse=inverse, own=request.own)
    _refuse_the_impossible(made)
    return made, {**made.as_json(), "not_for": None if request.ratings is None else NOT_THE_FILE}


def _world(request: Asked, *names: str) -> dict[str, Any]:
    """Return what was given of epsilon, settings, and these."""
    options = {name: getattr(request, name) for name in ("epsilon", *names)} | dict(request.settings)
    return {name: value for name, value in options.items() if value is not None}


def _from_file(file: Path, request: Asked) -> tuple[Scenario, int]:
    """Return the world and the users of a file's shape."""
    for name in _THEIRS:
        if (value := getattr(request, name)) is not None:
            raise InputError(f"{name} is {value!r}, but {brief(str(file))} brings its own; give one of them")
    table = read_for(request).table
    shape = shape_of(table, like_from=like_bar(request.columns, request.like_from), **_world(request))
    return shape.world, request.users or shape.users


def _refuse_the_impossible(made: DesignPlan) -> None:
    """Stop a plan in which every design that protects all a device holds needs more users than anybody has."""
    local = [row["note"] for row in made.rows if row["private"] and row["trust_model"] == TRUST_LOCAL]
    if made.best is None and TOO_MANY in local:
        others = sorted({note for note in local if note and note != TOO_MANY})
        remedies = f" ({'; '.join(others)})" if others else ""
        raise InputError(
            f"{made.target.words} needs {TOO_MANY} with every design that protects all a device holds{remedies}; raise "
            "epsilon or ask for less"
        )
