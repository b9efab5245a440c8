"""Scores of advice: each device's top ten among the items that it has not rated, for each unit of a comparison."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Indices2, Ints
from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import damped
from scenarios.compare.own import rows_of
from scenarios.compare.panel import serve
from scenarios.compare.row import DEVICES, LearnedScores, RowRequest
from scenarios.compare.settings import COORDINATOR, Comparison
from scenarios.compare.worlds import FileWorld, world_of
from scenarios.places.worker_threads import stop_if_abandoned

TOP = 10
"""Length of a list."""
RESAMPLED = 100
"""Number of samples of people with replacement, the same ones for all rows of all seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScores:
    """The worth of lists; means over people with held-out likes."""

    features: bool  # Whether devices used public features beside the learned scores
    hit_rate: float  # Share of people with a held-out like among their ten items
    ndcg: float  # Normalised discounted cumulative gain at 10
    recall: float  # Share of a person's held-out likes among its ten items
    coverage: float  # Share of the catalogue that is recommended to at least one person
    people: int  # Number of people who were evaluated
    resampled: dict[str, tuple[float, ...]] = field(repr=False)  # Hit rate, NDCG and recall of each sample of people


def score(world: FileWorld, learned: LearnedScores, request: RowRequest, *, features: bool) -> ListScores:
    """Score the lists that follow from learned scores, with or without public features on the device."""
    people = world.fold.evaluated if learned.people is None else np.intersect1d(world.fold.evaluated, learned.people)
    if not people.size:
        raise InputError(f"none of the people to be evaluated has a like held out; lower --public, {request.public:g}")
    order = request.coins.permutation(world.items)  # the order in which equal scores are ranked
    if learned.order is not None:
        order = learned.order.astype(np.int64)
    rows = [_lists(world, learned, block, order, features=features) for block in world.blocks(people)]
    lists = np.concatenate(rows)
    per_person = _scores_per_person(world, people, lists)
    weights = _weights(world.people)[:, people]
    weights[weights.sum(axis=1) == 0] = 1  # a sample of nobody, where there are very few
    total = weights.sum(axis=1)
    resampled = {name: tuple(np.round(weights @ one / total, 6).tolist()) for name, one in per_person.items()}
    covered = np.unique(lists[lists >= 0]).size / world.items
    means = {name: float(one.mean()) for name, one in per_person.items()}
    return ListScores(features=features, **means, coverage=covered, people=people.size, resampled=resampled)


def _lists(world: FileWorld, learned: LearnedScores, people: Ints, order: Ints, *, features: bool) -> Indices2:
    """Return people's lists, int32, shape (people, TOP); -1 where too few unrated items are left."""
    own = world.matrix[people]
    if learned.scorer is not None:
        scores = learned.scorer(own if learned.holds is None else learned.holds[people])
    else:
        popularity = damped(learned.popularity, learned.noise) if features else learned.popularity
        scores = np.broadcast_to(popularity, (people.size, world.items))
    if features and world.features is not None:
        gains = world.features.gains(own @ world.features.has, own.sum(axis=1), learned.popularity)
        scores = np.log(np.maximum(scores, learned.floor)) + gains
    rated = world.fold.train.of(people)
    lists = np.full((people.size, TOP), -1, np.int32)
    _take(np.ascontiguousarray(scores, np.float64), order, rated.starts, rated.items, lists)
    return lists


@compiled
def _take(scores: Floats2, order: Ints, starts: Ints, rated: Indices, lists: Indices2) -> None:
    """Write each person's best unrated items, best first; equal ones stand in the given order."""
    best = np.empty(lists.shape[1])
    hidden = np.zeros(scores.shape[1], np.bool_)
    for row in range(scores.shape[0]):
        hidden[rated[starts[row] : starts[row + 1]]] = True
        size = 0
        for item in order:
            value = scores[row, item]
            if hidden[item] or (size == best.size and not value > best[size - 1]):
                continue
            place = min(size, best.size - 1)
            while place > 0 and value > best[place - 1]:
                best[place], lists[row, place] = best[place - 1], lists[row, place - 1]
                place -= 1
            best[place], lists[row, place] = value, item
            size = min(size + 1, best.size)
        hidden[rated[starts[row] : starts[row + 1]]] = False


def _scores_per_person(world: FileWorld, people: Ints, lists: Indices2) -> dict[str, Floats]:
    """Return hit, NDCG and recall of each person, float64, shape (people,)."""
    holdout = world.fold.holdout.of(people)
    relevant = holdout.degrees
    keys = holdout.owners * world.items + holdout.items
    recommended = np.arange(people.size)[:, None] * world.items + lists
    hits = (np.isin(recommended, keys) & (lists >= 0)).astype(np.float64)
    gains = 1 / np.log2(np.arange(2, TOP + 2))
    ideal = np.cumsum(gains)[np.minimum(relevant, TOP) - 1]
    return {"hit_rate": hits.max(axis=1), "ndcg": hits @ gains / ideal, "recall": hits.sum(axis=1) / relevant}


@lru_cache(maxsize=1)
def _weights(people: int) -> Floats2:
    """Return how often each person of the file is in each sample, shape (RESAMPLED, people)."""
    coins = np.random.default_rng(int.from_bytes(derive(0, "people drawn again")))
    return coins.poisson(1.0, (RESAMPLED, people)).astype(np.float64)


class CompareKey(NamedTuple):
    """A unit's row and request; ``epsilon`` is empty where the row has none, ``public`` where no ratings are public."""

    trust_model: str
    mechanism: str
    epsilon: str
    users: int
    public: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareUnit:
    """A unit of a comparison: the settings and the key of what is measured."""

    settings: Comparison
    key: CompareKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareMeasurement:
    """The measurement of one unit."""

    scores: tuple[ListScores, ...]  # Without public features, and with them where the file has any
    simulated: str | None  # See `scenarios.compare.row.LearnedScores`
    seconds: float  # Time taken
    losses: tuple[dict[str, Any], ...] = ()  # Of the coordinator's panel: a record of each client, instead of scores


def measure(unit: CompareUnit) -> CompareMeasurement:
    """Measure one unit, in this process."""
    stop_if_abandoned()
    begin, key, settings = time.perf_counter(), unit.key, unit.settings
    if key.trust_model == COORDINATOR:
        losses = serve(settings, key.mechanism, key.seed)
        return CompareMeasurement(scores=(), simulated=DEVICES, losses=losses, seconds=time.perf_counter() - begin)
    world, row = world_of(settings, key.seed), rows_of(settings)[f"{key.trust_model}: {key.mechanism}"]
    request = RowRequest(
        settings=settings,
        epsilon=parse_epsilon(key.epsilon) if key.epsilon else None,
        users=key.users,
        public=float(key.public or 0),
        seed=key.seed,
    )
    learned = row.advise(world, request)
    variants = (False, True) if world.features is not None and row.featured else (False,)
    scores = tuple(score(world, learned, request, features=features) for features in variants)
    return CompareMeasurement(scores=scores, simulated=learned.simulated, seconds=time.perf_counter() - begin)
