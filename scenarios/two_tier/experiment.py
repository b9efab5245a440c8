"""The two-tier experiment: split, settings, the mechanism's course, the public users' alone, scores, one result."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from actors.lying.crowds import Poison, poisoned
from coordinator.protocol.budget import as_json
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rows import Rows
from coordinator.server.completion.batches import BatchPlan
from coordinator.server.completion.course import Course
from coordinator.server.completion.fitting import Fitting
from coordinator.server.completion.predicting import baseline_errors, rmse, squared_errors
from coordinator.server.completion.weighing import Fold
from scenarios.data.datasets import RatingTable, lines_skipped, read_for
from scenarios.given.attacks import POISON
from scenarios.places.session import Progress, Session, silent
from scenarios.two_tier.advice import MOST_DEVICES, advice_scores
from scenarios.two_tier.config import FULL, NONE, RIVALS, TwoTier, needs_scale
from scenarios.two_tier.course import CoursePlan, follow
from scenarios.two_tier.dealing import weighing_of
from scenarios.two_tier.kept_batches import KeptBatches
from scenarios.two_tier.memory import peak_memory
from scenarios.two_tier.planted import FEWEST, Shape, planted_ratings
from scenarios.two_tier.rates import overlap
from scenarios.two_tier.scale import PUBLISHED, Scale, check_levels, onto_scale, scale_of
from scenarios.two_tier.split import UserSplit, split_users
from scenarios.two_tier.validation import choose_fitting, folds_of

TRUST_MODEL = "two-tier"
Watched = Callable[[int], AbstractContextManager[Progress]]
"""Shows how many private devices were asked, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Ratings as they are dealt out, and the scale.

    Attributes
    ----------
    wanted : TwoTier
    split : UserSplit
    scale : Scale
    """

    wanted: TwoTier
    split: UserSplit = field(repr=False)
    scale: Scale

    @property
    def folds(self) -> list[Fold]:
        """The public users as validation deals them out."""
        return folds_of(self.split.public_rows, self.wanted.seed)


def read_table(wanted: TwoTier) -> RatingTable:
    """Read the file of ratings, or draw the planted table; round them, where that is wanted."""
    if wanted.planted is not None:
        users, items, ratings = wanted.planted
        shape = Shape(users=users, items=items, ratings=ratings, fewest=min(FEWEST, max(items // 2, 1)))
        table = planted_ratings(shape, wanted.seed)
    else:
        table = read_for(wanted).table
    return onto_scale(table, wanted.scale) if wanted.round_ratings and wanted.scale else table


def world_of(wanted: TwoTier, table: RatingTable) -> World:
    """Deal out a table.

    Raises
    ------
    InputError
        If the table and what is wanted contradict each other; nothing has run then.
    """
    split = split_users(
        table,
        public=wanted.public,
        private=wanted.private,
        public_by=wanted.public_by,
        private_by=wanted.private_by,
        holdout=wanted.holdout,
        seed=wanted.seed,
    )
    if wanted.rank is not None and wanted.rank > split.public.size:
        raise InputError(f"rank is {wanted.rank}, above the number of public users, {split.public.size}; lower it")
    public = split.public_rows
    if public.values.size == 0:
        raise InputError(f"the {public.users} public users have no training rating; make more users public")
    declared = wanted.scale or PUBLISHED.get(table.source)
    scale = scale_of(declared, public.values)
    if needs_scale(wanted.mechanism):
        check_levels(table, scale.levels, wanted.mechanism, declared=declared is not None)
    return World(wanted=wanted, split=split, scale=scale)


def settle(world: World, session: Session) -> tuple[Fitting, list[tuple[int, float, float]]]:
    """Return rank and kappa as given, or validated on held-out public users, with what was tried."""
    wanted = world.wanted
    fitting = wanted.fitting(wanted.rank or 1, wanted.regularisation or 1.0)
    if wanted.rank and wanted.regularisation:
        return fitting, []
    return choose_fitting(world.folds, fitting, world.scale, session, rank=wanted.rank, kappa=wanted.regularisation)


def plan_of(world: World, fitting: Fitting, *, every: int = 0, beside: bool = False) -> CoursePlan:
    """Return what a course needs, the weight of releases included: given, the paper's, or validated on the way.

    With ``beside`` public users alone go through as many iterations, and that is told, too.
    """
    wanted, scale, public = world.wanted, world.scale, world.split.public_rows
    weight, private = wanted.weight_set, world.split.private_rows
    server = BatchPlan(
        public=public,
        private=private.users,
        mechanism=None if wanted.mechanism in RIVALS else wanted.mechanism,
        epsilon=wanted.asked_epsilon,
        fitting=fitting,
        lowest=scale.lowest,
        highest=scale.highest,
        levels=scale.levels,
        iterations=wanted.iterations,
        batch=wanted.batch,
        batch_iterations=wanted.batch_iterations,
        weight=weighing_of(public, fitting, wanted.seed) if weight is None else weight,
        own_h=wanted.own_h,
        clip=wanted.clip,
        every=every,
        beside=beside,
    )
    return CoursePlan(
        server=server,
        private=private,
        secret=derive(wanted.seed, "devices"),
        full=wanted.mechanism == FULL,
        poison=_poison_of(wanted, public.count),
    )


def _poison_of(wanted: TwoTier, items: int) -> Poison | None:
    """Return what liars agree on; they draw the signs of one vector."""
    if wanted.malicious is None:
        return None
    coins = np.random.default_rng(int.from_bytes(derive(wanted.seed, "poison")))
    return Poison(share=wanted.malicious, signs=coins.choice([-1.0, 1.0], items))


def score_of(world: World, session: Session, features: ItemFeatures) -> float:
    """Return the root mean squared error on all users' test ratings."""
    return rmse(squared_errors(features, world.split.train, world.split.test, session.workers))


