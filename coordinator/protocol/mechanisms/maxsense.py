"""MaxSense and Multi-MaxSense: whether any item of a set that is drawn at random is liked; one set, or several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, Unpack

import numpy as np
from pydantic import BeforeValidator, Field

from coordinator.protocol.amplification import TwoLevels, one_bit_levels
from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import LARGEST_EPSILON, IndependentBits, bit_channel, flipped_bits
from coordinator.protocol.decoding.estimates import Estimates, others_share, read_sets
from coordinator.protocol.decoding.line import decode
from coordinator.protocol.errors import InputError
from coordinator.protocol.law import Law, People
from coordinator.protocol.mechanism import (
    POOLED,
    POSTERIOR,
    SETS,
    Decoding,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    OneBit,
    QueryHeader,
    Sketch,
    Theta,
    World,
    check_shape,
    query_of,
    require_whole_parameter,
)
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.moments.blocks import SketchMoments, maxsense_moments, multi_maxsense_moments
from coordinator.protocol.moments.count_moments import NoSignal
from coordinator.protocol.pools import pool_of
from coordinator.protocol.sensing import items_of, sensing_of
from coordinator.protocol.statistics.scores import ScoreStatistic, aggregate_partition, aggregate_scores


class MaxSense(OneBit):
    """MaxSense: each item is sensed with probability ``theta / rated``; the bit is 1 if a sensed item was liked.

    Sets are drawn among the catalogue, or among a pool's items.

    Source: Banerjee, Hegde, Massoulié, Figure 2 and Theorem 15 [5.1].
    """

    name = "maxsense"
    title = "MaxSense"
    parameters = frozenset({"sensing"})
    pooled = None
    decoders = (*SETS, POSTERIOR)
    policies = POOLED
    ranks = True

    theta: Theta = 1.0  # Expected number of a user's rated items that are sensed, in (0, rated]

    def check_world(self, world: World) -> None:
        check_shape(world.items, world.rated, self.theta)

    def _sensing(self, world: World, pool: Indices | None) -> float:
        """Return the sensing probability of each item of a pool; it is at most 1/2 unless these are all items."""
        everywhere = self.theta / world.rated
        return everywhere if pool is None else min(everywhere * world.items / pool.size, 0.5)

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of one round; ``pool`` holds the items that are sensed, by default all."""
        some = None if pool is None or pool.size == world.items else pool
        return query_of(self.name, world.items, header, parameters={"sensing": self._sensing(world, some)}, pool=some)

    def check(self, query: Query) -> None:
        sensing_of(query)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return 1 for each device that liked some sensed item."""
        return Sketch(ratings.likes_sensed(coins.streams(query), sensing_of(query), items_of(query))[:, None])

    def count(self, query: Query, release: Release) -> ScoreStatistic:
        return aggregate_scores(query, release)

    def estimate(
        self, query: Query, statistic: ScoreStatistic, world: World, expected: Floats | None = None
    ) -> Estimates:
        return read_sets(query, statistic, rated=world.rated)

    def rates(self, query: Query, world: World, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; ``expected`` holds b, by default 1/2."""
        pool = query.items if query.pool is None else query.pool.size
        sensing = self._sensing(world, query.pool)
        contrast, share = bit_channel(query.epsilon).contrast, world.rated / world.items
        liked = np.full(pool, 0.5) if expected is None else np.clip(expected, 0, 1)
        none = math.exp(np.log1p(-np.minimum(sensing * share * liked, 0.5)).sum())
        answer = (1 - contrast) / 2 + contrast * (1 - none)
        silent = none ** others_share(pool, items=world.items, rated=world.rated)
        noise = answer * (1 - answer)
        rate = (contrast * share * silent) ** 2 * sensing * (1 - sensing) / noise if noise else 0.0
        return np.full(pool, rate)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        return decode(statistic, sensing=query.parameters["sensing"], clusters=how.clusters, decoder=how.decoder)

    def moments(self, world: World) -> SketchMoments | NoSignal | None:
        if world.block is None:
            return None
        if (sensing := self.theta / world.rated) >= 1:
            return NoSignal()
        return maxsense_moments(world.block, sensing=sensing, epsilon=as_float(world.epsilon))

    def law(self, query: Query, people: People) -> Law:
        """Return the law of devices that sensed each item, and of those of them that answered 1."""
        pool, (item_rates, rate) = pool_of(query), given_sensed(query, people)
        sensing = float(query.parameters["sensing"])
        # Given the bits, two items' counts are uncorrelated up to the product of their effects: they are drawn apart.
        # Rounded, a chance of 1 may be above it.
        met = np.clip(sensing * item_rates / rate if rate else item_rates, 0, 1)
        missed = np.clip(sensing * (1 - item_rates) / (1 - rate) if rate < 1 else 1 - item_rates, 0, 1)

        def draw(users: int, coins: np.random.Generator) -> ScoreStatistic:
            sensed, scores = np.zeros((2, query.items), np.int64)
            ones = int(coins.binomial(users, rate))
            scores[pool] = coins.binomial(ones, met)
            sensed[pool] = scores[pool] + coins.binomial(users - ones, missed)
            return ScoreStatistic(sensed=sensed, scores=scores, devices=users, answered=users, refused=0, ones=ones)

        return Law(draw)


