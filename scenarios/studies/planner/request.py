"""The request for a plan, by flags or from Python, in a world or in the shape of a file of ratings; checked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TWO_SERVERS, require_trust
from scenarios.config.files import brief
from scenarios.config.mechanism_settings import designs, mechanism_kind, shared_settings, take_settings
from scenarios.config.resolve import block_of, load_scenario
from scenarios.config.scenario import Scenario
from scenarios.config.settings import BadLines, Duplicates, like_bar
from scenarios.data.datasets import RatingTable, read_for
from scenarios.data.rating_split import judge_likes
from scenarios.studies.planner.least_users import Target, any_design
from scenarios.studies.planner.plan import TOO_MANY, DesignPlan, in_words, plan, quick_best

PRIOR = 5  # ratings of average taste that are added to an item's own before items are sorted
NOT_THE_FILE = (
    "this says nothing of the file itself: its items were merely sorted into clusters by their shares of likes, and "
    "those of a cluster are not alike; its users rate more or fewer items, and popular ones more often; "
    "blindrec run --ratings runs the file itself"
)
"""What stands beside every plan that was made for the shape of a file."""
OF_SUMS = ("noise", "most_likes")  # settings of two servers' sums that a plan takes
EPSILONS = (1, 2, 4, 8)  # at which `blindrec data` says what is learnable


def shape_of(
    table: RatingTable, *, like_from: float | None = None, clusters: int = 2, epsilon: Any = 1, theta: float = 1.0
) -> Scenario:
    """Fit a block model with one user class to a table of ratings; everybody rates as many items as the median user."""
    # Items are sorted by their share of likes in one random half of the ratings, and levels are shares in the other
    # half, so that luck that made the clusters does not count as taste. Real users rate popular items more: a plan made
    # from it is for a world of this size and contrast, not for the file itself.
    likes = judge_likes(table, like_from)
    if likes.all():
        raise InputError(
            f"all {table.ratings} ratings are likes, which show no clusters of taste; give --like-from, or a file with "
            "ratings (blindrec data and compare work with this one)"
        )
    first_half = np.random.default_rng(int.from_bytes(derive(0, "shape"))).random(table.ratings) < 0.5
    items, overall = table.count, likes.mean() if likes.size else 0.5
    seen = np.bincount(table.items[first_half], minlength=items)
    liked = np.bincount(table.items[first_half], weights=likes[first_half], minlength=items)
    cluster_of = kmeans_on_line((liked + PRIOR * overall) / (seen + PRIOR), clusters)
    sizes = np.bincount(cluster_of, minlength=clusters)
    other = np.bincount(cluster_of[table.items[~first_half]], minlength=clusters)
    if not sizes.all() or not other.all():
        few = f"{table.ratings} ratings of {items} items"
        raise InputError(f"{few} are too few to find {clusters} clusters; give more ratings")
    taste = np.bincount(cluster_of[table.items[~first_half]], weights=likes[~first_half], minlength=clusters) / other
    values = {
        "items": items,
        "rated": max(1, int(np.median(table.degrees))),
        "like": (tuple(taste.round(4).tolist()),),
        "cluster_shares": tuple((sizes / sizes.sum()).tolist()),
        "epsilon": parse_epsilon(epsilon),
        "theta": theta,
    }
    return load_scenario(None, {**values, **any_design()})


def learnable(shape: Scenario, users: int, target: Target) -> list[dict[str, Any]]:
    """Return what could be learned from a file's users at each of `EPSILONS`: the best design's accuracy and need."""
    counts = block_of(shape).cluster_sizes
    one_label, items = float(counts.max() / counts.sum()), int(counts.sum())
    names = ("design", "decoder", "agreement", "questions", "users", "accuracy")
    about = {"users_here": users, "holds_for": in_words(shape), "not_for": NOT_THE_FILE}
    rows = []
    for epsilon in EPSILONS:
        world = shape.model_copy(update={"epsilon": parse_epsilon(epsilon)})
        best = quick_best(world, target, users=users) or {}
        accuracy = best.get("accuracy")
        if accuracy is None or accuracy > one_label + math.sqrt(accuracy * (1 - accuracy) / items):
            best_values = {name: best.get(name) for name in names}
            rows.append({"epsilon": epsilon, **best_values, "one_label": one_label, **about})
    return rows


def learnable_of(table: RatingTable, like_from: float | None) -> list[dict[str, Any]]:
    """Return `learnable` of a table for 99 % of the items; empty where the table has no shape to plan from."""
    try:
        return learnable(shape_of(table, like_from=like_from), table.users, Target(success=None, accuracy=0.99))
    except InputError:
        return []


_THEIRS = ("items", "rated", "like", "class_shares", "cluster_shares")  # settings that a file of ratings determines
# Settings that are about files alone, and of these what is about lists, which a block model has not
_LISTS = ("held_out", "split_by", "features", "feature_columns", "worth", "of")
_FILES = ("like_from", "duplicates", "bad_lines", "unrated", "block_model")
_MODELS = ("success", "accuracy", "delta", "expected_answers", "own_questions")  # Settings about block models alone


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The request; None stands for the default that `blindrec plan --help` shows."""

    success: float | None = None  # The target; see `scenarios.studies.planner.least_users.Target`
    accuracy: float | None = None
    # Number of users there are; without an epsilon the smallest epsilon is found for which they are enough
    users: int | None = None
    # A file of whose people to say what lists are worth, or for the block model of whose shape to plan, and how it is
    # read; see `scenarios.data.datasets.read_ratings`
    ratings: Path | None = None
    block_model: bool = False
    columns: tuple[str, ...] | None = None
    like_from: float | None = None
    # Of a file, too: which rating counts where one was given again, what becomes of lines that cannot be read, public
    # features of items, and the share of a list without privacy that lists are to be worth
    duplicates: Duplicates = None
    bad_lines: BadLines = "refuse"
    unrated: float | None = None
    features: Path | None = None
    feature_columns: tuple[str, ...] | None = None
    held_out: float | None = None  # as by a comparison
    split_by: str | None = None
    worth: float | None = None
    of: Target | None = None
    items: int | None = None  # The world, in all forms that `scenarios.config.scenario.Scenario` takes
    rated: int | None = None
    epsilon: Any = None
    like: Any = None
    class_shares: Any = None
    cluster_shares: Any = None
    # Settings that several mechanisms share, by their names; see `scenarios.config.mechanism_settings.shared_settings`
    settings: Mapping[str, Any] = field(default_factory=dict)
    custom: dict[str, Any] | None = None  # A user's own design to plan for as well: ``design`` and its settings
    # Whom devices trust; see `scenarios.config.settings.TrustSettings`
    trust: str | None = None
    delta: float | None = None
    expected_answers: float | None = None
    own_questions: bool | None = None


