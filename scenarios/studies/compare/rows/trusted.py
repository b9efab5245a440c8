"""Rows without privacy, or with a trusted curator who has everybody's ratings and publishes noisy totals."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy
from scipy import sparse, special

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import ADD_REMOVE, REPLACE, Epsilon, as_float
from coordinator.protocol.compiled import compiled
from coordinator.protocol.decoding.curator import DiscreteLaplace
from coordinator.protocol.decoding.pair_model import from_sums
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.item_models import LEAST_SCORE
from coordinator.protocol.limits import memory_left, size_of
from coordinator.protocol.mechanisms.totals import parts_of
from scenarios.studies.compare.advisors import ease_memory, fit_model, pair_advice, pair_design
from scenarios.studies.compare.row import BY_PEOPLE, LearnedScores, Liar, RowRequest, TabledRow
from scenarios.studies.compare.sum_laws import tenth_share
from scenarios.studies.compare.worlds import FileWorld
from scenarios.theory.liars import share_to_lift

MOST = 20_000  # Matrices of up to this many rows, people or items, are inverted


def chance(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Give each person a random list."""
    return LearnedScores(popularity=np.ones(world.items), floor=1.0, scorer=lambda own: request.coins.random(own.shape))


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
# Who is sampled more than once chooses anew each time which likes count, as long as so many likes are chosen in all;
# beyond that at least so often, and each choice stands for several people
MOST_CHOSEN, FEWEST_CHOICES = 1 << 20, 4


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
    if epsilon is None:
        return 0.0
    nats = as_float(epsilon)

    def excess(log_noise: float) -> float:
        half, more = 0.5 / math.exp(log_noise), nats * math.exp(log_noise)
        return float(special.ndtr(half - more) - math.exp(nats + special.log_ndtr(-half - more))) - delta

    return sensitivity * math.exp(scipy.optimize.brentq(excess, math.log(1e-3), math.log(1e6)))


def contributors(world: FileWorld, request: RowRequest) -> Floats:
    """Return how many of the people who contribute each person of the file stands for, shape (people,)."""
    if request.users == world.people:
        return np.ones(world.people)
    return request.coins.multinomial(request.users, np.full(world.people, 1 / world.people)).astype(np.float64)