def given_sensed(query: Query, people: People) -> tuple[Floats, float]:
    """Return P(answer 1 | item sensed) of each item of the pool, shape (M,), and P(answer 1), of MaxSense."""
    # A device with l likes has 1 with probability 1 - (1 - p)^l, and always if it senses an item that it likes
    sensing, flips = float(query.parameters["sensing"]), bit_channel(query.epsilon).contrast
    people = people.among(query.pool)
    silent, without = (mean(lambda likes: (1 - sensing) ** likes) for mean in (people.likes, people.likers))
    rate = (1 + flips) / 2 - flips * float(silent)
    return rate + flips * without, rate


SPLITS = 64  # Most questions that are tried if epsilon is infinite; more than about epsilon / 2.2 only cost users


def _whole(value: Any) -> Any:
    """Read ``"3"`` as a whole number and keep names."""
    if value in ("ceil", "auto") or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"{str(value)[:80]!r} is neither a whole number, nor ceil or auto") from None


def partition_size(items: int, set_size: int) -> int:
    """Return into how many sets of ``set_size`` items a partition cuts them; the last one may be smaller."""
    return -(-items // set_size)


class MultiMaxSense(Mechanism):
    """Multi-MaxSense: sets of a random partition of the items; one bit each, as MaxSense's, under a share of epsilon.

    Source: Banerjee, Hegde, Massoulié, Figure 3 and Theorem 16, with ``p = theta / rated`` (there theta = 1).

    Sets hold ``N p`` items, rounded to a whole number of at least 1. Where ``1 / p`` or ``N p`` is no whole number, the
    last set of the partition is smaller; it is never asked about.
    """

    name = "multi-maxsense"
    title = "Multi-MaxSense"
    parameters = frozenset({"set_size"})
    by_address = True
    decoders = SETS
    ranks = True
    splits = True
    jumps = True

    theta: Theta = 1.0
    # Sets Q that each device is asked about, each under ``epsilon / Q``; at most ``1 / p``
    questions: Annotated[
        Annotated[int, Field(ge=1)] | Literal["ceil", "auto"],
        BeforeValidator(_whole),
        Field(description="Multi-MaxSense: sets per device; ceil (of epsilon), auto (fewest users) [ceil]."),
    ] = "ceil"

    def set_size(self, world: World) -> int:
        """Return the number of items in a set, ``N p``."""
        return max(1, round(world.items * self.theta / world.rated))

    def full_sets(self, world: World) -> int:
        """Return the number of full sets of a partition, at most ``1 / p``."""
        check_shape(world.items, world.rated, self.theta)
        return min(world.items // self.set_size(world), int(world.rated / self.theta + 1e-9))

    def check_world(self, world: World) -> None:
        if self.questions == "auto":
            raise ValueError("questions is still auto; MultiMaxSense.settle makes it a number")
        self._require(world, self.most_questions(world))

    def _require(self, world: World, questions: int) -> int:
        if not 1 <= questions <= (most := self.full_sets(world)):
            raise InputError(
                f"questions is {questions}; it must lie between 1 and 1/p = rated/theta, here {most}: sets of "
                f"{self.set_size(world)} of {world.items} items must not overlap"
            )
        return questions

    def most_questions(self, world: World) -> int:
        """Return the number of questions; the largest possible number if it is still "auto"."""
        if isinstance(self.questions, int):
            return self._require(world, self.questions)
        most = self.full_sets(world)
        if self.questions == "auto":
            return most
        if world.epsilon is None:
            raise InputError("questions is ceil, and epsilon inf has no ceil(epsilon); say how many, or auto")
        return min(math.ceil(world.epsilon), most)

    @property
    def settled(self) -> bool:
        """Whether ``questions`` is more than "auto"."""
        return self.questions != "auto"

    def settle(self, world: World, decoder: str) -> Self:
        """Return the settings with ``questions`` a number."""
        # "ceil" is the paper's ``ceil(epsilon)``, at most 1/p; "auto" the number that needs the fewest users. It
        # maximizes the answers' signal to noise, ``(contrast between clusters)^2 / variance`` of a user, from exact
        # moments; with a ratings file, whose clusters are unknown, ``Q tanh^2(epsilon / 2Q)``.
        questions = self.best_questions(world, decoder) if self.questions == "auto" else self.most_questions(world)
        return self.model_copy(update={"questions": questions})

    def best_questions(self, world: World, decoder: str) -> int:
        """Return the number of questions Q, 1 to 1/p, that needs the fewest users."""
        most, epsilon = self.full_sets(world), as_float(world.epsilon)
        least = 1 if math.isinf(epsilon) else max(1, math.ceil(epsilon / LARGEST_EPSILON))
        largest = min(most, SPLITS if math.isinf(epsilon) else max(least, math.ceil(epsilon)))
        several = range(min(least, largest), largest + 1)
        return max(several, key=lambda questions: self._signal(questions, world, decoder))

    def _signal(self, questions: int, world: World, decoder: str) -> float:
        if world.block is None:
            return questions * math.tanh(as_float(world.epsilon) / questions / 2) ** 2
        moments = self._moments(questions, world)
        noise = moments.noise_paper if decoder == "paper" else moments.noise_centred
        spread = float(moments.effect.max() - moments.effect.min()) * moments.sensing
        return spread**2 / noise if noise else spread

    def _moments(self, questions: int, world: World) -> SketchMoments:
        assert world.block is not None
        size, epsilon = self.set_size(world), as_float(world.epsilon)
        return multi_maxsense_moments(world.block, set_size=size, questions=questions, epsilon=epsilon)

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        parameters, questions = {"set_size": self.set_size(world)}, self.most_questions(world)
        return query_of(self.name, world.items, header, questions=questions, parameters=parameters)

    def check(self, query: Query) -> None:
        require_whole_parameter(query, "set_size", query.items)

    def question_range(self, query: Query) -> range:
        return range(1, partition_size(query.items, int(query.parameters["set_size"])) + 1)

    def channel(self, query: Query) -> IndependentBits:
        return flipped_bits(query.questions, query.epsilon_per_question)

    def levels(self, query: Query) -> TwoLevels | None:
        """Return the levels of one set's bit; the chances of several bits have more than two."""
        return one_bit_levels() if query.own_questions and query.questions == 1 else None

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return 1 for each set in which the device liked some item."""
        return Sketch(ratings.likes_parts(coins.streams(query), int(query.parameters["set_size"]), query.questions))

    def count(self, query: Query, release: Release) -> ScoreStatistic:
        return aggregate_partition(query, release)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        sensing = query.parameters["set_size"] / query.items
        return decode(statistic, sensing=sensing, clusters=how.clusters, decoder=how.decoder)

    def moments(self, world: World) -> SketchMoments | NoSignal | None:
        self.check_world(world)
        if world.block is None:
            return None
        if self.set_size(world) == world.items:
            return NoSignal()
        return self._moments(self.most_questions(world), world)

    @classmethod
    def label(cls, row: Mapping[str, Any]) -> str:
        suffix = " (auto)" if row.get("choice") == "auto" else ""
        return f"{cls.name}, Q {row['questions']}{suffix}" if row.get("questions") else cls.name


MECHANISMS = (MaxSense(), MultiMaxSense())
