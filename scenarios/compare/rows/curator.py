"""A trusted curator has everybody's ratings, and publishes noisy totals: of likes, and of pairs of items.

Neighbours differ in the ratings of one person, which are replaced by any others, as for devices: how many people there
are is public. Totals of pairs are read by the estimator of local pairs, with the same M and w: what is shrunk is the
noise alone.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy
from scipy import sparse

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.server.decoding.curator import DiscreteLaplace
from coordinator.server.decoding.pair_model import item_to_item
from coordinator.server.decoding.threads import one_thread
from scenarios.compare.item_models import pair_advice, pair_design
from scenarios.compare.row import Advised, Asked, Row
from scenarios.compare.worlds import World

COPIES = 4
"""Where a person is drawn more often, so many of its copies choose which likes count."""
DELTA = 1e-6
"""Of the curator's pairs, whose noise is Gaussian."""
CHOICE = 10
"""One part in so many of epsilon is spent on which items are paired."""


def gaussian_noise(epsilon: Epsilon, sensitivity: float, delta: float = DELTA) -> float:
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
        normal = scipy.stats.norm
        return float(normal.cdf(half - more) - math.exp(nats + normal.logcdf(-half - more))) - delta

    return sensitivity * math.exp(scipy.optimize.brentq(excess, math.log(1e-3), math.log(1e6)))


def contributors(world: World, asked: Asked) -> Floats:
    """Return how many of the people who contribute each person of the file stands for, shape (people,)."""
    if asked.users == world.people:
        return np.ones(world.people)
    return asked.coins.multinomial(asked.users, np.full(world.people, 1 / world.people)).astype(np.float64)


def limited_likes(world: World, asked: Asked, people: Floats, most: int, pool: Indices | None = None) -> Any:
    """Return people's likes among the items of a pool, by default all: a sparse matrix of shape (people x copies, M).

    A person has ``most`` of these at most, drawn at random. A row is a copy of a person whose likes were drawn anew,
    weighted by the root of how many people it stands for, so that ``X'X`` counts pairs.
    """
    liked, copies, parts = world.fold.liked, min(COPIES, asked.users // world.people), []
    if pool is not None:
        place = np.full(world.items, -1, np.int32)
        place[pool] = np.arange(pool.size)
        liked = liked.where(place[liked.items] >= 0)
    columns = liked.items if pool is None else place[liked.items]
    for _ in range(copies):
        order = np.lexsort((asked.coins.random(liked.items.size), liked.owners))
        rank = np.arange(order.size) - np.repeat(liked.starts[:-1], liked.degrees)
        among = order[rank < most]
        roots = np.sqrt(people[liked.owners[among]] / copies)
        shape = (world.people, world.items if pool is None else pool.size)
        parts.append(sparse.coo_array((roots, (liked.owners[among], columns[among])), shape).tocsr())
    return sparse.vstack(parts).tocsr()


def noisy_likes(likes: Any, epsilon: Epsilon, most: int, coins: np.random.Generator) -> tuple[Floats, float]:
    """Return noisy counts of likes, float64, shape (N,), and the standard deviation of their noise.

    Whose ratings are replaced takes ``most`` likes away and brings as many others.
    """
    noise = DiscreteLaplace(budget=epsilon, sensitivity=2 * most)
    counts: Ints = np.rint(likes.power(2).sum(axis=0)).astype(np.int64)
    return (counts + noise.draw(counts.size, coins)).astype(np.float64), math.sqrt(noise.variance)


class Counted(Row):
    """Counts of likes, with discrete Laplace noise: epsilon-private where a person's ratings are replaced."""

    trust_model, mechanism, order = "curator", "popularity", 10
    asks: ClassVar[frozenset[str]] = frozenset({"epsilon", "scale"})

    def advise(self, world: World, asked: Asked) -> Advised:
        """Count at most ``curated`` likes of each person."""
        most = asked.wanted.curated
        likes = limited_likes(world, asked, contributors(world, asked), most)
        counts, noise = noisy_likes(likes, asked.epsilon, most, asked.coins)
        return Advised.noisy(counts, noise)


class Paired(Row):
    """Counts of pairs among the items liked most, with Gaussian noise, and EASE on them: (epsilon, 1e-6)-private."""

    trust_model, mechanism, order = "curator", "pairs, EASE", 20
    asks: ClassVar[frozenset[str]] = frozenset({"epsilon", "scale"})

    def advise(self, world: World, asked: Asked) -> Advised:
        """Choose items with a tenth of epsilon, and count their pairs with the rest."""
        most, epsilon = asked.wanted.curated, asked.epsilon
        choosing, counting = (None, None) if epsilon is None else (epsilon / CHOICE, epsilon * (CHOICE - 1) / CHOICE)
        people, design = contributors(world, asked), pair_design(asked.wanted, world.items)
        counts, noise = noisy_likes(limited_likes(world, asked, people, most), choosing, most, asked.coins)
        pool = np.sort(np.argsort(-counts, kind="stable")[: design.top]).astype(np.int32)
        likes, deviation = limited_likes(world, asked, people, design.kept, pool), pair_noise(counting, design.kept)
        gram = (likes.T @ likes).toarray() + symmetric(asked.coins.normal(0, deviation, (pool.size, pool.size)))
        with one_thread():
            model = item_to_item(pool, np.diag(gram) / asked.users, gram / asked.users, deviation / asked.users)
        return pair_advice(model, counts, asked.coins.permutation(world.items), noise=noise)


def pair_noise(epsilon: Epsilon, most: int) -> float:
    """Return the standard deviation of noise in totals of pairs and of single items, of ``most`` likes w of a person.

    Of these ``w (w + 1) / 2`` totals each is 1 less and as many others 1 more where a person's ratings are replaced, so
    that the sensitivity (L2) is ``sqrt(w (w + 1))``.
    """
    return gaussian_noise(epsilon, math.sqrt(most * (most + 1)))


def symmetric(noise: Floats2) -> Floats2:
    """Return a symmetric matrix from the upper triangle of one, its diagonal included."""
    upper: Floats2 = np.triu(noise)
    return upper + np.triu(noise, 1).T


ROWS = (Counted(), Paired())
