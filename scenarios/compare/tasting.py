"""How directions of taste are learned in a comparison: what is asked, what is answered or drawn, and its limit."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from actors.device import PIECE, Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.public_features import LEAST, typical_error
from coordinator.protocol.signs import UNIT
from coordinator.server.aggregation import aggregate
from coordinator.server.anchor.sensing import AnchorSensing
from coordinator.server.decoding.pair_model import pair_matrix
from coordinator.server.decoding.tastes import Subspace, agreed, subspace, tastes_of_pairs
from coordinator.server.decoding.threads import one_thread
from coordinator.server.moments.anchor import pair_contrast
from coordinator.server.statistics.anchor import AnchorStatistic
from coordinator.server.statistics.statistic import merge
from scenarios.compare.pair_laws import pair_agreements, pair_means
from scenarios.compare.row import Asked
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import World, world_of

PRIOR = 1.0
"""Likes and dislikes that every item is thought to have, beside those that are public."""


class Rates(NamedTuple):
    """What is known of single items.

    Attributes
    ----------
    rated, liked : ndarray of float64, shape (N,)
        Share of people who rated each item, and their mean rating from -1 to 1.
    score, error : ndarray of float64, shape (N,)
        Share of people who like each, and its standard error.
    """

    rated: Floats
    liked: Floats
    score: Floats
    error: Floats


def public_rates(world: World) -> Rates:
    """Return the rates of all people of a file."""
    rows = world.fold.train
    people, liked = rows.users + 2 * PRIOR, world.popularity + PRIOR
    rated = rows.raters.astype(np.float64) + 2 * PRIOR
    score: Floats = liked / people
    return Rates(rated / people, 2 * liked / rated - 1, score, np.sqrt(score * (1 - score) / people))


def told_rates(liking: Model, judging: Model, share: float) -> Rates:
    """Return the rates that devices told: shares of likes, and mean ratings if a share of all items is rated.

    An item with a share f of likes and a mean s over all people, for whom no rating counts 0, was rated by ``2 f - s``.
    Both are first shrunk to their means over items, as far as they vary by noise.
    """
    score = np.maximum(_shrunk(liking.score, typical_error(liking.error)), LEAST)
    mean = _shrunk(share * judging.score, share * typical_error(judging.error))
    rated = np.clip(2 * score - mean, score, 1)
    return Rates(rated, 2 * score / rated - 1, score, liking.error)


def _shrunk(values: Floats, error: float) -> Floats:
    centre, spread = float(values.mean()), float(values.var())
    found: Floats = centre + (values - centre) * max(0.0, 1 - error**2 / spread if spread else 0.0)
    return found


def asking_of(wanted: Comparison, items: int) -> AnchorSensing:
    """Return what asks about pairs, from public constants."""
    return AnchorSensing(items=items, rated=min(wanted.likes, items))


def question(asked: Asked, rates: Rates) -> Query:
    """Return the question about pairs of the items that most people like, centred on their mean ratings."""
    pool = np.sort(asked.ranked(rates.score)[: asked.wanted.paired]).astype(np.int32)
    return asking_of(asked.wanted, rates.score.size).query(
        round_number=2,  # after those about single items
        public_seed=derive(asked.seed, "public"),
        epsilon=asked.epsilon,
        pool=pool,
        centres=np.rint(np.clip(rates.liked[pool], -1, 1) * UNIT).astype(np.int32),
    )


def pool_of(query: Query) -> Indices:
    """Return the items whose pairs a query is about."""
    assert query.pool is not None  # no device answers another one
    return query.pool


def answered(query: Query, world: World, user: Ints, asked: Asked) -> AnchorStatistic:
    """Return what the devices of these people answer: by ledgers and coins of their own."""
    ratings = StoredRatings(rows=world.fold.train, user=user.astype(np.int32), rated_public=False)
    cohort = Cohort(ratings, derive(asked.seed, "devices of pairs"), 0, user.size, asked.epsilon)
    blocks = [(first, min(first + PIECE, user.size)) for first in range(0, user.size, PIECE)]
    found = merge(*(aggregate(query, cohort.answer(query, *block)) for block in blocks))
    assert isinstance(found, AnchorStatistic)  # of no other query
    return found


def drawn(query: Query, world: World, users: int, asked: Asked) -> AnchorStatistic:
    """Return the sum of so many answers, drawn from its law."""
    return pair_agreements(query, pair_means(query, world.fold), users, asked.coins)


def learned(query: Query, sums: AnchorStatistic, rates: Rates, wanted: Comparison) -> Model:
    """Return the model with the directions that stand out of the noise, if any."""
    pool, asking = pool_of(query), asking_of(wanted, query.items)
    with one_thread():
        told = subspace(*agreed(sums.pairs, sums.answered, pool.size))
    contrast = pair_contrast(pool.size, items=asking.items, rated=asking.rated, epsilon=query.epsilon)
    tastes = tastes_of_pairs(pool, told, contrast, rated=rates.rated, liked=rates.liked)
    cluster = np.zeros(query.items, np.int32)
    return Model(cluster=cluster, score=rates.score, error=rates.error, clusters=1, tastes=tastes)


@lru_cache(maxsize=4)
def limit_of(wanted: Comparison, seed: int) -> tuple[Indices, Subspace]:
    """Return what any number of answers without noise tell, with public rates: the pool, and its directions."""
    world = world_of(wanted, seed)
    query = question(Asked(wanted=wanted, epsilon=None, users=0, public=0, seed=seed), public_rates(world))
    pool = pool_of(query)
    with one_thread():
        return pool, subspace(pair_matrix(pair_means(query, world.fold), pool.size), 0.0)


def threshold(wanted: Comparison, seed: int, epsilon: Epsilon) -> float:
    """Return how many answers about pairs it takes until a first direction stands out: ``M / (t l)^2``.

    l is the largest eigenvalue of the limit and t the contrast of an answer; see `coordinator.server.decoding.tastes`.
    """
    pool, told = limit_of(wanted, seed)
    signal = bit_channel(epsilon).contrast * float(told.strengths.max(initial=0.0))
    return pool.size / signal**2 if signal else math.inf


def in_catalogue(pool: Indices, vectors: Floats2, items: int) -> Floats2:
    """Return vectors of a pool's items as vectors of all items, shape (N, k)."""
    found = np.zeros((items, vectors.shape[1]))
    found[pool] = vectors
    return found
