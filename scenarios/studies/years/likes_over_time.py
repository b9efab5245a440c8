"""Counters in a study of years: a curator or two servers add up likes as they come, under correlated noise."""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.composition import gaussian_distance
from coordinator.protocol.counters import CounterNoise
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.ageing import DRIFT, renewal
from scenarios.studies.years.made_worlds import YearsWorld
from scenarios.studies.years.reports import SERVERS
from scenarios.studies.years.years_settings import TOLERANCE, Years


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
