"""The adapter between a user's class and a run: every call has a time limit, and what it returns is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, TypeVar, Unpack

import numpy as np

from coordinator.protocol.amplification import TwoLevels
from coordinator.protocol.arrays import Bits2, Bools, Floats, Indices, Indices2
from coordinator.protocol.checked import MOST_ITEMS
from coordinator.protocol.custom import (
    CustomMechanism,
    MechanismError,
    admitted,
    defines,
    guarded,
    is_native,
    policies_of,
)
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.errors import InputError
from coordinator.protocol.law import Law, People
from coordinator.protocol.limits import require_memory, round_bytes
from coordinator.protocol.mechanism import (
    POOLED,
    Decoding,
    DeviceCoins,
    DeviceRatings,
    QueryHeader,
    Sketch,
    World,
    query_of,
)
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.shared_vector import SharedVector
from coordinator.protocol.short_adapter import CustomAdapter, ShortAdapter
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.protocol.statistics.statistic import Statistic

T = TypeVar("T")
OURS = "coordinator.protocol."  # Where the types are that a class may return


def _as_class(name: str) -> Any:
    """Return a property that is what the class says."""
    return property(lambda adapter: getattr(adapter.custom.mechanism, name))


class NativeAdapter(CustomAdapter):
    """The adapter of a class that is written as blindrec's own mechanisms are; what it does not define is theirs."""

    pooled = _as_class("pooled")
    centred = _as_class("centred")
    by_address = _as_class("by_address")
    ranks = _as_class("ranks")
    paired = _as_class("paired")
    bounded = _as_class("bounded")
    widest = _as_class("widest")
    decoders = _as_class("decoders")

    @property
    def policies(self) -> tuple[str, ...]:  # type: ignore[override] # as above
        """The policies that the class can follow."""
        return policies_of(type(self.custom.mechanism))

    def _defines(self, *names: str) -> bool:
        return defines(type(self.custom.mechanism), *names)

    def _call(
        self,
        method: str,
        round_number: int,
        *arguments: Any,
        private: bool = False,
        keywords: Any = MappingProxyType({}),
    ) -> Any:
        function = partial(getattr(self.custom.mechanism, method), **keywords)
        return guarded(self.custom.mechanism, method, round_number, *arguments, private=private, function=function)

    def _typed(self, answer: Any, kind: type[T], method: str, round_number: int) -> T:
        """Return what a method returned if it is of a type of blindrec's, and of none derived from it elsewhere."""
        if not isinstance(answer, kind) or not type(answer).__module__.startswith(OURS):
            problem = f"it returned a {type(answer).__name__}; return a {kind.__name__}"
            raise self.custom.fail(method, round_number, problem)
        return answer

    def _numbers(self, array: Any, shape: tuple[int, ...], method: str, round_number: int) -> Floats:
        numbers = np.asarray(array, np.float64)
        if numbers.shape != shape or np.isnan(numbers).any():
            problem = f"it returned numbers of shape {numbers.shape}, or some that are none; return {shape}"
            raise self.custom.fail(method, round_number, problem)
        return np.ascontiguousarray(numbers)

    def check_world(self, world: World) -> None:
        """Refuse settings that a world has no room for."""
        self._call("check_world", 0, world)

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of one round, under the custom mechanism's name."""
        number = header["round_number"]
        keywords = {"pool": pool, "expected": expected, **header}
        answer = self._call("query", number, replace(world, block=None), keywords=keywords)
        query = self._typed(answer, Query, "query", number)
        plain = query_of(self.name, world.items, header)
        for name in ("items", "round", "public_seed", "epsilon"):
            if getattr(query, name) != getattr(plain, name):
                problem = f"its query has {name} {getattr(query, name)!r}; it was to have {getattr(plain, name)!r}"
                raise self.custom.fail("query", number, problem)
        what = f"a query of {self.title} for {query.bits:,} bits a device"
        require_memory(round_bytes(1, query.bits), what, "ask for less at once")
        return replace(query, design=self.name)

    def check(self, query: Query) -> None:
        """Refuse a query whose numbers no device can answer."""
        self._call("check", query.round, query)

    def question_range(self, query: Query) -> range:
        """Return the numbers of questions that a query may ask."""
        answer = self._call("question_range", query.round, query)
        if type(answer) is not range:
            raise self.custom.fail("question_range", query.round, f"it returned a {type(answer).__name__}, no range")
        return answer

    def answer_bits(self, query: Query) -> int:
        """Return the bits of one question's answer."""
        answer = self._call("answer_bits", query.round, query)
        if type(answer) is not int:
            raise self.custom.fail("answer_bits", query.round, f"it returned a {type(answer).__name__}, no int")
        return answer

    def levels(self, query: Query) -> TwoLevels | None:
        """Return the levels that the class claims; None where it claims none."""
        answer = self._call("levels", query.round, query)
        return None if answer is None else self._typed(answer, TwoLevels, "levels", query.round)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return the sketches that the class makes of the devices' ratings."""
        answer = self._call("sketch", query.round, query, ratings, coins, private=True)
        sketch = self._typed(answer, Sketch, "sketch", query.round)
        private = self._whole_numbers(sketch.private, query.round)
        if private.shape[:1] != (coins.devices,):
            problem = f"it returned shape {private.shape} for a block of {coins.devices} devices"
            raise self.custom.fail("sketch", query.round, f"{problem}; return a sketch of each")
        return sketch

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
        """Return the released bits: drawn from the channel, unless the class draws them."""
        if not self._defines("randomize", "packed"):
            return super().randomize(private, query, coins)
        released = self._call("randomize", query.round, private, query, coins, private=True)
        return self._released(released, (coins.devices, query.bits), query.round, "randomize")

    @property
    def adds_up(self) -> bool:
        """Whether it counts outputs or bits, as it does by default."""
        return not self._defines("count")

    def count(self, query: Query, release: Release) -> Statistic:
        """Return the statistic of one block's release."""
        if self.adds_up:
            return super().count(query, release)
        return self._typed(self._call("count", query.round, query, release), Statistic, "count", query.round)

    @property
    def estimates_items(self) -> bool:
        """Whether it estimates every item."""
        return self._defines("estimate")

    def estimate(self, query: Query, statistic: Any, world: World, expected: Floats | None = None) -> Estimates:
        """Return a round's estimates of every item."""
        answer = self._call("estimate", query.round, query, statistic, world, expected)
        estimates = self._typed(answer, Estimates, "estimate", query.round)
        for numbers in (estimates.weighted, estimates.information):
            self._numbers(numbers, (query.items,), "estimate", query.round)
        return estimates

    def rates(self, query: Query, world: World, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item of a query's pool."""
        if not self._defines("rates"):
            return super().rates(query, world, expected)
        size = query.items if query.pool is None else query.pool.size
        return self._numbers(self._call("rates", query.round, query, world, expected), (size,), "rates", query.round)

    def scores(self, query: Query, statistic: Any, world: World | None) -> tuple[Floats, Floats]:
        """Return what items are ranked by, and its standard error."""
        if not self._defines("scores"):
            return super().scores(query, statistic, world)
        value, error = self._call("scores", query.round, query, statistic, world)
        shape = (query.items,)
        return self._numbers(value, shape, "scores", query.round), self._numbers(error, shape, "scores", query.round)

    def decode(self, statistic: Any, query: Query, how: Decoding) -> Model:
        """Return the item model from a statistic of queries like ``query``."""
        if not self._defines("decode"):
            return super().decode(statistic, query, how)
        answer = self._call("decode", query.round, statistic, query, how)
        return Model.valid(self._typed(answer, Model, "decode", query.round))

    def learn(self, statistic: Any, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the item model from the sum of all rounds."""
        if not self._defines("learn"):
            return super().learn(statistic, queries, how)
        answer = self._call("learn", queries[0].round, statistic, queries, how)
        return Model.valid(self._typed(answer, Model, "learn", queries[0].round))

    def moments(self, world: World) -> object | None:
        """Return the exact moments of the statistic in a block model, if the class has some."""
        answer: object | None = self._call("moments", 0, world)
        return None if answer is None else self._typed(answer, object, "moments", 0)

    @property
    def has_law(self) -> bool:
        """Whether it says the law of its sum."""
        return self._defines("law")

    def law(self, query: Query, people: People) -> Law:
        """Return the law of the sum of answers, whose draws are looked at, too."""
        if not self.has_law:
            return super().law(query, people)
        law = self._typed(self._call("law", query.round, query, people), Law, "law", query.round)

        def draw(users: int, coins: np.random.Generator) -> Statistic:
            sums = guarded(self.custom.mechanism, "law", query.round, users, coins, function=law.draw)
            return self._typed(sums, Statistic, "law", query.round)

        return Law(draw)

    def policies_with(self) -> tuple[str, ...]:
        """Return the policies that it can follow with these settings, at least one."""
        policies = tuple(name for name in self.custom.whole.policies_with() if name in self.policies)
        if not policies:
            kind = type(self.custom.mechanism)
            name = f"{kind.__module__}:{kind.__qualname__}"
            raise InputError(f"design {name} with these settings follows no policy of {', '.join(POOLED)}")
        return policies


class SharedAdapter(SharedVector, NativeAdapter):
    """The adapter of a class that is a sum of shares, which cannot say what noise sums get, nor what that keeps."""

    decoders = _as_class("decoders")
    ranks = _as_class("ranks")

    @property
    def parameters(self) -> frozenset[str]:  # type: ignore[override] # as above
        """Names of the numbers that its questions bring, those of the noise among them."""
        return SharedVector.parameters | self.custom.parameters

    def width(self, query: Query) -> int:
        """Return the number of words of a device's vector."""
        return _size(self.custom, "width", query)

    def ones(self, query: Query) -> int:
        """Return the most ones of a device's vector."""
        return _size(self.custom, "ones", query)

    def check(self, query: Query) -> None:
        """Refuse a query that the class refuses, or whose noise does not keep what it promises."""
        try:
            if self._defines("check"):
                self._call("check", query.round, query)
            super().check(query)
        except MechanismError as error:
            raise InputError(str(error)) from None

    def words_about(self, query: Query, places: Bools) -> Bools:
        """Return which words are about some of the items."""
        mask = np.asarray(self._call("words_about", query.round, query, places))
        if mask.shape != (self.width(query),) or mask.dtype != np.bool_:
            raise self.custom.fail("words_about", query.round, f"return {self.width(query)} truth values, one a word")
        return mask

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return the places of ones of each device's vector, none of them twice, and no more than the query says."""
        private = super().sketch(query, ratings, coins).private
        if private.ndim != 2 or private.dtype != np.int32:
            problem = f"it returned an array of {private.dtype}, shape {private.shape}"
            raise self.custom.fail("sketch", query.round, f"{problem}; return places, int32, a row a device")
        most, places = self.ones(query), np.sort(np.where(private < self.width(query), private, -1), axis=1)
        twice = (places[:, 1:] == places[:, :-1]) & (places[:, 1:] >= 0)
        if twice.any() or (places >= 0).sum(axis=1).max(initial=0) > most:
            problem = f"a device names a word twice, or more than the query's {most} words"
            raise self.custom.fail("sketch", query.round, problem)
        return Sketch(private)

    def of_published(self, query: Query, totals: CountStatistic) -> Statistic:
        """Return the statistic of one round's totals."""
        return self._typed(
            self._call("of_published", query.round, query, totals), Statistic, "of_published", query.round
        )

    @property
    def adds_up(self) -> bool:
        """Whether releases are counted, of which there are none."""
        return False

    @property
    def has_law(self) -> bool:
        """Whether its sums are drawn from a law."""
        return self._defines("draw_sums")

    def draw_sums(self, query: Query, people: People, users: int, coins: np.random.Generator) -> Floats:
        """Draw the sums of devices' vectors, without noise."""
        sums = self._call("draw_sums", query.round, query, people, users, coins)
        return self._numbers(sums, (self.width(query),), "draw_sums", query.round)


@lru_cache(maxsize=256)
def _size(custom: CustomMechanism, method: str, query: Query) -> int:
    """Return a size of a device's vector, as its class says it."""
    size = guarded(custom.mechanism, method, query.round, query)
    if type(size) is not int or not 1 <= size <= MOST_ITEMS:
        raise custom.fail(method, query.round, f"it returned {size!r}; return a whole number, from 1 on")
    return size


@lru_cache(maxsize=16)
def adapter(custom: CustomMechanism) -> CustomAdapter:
    """Return the adapter of a custom mechanism, as it was admitted."""
    if isinstance(custom.mechanism, SharedVector):
        fields = {name: getattr(custom.mechanism, name) for name in SharedVector.model_fields}
        return SharedAdapter(custom=custom, **fields)
    return (NativeAdapter if is_native(type(custom.mechanism)) else ShortAdapter)(custom=custom)


def adapter_of(name: str) -> CustomAdapter | None:
    """Return the adapter of the mechanism of that name that was admitted here, or None."""
    return adapter(custom) if (custom := admitted(name)) else None
