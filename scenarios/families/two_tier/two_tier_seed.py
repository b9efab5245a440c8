"""The two-tier experiment: split, settings, the mechanism's course, errors, advice, and the record of a seed."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
import psutil

from actors.advice import top_items
from actors.lying import Poison, poisoned
from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import as_json
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, basis_of
from coordinator.protocol.second_order import HALF, two_tier_mechanism
from coordinator.server.completion.batches import BatchPlan, CompletionOutcome
from coordinator.server.completion.fitting import Fitting
from coordinator.server.completion.weighing import baseline_errors, rmse, squared_errors
from scenarios.backends.session import Backend, Progress, silent
from scenarios.config.scenario import POISON
from scenarios.data.datasets import RatingTable, lines_skipped, read_for
from scenarios.data.metrics import first_unrated, ranking_scores
from scenarios.data.rating_split import Split, needs_times
from scenarios.experiment.experiment import Record, Running
from scenarios.families.two_tier.two_tier_columns import COLUMNS
from scenarios.families.two_tier.two_tier_run import CoursePlan, KeptBatches, follow
from scenarios.families.two_tier.two_tier_scenario import (
    FULL,
    NONE,
    PUBLISHED,
    RIVALS,
    Scale,
    TwoTier,
    check_levels,
    needs_scale,
    onto_scale,
    scale_of,
)
from scenarios.families.two_tier.two_tier_worlds import (
    FEWEST,
    PlantedShape,
    UserSplit,
    choose_fitting,
    folds_of,
    planted_ratings,
    split_users,
    weighing_of,
)
from scenarios.show.columns import record_of

EVERY = 0.2  # Seconds between two looks


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Watch memory meanwhile: resident of this process, and what its children hold beside what they share [MB]."""
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        ended = False
        while not ended:  # the last look is taken when all is over
            ended = stop.wait(EVERY if peak[0] else 0)
            peak[0] = max(peak[0], _held() / 1e6)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def _held() -> int:
    process = psutil.Process()
    total = int(process.memory_info().rss)
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            info = child.memory_info()
            total += max(0, int(info.rss) - int(getattr(info, "shared", 0)))
    return total


TOP = 10


MOST_DEVICES = 2000  # Private devices whose overlap is computed at most


def advice_scores(features: ItemFeatures, split: Split) -> dict[str, Any]:
    """Score everybody's own ranking of unseen items on its held-out likes, beside popularity, as every command does."""
    people = split.evaluated
    if not people.size:
        return {}
    rows, likes = split.train.of(people), split.holdout.of(people)
    scores: dict[str, Any] = {}
    popular = first_unrated(split.popular, rows.starts, rows.items, TOP)
    for name, lists in (("", top_items(features, rows, TOP)), ("popularity_", popular)):
        ranking = asdict(ranking_scores(lists, likes))
        scores |= {f"{name}{key}": value for key, value in ranking.items() if key != "evaluated"}
    return scores | {"evaluated": people.size}


Watched = Callable[[int], AbstractContextManager[Progress]]  # Shows how many private devices were asked, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoTierWorld:
    """Ratings as they are dealt out, and the scale."""

    settings: TwoTier
    split: UserSplit = field(repr=False)
    scale: Scale


