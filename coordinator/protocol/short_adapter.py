"""The adapter between a user's short class and a run, and what all adapters share: nothing is believed unseen."""

from __future__ import annotations

from typing import Any, Unpack, cast

import numpy as np
from pydantic import ConfigDict

from coordinator.protocol.arrays import Bits2, Floats, Indices, Indices2, Ints
from coordinator.protocol.channels import COIN, IndependentBits, Likelihood, MatrixChannel
from coordinator.protocol.custom import (
    MOST_OUTPUTS,
    OUTPUTS,
    VALUES,
    AnyChannel,
    Catalogue,
    CoinsBlock,
    CustomChannel,
    CustomMechanism,
    Question,
    RatingsBlock,
    Tally,
    UserClass,
    guarded,
    held_channel,
    policies_of,
    question_of,
)
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.errors import InputError
from coordinator.protocol.limits import require_memory, round_bytes
from coordinator.protocol.mechanism import (
    FIXED,
    KMEANS,
    ONE_ROUND,
    POSTERIOR,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    QueryHeader,
    Sketch,
    World,
    query_of,
)
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.moments.sign_moments import SignMoments
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.protocol.statistics.statistic import Statistic, device_counts, no_answer
from coordinator.protocol.value_channels import value_bits

DECODERS = (KMEANS, POSTERIOR)
MANY = 1_000_000  # Number of devices from whose typical counts an answer's information follows
MOST_VALUES = 1 << 31  # Bound of a likelihood's private values if its question does not give one


def counts_itself(mechanism: UserClass) -> bool:
    """Return whether a class has a ``count`` of its own."""
    return type(mechanism).count is not UserClass.count


def typical(custom: CustomMechanism, query: Query, devices: int) -> Ints:
    """Return the sum of devices' answers if all private values are equally frequent."""
    channel = cast("CustomChannel", held_channel(custom, query))
    if counts_itself(custom.mechanism) or isinstance(channel, Likelihood):
        raise InputError(
            f"{type(custom.mechanism).__name__} counts in a way of its own, so that no adaptive policy can size its "
            f"rounds; choose {ONE_ROUND} or {FIXED}"
        )
    if isinstance(channel, IndependentBits):
        share = 1 / 2 if channel.ones is None else channel.ones / channel.count
        rate = (share * channel.if_one + (1 - share) * channel.if_zero) / COIN
        return np.full(channel.count, round(devices * rate), np.int64)
    mean = np.array([[cell / COIN for cell in row] for row in channel.rows]).mean(axis=0)
    return np.asarray(np.rint(devices * mean).astype(np.int64))


def estimated(custom: CustomMechanism, query: Query, statistic: Statistic) -> tuple[Floats, Floats]:
    """Return the class's values and standard errors of the items of a query's pool."""
    if not isinstance(statistic, CountStatistic):
        raise InputError(f"a CountStatistic is expected here, not a {type(statistic).__name__}")
    return _estimate(custom, query, Tally(sums=statistic.sums, devices=statistic.answered))


def _estimate(custom: CustomMechanism, query: Query, tally: Tally) -> tuple[Floats, Floats]:
    question = question_of(query)
    size = question.pool.size
    if not tally.devices:
        return np.zeros(size), np.full(size, np.inf)
    answer = guarded(custom.mechanism, "estimate", query.round, question, tally)
    try:
        value, error = (np.asarray(part, np.float64) for part in answer)
    except (TypeError, ValueError):
        raise custom.fail(
            "estimate", query.round, "it returned no pair of arrays; return values and their standard errors"
        ) from None
    if value.shape != (size,) or error.shape != (size,):
        problem = f"it returned shapes {value.shape} and {error.shape}; return ({size},), one an item"
        raise custom.fail("estimate", query.round, problem)
    if not (np.isfinite(value).all() and (error > 0).all()):
        raise custom.fail(
            "estimate", query.round, "some values are not finite, or some standard errors not above 0 (inf: unknown)"
        )
    return np.ascontiguousarray(value), np.ascontiguousarray(error)


class CustomAdapter(Mechanism):
    """A user's class as a run calls it: under a time limit, and nothing that it returns is believed unseen."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    decoders = DECODERS

    custom: CustomMechanism

    @property
    def name(self) -> str:  # type: ignore[override] # here each one has its own, as below
        """The name of its queries."""
        return self.custom.name

    @property
    def title(self) -> str:  # type: ignore[override] # as above
        """The class's name."""
        return type(self.custom.mechanism).__name__

    @property
    def guarantee(self) -> str:  # type: ignore[override] # a class attribute of others
        """What a device is promised, and whether that was checked."""
        return self.custom.guarantee

    @property
    def parameters(self) -> frozenset[str]:  # type: ignore[override] # as above
        """Names of the numbers that its questions bring."""
        return self.custom.parameters

    @property
    def arrays(self) -> frozenset[str]:  # type: ignore[override] # as above
        """Names of the public arrays that its questions bring."""
        return self.custom.arrays

    def channel(self, query: Query) -> AnyChannel:
        """Return the class's channel of a query; see `Mechanism.channel`."""
        return held_channel(self.custom, query)

    def _whole_numbers(self, array: Any, round_number: int, method: str = "sketch") -> Any:
        if type(array) is not np.ndarray or array.dtype.kind not in "biu":
            description = _kind(array)
            raise self.custom.fail(method, round_number, f"it returned {description}; return an array of whole numbers")
        return array

    def _array(self, array: Any, shape: tuple[int, ...], round_number: int, method: str = "sketch") -> Any:
        if (array := self._whole_numbers(array, round_number, method)).shape != shape:
            problem = f"it returned shape {array.shape}; return {shape} for this block"
            raise self.custom.fail(method, round_number, problem)
        return array

    def _released(self, array: Any, shape: tuple[int, int], round_number: int, method: str) -> Bits2:
        released = self._array(array, shape, round_number, method)
        if released.size and (released.min() < 0 or released.max() > 1):
            raise self.custom.fail(method, round_number, "some of its bits are neither 0 nor 1")
        bits: Bits2 = np.ascontiguousarray(released, np.uint8)
        return bits


