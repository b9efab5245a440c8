"""Sums by two servers: what a device adds up to, which noise keeps their promise, and what they say of items."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol import noise as noise_laws
from coordinator.protocol.arrays import Bools, Floats, Indices, Indices2, Ints
from coordinator.protocol.budget import ADD_REMOVE, REPLACE, Epsilon, as_float
from coordinator.protocol.channels import ExactChannel, Likelihood
from coordinator.protocol.compiled import compiled
from coordinator.protocol.decoding.estimates import Estimates, repeated_variance
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.decoding.pair_model import from_sums, gram_matrix
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError, WithheldError
from coordinator.protocol.law import BlockPeople, Law, People
from coordinator.protocol.mechanism import (
    ONE_ROUND,
    TWO_ROUNDS,
    Decoding,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    QueryHeader,
    Sketch,
    World,
    query_of,
    require_whole_parameter,
)
from coordinator.protocol.mechanisms.sets import (
    MOST_ITEMS,
    MOST_LIKES,
    TOGETHER,
    PairItems,
    PairLikes,
    liked_sets,
    together,
    typical_likes,
)
from coordinator.protocol.mechanisms.toys import Neighbours
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.moments.count_moments import SumMoments
from coordinator.protocol.noise import NoiseLaw
from coordinator.protocol.pools import pairs_of, pool_size
from coordinator.protocol.shares import WORD_BYTES, require_readable
from coordinator.protocol.statistics.counts import PAIRED, RANKED, CountStatistic, GroupStatistic, of_group
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.protocol.value_channels import PADDED

DELTA, CHANGES, DEVIATION, HONEST, LEAST_ANSWERS = "delta", "changes", "deviation", "honest", "least_answers"
"""Parameters of queries: the chance that the promise fails; coordinates of the sums that one person changes by one;
the standard deviation of a dose of Gaussian or Skellam noise, 0 where noise is Laplace's; devices whose shares of noise
make a dose, 0 where servers add it; and the fewest answers that are opened."""
SERVERS = 2  # Doses in a sum, where each server adds its own because it knows what it added
MOST_HONEST = 1 << 40
_OF_ONE = "one device's ratings replaced by any others"
_BOTH = "if both of two servers collude, nothing is left"
PROMISES = {
    REPLACE: f"epsilon-differential privacy of the published sums, {_OF_ONE}, if one of two servers is honest; {_BOTH}",
    ADD_REMOVE: "epsilon-differential privacy of the published sums, one device added or removed, if one of two "
    f"servers is honest; {_BOTH}",
}
"""What two servers promise, by the relation of neighbours."""


@lru_cache(maxsize=256)
def noise_scale(epsilon: Epsilon, delta: float, changes: int, *, devices: bool) -> float:
    """Return the deviation of a dose of noise that keeps (epsilon, delta), on a public grid; 0 for Laplace noise.

    Parameters
    ----------
    epsilon : Fraction or None
        [nats]; None for no noise.
    delta : float
        0 for discrete Laplace noise of L1 sensitivity ``changes``; else the noise is a discrete Gaussian, or a Skellam
        law where ``devices`` add it, whose shares add up exactly.
    changes : int
        Coordinates s of the sums that one person changes by one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> round(noise_scale(Fraction(1), 1e-6, 100, devices=False), 2)
    42.25
    """
    if epsilon is None or not delta:
        return 0.0
    least = (noise_laws.skellam_deviation if devices else noise_laws.gaussian_deviation)(
        changes=changes, epsilon=epsilon, delta=delta
    )
    return noise_laws.on_public_grid(least)


@lru_cache(maxsize=256)
def _delta_of(deviation: float, changes: int, epsilon: Epsilon, *, devices: bool) -> float:
    assert epsilon is not None  # looked at by the caller
    return (noise_laws.skellam_delta if devices else noise_laws.gaussian_delta)(
        deviation, changes=changes, epsilon=epsilon
    )


@lru_cache(maxsize=64)
def _law(epsilon: Epsilon, changes: int, deviation: float, honest: int) -> NoiseLaw | None:
    """Return the law of one server's dose, or of one device's share of a dose that so many honest ones make."""
    if epsilon is None:
        return None
    if deviation:
        return noise_laws.skellam_share(deviation, honest=honest) if honest else noise_laws.discrete_gaussian(deviation)
    if honest:
        return noise_laws.polya_share(epsilon, sensitivity=changes, honest=honest)
    return noise_laws.discrete_laplace(epsilon, sensitivity=changes)


DEVICES = "devices"
CHOICE, LEAST_CHOICE = 4, 10  # One part in so many of epsilon is that of likes, which choose the items that are paired
IDEAL, NO_PROOFS = "ideal", "none"


class SharedVector(Mechanism):
    """A vector of zeros and ones that a device gives in shares alone; two servers publish the noisy sum."""

    shares = True
    guarantee = PROMISES[REPLACE]
    parameters = frozenset({PADDED, DELTA, CHANGES, DEVIATION, HONEST, LEAST_ANSWERS})
    decoders = ("totals",)
    trust = TWO_SERVERS
    bounded = False
    ranks = True

    neighbours: Neighbours = "replace"
    noise: Literal["servers", "devices"] = Field(
        default="servers",
        description="Two servers: who adds noise to sums, each server a full dose, or devices shares of one [servers].",
    )
    proofs: Literal["ideal", "none"] = Field(
        default="ideal",
        description="Two servers: a vector of a liar is checked by an ideal proof before it is shared, or by none "
        "[ideal].",
    )

    def relation(self) -> str:
        """Return the relation that the noise is calibrated for."""
        return self.neighbours

    @classmethod
    def label(cls, row: Mapping[str, Any]) -> str:
        """Return its name, with the relation of neighbours where that is not the one of all others."""
        return f"{cls.name}, {ADD_REMOVE}" if row.get("neighbours", REPLACE) == ADD_REMOVE else cls.name

    def likes_counted(self, world: World) -> int:
        """Return the most likes of a device that count in a world."""
        raise NotImplementedError

    def honest_devices(self, world: World) -> tuple[int, int]:
        """Return how many devices are counted on for noise, and the fewest answers that are opened; 0 of servers'."""
        return honest_devices(world) if self.noise == DEVICES else (0, 0)

    def changes(self, ones: int) -> int:
        """Return how many coordinates of the sums one person changes by one, whose vector has so many ones at most."""
        return ones if self.neighbours == ADD_REMOVE else 2 * ones

    def noise_terms(self, world: World, epsilon: Epsilon, ones: int, delta: float) -> dict[str, float]:
        """Return the parameters of a query that say which noise its sums get."""
        changes, (honest, least_answers) = self.changes(ones), self.honest_devices(world)
        return {
            DELTA: 0.0 if epsilon is None else delta,
            CHANGES: float(changes),
            DEVIATION: noise_scale(epsilon, delta, changes, devices=honest > 0),
            HONEST: float(honest),
            LEAST_ANSWERS: float(least_answers),
        }

    def guarantee_under(self, neighbours: str) -> str:
        """Return the promise under the relation that the noise is calibrated for."""
        return PROMISES[neighbours]

    def width(self, query: Query) -> int:
        """Return the number of words of a device's vector."""
        raise NotImplementedError

    def ones(self, query: Query) -> int:
        """Return the most ones of a device's vector."""
        raise NotImplementedError

    def words_about(self, query: Query, places: Bools) -> Bools:
        """Return which words are about some of the items, by their places among those that are asked about."""
        return places

    def check(self, query: Query) -> None:
        """Refuse a query whose noise does not keep what it promises, or whose sums 32 bits do not hold."""
        values = query.parameters
        most = self.ones(query)
        changes = require_whole_parameter(query, CHANGES, 2 * most)
        if changes not in (most, 2 * most):
            raise InputError(
                f"{query} has {CHANGES} {changes}; a device of at most {most} ones changes so many or twice"
            )
        for name in (HONEST, LEAST_ANSWERS):
            if not (0 <= values[name] <= MOST_HONEST and values[name].is_integer()):
                raise InputError(f"{query} has {name} {values[name]:g}; give a whole number, 0 to {MOST_HONEST}")
        if self.by_devices(query) and values[LEAST_ANSWERS] < values[HONEST]:
            raise InputError(
                f"{query} opens {values[LEAST_ANSWERS]:g} answers, but noise needs {values[HONEST]:g}; raise it"
            )
        deviation, delta = values[DEVIATION], values[DELTA]
        if not 0 <= delta < 1 or deviation < 0 or bool(deviation) != (bool(delta) and query.epsilon is not None):
            raise InputError(
                f"{query} has {DELTA} {delta:g} and {DEVIATION} {deviation:g}; both are 0 for Laplace noise, and "
                "above 0 for Gaussian noise"
            )
        devices = self.by_devices(query)
        if deviation and (real := _delta_of(deviation, changes, query.epsilon, devices=devices)) > delta:
            raise InputError(
                f"{query} promises {DELTA} {delta:g}, but noise of deviation {deviation:g} keeps {real:.3g}; raise it"
            )
        require_readable(query, 1, self.deviation(query, 1))

    def question_range(self, query: Query) -> range:
        """Return the number of words, each of which is a question of 32 bits."""
        return range(self.width(query), self.width(query) + 1)

    def answer_bits(self, query: Query) -> int:
        """Return the bits of a word."""
        return 8 * WORD_BYTES

    def channel(self, query: Query) -> ExactChannel | Likelihood:
        """Refuse: noise is added to sums of shares, and no device's answer goes through a channel."""
        raise InputError(f"{query} is answered in shares, and through no channel of a device's own")

    def delta(self, query: Query) -> float:
        """Return the chance that the promise fails."""
        return query.parameters[DELTA]

    def relation_of(self, query: Query) -> str:
        """Return which data the promise takes as neighbours."""
        return ADD_REMOVE if query.parameters[CHANGES] == self.ones(query) else REPLACE

    def by_devices(self, query: Query) -> bool:
        """Return whether devices add shares of the noise, and the servers add none."""
        return query.parameters[HONEST] > 0

    def server_noise(self, query: Query) -> NoiseLaw | None:
        """Return the law of the noise that each server adds; None where servers add none."""
        return None if self.by_devices(query) else self._noise(query, 0)

    def device_noise(self, query: Query) -> NoiseLaw | None:
        """Return the law of a device's share of the noise; None where servers add it."""
        return self._noise(query, int(query.parameters[HONEST])) if self.by_devices(query) else None

    def _noise(self, query: Query, honest: int) -> NoiseLaw | None:
        return _law(query.epsilon, int(query.parameters[CHANGES]), query.parameters[DEVIATION], honest)

    def deviation(self, query: Query, answered: int) -> float:
        """Return the standard deviation of all noise in the published sum of so many answers."""
        values = query.parameters
        return noise_deviation(
            query.epsilon, int(values[CHANGES]), values[DEVIATION], honest=int(values[HONEST]), answered=answered
        )

    def require_enough(self, query: Query, answered: int) -> None:
        """Refuse to open a sum of fewer answers than the query says, or of more than words of 32 bits hold."""
        least = int(query.parameters[LEAST_ANSWERS])
        if answered < least:
            raise WithheldError(
                f"round {query.round} was withheld: {answered:,} devices answered, whose noise is enough from "
                f"{least:,} on; nothing is opened, expect fewer answers (expected_answers)"
            )
        require_readable(query, answered, self.deviation(query, answered))

    def count(self, query: Query, release: Release) -> Statistic:
        """Refuse: no device's answer comes to this server."""
        raise InputError(f"{query} is answered in shares for two servers, which publish their sums alone")

    def law(self, query: Query, people: People) -> Law:
        """Return the law of the published sums: of all who answer, and of what noise servers add."""
        if self.by_devices(query):
            raise InputError(f"{query} has devices add noise, whose sum has no law here; let servers add it")
        inside, noise = people.among(query.pool), self.server_noise(query)

        def draw(users: int, coins: np.random.Generator) -> Statistic:
            sums = np.rint(self.draw_sums(query, inside, users, coins)).astype(np.int64)
            for _ in range(SERVERS):
                sums += 0 if noise is None else noise.draw(coins.bytes(16), 0, sums.size)
            totals = CountStatistic(sums=sums, ones=0, devices=users, answered=users, refused=0)
            return self.of_published(query, totals)

        return Law(draw)

    def draw_sums(self, query: Query, people: People, users: int, coins: np.random.Generator) -> Floats:
        """Draw the sums of devices' vectors, without noise."""
        raise NotImplementedError

    def like_moments(self, world: World, epsilon: Epsilon, delta: float) -> SumMoments | None:
        """Return the moments of a total of each cluster, and of the noise."""
        if world.block is None:
            return None
        most, (honest, _) = self.likes_counted(world), self.honest_devices(world)
        changes = self.changes(most)
        one_dose = noise_scale(epsilon, delta, changes, devices=honest > 0)
        deviation = noise_deviation(epsilon, changes, one_dose, honest=honest, answered=world.users)
        level = BlockPeople.of(world.block).likers(lambda likes: np.minimum(1, most / likes))
        return SumMoments(level=level, noise=deviation**2)


