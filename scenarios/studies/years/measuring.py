"""A unit of a study of years: a schedule on a rung, with so many people, over a block of worlds or of coins."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.coins import derive
from coordinator.protocol.schedule import COUNTER, MEMOIZE
from coordinator.protocol.trust_models import LOCAL, SHUFFLED
from coordinator.server.ageing import AgedShares
from scenarios.studies.years.file_periods import FilePeriods, file_periods
from scenarios.studies.years.likes_over_time import counted_ndcg, counter_deviation
from scenarios.studies.years.made_worlds import MadeWorlds, YearsWorld
from scenarios.studies.years.reports import (
    AskingPlan,
    HorizonGuarantee,
    alone_plan,
    answers_left,
    asking_plan,
    reports_of,
)
from scenarios.studies.years.years_settings import PERIODS, Years, schedule_named

ALONE = "one period"  # Everybody asked once, each period as if there were no other
NONE = "none"  # The trust model of what has neither noise nor too few people
ENDLESS = 10**9  # So many people that nothing of their sample is left


class YearsKey(NamedTuple):
    """A unit's name."""

    trust_model: str
    schedule: str
    epsilon: str
    users: int
    worlds: int  # Or sets of coins
    seed: int  # The first one


@dataclass(frozen=True, slots=True, kw_only=True)
class YearsMeasurement:
    """What lists are worth under a schedule, beside popularity with as many people."""

    ndcg: list[list[float]] = field(repr=False)  # Of each world, by period
    popularity: list[list[float]] = field(repr=False)
    # Of a file, over all periods: among everybody, and among samples of people
    pooled: list[list[float]] = field(default_factory=list, repr=False)
    pooled_popularity: list[float] = field(default_factory=list, repr=False)
    epsilon_local: float | None = None  # Of one person, added up, if the shuffler lies [nats]
    seconds: float = 0.0


def world_of(settings: Years, key: YearsKey) -> YearsWorld:
    """Return the worlds of a unit: where each period is asked alone, made worlds stay as they begin."""
    if settings.ratings is not None:
        return file_periods(settings, key.worlds)
    walks = key.schedule != ALONE
    return _made_worlds(
        first_seed=key.seed,
        count=key.worlds,
        periods=settings.periods or PERIODS,
        items=settings.items,
        likes=settings.likes,
        drift=settings.drift if walks else 0.0,
        item_arrivals=settings.item_arrivals if walks else 0.0,
        churn=settings.churn,
    )


_made_worlds = lru_cache(maxsize=4)(MadeWorlds)


def plan_of(settings: Years, world: YearsWorld, key: YearsKey) -> AskingPlan:
    """Return who is asked in which period under which share."""
    people = key.users or ENDLESS
    if key.schedule in (ALONE, MEMOIZE):  # answers are memoized by value, and everybody's changes every period
        return alone_plan(world.present, people)
    horizon = settings.horizon(world.periods, alone=key.trust_model == LOCAL)
    return asking_plan(schedule_named(key.schedule), horizon, world.present, people)


def measure(settings: Years, key: YearsKey) -> YearsMeasurement:
    """Measure a unit: answers are drawn from their laws, period by period, and a filter reads them."""
    begin, world = time.monotonic(), world_of(settings, key)
    coins = np.random.default_rng(int.from_bytes(derive(key.seed, f"years {'|'.join(map(str, key[:4]))}")))
    drift = math.inf if key.schedule == ALONE else settings.filter_of
    popularity = _popularity(world, key, drift)
    if key.schedule == COUNTER:
        people = key.users or ENDLESS
        deviation = 0.0
        if key.trust_model != NONE:
            deviation = counter_deviation(settings, key.trust_model, world.all_likes, people)
        by_period = counted_ndcg(settings, world, people=people, deviation=deviation, coins=coins)
        return _measurement(world, np.array(by_period), popularity, None, time.monotonic() - begin)
    plan = plan_of(settings, world, key)
    guarantee = HorizonGuarantee(
        trust_model=key.trust_model,
        epsilon=settings.epsilon,
        delta=settings.delta_of(key.users or ENDLESS),
        items=world.items,
        likes=settings.likes,
    )
    reports = reports_of(plan, None if key.trust_model == NONE else guarantee)
    state = AgedShares.unknown((world.worlds, world.items), start=settings.likes / world.items, drift=drift)
    ndcg = []
    for period in range(1, world.scored + 1):
        state = state.renewed(world.new_items(period))
        measurements = [
            report.measured(world.shares(period, report.group.cohorts), world.worlds, coins)
            for report in reports[period - 1]
        ]
        state = state.after(measurements)
        ndcg.append(world.ndcg(state.renewed(world.new_items(period + 1)).mean, period))
    left = None
    if key.trust_model == SHUFFLED and key.schedule != ALONE:
        horizon = settings.horizon(world.periods, alone=False)
        left = answers_left(schedule_named(key.schedule), horizon, reports)
    return _measurement(world, np.array(ndcg), popularity, left, time.monotonic() - begin)


def _popularity(world: YearsWorld, key: YearsKey, drift: float | None) -> Floats:
    """Return popularity of as many people, whose likes are read by the same filter."""
    return world.popularity(key.users or ENDLESS, drift, key.seed)


def _measurement(
    world: YearsWorld, ours: Floats, popularity: Floats, left: float | None, seconds: float
) -> YearsMeasurement:
    """Return what was measured; shapes (scored, worlds, 1 + samples)."""
    popularity = np.broadcast_to(popularity, ours.shape)
    pooled, plain = list[list[float]](), list[float]()
    if isinstance(world, FilePeriods):
        weights = np.array([world.evaluated(period) for period in range(1, world.scored + 1)])[:, None]
        pooled, every = ((weights * values).sum(axis=0) / weights.sum(axis=0) for values in (ours, popularity))
        pooled, plain = np.round(pooled, 6).tolist(), np.round(every[0], 6).tolist()
    return YearsMeasurement(
        ndcg=np.round(ours[:, :, 0].T, 6).tolist(),
        popularity=np.round(popularity[:, :, 0].T, 6).tolist(),
        pooled=pooled,
        pooled_popularity=plain,
        epsilon_local=left,
        seconds=seconds,
    )