class ShortAdapter(CustomAdapter):
    """The adapter of a short class, which is asked for a `Question` about a `Catalogue`."""

    @property
    def pooled(self) -> bool | None:  # type: ignore[override] # as above
        """Whether its questions may name a pool."""
        return None if self.custom.mechanism.pools else False

    @property
    def widest(self) -> float:  # type: ignore[override] # as above
        """Largest difference between two items' values."""
        return float(self.custom.mechanism.widest)

    @property
    def policies(self) -> tuple[str, ...]:  # type: ignore[override] # as above
        """The policies that the class can follow."""
        return policies_of(type(self.custom.mechanism))

    def channel(self, query: Query) -> CustomChannel:
        """Return the class's channel of a query, of one of the kinds that a short class may name."""
        return cast("CustomChannel", super().channel(query))

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of one round about the items of ``pool``, by default all."""
        mechanism, round_number = self.custom.mechanism, header["round_number"]
        whole = pool is None or pool.size == world.items
        if not whole and not mechanism.pools:
            raise InputError(
                f"{type(mechanism).__name__} asks about no pools of items; it can follow {ONE_ROUND} and {FIXED}, "
                "or set the class's pools"
            )
        items = np.arange(world.items, dtype=np.int32) if pool is None else pool
        catalogue = Catalogue(
            items=world.items, rated=world.rated, users=world.users, epsilon=header["epsilon"], pool=items
        )
        question = self._checked(guarded(mechanism, "query", round_number, catalogue), round_number)
        width = question.bits or value_bits(question.outputs)  # an output is named by so many bits
        what = f"a question of {type(mechanism).__name__} for {width:,} bits a device"
        require_memory(round_bytes(1, width), what, "ask for less at once")
        sizes = {OUTPUTS: question.outputs, VALUES: question.values}
        return query_of(
            self.name,
            world.items,
            header,
            questions=question.bits or 1,
            parameters={**question.parameters, **{name: float(size) for name, size in sizes.items() if size}},
            pool=None if whole else pool,
            answer_bits=value_bits(question.outputs) if question.outputs else 1,
            arrays=dict(question.arrays),
        )

    def _checked(self, question: object, round_number: int) -> Question:
        if type(question) is not Question:
            raise self.custom.fail("query", round_number, f"it returned a {type(question).__name__}; return a Question")
        sizes = question.outputs, question.bits, question.values
        if (
            any(type(size) is not int for size in sizes)
            or min(sizes) < 0
            or not (question.outputs > 1) ^ (question.bits > 0)
        ):
            problem = "its question names neither outputs, from 2 on, nor bits, or both; give one, a whole number"
            raise self.custom.fail("query", round_number, problem)
        if taken := {OUTPUTS, VALUES} & question.parameters.keys():
            raise self.custom.fail(
                "query", round_number, f"a parameter is called {min(taken)}, which is taken; rename it"
            )
        return question

    def check(self, query: Query) -> None:
        """Refuse an invalid number of outputs; see `Mechanism.check`."""
        for name in (OUTPUTS, VALUES):
            size = query.parameters.get(name)
            if size is not None and not (2 <= size <= MOST_OUTPUTS and size.is_integer()):
                raise InputError(f"{query} has {size:g} {name}; give a whole number, 2 to {MOST_OUTPUTS}")

    def question_range(self, query: Query) -> range:
        """Return the numbers of bits that may be asked for; see `Mechanism.question_range`."""
        return range(1, 2) if OUTPUTS in query.parameters else range(1, 1 << 32)

    def answer_bits(self, query: Query) -> int:
        """Return the bits that name an output; see `Mechanism.answer_bits`."""
        return value_bits(int(query.parameters[OUTPUTS])) if OUTPUTS in query.parameters else 1

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return the sketches that the class makes of the devices' ratings; see `Mechanism.sketch`."""
        rated, question = ratings.rated(), question_of(query)
        block = RatingsBlock(devices=coins.numbers, starts=rated.starts, items=rated.items, likes=rated.values)
        sketches = guarded(
            self.custom.mechanism, "sketch", query.round, question, block, CoinsBlock(coins.sketch), private=True
        )
        channel = self.channel(query)
        if isinstance(channel, IndependentBits):
            return Sketch(self._bits(sketches, channel, coins.devices, query.round))
        rows = len(channel.rows) if isinstance(channel, MatrixChannel) else question.values
        return Sketch(self._values(sketches, rows or MOST_VALUES, coins.devices, query.round))

    def _bits(self, sketches: Any, channel: IndependentBits, devices: int, round_number: int) -> Bits2:
        bits = self._array(sketches, (devices, channel.bits), round_number)
        if bits.size and (bits.min() < 0 or bits.max() > 1):
            raise self.custom.fail("sketch", round_number, "some of its bits are neither 0 nor 1")
        if channel.ones is not None and bits.size and int(bits.sum(axis=1, dtype=np.int64).max()) > channel.ones:
            raise self.custom.fail("sketch", round_number, f"a sketch has more ones than the channel's {channel.ones}")
        return np.array(bits, np.uint8)  # a copy, because drawing overwrites it

    def _values(self, sketches: Any, values: int, devices: int, round_number: int) -> Indices2:
        rows = self._array(sketches, (devices,), round_number)
        if rows.size and (rows.min() < 0 or rows.max() >= values):
            problem = f"some of its values lie outside 0 to {values - 1}, those that the channel knows"
            raise self.custom.fail("sketch", round_number, problem)
        return np.ascontiguousarray(rows, np.int32)[:, None]

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
        """Return the released bits; see `Mechanism.randomize`."""
        channel = self.channel(query)
        if isinstance(channel, Likelihood):
            return self._sample(channel, private, query, coins)
        return channel.draw(private, coins.release)

    def _sample(self, channel: Likelihood, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
        arguments = private, coins.streams(query), coins.release
        sample = guarded(self.custom.mechanism, "sampler", query.round, *arguments, private=True, function=channel.draw)
        return self._released(sample, (coins.devices, query.bits), query.round, "sampler")

    @property
    def adds_up(self) -> bool:
        """Whether the class's sums count outputs or bits, as they do by default."""
        return not counts_itself(self.custom.mechanism)

    def count(self, query: Query, release: Release) -> Statistic:
        """Return the statistic of one block's release; see `Mechanism.count`."""
        answered = release.answered_mask()
        bits = release.unpacked()[answered]
        devices = np.flatnonzero(answered) + release.first
        question = question_of(query)
        released: Any = bits
        if question.outputs:
            released = bits.astype(np.int64) @ (1 << np.arange(query.bits - 1, -1, -1, dtype=np.int64))
            if released.size and released.max() >= question.outputs:
                problem = f"it names output {released.max()}, outputs end at {question.outputs - 1}"
                raise no_answer(query, release, problem)
        sums = guarded(self.custom.mechanism, "count", query.round, question, released, devices.astype(np.int64))
        if type(sums) is not np.ndarray or sums.dtype.kind not in "iu" or sums.ndim != 1:
            raise self.custom.fail("count", query.round, "it returned no array of whole numbers in one dimension")
        return CountStatistic(
            sums=sums.astype(np.int64),
            ones=int(bits.sum(dtype=np.int64)),
            **device_counts(release),
            pooled=0 if query.pool is None else release.count,
        )

    def estimate(self, query: Query, statistic: Any, world: World, expected: Floats | None = None) -> Estimates:
        """Return a round's estimates of every item."""
        value, error = estimated(self.custom, query, statistic)
        pool = question_of(query).pool
        information = np.zeros(query.items)
        with np.errstate(divide="ignore"):
            information[pool] = np.where(np.isfinite(error), 1 / error**2, 0.0)
        weighted = np.zeros(query.items)
        weighted[pool] = value * information[pool]
        return Estimates(weighted=weighted, information=information)

    def rates(self, query: Query, world: World, expected: Floats | None = None) -> Floats:
        """Return one device's information about each item of a query's pool, if all sketches are equally frequent."""
        sums = typical(self.custom, query, MANY)
        _, error = _estimate(self.custom, query, Tally(sums=sums, devices=MANY))
        return 1 / (MANY * error**2)

    def scores(self, query: Query, statistic: Any, world: World | None) -> tuple[Floats, Floats]:
        """Return the class's values, and their standard errors."""
        return estimated(self.custom, query, statistic)

    def moments(self, world: World) -> SignMoments | None:
        """Return the contrast of one answer, from which predictions follow; None if the class does not give it."""
        query = self.query(world, round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        precision = guarded(self.custom.mechanism, "precision", 0, question_of(query), world.rated)
        if precision is None:
            return None
        if not isinstance(precision, float | np.floating) or not 0 < precision < np.inf:
            raise self.custom.fail("precision", 0, "it returned no real number above 0; return one, or None")
        return SignMoments(contrast=float(precision) ** 0.5)


def _kind(array: Any) -> str:
    """Describe what a class returned, without words of its choice: the names of its types could reveal ratings."""
    if type(array) is not np.ndarray:
        return "no array"
    return f"an array of {array.dtype}" if array.dtype.kind in "fc" else "an array of no numbers"
