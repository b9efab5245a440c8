"""Rows without privacy, or with a trusted curator who has everybody's ratings and publishes noisy totals."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.budget import ADD_REMOVE, REPLACE, Epsilon
from coordinator.protocol.composition import gaussian_distance
from coordinator.protocol.decoding.curator import DiscreteLaplace
from coordinator.protocol.decoding.pair_model import from_sums
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.item_models import LEAST_SCORE
from coordinator.protocol.limits import memory_left, size_of
from coordinator.protocol.mechanisms.totals import parts_of
from scenarios.data.people import FilePeople
from scenarios.studies.compare.advisors import ease_memory, fit_model, pair_advice, pair_design
from scenarios.studies.compare.row import BY_PEOPLE, LearnedScores, RowRequest, TabledRow
from scenarios.studies.compare.run_row import honest_sets
from scenarios.studies.compare.worlds import FileWorld

MOST = 20_000  # Matrices of up to this many rows, people or items, are inverted


def chance(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Give each person a random list."""
    return LearnedScores(
        popularity=np.ones(world.items), floor=1.0, scorer=lambda ratings: request.coins.random(ratings.shape)
    )


def popularity(world: FileWorld) -> LearnedScores:
    """Rank items by how many people like them."""
    return LearnedScores(popularity=world.popularity, floor=0.5)


