"""Rows where some people's ratings are public: models learned from these, combined with private devices' answers."""

import threading
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.estimates import PublicCounts
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, tastes
from coordinator.protocol.item_models import LEAST_SCORE, ItemToItem
from coordinator.protocol.rating_table import Rows
from coordinator.server.completion.batches import start
from coordinator.server.completion.crowd import local_public_users
from coordinator.server.completion.fitting import FittedModel, Fitting
from scenarios.backends.selection import InProcess
from scenarios.data.datasets import RatingTable
from scenarios.data.populations import public_people
from scenarios.families.two_tier import two_tier_seed as experiment
from scenarios.families.two_tier.two_tier_run import follow
from scenarios.families.two_tier.two_tier_scenario import (
    MOST_UNDECLARED,
    NONE,
    PRIVATE,
    PUBLISHED,
    TwoTier,
    needs_scale,
    scale_of,
)
from scenarios.families.two_tier.two_tier_worlds import UserSplit
from scenarios.studies.compare.advisors import (
    LIFTS,
    RIDGE,
    TunableModel,
    chosen_constant,
    co_liked,
    fit_model,
    of_gram,
    pair_advice,
)
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import BY_PUBLIC, LearnedScores, RowRequest, Scorer, TabledRow
from scenarios.studies.compare.rows.local import SET
from scenarios.studies.compare.worlds import FileWorld, table_of, versions_of, world_of

KAPPA = 1.0  # Pairs that are added to the counted ones of every two items: lifts of rare pairs are shrunk towards 1
KAPPAS = (1 / 16, 1 / 4, KAPPA, 4.0, 16.0)


def split_people(world: FileWorld, request: RowRequest) -> tuple[Ints, Ints]:
    """Return who is public and who is private, the same people in all rows of a seed; at least one of each."""
    return public_people(world.people, request.public, request.seed)


def public_model(name: str | None, world: FileWorld, request: RowRequest) -> LearnedScores:
    """Fit a model to public people's likes alone, which private people apply to their own; None counts the likes."""
    public, private = split_people(world, request)
    likes = world.matrix[public]
    counts = likes.sum(axis=0).astype(np.float64)
    if name is None:
        return LearnedScores(popularity=counts, floor=0.5, people=private)
    scorer, constant = fit_model(name, likes, request)
    return LearnedScores(popularity=counts, floor=LEAST_SCORE, scorer=scorer, people=private, constant=constant)


def set_popularity(world: FileWorld, request: RowRequest, *, lifts: bool) -> LearnedScores:
    """Ask private devices by the set mechanism, and weight their estimates and public people's by their precision.

    With ``lifts`` public people's co-occurrences, as lifts, are multiplied by this popularity and EASE applied.
    """
    public, private = split_people(world, request)
    likes = world.matrix[public]
    declared = request.settings.model_copy(update={"counted": 0.0})  # weights need a known w
    model = SET.answered(world.of(private), replace(request, users=private.size, settings=declared)).model
    sizes, counts = (np.rint(likes.sum(axis=axis)).astype(np.int64) for axis in (1, 0))
    of_public = PublicCounts(counts=counts, sizes=sizes)
    popularity, _ = of_public.posterior(model.score, model.error, request.settings.likes)
    if not lifts:
        return LearnedScores(popularity=popularity, floor=LEAST_SCORE, people=private)
    pool = np.sort(request.ranked(popularity)[: request.settings.lift_items]).astype(np.int32)
    kappa = chosen_kappa(request.settings, request.public, request.seed)
    weights = of_gram(lifted(likes[:, pool], popularity[pool], kappa), request.settings.ridge or RIDGE)
    model_of_lifts = ItemToItem(pool=pool, liked=popularity[pool], weights=weights)
    advice = pair_advice(model_of_lifts, popularity, request.coins.permutation(world.items), noise=0.0)
    return replace(advice, people=private, constant=kappa)


