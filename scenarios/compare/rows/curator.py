"""A trusted curator has everybody's ratings, and publishes noisy totals: of likes, and of pairs of items."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy
from scipy import sparse

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.public_features import LEAST
from coordinator.server.decoding.curator import DiscreteLaplace
from scenarios.compare.item_models import of_gram
from scenarios.compare.row import Advised, Asked, Row
from scenarios.compare.worlds import World

COPIES = 4
"""Where a person is drawn more often, so many of its copies choose which likes count."""
DELTA = 1e-6
"""Of the curator's pairs, whose noise is Gaussian."""
REPLACED = 2
"""How many more counts differ where a person's ratings are replaced by others than where it is added or removed: those
that it had and those that it has. All rows of a comparison are about that, as local ones can be about nothing else."""
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


def kept_likes(world: World, asked: Asked, most: int) -> Any:
    """Return how often people's likes are counted, a sparse matrix of shape (people x copies, N): ``most`` a person.

    People are drawn with replacement where more contribute than the file has. A row is a copy of a person whose
    likes were drawn anew, weighted by the root of how many people it stands for, so that ``X'X`` counts pairs.
    """
    copies = min(COPIES, asked.users // world.people)
    many = np.ones(world.people)
    if asked.users != world.people:
        many = asked.coins.multinomial(asked.users, np.full(world.people, 1 / world.people)).astype(np.float64)
    liked, parts = world.fold.liked, []
    for _ in range(copies):
        order = np.lexsort((asked.coins.random(liked.items.size), liked.owners))
        place = np.arange(order.size) - np.repeat(liked.starts[:-1], liked.degrees)
        kept = order[place < most]
        ones = np.sqrt(many[liked.owners[kept]] / copies)
        parts.append(sparse.coo_array((ones, (liked.owners[kept], liked.items[kept])), world.matrix.shape).tocsr())
    return sparse.vstack(parts).tocsr()


def noisy_likes(likes: Any, epsilon: Epsilon, most: int, coins: np.random.Generator) -> tuple[Floats, float]:
    """Return counts of at most so many likes a person with noise, float64, shape (N,), and its standard deviation."""
    noise = DiscreteLaplace(budget=epsilon, sensitivity=REPLACED * most)
    counts: Ints = np.rint(likes.power(2).sum(axis=0)).astype(np.int64)
    return (counts + noise.draw(counts.size, coins)).astype(np.float64), math.sqrt(noise.variance)


class Counted(Row):
    """Counts of likes, with discrete Laplace noise: epsilon-private where a person's ratings are replaced."""

    trust_model, mechanism, order = "curator", "popularity", 10
    asks: ClassVar[frozenset[str]] = frozenset({"epsilon", "scale"})

    def advise(self, world: World, asked: Asked) -> Advised:
        """Count at most ``curated`` likes of each person."""
        most = asked.wanted.curated
        counts, noise = noisy_likes(kept_likes(world, asked, most), asked.epsilon, most, asked.coins)
        return Advised.noisy(counts, noise)


class Paired(Row):
    """Counts of pairs among the items liked most, with Gaussian noise, and EASE on them: (epsilon, 1e-6)-private."""

    trust_model, mechanism, order, delta = "curator", "pairs, EASE", 20, DELTA
    asks: ClassVar[frozenset[str]] = frozenset({"epsilon", "scale"})

    def advise(self, world: World, asked: Asked) -> Advised:
        """Choose items with a tenth of epsilon, and count their pairs with the rest."""
        most, epsilon = asked.wanted.co_liked, asked.epsilon
        choosing, counting = (None, None) if epsilon is None else (epsilon / CHOICE, epsilon * (CHOICE - 1) / CHOICE)
        likes = kept_likes(world, asked, most)
        counts, _ = noisy_likes(likes, choosing, most, asked.coins)
        chosen = np.sort(asked.ranked(counts)[: asked.wanted.top])
        gram = (likes[:, chosen].T @ likes[:, chosen]).toarray()
        deviation = gaussian_noise(counting, math.sqrt(REPLACED * most * (most + 1) / 2))
        gram += symmetric(asked.coins.normal(0, deviation, gram.shape)) if deviation else 0
        ridge = asked.wanted.ridge * asked.users / world.people + 2 * deviation * math.sqrt(chosen.size)
        weights = of_gram(gram, ridge)
        popularity = np.zeros(world.items)
        popularity[chosen] = np.maximum(np.diag(gram), 0)

        def scores(own: Any) -> Floats2:
            found = np.zeros(own.shape)
            found[:, chosen] = own[:, chosen] @ weights
            return found

        return Advised(popularity=popularity, floor=LEAST, scorer=scores)


def symmetric(noise: Floats2) -> Floats2:
    """Return a symmetric matrix from the upper triangle of one, its diagonal included."""
    upper: Floats2 = np.triu(noise)
    return upper + np.triu(noise, 1).T


ROWS = (Counted(), Paired())
