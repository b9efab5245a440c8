"""Rows where nobody is trusted: each device answers one query, and ranks items by scores, pairs or taste directions."""

import math
from collections.abc import Callable, Mapping
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
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.decoding.pair_model import Subspace, agreed, pair_matrix, subspace, tastes_of_pairs
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.item_models import LEAST_SCORE, likely, typical_error
from coordinator.protocol.mechanism import GROUPS
from coordinator.protocol.mechanisms.anchor import AnchorSensing
from coordinator.protocol.messages import CENTRE_UNIT, Model, Query
from coordinator.protocol.moments.sign_moments import pair_contrast
from coordinator.protocol.rating_table import Likes
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.protocol.statistics.statistic import merge
from coordinator.protocol.trust_models import PUBLIC_RATES
from coordinator.protocol.value_channels import PADDED
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.state import Ask, ServerState
from scenarios.backends.selection import InProcess
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.data.populations import Population
from scenarios.families.main.run import run
from scenarios.studies.compare import sum_laws as laws
from scenarios.studies.compare.advisors import pair_advice, pair_constants
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import AGGREGATE, BY_PEOPLE, DEVICES, LearnedScores, Liar, Row, RowRequest
from scenarios.studies.compare.worlds import FileWorld, versions_of, world_of
from scenarios.theory.liars import likes_of_liar, share_to_lift

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
    with one_thread():
        return pool, subspace(pair_matrix(laws.pair_means(query, world.fold), pool.size), 0.0)


def threshold(settings: Comparison, seed: int, epsilon: Epsilon) -> float:
    """Return how many answers about pairs it takes until a first direction stands out: ``M / (t l)^2``.

    l is the largest eigenvalue of the limit and t the contrast of an answer; see
    `coordinator.protocol.decoding.pair_model`.
    """
    pool, directions = limit_of(settings, seed)
    signal = bit_channel(epsilon).contrast * float(directions.strengths.max(initial=0.0))
    return pool.size / signal**2 if signal else math.inf


def people_of(world: FileWorld, request: RowRequest) -> Ints:
    """Return the person behind each device: everybody once, or a random sample for another number of devices."""
    if request.users == world.people:
        return np.arange(world.people)
    return request.coins.integers(world.people, size=request.users)


