"""The device's half of a custom mechanism: its class makes the sketch, and the release is drawn here."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from actors.device_half import DeviceHalf, Sketch
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Bools, Indices, Indices2, Ints, Words
from coordinator.protocol.channels import IndependentBits, Likelihood, MatrixChannel
from coordinator.protocol.custom import CustomMechanism, CustomPublic, guarded, question_of
from coordinator.protocol.messages import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedBlock:
    """What a block of devices rated; see `coordinator.protocol.custom.RatingsBlock`."""

    devices: Ints
    starts: Ints = field(repr=False)
    items: Indices = field(repr=False)
    likes: Bools = field(repr=False)

    def random_item(self, coins: Words) -> tuple[Indices, Bools]:
        """Return one rated item of each device and whether it was liked; -1 for a device without ratings."""
        sizes = np.diff(self.starts)
        active = sizes > 0
        place = self.starts[:-1] + (coins % np.maximum(sizes, 1).astype(np.uint64)).astype(np.int64)
        item, like = np.full(sizes.size, -1, np.int32), np.zeros(sizes.size, np.bool_)
        item[active], like[active] = self.items[place[active]], self.likes[place[active]]
        return item, like


@dataclass(frozen=True, slots=True)
class SketchCoins:
    """Private coins for sketching; see `coordinator.protocol.custom.CoinsBlock`."""

    coins: Coins = field(repr=False)

    def words(self, lane: int = 0) -> Words:
        """Return one coin for each device."""
        return self.coins.sketch(lane)


MOST_VALUES = 1 << 31  # Bound of a likelihood's private values if its question does not give one


class CustomDevice(DeviceHalf):
    """The device half of one custom mechanism."""

    def __init__(self, own: CustomMechanism, public: CustomPublic | None = None) -> None:
        self.own, self.names, self._public = own, (own.name,), public or CustomPublic(own)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return the sketches that the class makes of the devices' ratings; see `DeviceHalf.sketch`."""
        rated = ratings.rated(coins.master, coins.first, coins.devices)
        devices = np.arange(coins.first, coins.first + coins.devices, dtype=np.int64)
        block = RatedBlock(devices=devices, starts=rated.starts, items=rated.items, likes=rated.values)
        question = question_of(query)
        sketches = guarded(self.own.mechanism, "sketch", query.round, question, block, SketchCoins(coins), private=True)
        channel = self._public.channel(query)
        if isinstance(channel, IndependentBits):
            return Sketch(self._bits(sketches, channel, coins.devices, query.round))
        rows = len(channel.rows) if isinstance(channel, MatrixChannel) else question.values
        return Sketch(self._values(sketches, rows or MOST_VALUES, coins.devices, query.round))

    def _array(self, array: Any, shape: tuple[int, ...], round_number: int, method: str = "sketch") -> Any:
        if type(array) is not np.ndarray or array.dtype.kind not in "biu":
            description = _kind(array)
            raise self.own.fail(method, round_number, f"it returned {description}; return an array of whole numbers")
        if array.shape != shape:
            raise self.own.fail(method, round_number, f"it returned shape {array.shape}; return {shape} for this block")
        return array

    def _bits(self, sketches: Any, channel: IndependentBits, devices: int, round_number: int) -> Bits2:
        bits = self._array(sketches, (devices, channel.bits), round_number)
        if bits.size and (bits.min() < 0 or bits.max() > 1):
            raise self.own.fail("sketch", round_number, "some of its bits are neither 0 nor 1")
        if channel.ones is not None and bits.size and int(bits.sum(axis=1, dtype=np.int64).max()) > channel.ones:
            raise self.own.fail("sketch", round_number, f"a sketch has more ones than the channel's {channel.ones}")
        return np.array(bits, np.uint8)  # a copy, because drawing overwrites it

    def _values(self, sketches: Any, values: int, devices: int, round_number: int) -> Indices2:
        rows = self._array(sketches, (devices,), round_number)
        if rows.size and (rows.min() < 0 or rows.max() >= values):
            problem = f"some of its values lie outside 0 to {values - 1}, those that the channel knows"
            raise self.own.fail("sketch", round_number, problem)
        return np.ascontiguousarray(rows, np.int32)[:, None]

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits2:
        """Return the released bits; see `DeviceHalf.randomize`."""
        channel = self._public.channel(query)
        if isinstance(channel, Likelihood):
            return self._sample(channel, private, query, coins)
        return channel.draw(private, coins.release)

    def _sample(self, channel: Likelihood, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits2:
        arguments = private, coins.streams(query), coins.release
        sample = guarded(self.own.mechanism, "sampler", query.round, *arguments, private=True, function=channel.draw)
        released = self._array(sample, (coins.devices, query.bits), query.round, "sampler")
        if released.size and (released.min() < 0 or released.max() > 1):
            raise self.own.fail("sampler", query.round, "some of its bits are neither 0 nor 1")
        return np.ascontiguousarray(released, np.uint8)


def _kind(array: Any) -> str:
    """Describe what a class returned, without words of its choice: the names of its types could reveal ratings."""
    if type(array) is not np.ndarray:
        return "no array"
    return f"an array of {array.dtype}" if array.dtype.kind in "fc" else "an array of no numbers"


@lru_cache(maxsize=16)
def device_half(custom: CustomMechanism) -> CustomDevice:
    """Return the device half of a custom mechanism, as it was admitted."""
    return CustomDevice(custom)