def read_table(settings: TwoTier) -> RatingTable:
    """Read the file of ratings, or draw the planted table; round them, where that is wanted."""
    if settings.planted is not None:
        users, items, ratings = settings.planted
        shape = PlantedShape(users=users, items=items, ratings=ratings, fewest=min(FEWEST, max(items // 2, 1)))
        table = planted_ratings(shape, settings.seed)
    else:
        table = read_for(settings, **({"times": True} if needs_times(settings.split_by) else {}))
    return onto_scale(table, settings.scale) if settings.round_ratings and settings.scale else table


def world_of(settings: TwoTier, table: RatingTable) -> TwoTierWorld:
    """Deal out a table."""
    split = split_users(table, settings)
    if settings.rank is not None and settings.rank > split.public.size:
        raise InputError(f"rank is {settings.rank}, above the number of public users, {split.public.size}; lower it")
    public = split.public_rows
    if public.values.size == 0:
        raise InputError(f"the {public.users} public users have no training rating; make more users public")
    declared = settings.scale or PUBLISHED.get(table.source)
    scale = scale_of(declared, public.values)
    if needs_scale(settings.mechanism):
        check_levels(table, scale.levels, settings.mechanism, declared=declared is not None)
    return TwoTierWorld(settings=settings, split=split, scale=scale)


def settle(world: TwoTierWorld, session: Backend) -> tuple[Fitting, list[tuple[int, float, float]]]:
    """Return rank and kappa as given, or validated on held-out public users, with what was tried."""
    settings = world.settings
    fitting = settings.fitting(settings.rank or 1, settings.regularisation or 1.0)
    if settings.rank and settings.regularisation:
        return fitting, []
    folds = folds_of(world.split.public_rows, settings.seed)  # the public users as validation deals them out
    return choose_fitting(folds, fitting, world.scale, session, rank=settings.rank, kappa=settings.regularisation)


def plan_of(world: TwoTierWorld, fitting: Fitting, *, every: int = 0, beside: bool = False) -> CoursePlan:
    """Return what a course needs, the weight of releases included: given, the paper's, or validated on the way."""
    settings, public, private = world.settings, world.split.public_rows, world.split.train.of(world.split.private)
    weight = settings.weight  # of a release against a public user's row: as given, the mechanism's, or to be validated
    if weight is None:
        weight = HALF if settings.mechanism in RIVALS else two_tier_mechanism(settings.mechanism).weight
    server = BatchPlan(
        public=public,
        private=private.users,
        mechanism=None if settings.mechanism in RIVALS else settings.mechanism,
        epsilon=settings.asked_epsilon,
        fitting=fitting,
        **asdict(world.scale),
        **{name: getattr(settings, name) for name in ("iterations", "batch", "batch_iterations", "own_h", "clip")},
        weight=weighing_of(public, fitting, settings.seed) if weight is None else weight,
        every=every,
        beside=beside,
    )
    poison = None
    if settings.malicious is not None:  # liars draw the signs of the one vector that all of them claim
        coins = np.random.default_rng(int.from_bytes(derive(settings.seed, "poison")))
        poison = Poison(share=settings.malicious, signs=coins.choice([-1.0, 1.0], public.count))
    return CoursePlan(
        server=server,
        private=private,
        secret=derive(settings.seed, "devices"),
        full=settings.mechanism == FULL,
        poison=poison,
    )


def score_of(world: TwoTierWorld, session: Backend, features: ItemFeatures) -> float:
    """Return the root mean squared error on all users' test ratings."""
    return rmse(squared_errors(features, world.split.train, world.split.test, session.workers))


def run(
    settings: TwoTier,
    session: Backend,
    table: RatingTable | None = None,
    stored_batches: KeptBatches | None = None,
    watched: Watched = lambda _: nullcontext(silent),
) -> dict[str, Any]:
    """Run one experiment and return its result as JSON values."""
    start = time.perf_counter()
    with peak_memory() as peak:
        table = table or read_table(settings)
        world = world_of(settings, table)
        fitting, tried = settle(world, session)
        plan = plan_of(world, fitting, beside=settings.mechanism != NONE)
        with watched(plan.server.private) as progress:
            followed = follow(plan, session, stored_batches, progress)
        result = result_of(world, fitting, session, followed.outcome)
    if plan.poison is not None:
        lies = poisoned(plan.poison, as_words(plan.secret), plan.private.users)
        result |= {"malicious": settings.malicious, "attack": POISON, "lies": lies}
    parts = {
        **result,
        **lines_skipped(settings, table),
        "validated": [{"rank": rank, "regularisation": kappa, "rmse": error} for rank, kappa, error in tried],
        "seconds": time.perf_counter() - start,
        "peak_memory_mb": peak[0],
    }
    return record_of(COLUMNS, followed, parts)


def result_of(world: TwoTierWorld, fitting: Fitting, session: Backend, course: CompletionOutcome) -> dict[str, Any]:
    """Return the result, as JSON values."""
    settings, split, alone = world.settings, world.split, course.alone or course
    unseen, holdout = np.bincount(split.public_rows.items, minlength=split.train.count) == 0, split.test
    private = split.private if split.private.size else np.setdiff1d(np.arange(holdout.users), split.public)
    devices, last, overlaps = split.train.of(private[:MOST_DEVICES]), course.model.steps[-1], dict[str, Any]()
    if devices.users:  # how far their rated items are in Theorem 3.5's set D(gamma), and how many are in none
        gammas = overlap(course.features, devices.starts, devices.items)
        overlaps = {
            "overlap_gamma_median": median if np.isfinite(median := float(np.median(gammas))) else None,
            "overlap_gamma_infinite": float(np.isinf(gammas).mean()),
        }
    return {
        "trust_model": "two-tier",
        "mechanism": settings.mechanism,
        **settings.guarantee,
        "epsilon": None if settings.asked_epsilon is None else as_json(settings.asked_epsilon),
        "seed": settings.seed,
        "users": holdout.users,
        "items": holdout.count,
        "ratings": split.train.items.size + holdout.items.size,
        "public": int(split.public.size),
        "private": int(split.private.size),
        "answered": course.answered,
        "duplicates": course.duplicates,
        "unseen_items": int(unseen.sum()),
        "test_ratings": holdout.items.size,
        "test_ratings_of_unseen_items": int(unseen[holdout.items].sum()),
        "rank": fitting.rank,
        "regularisation": fitting.kappa,
        "norm": settings.norm,
        "m_step": settings.m_step,
        "weight": course.weight,
        "validation_users": course.validation_users,
        "rmse": score_of(world, session, course.models[-1][1]),
        "rmse_public_only": score_of(world, session, alone.models[-1][1]),
        "rmse_baseline": rmse(baseline_errors(alone.features, holdout)),
        **(split.split.protocol | advice_scores(course.features, split.split) if split.split else {}),
        **overlaps,
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


def overlap(features: ItemFeatures, starts: Ints, items: Indices) -> Floats:
    """Return every device's smallest gamma with its rated items in D(gamma) of Theorem 3.5, shape (devices,).

    ``|x|^2 <= gamma m / |phi| |x_phi|^2`` for all x in the features' span: gamma is ``|phi| / m`` over the smallest
    eigenvalue of ``Q_phi^T Q_phi``. Near 1 the rated items tell about all directions alike; infinite where some
    direction is not seen at all, as with fewer ratings than the rank.
    """
    columns = basis_of(features)
    basis: Floats2 = np.linalg.qr(columns[:, np.abs(columns).sum(axis=0) > 0])[0]
    shares = np.full(starts.size - 1, np.inf)
    for device in range(starts.size - 1):
        seen = basis[items[starts[device] : starts[device + 1]]]
        smallest = float(np.linalg.eigvalsh(seen.T @ seen)[0]) if seen.size else 0.0
        if smallest > 1e-12:
            shares[device] = len(seen) / (features.items * smallest)
    return shares


def teach_seed(scenario: TwoTier, running: Running) -> Record:
    """Run one seed."""
    with KeptBatches.checked(running.out, scenario.seed) as stored_batches:
        record = run(
            scenario,
            running.session,
            table_of(scenario),
            stored_batches,
            watched=lambda devices: running.progress(devices, scenario.seed, done="private devices were asked"),
        )
    return Record(values=record, scenario=scenario.again(), tables=partial(tables_of, record))


def tables_of(record: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's folder by their names: EM iterations, and the settings that were tried."""
    iterations = pd.DataFrame(record["convergence"])
    iterations.insert(0, "iteration", range(1, len(iterations) + 1))
    tried = pd.DataFrame(record["validated"], columns=["rank", "regularisation", "rmse"])
    return {"iterations": iterations, "validated": tried.astype({"rank": int, "regularisation": float, "rmse": float})}


def table_of(scenario: TwoTier) -> RatingTable:
    """Return a scenario's ratings; those of its file are the same for every seed, and read once."""
    names = ("ratings", "columns", "duplicates", "bad_lines", "unrated", "planted", "scale", "round_ratings")
    what: dict[str, Any] = {name: getattr(scenario, name) for name in names}
    return _read(TwoTier.model_validate({**what, "seed": scenario.seed if scenario.ratings is None else 0}))


_read = lru_cache(maxsize=1)(read_table)