def limited_likes(world: FileWorld, request: RowRequest, people: Floats, most: int, pool: Indices | None = None) -> Any:
    """Return people's likes among the items of a pool, by default all: a sparse matrix of shape (choices, M).

    A person has ``most`` of these at most, drawn at random. A row is a choice of a person of the file, weighted by the
    root of how many people it stands for, so that ``X'X`` counts pairs.
    """
    liked = world.fold.liked
    if pool is not None:
        place = np.full(world.items, -1, np.int32)
        place[pool] = np.arange(pool.size)
        liked = liked.where(place[liked.items] >= 0)
    columns = liked.items if pool is None else place[liked.items]
    numbers = np.minimum(liked.degrees, most)
    choices = np.minimum(people, max(FEWEST_CHOICES, MOST_CHOSEN // max(int(numbers.sum()), 1))).astype(np.int64)
    rows = np.repeat(np.arange(world.people), choices)
    starts = np.concatenate([[0], np.cumsum(numbers[rows])])
    places = _choose(liked.starts, rows, starts, request.coins.random(int(starts[-1])))
    roots = np.repeat(np.sqrt(people[rows] / choices[rows]), numbers[rows])
    return sparse.csr_array((roots, columns[places], starts), (rows.size, world.items if pool is None else pool.size))


@compiled
def _choose(starts: Ints, rows: Ints, ends: Ints, coins: Floats) -> Ints:
    """Return the places of each row's likes, so many as lie between its ends, of all that its person has (Floyd)."""
    places = np.empty(coins.size, np.int64)
    for row in range(rows.size):
        first, begin, stop = starts[rows[row]], ends[row], ends[row + 1]
        surplus = starts[rows[row] + 1] - first - (stop - begin)
        for at in range(begin, stop):
            last = surplus + at - begin
            place = first + np.int64(coins[at] * (last + 1)) if surplus else first + last
            for earlier in range(begin, at):
                if places[earlier] == place:
                    place = first + last
                    break
            places[at] = place
    return places


def counts_of(likes: Any) -> Floats:
    """Return how many people like each item, float64, shape (N,)."""
    return np.asarray(likes.power(2).sum(axis=0), np.float64)


def honest_sets(world: FileWorld, most: int) -> Liar:
    """Return what a liar is worth of whom at most so many likes count, each of them once: one like of an item."""
    return Liar(1.0, share_to_lift(1.0, tenth_share(world.fold, most)))


def laplace_counts(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count at most ``curated`` likes of each person, with discrete Laplace noise: epsilon-private."""
    most = request.settings.curated
    noise = laplace_noise(request.epsilon, most, request.settings.relation)
    counts = np.rint(counts_of(limited_likes(world, request, contributors(world, request), most))).astype(np.int64)
    noisy = (counts + noise.draw(counts.size, request.coins)).astype(np.float64)
    return replace(LearnedScores.noisy(noisy, math.sqrt(noise.variance)), liar=honest_sets(world, most))


def gaussian_counts(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count at most ``likes`` likes of each person, as two servers do: (epsilon, delta)-private."""
    settings = request.settings
    most = min(settings.likes, world.items)
    noise = gaussian_noise(request.epsilon, item_change(most, settings.relation), request.delta)
    counts = counts_of(limited_likes(world, request, contributors(world, request), most))
    learned = LearnedScores.noisy(counts + request.coins.normal(0, noise, counts.size), noise)
    return replace(learned, liar=honest_sets(world, most))


@dataclass(frozen=True, slots=True)
class SumNoise:
    """Noise of sums: its standard deviation, and how it is drawn, for so many of them or in such a shape."""

    deviation: float
    draw: Callable[[np.random.Generator, int | tuple[int, int]], Floats]


def gaussian(deviation: float) -> SumNoise:
    """Return Gaussian noise."""
    return SumNoise(deviation, lambda coins, shape: coins.normal(0, deviation, shape))


def laplace(noise: DiscreteLaplace) -> SumNoise:
    """Return discrete Laplace noise."""

    def draw(coins: np.random.Generator, shape: int | tuple[int, int]) -> Floats:
        return noise.draw(int(np.prod(shape)), coins).astype(np.float64).reshape(shape)

    return SumNoise(math.sqrt(noise.variance), draw)


def curated_pairs(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Choose the items liked most with a tenth of the budget, count their pairs with the rest, and apply EASE.

    All noise is Gaussian: (epsilon, delta)-private. With delta 0 all of it is discrete Laplace noise.
    """
    settings = request.settings
    most, relation = pair_design(settings, world.items).device_likes, settings.relation
    if not request.delta:
        choice, rest = parts_of(request.epsilon, 0.0, choice=True)
        of_pairs = DiscreteLaplace(budget=rest, sensitivity=pair_totals(most, relation))
        return pairs_of_sums(world, request, laplace(laplace_noise(choice, most, relation)), laplace(of_pairs))
    # Gaussian mechanisms compose by sums of (sensitivity / noise)^2, and exactly: Dong, Roth and Su 2022, cor. 3.3
    unit = gaussian_noise(request.epsilon, 1.0, request.delta)
    noise = unit * item_change(most, relation) * math.sqrt(CHOICE)
    deviation = unit * pair_change(most, relation) * math.sqrt(CHOICE / (CHOICE - 1))
    return pairs_of_sums(world, request, gaussian(noise), gaussian(deviation))


def pairs_of_sums(
    world: FileWorld, request: RowRequest, of_items: SumNoise, of_pairs: SumNoise, simulated: str | None = None
) -> LearnedScores:
    """Choose the items with the largest noisy counts, and apply EASE to noisy counts of their pairs."""
    people, design = contributors(world, request), pair_design(request.settings, world.items)
    counts = counts_of(limited_likes(world, request, people, design.device_likes))
    counts += of_items.draw(request.coins, counts.size)
    pool = np.sort(request.ranked(counts)[: design.top]).astype(np.int32)
    likes = limited_likes(world, request, people, design.device_likes, pool)
    gram = (likes.T @ likes).toarray() + symmetric(of_pairs.draw(request.coins, (pool.size, pool.size)))
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
