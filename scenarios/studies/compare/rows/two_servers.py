"""Rows with two servers: each adds up shares that are random alone, adds noise of its own, and publishes its sum."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.decoding.curator import DiscreteLaplace
from coordinator.protocol.mechanisms.totals import parts_of
from coordinator.protocol.noise import discrete_gaussian, gaussian_deviation
from coordinator.protocol.trust_models import TWO_SERVERS
from scenarios.studies.compare.advisors import pair_design
from scenarios.studies.compare.row import AGGREGATE, BY_PEOPLE, LearnedScores, RowRequest, TabledRow
from scenarios.studies.compare.rows.trusted import (
    PAIRS_WITH_EASE,
    SumNoise,
    contributors,
    counts_of,
    honest_sets,
    item_totals,
    limited_likes,
    pair_totals,
    pairs_of_sums,
)
from scenarios.studies.compare.worlds import FileWorld

SERVERS = 2  # Each adds a full dose, since each knows its own: if one of them is honest, epsilon holds


def of_both(deviation: float, dose: Callable[[int, np.random.Generator], Ints]) -> SumNoise:
    """Return the noise of both servers together, from the deviation of a dose and how so many of them are drawn."""

    def draw(coins: np.random.Generator, shape: int | tuple[int, int]) -> Floats:
        count = int(np.prod(shape))
        noise: Floats = np.sum([dose(count, coins) for _ in range(SERVERS)], axis=0).astype(np.float64)
        return noise.reshape(shape)

    return SumNoise(math.sqrt(SERVERS) * deviation, draw)


def no_noise() -> SumNoise:
    """Return what is added where epsilon is infinite."""
    return SumNoise(0.0, lambda _, shape: np.zeros(shape))


@lru_cache(maxsize=64)
def both_gaussian(epsilon: Epsilon, changes: int, delta: float) -> SumNoise:
    """Return discrete Gaussian noise of both servers, of which either keeps (epsilon, delta) alone.

    ``changes`` totals change by one between neighbours.
    """
    if epsilon is None:
        return no_noise()
    law = discrete_gaussian(gaussian_deviation(changes=changes, epsilon=epsilon, delta=delta))
    return of_both(law.deviation, lambda count, coins: law.draw(coins.bytes(16), 0, count))


@lru_cache(maxsize=64)
def both_laplace(epsilon: Epsilon, changes: int) -> SumNoise:
    """Return discrete Laplace noise of both servers on so many totals that change by one, with delta 0."""
    noise = DiscreteLaplace(budget=epsilon, sensitivity=changes)
    return of_both(math.sqrt(noise.variance), noise.draw)


def totals(world: FileWorld, request: RowRequest, most: int, noise: SumNoise) -> LearnedScores:
    """Return what both servers' noisy sums of at most so many likes a person say of items."""
    counts = np.rint(counts_of(limited_likes(world, request, contributors(world, request), most)))
    noisy = counts + noise.draw(request.coins, counts.size)
    learned = LearnedScores.noisy(noisy, noise.deviation, AGGREGATE)
    return replace(learned, liar=honest_sets(world, most))  # An ideal proof has every device send at most so many bits


def gaussian_totals(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count at most ``likes`` likes of each person: (epsilon, delta)-private, by the noise of either server."""
    settings = request.settings
    most = min(settings.likes, world.items)
    changes = item_totals(most, settings.relation)
    return totals(world, request, most, both_gaussian(request.epsilon, changes, request.delta))


def laplace_totals(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count as many likes of each person as the curator with discrete Laplace noise does: epsilon-private."""
    most = min(request.settings.curated, world.items)
    changes = item_totals(most, request.settings.relation)
    return totals(world, request, most, both_laplace(request.epsilon, changes))


def pairs(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Choose the items liked most with a part of epsilon, count their pairs with the rest, and apply EASE.

    Each of both sums has half of delta, so that epsilons and deltas add up. With delta 0 all noise is Laplace's.
    """
    of_items, of_pairs = noises(world, request)
    return pairs_of_sums(world, request, of_items, of_pairs, AGGREGATE)


def noises(world: FileWorld, request: RowRequest) -> tuple[SumNoise, SumNoise]:
    """Return the noise of likes of all items and of pairs."""
    settings, design = request.settings, pair_design(request.settings, world.items)
    parts, most = parts_of(request.epsilon, request.delta, choice=world.items > design.top), design.device_likes
    changes = item_totals(most, settings.relation), pair_totals(most, settings.relation)
    of_items, of_pairs = (
        both_gaussian(part, count, request.delta / 2) if request.delta else both_laplace(part, count)
        for part, count in zip(parts, changes, strict=True)
    )
    return of_items, of_pairs


_row = partial(TabledRow, TWO_SERVERS, asks=BY_PEOPLE)
ROWS = (
    _row("popularity", gaussian_totals, approximate=True),
    _row("popularity (Laplace)", laplace_totals),
    _row(PAIRS_WITH_EASE, pairs, approximate=True, pure=True),
)