def honest_devices(world: World) -> tuple[int, int]:
    """Return how many honest devices are counted on for noise, and how many answers hold so many.

    Of answers that are expected a share may be liars, whose noise nobody counts on.
    """
    expected, honest = Fraction(str(world.expected_answers)), 1 - Fraction(str(world.assume_malicious))
    devices = math.floor(world.users * expected * honest)
    if devices < 1:
        raise InputError(
            f"of {world.users} users {world.expected_answers:g} are expected to answer, {world.assume_malicious:g} of "
            "these to lie: nobody is left to add noise; let servers add it"
        )
    return devices, math.ceil(devices / honest)


def noise_deviation(epsilon: Epsilon, changes: int, deviation: float, *, honest: int, answered: int) -> float:
    """Return the deviation of all noise in a sum: two servers' doses, or a share of a dose of each answering device.

    >>> from fractions import Fraction
    >>> round(noise_deviation(Fraction(1), 20, 0.0, honest=500, answered=1000), 2)
    40.0
    """
    if epsilon is None:
        return 0.0
    variance = deviation**2
    if not deviation:
        rate = as_float(epsilon) / changes
        variance = 0.0 if rate > 1400 else 0.5 * math.sinh(rate / 2) ** -2
    return math.sqrt(variance * (answered / honest if honest else SERVERS))