def lifted(likes: Any, popularity: Floats, kappa: float, counts: NDArray[np.float32] | None = None) -> Floats2:
    """Return co-occurrences of such popularity whose lifts are those of public people, shape (M, M), in public people.

    ``G_ij = P f_i f_j (n_ij + k) / (P g_i g_j + k)``, g the public rates; the diagonal is ``P f_i``.
    """
    people = likes.shape[0]
    rates = likes.sum(axis=0) / people
    together = (pair_counts(likes) if counts is None else counts) + np.float32(kappa)
    gram: Floats2 = people * np.outer(popularity, popularity) * together / (people * np.outer(rates, rates) + kappa)
    np.fill_diagonal(gram, people * popularity)
    return gram


def pair_counts(likes: Any) -> NDArray[np.float32]:
    """Return how many people like each two items, float32, shape (M, M)."""
    counts: NDArray[np.float32] = co_liked(likes).astype(np.float32)
    return counts


def chosen_kappa(settings: Comparison, public: float, seed: int) -> float:
    """Return the kappa of lifts, chosen on a fifth of public people's likes."""
    return _chosen_kappa(settings, public, seed, versions_of(settings))


@lru_cache(maxsize=64)
def _chosen_kappa(settings: Comparison, public: float, seed: int, _: tuple[int, ...]) -> float:
    world = world_of(settings, seed)
    likes = world.matrix[public_people(world.people, public, seed)[0]]
    pool = np.sort(np.argsort(-likes.sum(axis=0), kind="stable")[: settings.lift_items])

    def fit(shown: Any, kappa: float, counts: NDArray[np.float32]) -> Scorer:
        weights = of_gram(lifted(shown, shown.sum(axis=0) / shown.shape[0], kappa, counts), settings.ridge or RIDGE)
        return lambda ratings: ratings @ weights

    model = TunableModel(fit, "kappa", KAPPAS, KAPPA, shared=lambda shown: (pair_counts(shown),))
    return chosen_constant(model, likes[:, pool], seed)


def ratings_left(table: RatingTable, world: FileWorld) -> Rows:
    """Return everybody's ratings without those that are held out."""
    train = world.fold.train
    every, training = (rows.owners * table.count + rows.items for rows in (table, train))
    places = np.searchsorted(training, every)  # both ascend
    in_training = training[np.minimum(places, training.size - 1)] == every
    return table.valued(np.asarray(table.values, np.float64)).where(in_training)


def can_complete(how: str, table: RatingTable) -> bool:
    """Return whether ratings differ, and have a finite scale where devices sample a rating."""
    levels = pd.unique(table.values).size
    return levels > 1 and (not needs_scale(how) or table.source in PUBLISHED or levels <= MOST_UNDECLARED)


def completion(how: str, world: FileWorld, request: RowRequest) -> LearnedScores:
    """Fit public people's ratings, and absorb what each private device releases about its completed ratings."""
    dealt, fitting, first_fit = settled(request.settings, request.public, request.seed)
    plan = experiment.plan_of(replace(dealt, settings=_two_tier_settings(request.settings, request.seed, how)), fitting)
    plan = replace(plan, server=replace(plan.server, first_fit=first_fit))
    features = follow(plan, InProcess(1)).outcome.features
    rows, public_rows, least = dealt.split.train, dealt.split.public_rows, request.settings.like_from
    rated = np.bincount(public_rows.items, minlength=world.items).astype(np.float64)
    spread = max(float(np.std(public_rows.values)), 1e-9)
    everything = np.arange(world.items, dtype=np.int32)

    def scores(ratings: Any, items: Indices = everything) -> Floats2:
        means = ratings.sum(axis=1)[:, None] / np.maximum(np.diff(ratings.indptr), 1)[:, None]
        above = completed(features, ratings, items) - (means if least is None else least)
        chances: Floats2 = rated[items] * ndtr(above / spread)
        return chances

    holds = sparse.csr_array((rows.values, rows.items, rows.starts), shape=(rows.users, rows.count))
    _, private = split_people(world, request)
    return LearnedScores(
        popularity=rated,
        floor=LEAST_SCORE,
        scorer=scores,
        bounded=(rated, scores),  # a chance of 1 times how many rated it
        holds=holds,
        people=private,
    )