@dataclass(frozen=True, slots=True)
class LocalRow(Row):
    """A mechanism of `blindrec run` that ranks items by its estimates, not by their clusters."""

    mechanism: str
    design: str | Mechanism  # The mechanism's name there, or a custom mechanism
    # It samples the sum of this many answers, see `sum_laws`; with None only devices can answer
    law: laws.Law | None
    # Its settings from the comparison's public constants and the number of items
    settings: Callable[[Comparison, int], Mapping[str, Any]] = lambda *_: {}

    trust_model: str = "local"
    asks: frozenset[str] = BY_PEOPLE

    def reaches(self, users: int, settings: Comparison) -> bool:
        """Return whether there is a law to sample from, where there are too many people to answer one by one."""
        return self.law is not None or users <= settings.devices

    def scenario_of(self, items: int, request: RowRequest) -> Scenario:
        """Return the scenario that `blindrec run` would have; it knows only the number of items in the file."""
        scenario = Scenario(
            design=self.design,
            ratings=request.settings.ratings,
            users=request.users,
            rated=min(request.settings.likes, items),
            epsilon="inf" if request.epsilon is None else request.epsilon,
            seed=request.seed,
            **self.settings(request.settings, items),
        )
        return scenario.complete(items=items)

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Let devices answer, or sample the sum of their answers; devices apply a model of pairs to their own likes."""
        few = request.users <= request.settings.devices
        model = self.model_of_answers(world, request) if few else self.model_of_sample(world, request)
        learned = self.advice(world, request, model, DEVICES if few else AGGREGATE)
        if self.design not in {"set", "subset"}:
            return learned
        state = ServerState(devices=request.users)
        first = resolve(self.scenario_of(world.items, request)).policy.next_query(state)
        return replace(learned, liar=None if first is None else liar_of(first.query, world))

    @staticmethod
    def advice(world: FileWorld, request: RowRequest, model: Model, simulated: str) -> LearnedScores:
        """Return how devices rank items by a model: by its scores, or by its pairs."""
        noise = typical_error(model.error)
        if model.near is None:
            return LearnedScores.noisy(model.score, noise, simulated)
        ties = request.coins.permutation(world.items)
        return pair_advice(model.near, model.score, ties, noise=noise, simulated=simulated)

    def model_of_answers(self, world: FileWorld, request: RowRequest, user: Ints | None = None) -> Model:
        """Return the model that is learned from devices, through rounds, ledgers and each device's own coins.

        ``user`` holds the person behind each device; by default `people_of`.
        """
        user = people_of(world, request) if user is None else user
        train = world.fold.train
        scenario = self.scenario_of(world.items, request)
        if scenario.policy == GROUPS:
            user = request.coins.permutation(user)
        ratings = StoredRatings(rows=train, user=user.astype(np.int32), rated_public=scenario.settings.rated_public)
        population = Population(
            scenario=scenario,
            ratings=ratings,
            truth=None,
            split=None,
            item_labels=np.array([""] * world.items, dtype=np.object_),
            copies_max=int(np.bincount(user).max()),
        )
        return run(scenario, InProcess(1), population=population).outcome.model

    def model_of_sample(
        self, world: FileWorld, request: RowRequest, exchange: Callable[[Ask], Ask] = lambda ask: ask
    ) -> Model:
        """Return the model that is learned from sums that are sampled from their laws, round by round.

        ``exchange`` returns what devices are asked in the place of what the policy asks.
        """
        resolved = resolve(self.scenario_of(world.items, request))
        policy, learner, state = resolved.policy, resolved.learner, ServerState(devices=request.users)
        assert self.law is not None  # `reaches` leaves out other units
        while (following := policy.next_query(state)) is not None:
            ask = exchange(following)
            statistic = self.law(ask.query, world.fold, ask.stop - ask.first, request.coins)
            state = learner.absorb(state, ask, statistic)
        return learner.learn(state)[0]


def liar_of(query: Query, world: FileWorld) -> Liar | None:
    """Return what devices are worth that lie to a query about single items; None where it is no such query."""
    if query.epsilon is None or (likes := likes_of_liar(query)) is None:
        return None
    own = int(query.parameters[PADDED]) if query.design == "set" else 1
    return Liar(likes, share_to_lift(likes, laws.tenth_share(world.fold, own)))


def set_sizes(settings: Comparison, items: int) -> Mapping[str, Any]:
    """Return the size of sets, or the share of devices that report how many items they like first."""
    return {"counted_group": settings.counted} if settings.counted else {"padded": min(settings.likes, items)}


def pair_settings(settings: Comparison, items: int) -> Mapping[str, Any]:
    """Return the constants shared with a curator's pairs, and which share of devices reports numbers of likes."""
    return pair_constants(settings, items) | ({"counted_group": settings.counted} if settings.counted else {})


SUBSET = LocalRow("subset", "subset", laws.subset_counts)
MAXSENSE = LocalRow("MaxSense", "maxsense", laws.sensed_scores, lambda settings, _: {"theta": settings.sensed})
SET = LocalRow("set", "set", laws.set_counts, set_sizes)
SIGN = LocalRow("sign", "sign", laws.sign_agreements)
PAIRS = LocalRow("pairs", "pairs", laws.group_counts, pair_settings)


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

        def scores(own: Any) -> Floats2:
            starts, items = own.indptr.astype(np.int64), own.indices.astype(np.int32)
            return likely(tastes, Likes(starts=starts, items=items, values=own.data > 0, count=world.items), exponents)

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
            likes = SET.model_of_answers(world, replace(request, users=liking.size), liking)
            means = SIGN.model_of_answers(world, replace(request, users=judging.size), judging)
            rates = estimated_rates(likes, means, _rated(world, request))
        query = question(request, rates)
        return model_of_sums(query, collected_sums(query, world, user, request), rates, request.settings)

    def _learn_from_sample(self, world: FileWorld, request: RowRequest) -> Model:
        rates, users = public_rates(world), request.users
        if not self.rates_public:
            liking, judging = _groups(users)
            likes = SET.model_of_sample(world, replace(request, users=liking))
            means = SIGN.model_of_sample(world, replace(request, users=judging))
            rates, users = estimated_rates(likes, means, _rated(world, request)), users - liking - judging
        query = question(request, rates)
        sums = laws.pair_agreements(query, laws.pair_means(query, world.fold), users, request.coins)
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
