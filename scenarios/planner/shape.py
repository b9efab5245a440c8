"""The shape of a ratings file, as a block model that plans can be made for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.line import kmeans_on_line
from scenarios.data.datasets import RatingTable
from scenarios.data.populations import cluster_sizes
from scenarios.data.rating_split import judge_likes
from scenarios.given.config import Scenario
from scenarios.given.run_spec import load_scenario
from scenarios.planner.candidates import any_design
from scenarios.planner.needs import Target
from scenarios.planner.plan import in_words, quick_best

PRIOR = 5
"""Ratings of average taste that are added to an item's own before items are sorted."""
NOT_THE_FILE = (
    "this says nothing of the file itself: its items were merely sorted into clusters by their shares of likes, and "
    "those of a cluster are not alike; its users rate more or fewer items, and popular ones more often; "
    "blindrec run --ratings runs the file itself"
)
"""What stands beside every plan that was made for the shape of a file."""
EPSILONS = (1, 2, 4, 8)
"""What `blindrec data` tells the learnable at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A file's shape."""

    world: Scenario  # Items, median number of rated items, and a fitted block model with one user class
    users: int  # The file's users


def shape_of(
    table: RatingTable, *, like_from: float | None = None, clusters: int = 2, epsilon: Any = 1, theta: float = 1.0
) -> Shape:
    """Fit a block model to a table of ratings.

    Items are sorted into clusters by their share of likes in one random half of the ratings; the clusters' ``like`` is
    their share of likes in the other half, so that luck that made the clusters does not count as taste.

    The block model lets every user rate the same number of items, drawn uniformly; real users rate popular items more.
    A plan made from it is for a world of this size and contrast, not for the file itself.
    """
    likes = judge_likes(table, like_from)
    if likes.all():
        raise InputError(
            f"all {table.ratings} ratings are likes, as where what is seen is liked: they tell no clusters of taste; "
            "give --like-from, or a file of ratings: blindrec data and compare work with this one"
        )
    half = np.random.default_rng(int.from_bytes(derive(0, "shape"))).random(table.ratings) < 0.5
    items, overall = table.count, likes.mean() if likes.size else 0.5
    seen = np.bincount(table.items[half], minlength=items)
    liked = np.bincount(table.items[half], weights=likes[half], minlength=items)
    cluster_of = kmeans_on_line((liked + PRIOR * overall) / (seen + PRIOR), clusters)
    sizes = np.bincount(cluster_of, minlength=clusters)
    other = np.bincount(cluster_of[table.items[~half]], minlength=clusters)
    if not sizes.all() or not other.all():
        raise InputError(
            f"{table.ratings} ratings of {items} items tell no {clusters} clusters; more ratings are needed"
        )
    taste = np.bincount(cluster_of[table.items[~half]], weights=likes[~half], minlength=clusters) / other
    values = {
        "items": items,
        "rated": max(1, int(np.median(table.degrees))),
        "like": (tuple(taste.round(4).tolist()),),
        "cluster_shares": tuple((sizes / sizes.sum()).tolist()),
        "epsilon": parse_epsilon(epsilon),
        "theta": theta,
    }
    world = load_scenario(None, {**values, **any_design()})
    return Shape(world=world, users=table.users)


def learnable(shape: Shape, target: Target) -> list[dict[str, Any]]:
    """Return what could be learned from the file's users at each of `EPSILONS`: the best design's accuracy and need."""
    counts = cluster_sizes(shape.world)
    one_label, items = float(counts.max() / counts.sum()), int(counts.sum())
    names = ("design", "decoder", "agreement", "questions", "users", "accuracy")
    about = {"users_here": shape.users, "holds_for": in_words(shape.world), "not_for": NOT_THE_FILE}
    rows = []
    for epsilon in EPSILONS:
        world = shape.world.model_copy(update={"epsilon": parse_epsilon(epsilon)})
        best = quick_best(world, target, users=shape.users) or {}
        accuracy = best.get("accuracy")
        if accuracy is None or accuracy > one_label + math.sqrt(accuracy * (1 - accuracy) / items):
            best_values = {name: best.get(name) for name in names}
            rows.append({"epsilon": epsilon, **best_values, "one_label": one_label, **about})
    return rows


def learnable_of(table: RatingTable, like_from: float | None) -> list[dict[str, Any]]:
    """Return `learnable` of a table for 99 % of the items; empty where the table has no shape to plan from."""
    try:
        return learnable(shape_of(table, like_from=like_from), Target(success=None, accuracy=0.99))
    except InputError:
        return []
