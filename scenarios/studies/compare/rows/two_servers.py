"""Rows with two servers: each adds up shares that are random alone, adds noise of its own, and publishes its sum."""

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.noise import discrete_gaussian, gaussian_deviation
from scenarios.studies.compare.advisors import pair_design
from scenarios.studies.compare.comparison_settings import TWO_SERVERS
from scenarios.studies.compare.row import AGGREGATE, BY_PEOPLE, LearnedScores, PromisedRow, RowRequest
from scenarios.studies.compare.rows.trusted import (
    CHOICE,
    DELTA,
    PAIRS_WITH_EASE,
    SumNoise,
    contributors,
    counts_of,
    laplace_noise,
    limited_likes,
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
def both_gaussian(epsilon: Epsilon, changes: int) -> SumNoise:
    """Return discrete Gaussian noise of both servers, of which either keeps (epsilon, delta) alone.

    ``changes`` totals change by one where a person's ratings are replaced.
    """
    if epsilon is None:
        return no_noise()
    law = discrete_gaussian(gaussian_deviation(changes=changes, epsilon=epsilon, delta=DELTA))
    return of_both(law.deviation, lambda count, coins: law.draw(coins.bytes(16), 0, count))


@lru_cache(maxsize=64)
def both_laplace(epsilon: Epsilon, most: int) -> SumNoise:
    """Return discrete Laplace noise of both servers on counts of at most so many likes a person, with delta 0."""
    noise = laplace_noise(epsilon, most)
    return of_both(math.sqrt(noise.variance), noise.draw)


def totals(world: FileWorld, request: RowRequest, most: int, noise: SumNoise) -> LearnedScores:
    """Return what both servers' noisy sums of at most so many likes a person say of items."""
    counts = np.rint(counts_of(limited_likes(world, request, contributors(world, request), most)))
    noisy = counts + noise.draw(request.coins, counts.size)
    return LearnedScores.noisy(noisy, noise.deviation, AGGREGATE)


def gaussian_totals(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count at most ``likes`` likes of each person: (epsilon, 1e-6)-private, by the noise of either server."""
    most = min(request.settings.likes, world.items)
    return totals(world, request, most, both_gaussian(request.epsilon, 2 * most))


def laplace_totals(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count as many likes of each person as the curator with discrete Laplace noise does: epsilon-private."""
    most = min(request.settings.curated, world.items)
    return totals(world, request, most, both_laplace(request.epsilon, most))


def pairs(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Choose the items liked most with a tenth of epsilon, count their pairs with the rest, and apply EASE.

    The choice has Laplace noise and all of delta is that of the pairs, so that the two epsilons add up.
    """
    most = pair_design(request.settings, world.items).device_likes
    choice = None if request.epsilon is None else request.epsilon / CHOICE
    rest = None if request.epsilon is None else request.epsilon * (CHOICE - 1) / CHOICE
    # A person with w likes has w (w + 1) / 2 ones in a table of pairs and single items; as many others replace them
    of_items, of_pairs = both_laplace(choice, most), both_gaussian(rest, most * (most + 1))
    return pairs_of_sums(world, request, of_items, of_pairs, AGGREGATE)


_row = partial(PromisedRow, TWO_SERVERS, asks=BY_PEOPLE)
ROWS = (
    _row("popularity", gaussian_totals, delta=DELTA),
    _row("popularity (Laplace)", laplace_totals),
    _row(PAIRS_WITH_EASE, pairs, delta=DELTA),
)