VALIDATED = 2  # People whose ratings are public, of whom one after the other is held out
COMPLETIONS = {"trace norm": NONE, "PMC": "pmc", "PMD": "pmd"}
"""Rows of completed ratings, by their mechanism of `blindrec two-tier`; with `NONE` private devices release nothing."""


def _two_tier_settings(settings: Comparison, seed: int, how: str) -> TwoTier:
    two_tier = TwoTier(ratings=settings.ratings, mechanism=how, seed=seed)
    # Without releases there is nothing between batches: a few iterations are worth as much as many
    return two_tier.model_copy(update={"batch": PRIVATE // 4}) if how == NONE else two_tier


_LOCKS: dict[tuple[float, int], threading.Lock] = {}
_ONE = threading.Lock()


def settled(settings: Comparison, public: float, seed: int) -> tuple[experiment.TwoTierWorld, Fitting, FittedModel]:
    """Return who is public, how their ratings are fitted, and them fitted; rank and kappa are validated."""
    with _LOCKS.setdefault((public, seed), threading.Lock()):  # of two rows at once the second waits for the first
        return _settled(settings, public, seed, versions_of(settings))


@lru_cache(maxsize=2)
def _rows_left(settings: Comparison, seed: int, _: tuple[int, ...]) -> Rows:
    return ratings_left(table_of(settings), world_of(settings, seed))


@lru_cache(maxsize=8)
def _settled(
    settings: Comparison, public: float, seed: int, version: tuple[int, ...]
) -> tuple[experiment.TwoTierWorld, Fitting, FittedModel]:
    people = public_people(world_of(settings, seed).people, public, seed)
    if people[0].size < VALIDATED:
        count = f"{people[0].size} of {people[0].size + people[1].size} people is public"
        raise InputError(f"{count}; rank and regularisation are validated on {VALIDATED} or more; raise --public")
    with _ONE:  # all shares of public people have one copy of the ratings
        rows = _rows_left(settings, seed, version)
    order = np.random.default_rng(int.from_bytes(derive(seed, "devices that complete"))).permutation(people[1])
    split = UserSplit(train=rows, test=rows.block(0, 0), public=people[0], private=order[:PRIVATE])
    scale = scale_of(PUBLISHED.get(table_of(settings).source), split.public_rows.values)
    dealt = experiment.TwoTierWorld(settings=_two_tier_settings(settings, seed, NONE), split=split, scale=scale)
    fitting = experiment.settle(dealt, InProcess(1))[0]
    return dealt, fitting, start(experiment.plan_of(dealt, fitting).server, local_public_users(split.public_rows))


def completed(features: ItemFeatures, own: Any, items: Indices) -> Floats2:
    """Return the ratings ``mu + V u`` of some items that devices complete their own to, shape (devices, items)."""
    starts, rated = own.indptr.astype(np.int64), own.indices.astype(np.int32)
    users = tastes(features, starts, rated, own.data - features.mean[rated])
    ratings: Floats2 = features.mean[items] + users @ features.vectors[items].T
    return ratings


ROWS = (
    TabledRow("two-tier", "popularity", partial(public_model, None), BY_PUBLIC),
    TabledRow("two-tier", "item kNN", partial(public_model, "item kNN"), BY_PUBLIC),
    TabledRow("two-tier", "EASE", partial(public_model, "EASE"), BY_PUBLIC),
    TabledRow("two-tier", "popularity with set", partial(set_popularity, lifts=False), BY_PUBLIC | {"epsilon"}),
    TabledRow("two-tier", LIFTS, partial(set_popularity, lifts=True), BY_PUBLIC | {"epsilon"}),
    *(
        TabledRow("two-tier", name, partial(completion, how), BY_PUBLIC, suits=partial(can_complete, how))
        for name, how in COMPLETIONS.items()
    ),
)
