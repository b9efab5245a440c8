"""Rows where nobody is trusted: each device answers one query, and ranks items by scores, pairs or taste directions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from actors.advice import public_order
from actors.device import PIECE, Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.pair_model import Subspace, agreed, pair_matrix, subspace, tastes_of_pairs
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.item_models import LEAST_SCORE, likely, typical_error
from coordinator.protocol.mechanisms.anchor import AnchorSensing, PairSigns
from coordinator.protocol.messages import CENTRE_UNIT, Model, Query
from coordinator.protocol.moments.sign_moments import pair_contrast
from coordinator.protocol.pools import centres_of
from coordinator.protocol.rating_table import Likes
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.protocol.statistics.statistic import merge
from coordinator.protocol.trust_models import PUBLIC_RATES
from coordinator.server.aggregation import aggregate
from scenarios.data.people import FilePeople
from scenarios.studies.compare.advisors import pair_constants
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import AGGREGATE, BY_PEOPLE, DEVICES, LearnedScores, Row, RowRequest
from scenarios.studies.compare.run_row import RunRow, people_of
from scenarios.studies.compare.worlds import FileWorld, versions_of, world_of

PRIOR = 1.0  # Likes and dislikes that are added to every item's public ones (a beta prior)


class ItemRates(NamedTuple):
    """Rates of single items."""

    rated: Floats  # shape (N,); Share of people who rated each item, and their mean rating from -1 to 1
    liked: Floats
    score: Floats  # shape (N,); Share of people who like each, and its standard error
    error: Floats


def public_rates(world: FileWorld) -> ItemRates:
    """Return the rates of all people of a file."""
    rows = world.fold.train
    people, liked = rows.users + 2 * PRIOR, world.popularity + PRIOR
    rated = rows.raters.astype(np.float64) + 2 * PRIOR
    score: Floats = liked / people
    return ItemRates(rated / people, 2 * liked / rated - 1, score, np.sqrt(score * (1 - score) / people))


def estimated_rates(liking: Model, judging: Model, share: float) -> ItemRates:
    """Return rates estimated from devices: shares of likes, and mean ratings if a share of all items is rated.

    An item with a share f of likes and a mean s over all people, for whom no rating counts 0, was rated by ``2 f - s``.
    Both are first shrunk to their means over items, to the degree that noise explains their variance.
    """
    score = np.maximum(_shrunk(liking.score, typical_error(liking.error)), LEAST_SCORE)
    mean = _shrunk(share * judging.score, share * typical_error(judging.error))
    rated = np.clip(2 * score - mean, score, 1)
    return ItemRates(rated, 2 * score / rated - 1, score, liking.error)


def _shrunk(values: Floats, error: float) -> Floats:
    centre, spread = float(values.mean()), float(values.var())
    shrunk: Floats = centre + (values - centre) * max(0.0, 1 - error**2 / spread if spread else 0.0)
    return shrunk


def question(request: RowRequest, rates: ItemRates) -> Query:
    """Return the query about pairs of the items that most people like, centred on their mean ratings."""
    pool = np.sort(request.ranked(rates.score)[: request.settings.paired]).astype(np.int32)
    items = rates.score.size
    return AnchorSensing(items=items, rated=min(request.settings.likes, items)).query(
        round_number=2,  # after the rounds about single items
        public_seed=derive(request.seed, "public"),
        epsilon=request.epsilon,
        pool=pool,
        centres=np.rint(np.clip(rates.liked[pool], -1, 1) * CENTRE_UNIT).astype(np.int32),
    )


def pool_of(query: Query) -> Indices:
    """Return the items whose pairs a query is about."""
    assert query.pool is not None  # a query about pairs has a pool
    return query.pool


def collected_sums(query: Query, world: FileWorld, user: Ints, request: RowRequest) -> AnchorStatistic:
    """Return the sums of what the devices of these people answer, each with its own ledger and coins."""
    ratings = StoredRatings(rows=world.fold.train, user=user.astype(np.int32), rated_public=False)
    cohort = Cohort(ratings, derive(request.seed, "devices of pairs"), 0, user.size, request.epsilon)
    blocks = [(first, min(first + PIECE, user.size)) for first in range(0, user.size, PIECE)]
    statistic = merge(*(aggregate(query, cohort.answer(query, *block)) for block in blocks))
    assert isinstance(statistic, AnchorStatistic)  # the statistic of queries about pairs
    return statistic


def model_of_sums(query: Query, sums: AnchorStatistic, rates: ItemRates, settings: Comparison) -> Model:
    """Return the model with the directions that stand out of the noise, if any."""
    pool, items = pool_of(query), query.items
    with one_thread():
        directions = subspace(*agreed(sums.pairs, sums.answered, pool.size))
    contrast = pair_contrast(pool.size, items=items, rated=min(settings.likes, items), epsilon=query.epsilon)
    tastes = tastes_of_pairs(pool, directions, contrast, rated=rates.rated, liked=rates.liked)
    cluster = np.zeros(items, np.int32)
    return Model(cluster=cluster, score=rates.score, error=rates.error, clusters=1, tastes=tastes)


def limit_of(settings: Comparison, seed: int) -> tuple[Indices, Subspace]:
    """Return the pool and its directions in the limit of infinitely many answers without noise, with public rates."""
    return _limit_of(settings, seed, versions_of(settings))


@lru_cache(maxsize=4)
def _limit_of(settings: Comparison, seed: int, _: tuple[int, ...]) -> tuple[Indices, Subspace]:
    world = world_of(settings, seed)
    query = question(RowRequest(settings=settings, epsilon=None, users=0, seed=seed), public_rates(world))
    pool = pool_of(query)
    means = FilePeople(world.fold, pool).pair_signs(*centres_of(query))
    with one_thread():
        return pool, subspace(pair_matrix(means, pool.size), 0.0)


def threshold(settings: Comparison, seed: int, epsilon: Epsilon) -> float:
    """Return how many answers about pairs it takes until a first direction stands out: ``M / (t l)^2``.

    l is the largest eigenvalue of the limit and t the contrast of an answer; see
    `coordinator.protocol.decoding.pair_model`.
    """
    pool, directions = limit_of(settings, seed)
    signal = bit_channel(epsilon).contrast * float(directions.strengths.max(initial=0.0))
    return pool.size / signal**2 if signal else math.inf


def set_sizes(settings: Comparison, items: int) -> Mapping[str, Any]:
    """Return the size of sets, or the share of devices that report how many items they like first."""
    return {"counted_group": settings.counted} if settings.counted else {"padded": min(settings.likes, items)}


def pair_settings(settings: Comparison, items: int) -> Mapping[str, Any]:
    """Return the constants shared with a curator's pairs, and which share of devices reports numbers of likes."""
    return pair_constants(settings, items) | ({"counted_group": settings.counted} if settings.counted else {})