@cache
def too_large(people: int, items: int) -> str:
    """Return why EASE is not computed for so many people and items; empty where it is."""
    rows, needed = min(people, items), ease_memory(people, items)
    if rows > MOST:
        return f"a matrix of {rows:,} x {rows:,} takes hours to invert; at most {MOST:,} are; leave out rare items"
    if needed > (left := memory_left() // 2):  # two rows may be measured at once
        return (
            f"it needs {size_of(needed)} for {items:,} x {items:,} items, and {size_of(left)} are left to it; leave "
            "out rare items, or compare where there is more memory"
        )
    return ""


def model(name: str, world: FileWorld, request: RowRequest) -> LearnedScores:
    """Fit a model of items to all likes."""
    scorer, constant = fit_model(name, world.matrix, request)
    return LearnedScores(popularity=world.popularity, floor=LEAST_SCORE, scorer=scorer, constant=constant)


CHOICE = 10  # One part in so many of the squares of sensitivity / noise chooses which items are paired


def gaussian_noise(epsilon: Epsilon, sensitivity: float, delta: float) -> float:
    """Return the standard deviation of Gaussian noise that is (epsilon, delta)-private; 0 for no noise.

    Source: Balle and Wang, *Improving the Gaussian mechanism*, ICML 2018, Theorem 8: with D the sensitivity (L2),
    ``Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D) <= delta``.

    Examples
    --------
    >>> from fractions import Fraction
    >>> round(gaussian_noise(Fraction(1), 1.0, 1e-5), 2)
    3.73
    """
    return 0.0 if epsilon is None else sensitivity / gaussian_distance(epsilon, delta)


def laplace_counts(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count at most ``curated`` likes of each person, with discrete Laplace noise: epsilon-private."""
    most = request.settings.curated
    noise = laplace_noise(request.epsilon, most, request.settings.relation)
    counts = np.rint(FilePeople(world.fold).totals(most, request.users, request.coins)).astype(np.int64)
    noisy = (counts + noise.draw(counts.size, request.coins)).astype(np.float64)
    return replace(LearnedScores.noisy(noisy, math.sqrt(noise.variance)), liar=honest_sets(world, most))


def gaussian_counts(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count at most ``likes`` likes of each person, as two servers do: (epsilon, delta)-private."""
    settings = request.settings
    most = min(settings.likes, world.items)
    noise = gaussian_noise(request.epsilon, item_change(most, settings.relation), request.delta)
    counts = FilePeople(world.fold).totals(most, request.users, request.coins)
    learned = LearnedScores.noisy(counts + request.coins.normal(0, noise, counts.size), noise)
    return replace(learned, liar=honest_sets(world, most))


@dataclass(frozen=True, slots=True)
class SumNoise:
    """Noise of sums: its standard deviation, and how it is drawn, for so many of them or in such a shape."""

    deviation: float
    draw: Callable[[np.random.Generator, int | tuple[int, int]], Floats]
    rate: float | None = None  # Log-ratio of neighbouring values of Laplace noise [nats]; None: noise is Gaussian


def gaussian(deviation: float) -> SumNoise:
    """Return Gaussian noise."""
    return SumNoise(deviation, lambda coins, shape: coins.normal(0, deviation, shape))


def laplace(noise: DiscreteLaplace) -> SumNoise:
    """Return discrete Laplace noise."""

    def draw(coins: np.random.Generator, shape: int | tuple[int, int]) -> Floats:
        return noise.draw(int(np.prod(shape)), coins).astype(np.float64).reshape(shape)

    return SumNoise(math.sqrt(noise.variance), draw, noise.rate)


def curated_pairs(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Choose the items liked most with a tenth of the budget, count their pairs with the rest, and apply EASE.

    All noise is Gaussian: (epsilon, delta)-private. With delta 0 all of it is discrete Laplace noise.
    """
    return pairs_of_sums(world, request, *pair_noises(request, world.items))


def pair_noises(request: RowRequest, items: int) -> tuple[SumNoise, SumNoise]:
    """Return the noise of counts that choose items, and of counts of their pairs."""
    settings = request.settings
    most, relation = pair_design(settings, items).device_likes, settings.relation
    if not request.delta:
        choice, rest = parts_of(request.epsilon, 0.0, choice=True)
        of_pairs = DiscreteLaplace(budget=rest, sensitivity=pair_totals(most, relation))
        return laplace(laplace_noise(choice, most, relation)), laplace(of_pairs)
    # Gaussian mechanisms compose by sums of (sensitivity / noise)^2, and exactly: Dong, Roth and Su 2022, cor. 3.3
    unit = gaussian_noise(request.epsilon, 1.0, request.delta)
    noise = unit * item_change(most, relation) * math.sqrt(CHOICE)
    deviation = unit * pair_change(most, relation) * math.sqrt(CHOICE / (CHOICE - 1))
    return gaussian(noise), gaussian(deviation)


def pairs_of_sums(
    world: FileWorld, request: RowRequest, of_items: SumNoise, of_pairs: SumNoise, simulated: str | None = None
) -> LearnedScores:
    """Choose the items with the largest noisy counts, and apply EASE to noisy counts of their pairs."""
    people = FilePeople(world.fold).sample(request.users, request.coins)
    design = pair_design(request.settings, world.items)
    counts = people.totals(design.device_likes, request.users, request.coins)
    counts += of_items.draw(request.coins, counts.size)
    pool = np.sort(request.ranked(counts)[: design.top]).astype(np.int32)
    gram = people.among(pool).pair_totals(design.device_likes, request.users, request.coins)
    gram += symmetric(of_pairs.draw(request.coins, (pool.size, pool.size)))
    users, ties = request.users, request.coins.permutation(world.items)
    with one_thread():
        pairs = from_sums(pool, gram, users, of_pairs.deviation)
    return pair_advice(pairs, counts, ties, noise=of_items.deviation, simulated=simulated)


def item_totals(most: int, relation: str = REPLACE) -> int:
    """Return how many counts change by one where a person with ``most`` likes is replaced, or added or removed."""
    return most if relation == ADD_REMOVE else 2 * most


def pair_totals(most: int, relation: str = REPLACE) -> int:
    """Return how many totals of pairs and of single items change by one, as `item_totals`.

    Of w likes ``w (w + 1) / 2`` totals are 1 less, and where a person is replaced as many others 1 more.
    """
    return item_totals(most * (most + 1) // 2, relation)


def laplace_noise(epsilon: Epsilon, most: int, relation: str = REPLACE) -> DiscreteLaplace:
    """Return the noise of counts of at most ``most`` likes a person."""
    return DiscreteLaplace(budget=epsilon, sensitivity=item_totals(most, relation))


def item_change(most: int, relation: str = REPLACE) -> float:
    """Return the L2 sensitivity of counts of at most ``most`` likes a person."""
    return math.sqrt(item_totals(most, relation))


def pair_change(most: int, relation: str = REPLACE) -> float:
    """Return the L2 sensitivity of totals of pairs and of single items."""
    return math.sqrt(pair_totals(most, relation))


def symmetric(noise: Floats2) -> Floats2:
    """Return a symmetric matrix from the upper triangle of one, its diagonal included."""
    upper: Floats2 = np.triu(noise)
    return upper + np.triu(noise, 1).T


PAIRS_WITH_EASE = "pairs with EASE"
ROWS = (
    TabledRow("none", "chance", chance, featured=False),
    TabledRow("none", "popularity", lambda world, _: popularity(world)),
    TabledRow("none", "item kNN", partial(model, "item kNN")),
    TabledRow("none", "SVD", partial(model, "SVD")),
    TabledRow("none", "EASE", partial(model, "EASE"), excess=lambda table: too_large(table.users, table.count)),
    # The model of an external library, for comparison
    *([TabledRow("none", "ALS", partial(model, "ALS"))] if find_spec("implicit") else []),
    TabledRow("curator", "popularity", laplace_counts, BY_PEOPLE),
    TabledRow("curator", "popularity (Gaussian)", gaussian_counts, BY_PEOPLE, approximate=True),
    TabledRow("curator", PAIRS_WITH_EASE, curated_pairs, BY_PEOPLE, approximate=True, pure=True),
)
