"""A unit of a study of years: a schedule on a rung, with so many people, over a block of worlds or of coins."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.coins import derive
from coordinator.protocol.composition import gaussian_distance
from coordinator.protocol.counters import CounterNoise
from coordinator.protocol.schedule import COUNTER, MEMOIZE
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TWO_SERVERS
from coordinator.server.ageing import DRIFT, AgedShares, renewal
from scenarios.studies.years.file_periods import FilePeriods, file_periods
from scenarios.studies.years.made_worlds import MadeWorlds
from scenarios.studies.years.reports import (
    SERVERS,
    AskingPlan,
    HorizonGuarantee,
    alone_plan,
    answers_left,
    asking_plan,
    reports_of,
)
from scenarios.studies.years.years_settings import PERIODS, TOLERANCE, Years, schedule_named

ALONE = "one period"  # Everybody asked once, each period as if there were no other
NONE = "none"  # The trust model of what has neither noise nor too few people
ENDLESS = 10**9  # So many people that nothing of their sample is left
YearsWorld: TypeAlias = MadeWorlds | FilePeriods


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


def discount_of(settings: Years) -> float:
    """Return gamma: what a filter in its steady state keeps of what it knew a period before."""
    drift = settings.filter_of
    return 1 - renewal(DRIFT if drift is None else drift, 0.0, TOLERANCE)


def counter_deviation(settings: Years, trust_model: str, likes: int, people: int) -> float:
    """Return the deviation of one release of all likes of a person that count, so many over all periods."""
    servers = SERVERS if trust_model == TWO_SERVERS else 1
    # One of these likes gives way to another one: so many entries change by one, each in a column of its own
    return math.sqrt(servers * 2 * likes) / gaussian_distance(settings.epsilon, settings.delta_of(people))


def counted_ndcg(
    settings: Years, world: YearsWorld, *, people: int, deviation: float, coins: np.random.Generator
) -> list[Floats]:
    """Return NDCG after every period of lists by counters, drawn towards the mean item as far as they are noisy."""
    shape, discount = (world.worlds, world.items), discount_of(settings)
    noise = CounterNoise(world.periods, discount, deviation, np.ones(shape, np.int64))
    counts, squares, exposure = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    spread: Floats | None = None
    ndcg = []
    for period in range(1, world.scored + 1):
        new = np.broadcast_to(world.new_items(period), shape) if period > 1 else np.zeros(shape, np.bool_)
        shares = np.broadcast_to(world.new_likes(period), shape)
        weights = np.where(new, 0.0, discount)
        likes = coins.binomial(people, shares)
        counts, squares = weights * counts + likes, weights**2 * squares + people * shares * (1 - shares)
        exposure = weights * exposure + people if not world.likes_once else np.full(shape, float(people))
        noise, added = noise.next_period(coins, new)
        values = (counts + np.rint(added)) / exposure
        variances = (squares + noise.variance) / exposure**2
        if spread is None or world.likes_once:
            excess = np.var(values, axis=-1, keepdims=True) - np.median(variances, axis=-1, keepdims=True)
            spread = np.maximum(excess, 1e-12)
        mean = values.mean(axis=-1, keepdims=True)
        estimates = mean + spread / (spread + variances) * (values - mean)
        ndcg.append(world.ndcg(np.where(world.new_items(period + 1), mean, estimates), period))
    return ndcg