def row(mechanism: str, design: str, **more: Any) -> RunRow:
    """Return a row of a mechanism of `blindrec run`."""
    return RunRow(mechanism=mechanism, design=design, **more)


SUBSET = row("subset", "subset")
MAXSENSE = row("MaxSense", "maxsense", settings=lambda settings, _: {"theta": settings.sensed})
SET = row("set", "set", settings=set_sizes)
SIGN = row("sign", "sign")
PAIRS = row("pairs", "pairs", settings=pair_settings)


LIKING, JUDGING = 0.3, 0.15
"""Shares of devices that report which items they like, and how they rate all items, where rates are not public."""


@dataclass(frozen=True, slots=True)
class Directions(Row):
    """Directions of taste by signs of pairs."""

    trust_model: str
    rates_public: bool  # Whether rates of single items are public; otherwise devices report them
    mechanism: str = "directions"
    asks: frozenset[str] = BY_PEOPLE

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Let devices answer, or sample the sums of their answers; devices apply directions to their own ratings."""
        # Where few people answered many rates are equal; in the file's order these would be old items first.
        model = self.learn(world, request)
        return replace(self.ranking_of(world, request, model), order=request.ranked(model.score).astype(np.int32))

    def ranking_of(self, world: FileWorld, request: RowRequest, model: Model) -> LearnedScores:
        """Return how devices rank items by a model, as `actors.advice.recommend_featured` does."""
        rows, tastes = world.fold.train, model.tastes
        assert tastes is not None  # it may have no direction

        exponents = dict[int, float]()

        def scores(ratings: Any) -> Floats2:
            starts, items = ratings.indptr.astype(np.int64), ratings.indices.astype(np.int32)
            return likely(
                tastes, Likes(starts=starts, items=items, values=ratings.data > 0, count=world.items), exponents
            )

        holds = sparse.csr_array((np.where(rows.values, 1, -1), rows.items, rows.starts), (rows.users, rows.count))
        return LearnedScores(
            popularity=model.score,
            floor=float(np.finfo(np.float64).tiny),
            noise=typical_error(model.error),
            scorer=scores,
            order=public_order(None, model.score),
            simulated=DEVICES if request.users <= request.settings.devices else AGGREGATE,
            holds=holds,
        )

    def learn(self, world: FileWorld, request: RowRequest) -> Model:
        """Return the model that is learned from devices' answers."""
        if request.users > request.settings.devices:
            return self._learn_from_sample(world, request)
        rates, user = public_rates(world), people_of(world, request)
        if not self.rates_public:  # nobody is in two groups
            liking, judging, user = np.split(request.coins.permutation(user), np.cumsum(_groups(request.users)))
            likes = SET.answered(world, replace(request, users=liking.size), liking)
            means = SIGN.answered(world, replace(request, users=judging.size), judging)
            rates = estimated_rates(likes.model, means.model, _rated(world, request))
        query = question(request, rates)
        return model_of_sums(query, collected_sums(query, world, user, request), rates, request.settings)

    def _learn_from_sample(self, world: FileWorld, request: RowRequest) -> Model:
        rates, users = public_rates(world), request.users
        if not self.rates_public:
            liking, judging = _groups(users)
            likes = SET.sampled(world, replace(request, users=liking))
            means = SIGN.sampled(world, replace(request, users=judging))
            rates, users = estimated_rates(likes.model, means.model, _rated(world, request)), users - liking - judging
        query = question(request, rates)
        sums = PairSigns().law(query, FilePeople(world.fold)).draw(users, request.coins)
        assert isinstance(sums, AnchorStatistic)  # the statistic of queries about pairs
        return model_of_sums(query, sums, rates, request.settings)

    def remarks(self, settings: Comparison) -> tuple[str, ...]:
        """Say from how many people on a direction stands out of the noise, among people like the file's."""
        share = 1.0 if self.rates_public else 1 - LIKING - JUDGING
        thresholds = [(epsilon, threshold(settings, settings.seed, epsilon) / share) for epsilon in settings.epsilon]
        needed = ", ".join(
            f"{people:,.0f} at epsilon {'inf' if epsilon is None else epsilon}" for epsilon, people in thresholds
        )
        public = ("totals of everybody's ratings are public to it, without noise",) if self.rates_public else ()
        limit = (
            f"with fewer people than these, which is the experimenter's to know, none stands out of the noise: {needed}"
        )
        return tuple(f"{self.trust_model}: {self.mechanism}: {sentence}" for sentence in (limit, *public))


def _groups(users: int) -> list[int]:
    """Return how many devices report which items they like, and how many report how they rate all."""
    return [max(1, round(share * users)) for share in (LIKING, JUDGING)]


def _rated(world: FileWorld, request: RowRequest) -> float:
    return min(request.settings.likes / world.items, 1)


ROWS = (
    SUBSET,
    SIGN,
    MAXSENSE,
    SET,
    PAIRS,
    Directions("local", rates_public=False),
    Directions(PUBLIC_RATES, rates_public=True),
)