def run(
    wanted: TwoTier,
    session: Session,
    table: RatingTable | None = None,
    kept: KeptBatches | None = None,
    watched: Watched = lambda _: nullcontext(silent),
) -> dict[str, Any]:
    """Run one experiment and return its result as JSON values.

    Parameters
    ----------
    wanted : TwoTier
    session : Session
    table : RatingTable, optional
        What ``wanted`` names, where it was read already.
    kept : KeptBatches, optional
        Batches of an interrupted run; see `scenarios.two_tier.course.follow`. Models are fitted again.
    watched : callable
        Given the number of private devices, opens what is told how many of them were asked.

    Returns
    -------
    dict
        ``seconds`` are those of this process.
    """
    start = time.perf_counter()
    with peak_memory() as peak:
        table = table or read_table(wanted)
        world = world_of(wanted, table)
        fitting, tried = settle(world, session)
        plan = plan_of(world, fitting, beside=wanted.mechanism != NONE)
        with watched(plan.server.private) as progress:
            course, costs = follow(plan, session, kept, progress)
        told = result_of(world, fitting, session, course)
    if plan.poison is not None:
        lies = poisoned(plan.poison, as_words(plan.secret), plan.private.users)
        told |= {"malicious": wanted.malicious, "attack": POISON, "lies": lies}
    return {
        **told,
        **lines_skipped(wanted, table),
        "validated": [{"rank": rank, "regularisation": kappa, "rmse": error} for rank, kappa, error in tried],
        "backend": session.name,
        "workers": session.workers,
        "retries": costs.retries,
        "restarts": costs.restarts,
        "seconds": time.perf_counter() - start,
        "peak_memory_mb": peak.megabytes,
    }


def result_of(world: World, fitting: Fitting, session: Session, course: Course) -> dict[str, Any]:
    """Return what was found, as JSON values."""
    wanted, split, alone = world.wanted, world.split, course.alone or course
    counts = np.bincount(split.public_rows.items, minlength=split.train.count)
    unseen = counts == 0
    asked = split.test
    private = split.private if split.private.size else np.setdiff1d(np.arange(asked.users), split.public)
    last = course.model.steps[-1]
    return {
        "trust_model": TRUST_MODEL,
        "mechanism": wanted.mechanism,
        "guarantee": wanted.guarantee,
        "epsilon": None if wanted.asked_epsilon is None else as_json(wanted.asked_epsilon),
        "seed": wanted.seed,
        "users": asked.users,
        "items": asked.count,
        "ratings": split.train.items.size + asked.items.size,
        "public": int(split.public.size),
        "private": int(split.private.size),
        "answered": course.answered,
        "duplicates": course.duplicates,
        "unseen_items": int(unseen.sum()),
        "test_ratings": asked.items.size,
        "test_ratings_of_unseen_items": int(unseen[asked.items].sum()),
        "rank": fitting.rank,
        "regularisation": fitting.kappa,
        "norm": wanted.norm,
        "m_step": wanted.m_step,
        "weight": course.weight,
        "validation_users": course.validation_users,
        "rmse": score_of(world, session, course.models[-1][1]),
        "rmse_public_only": score_of(world, session, alone.models[-1][1]),
        "rmse_baseline": rmse(baseline_errors(alone.features, asked)),
        **advice_scores(course.features, counts, split.train.of(private), asked.of(private)),
        **_overlaps(course.features, split.train.of(private[:MOST_DEVICES])),
        "iterations": len(course.model.steps),
        "seconds_per_iteration": float(np.median([step.seconds for step in course.model.steps])),
        "objective": last.objective,
        "change": last.change,
        "convergence": [
            {"objective": step.objective, "error": step.error, "change": step.change} for step in course.model.steps
        ],
        "models": len(course.announced),
        "model_digest": course.features.digest.hex(),
        "releases_sha256": course.releases_sha256,
    }


def _overlaps(features: ItemFeatures, devices: Rows) -> dict[str, float | None]:
    """Return how far devices' rated items are in Theorem 3.5's set D(gamma): a median, and how many are in none."""
    if devices.users == 0:
        return {}
    gammas = overlap(features, devices.starts, devices.items)
    median = float(np.median(gammas))
    return {
        "overlap_gamma_median": median if np.isfinite(median) else None,
        "overlap_gamma_infinite": float(np.isinf(gammas).mean()),
    }