@compiled
def pair_places(sets: Indices2, items: int) -> Indices2:
    """Return the places of pairs of each device's set, and of its items with themselves, int32; -1 for no pair.

    Places are those of an upper triangle with its diagonal, row by row. Shapes: ``sets`` (devices, w).
    """
    likes = sets.shape[1]
    places = np.full((len(sets), likes * (likes + 1) // 2), -1, np.int32)
    for k in range(len(sets)):
        count = 0
        for index in range(likes):
            for partner in range(index + 1):
                smaller, larger = min(sets[k, index], sets[k, partner]), max(sets[k, index], sets[k, partner])
                if larger < items:
                    places[k, count] = smaller * (2 * items - smaller + 1) // 2 + larger - smaller
                count += 1
    return places


class Totals(SharedVector):
    """Likes of all items, at most so many a device; a device that likes more names some of them by private coins."""

    name = "totals"
    title = "two servers' totals of likes"
    policies = (ONE_ROUND,)

    most_likes: int = Field(
        default=0, ge=0, description="Two servers: likes of a device that count at most, 0 for as many as rated [0]."
    )

    def likes_counted(self, world: World) -> int:
        return min(self.most_likes or world.rated, world.items)

    def check_world(self, world: World) -> None:
        self.honest_devices(world)
        if not 1 <= (most := self.likes_counted(world)) <= world.items:
            raise InputError(f"most_likes is {most}; it must lie between 1 and the number of items, {world.items}")

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of the round."""
        most = self.likes_counted(world)
        parameters = {PADDED: float(most), **self.noise_terms(world, header["epsilon"], most, world.delta)}
        return query_of(
            self.name, world.items, header, questions=world.items, answer_bits=8 * WORD_BYTES, parameters=parameters
        )

    def width(self, query: Query) -> int:
        """Return the number of items."""
        return query.items

    def ones(self, query: Query) -> int:
        """Return the most likes of a device that count."""
        return require_whole_parameter(query, PADDED, query.items)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return the places of a vector's ones; places from its end on stand for nothing."""
        return Sketch(liked_sets(query, ratings, coins))

    def of_published(self, query: Query, totals: CountStatistic) -> CountStatistic:
        """Return the totals as they are."""
        return totals

    def draw_sums(self, query: Query, people: People, users: int, coins: np.random.Generator) -> Floats:
        """Draw totals of likes."""
        return people.totals(int(query.parameters[PADDED]), users, coins)

    def estimate(
        self, query: Query, statistic: CountStatistic, world: World, expected: Floats | None = None
    ) -> Estimates:
        """Return a round's estimates of the share of devices that like each item."""
        answered, nothing = statistic.answered, np.zeros(query.items)
        if not answered:
            return Estimates(weighted=nothing, information=nothing)
        share = statistic.sums / answered
        # As in `estimates.read_items`: by an item's own total, rounds in which it was rare would weigh more
        typical = float(np.clip(share.mean(), 1 / answered, 1))
        people = max(typical * (1 - typical), 1 / answered) / answered
        information = np.full(query.items, 1 / (people + (self.deviation(query, answered) / answered) ** 2))
        return Estimates(weighted=information * share, information=information)

    def repeated_variance(self, query: Query, world: World, value: Floats) -> Floats:
        return repeated_variance(np.clip(value, 0, 1), query.parameters[PADDED], rated=world.rated)

    def decode(self, statistic: CountStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by noisy totals of likes, which rank them; the error is that of the noise."""
        return _by_totals(statistic.sums, self.deviation(query, statistic.answered), how)

    def moments(self, world: World) -> SumMoments | None:
        """Return the moments of a total of each cluster, and of the noise."""
        self.check_world(world)
        return self.like_moments(world, world.epsilon, world.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedPairTotals:
    """Sums of likes of all items, and then of pairs of the items liked most and of these items by themselves."""

    mechanism: PairTotals
    world: World
    likes: int  # Most likes w of a device that count, of all items as of those that are paired
    pair_items: int  # Items M that are paired

    def __post_init__(self) -> None:
        if self.items < 2:
            raise InputError(f"items is {self.items}; pairs needs at least 2")
        if not 1 <= self.likes <= self.pair_items:
            raise InputError(
                f"pair_likes is {self.likes}; it must lie between 1 and {self.pair_items}, the items that are paired"
            )

    @property
    def items(self) -> int:
        """Number of items N."""
        return self.world.items

    def parts(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """Return the epsilon of the round about likes, and that of the round about pairs."""
        return parts_of(epsilon, self.world.delta, choice=self.items > self.pair_items)

    def of_items(self, **header: Unpack[QueryHeader]) -> Query:
        """Return the query about likes of all items."""
        return self._query(header, None, 1, self.likes)

    def query(self, *, pool: Indices | None = None, **header: Unpack[QueryHeader]) -> Query:
        """Return the query about pairs of ``pool``, by default of the first M items."""
        pool = np.arange(self.pair_items, dtype=np.int32) if pool is None else pool
        return self._query(header, pool, 2, with_diagonal(self.likes))

    def _query(self, header: QueryHeader, pool: Indices | None, items: int, ones: int) -> Query:
        parameters = {PADDED: float(self.likes), TOGETHER: float(items)}
        noise = self.mechanism.noise_terms(self.world, header["epsilon"], ones, self.world.delta / 2)
        return query_of(
            self.mechanism.name,
            self.items,
            header,
            pool=pool,
            questions=self.items if pool is None else with_diagonal(pool.size),
            answer_bits=8 * WORD_BYTES,
            parameters=parameters | noise,
        )


def parts_of(epsilon: Epsilon, delta: float, *, choice: bool) -> tuple[Epsilon, Epsilon]:
    """Return the epsilon of likes of all items, and that of pairs; both add up to all of it.

    Each of both sums has half of delta; ``choice`` is whether likes choose which items are paired.
    """
    if epsilon is None:
        return None, None
    # Likes are then about as noisy as pairs: Laplace noise grows with the totals that change, Gaussian with their root.
    # Where all items are paired, likes only rank them.
    likes = epsilon / (CHOICE if delta and choice else LEAST_CHOICE)
    return likes, epsilon - likes


class PairTotals(SharedVector):
    """Likes of all items, or which of a pool's items go together: its pairs, and each item with itself.

    Pairs are counted row by row of the upper triangle, with its diagonal; a device names at most so many likes of the
    pool by private coins, and all pairs of them.
    """

    name = "pair-totals"
    title = "two servers' totals of pairs"
    parameters = SharedVector.parameters | {TOGETHER}
    pooled = None
    policies = (TWO_ROUNDS,)
    groups = ("items",)

    pair_items: PairItems = 200
    pair_likes: PairLikes = 0

    def likes_counted(self, world: World) -> int:
        return self.pair_likes or typical_likes(world.rated, min(self.pair_items, world.items))

    def design(self, world: World) -> LikedPairTotals:
        """Return what two servers add up in a world."""
        self.honest_devices(world)
        pair_items, public = min(self.pair_items, world.items), replace(world, block=None)
        return LikedPairTotals(mechanism=self, world=public, likes=self.likes_counted(world), pair_items=pair_items)

    def check(self, query: Query) -> None:
        """Refuse a query about pairs of nothing, of too many items, or of more likes than the pool has."""
        if require_whole_parameter(query, TOGETHER, 2) == 2:
            if query.pool is None or not 2 <= pool_size(query) <= MOST_ITEMS:
                raise InputError(f"{query} is about pairs of {pool_size(query)} items; name 2 to {MOST_ITEMS}")
        elif query.pool is not None:
            raise InputError(f"{query} is about likes of {pool_size(query)} items; ask about all, or about pairs")
        if query.parameters[PADDED] > MOST_LIKES:
            raise InputError(f"{query} has {PADDED} {query.parameters[PADDED]:g}; give at most {MOST_LIKES} likes")
        super().check(query)

    def width(self, query: Query) -> int:
        """Return the number of items, or of pairs and items of the pool."""
        items = pool_size(query)
        return items if together(query) == 1 else with_diagonal(items)

    def ones(self, query: Query) -> int:
        """Return the most likes of a device that count, or pairs of these with each like itself."""
        likes = require_whole_parameter(query, PADDED, pool_size(query))
        # w likes are w (w - 1) / 2 pairs and w items; each is one word of zero or one, so that one person replaced by
        # another turns at most that many words off and as many on: 2 of them under `REPLACE`, see `check`.
        return likes if together(query) == 1 else with_diagonal(likes)

    def words_about(self, query: Query, places: Bools) -> Bools:
        """Return which items, or which pairs with one of them, in the order of the words; see `SharedVector`."""
        if together(query) == 1:
            return places
        rows, columns = np.triu_indices(places.size)
        return places[rows] | places[columns]

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return places of items, or of pairs of the items of a pool; negative ones stand for nothing, too."""
        sets = liked_sets(query, ratings, coins)
        return Sketch(sets if together(query) == 1 else pair_places(sets, pool_size(query)))

    def draw_sums(self, query: Query, people: People, users: int, coins: np.random.Generator) -> Floats:
        """Draw totals of likes, or of pairs and of each item of the pool."""
        most = int(query.parameters[PADDED])
        if together(query) == 1:
            return people.totals(most, users, coins)
        return people.pair_totals(most, users, coins)[np.triu_indices(pool_size(query))]

    def of_published(self, query: Query, totals: CountStatistic) -> GroupStatistic:
        """Return totals of items apart from those of pairs."""
        return of_group(RANKED if together(query) == 1 else PAIRED, totals)

    def learn(self, statistic: GroupStatistic, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the items' popularity by the first round, clustered, and EASE on the second round's noisy pairs."""
        items, pairs = statistic.of(RANKED), statistic.of(PAIRED)
        model = _by_totals(items.sums, self.deviation(queries[0], items.answered), how)
        if not pairs.answered:  # nobody answered the second round, or there was none: popularity is all there is
            return model
        _, query = queries
        assert query.pool is not None  # checked where it was asked
        gram, deviation = gram_matrix(pairs.sums, query.pool.size), self.deviation(query, pairs.answered)
        with one_thread():
            near = from_sums(query.pool, gram, pairs.answered, deviation)
        return replace(model, near=near)

    def moments(self, world: World) -> SumMoments | None:
        """Return the moments of the first round's totals, of which clusters are made, and of their noise."""
        of_likes, _ = self.design(world).parts(world.epsilon)
        return self.like_moments(world, of_likes, world.delta / 2)


def with_diagonal(items: int) -> int:
    """Return the number of pairs of so many items, and of the items themselves.

    >>> with_diagonal(400)
    80200
    """
    return pairs_of(items) + items


def _by_totals(sums: Ints, error: float, how: Decoding) -> Model:
    """Return the model of noisy totals of likes, which rank items."""
    totals = sums.astype(np.float64)
    cluster = kmeans_on_line(totals, how.clusters)
    return Model(cluster=cluster, score=totals, error=np.full(totals.size, error), clusters=how.clusters)


MECHANISMS = (Totals(), PairTotals())