def check_request(request: PlanRequest, options: Mapping[str, Any]) -> None:
    """Refuse what is not about the plan that is requested: for a world, a file, or a block model of a file's shape.

    ``options`` are those beside the request, all about block models.
    """
    if request.users is not None and request.users < 1:
        raise InputError(f"users is {request.users}; it must be at least 1")
    named = {name: getattr(request, name) for name in (*_FILES, *_LISTS, *_THEIRS, *_MODELS)}
    columns = None if request.columns is None else ",".join(request.columns)
    if request.ratings is None:
        files = {"columns": columns} | {name: named[name] for name in (*_FILES, *_LISTS)}
        _refuse(files, "which is about ratings files; give --ratings too")
        return
    file = brief(str(request.ratings))
    _refuse({name: named[name] for name in _THEIRS}, f"but {file} brings its own; give one of them")
    _trust_of(request)
    if request.block_model:
        _refuse({name: named[name] for name in _LISTS}, "which is about lists, and a block model has none")
        return
    model = {name: named[name] for name in _MODELS} | dict(request.settings) | dict(options)
    custom = None if request.custom is None else request.custom["design"]
    _refuse({**model, "design": custom}, "which is about block models; give --block-model too")


def _refuse(options: Mapping[str, Any], why: str) -> None:
    for name, value in options.items():
        if value not in (None, False, "refuse"):
            raise InputError(f"{name} is {brief(value)}, {why}")


def planned_for(request: PlanRequest) -> tuple[DesignPlan, dict[str, Any]]:
    """Return the plan for a block model, and what `--json` prints of it."""
    success = 0.95 if request.success is None and request.accuracy is None else request.success
    target = Target(success=success, accuracy=request.accuracy)
    inverse = request.users is not None and request.epsilon is None
    if request.ratings is None:
        world, users = load_scenario(None, {**_world(request, *_THEIRS), **any_design()}), request.users
        block_of(world)
    else:
        table, like_from = read_for(request), like_bar(request.columns, request.like_from)
        world, users = shape_of(table, like_from=like_from, **_world(request)), request.users or table.users
    options = {"custom": request.custom, "settings": _of_mechanisms(request), "trust": _trust_of(request)}
    made = plan(world, target, users=users, inverse=inverse, **options)
    models = (LOCAL, request.trust)
    local = {row["note"] for row in made.rows if row["private"] and row["trust_model"] in models}
    if made.best is None and TOO_MANY in local:  # more users than anybody has
        others = "; ".join(sorted(local - {TOO_MANY, ""}))
        raise InputError(
            f"{target.description} needs {TOO_MANY} with every design that protects all a device holds"
            f"{f' ({others})' if others else ''}; raise epsilon or ask for less"
        )
    return made, {**made.as_json(), "not_for": None if request.ratings is None else NOT_THE_FILE}


def _trust_of(request: PlanRequest) -> dict[str, Any]:
    """Return whom devices trust, as scenarios say it; nothing where that is nobody."""
    trust = request.trust or LOCAL
    require_trust(trust)
    values = {name: getattr(request, name) for name in ("delta", "expected_answers", "own_questions")}
    options = {name: value for name, value in values.items() if value not in (None, False)}
    about = {SHUFFLED: ("delta", "expected_answers", "own_questions"), TWO_SERVERS: ("delta", "expected_answers")}
    for name, value in options.items():
        if name not in about.get(trust, ()):
            models = " or ".join(model for model, names in about.items() if name in names)
            raise InputError(f"{name} is {value}, which is about --trust {models}; the trust is {trust}, leave it out")
    if trust == LOCAL:
        return {}
    if request.ratings is not None:
        raise InputError(f"trust is {trust}, but a plan for a file shows every rung; leave --trust or --ratings out")
    if parse_epsilon(1 if request.epsilon is None else request.epsilon) is None:
        raise InputError("epsilon is inf; a central promise is about a finite one")
    if trust == TWO_SERVERS and "expected_answers" in options and request.settings.get("noise") != "devices":
        raise InputError(f"expected_answers is {request.expected_answers}, for noise of devices; here servers add it")
    return {"trust": trust, **options}


def _world(request: PlanRequest, *names: str) -> dict[str, Any]:
    """Return what was given of epsilon, settings, and these."""
    options = {name: getattr(request, name) for name in ("epsilon", *names)} | dict(request.settings)
    theirs = _of_mechanisms(request)
    return {name: value for name, value in options.items() if value is not None and name not in theirs}


def _of_mechanisms(request: PlanRequest) -> dict[str, Any]:
    """Return the shared settings that the world's own design has not, each checked by the mechanisms that have it."""
    world = mechanism_kind(any_design()["design"]).settings.model_fields
    settings = dict.fromkeys([*shared_settings(), *OF_SUMS])
    names = [name for name in settings if name not in world and request.settings.get(name) is not None]
    theirs = {name: request.settings[name] for name in names}
    for mechanism in designs().values():
        take_settings(mechanism, {name: theirs[name] for name in names if name in mechanism.settings.model_fields})
    return theirs
