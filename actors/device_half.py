"""The device's half of a mechanism, what it sketches of ratings and how that is randomized; and blocks of devices."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits, Bits2, Bools, Indices2
from coordinator.protocol.channels import Likelihood, Sampled
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.messages import Query, unpack


class Sketch(NamedTuple):
    """The sketches of a block of devices, before they are privatized."""

    private: Bits2 | Indices2
    """Private bits, uint8, shape (devices, questions), or whole numbers, int32; they must not leave the device side."""
    able: Bools | None = None  # Which devices can answer, which depends on public data alone; None if all can
    pairs: Indices2 | None = None
    """Public pairs that the bits are about, shape (devices, 2), where they follow from public ratings."""


class DeviceHalf:
    """What devices do with one kind of query, or several; all of it works on a block of devices at once."""

    names: tuple[str, ...]  # The designs (`Query.design`) of the queries that it answers

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return the sketches of the devices of ``coins``; the query's public half has checked it."""
        raise NotImplementedError(f"{type(self).__name__} says no sketch; give it a method that makes one")

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits2:
        """Return the released bits, uint8, shape (devices, query.bits); ``private`` may be overwritten.

        By default the query's exact channel draws them, and a query without privacy releases the sketch itself.
        """
        public = half_of(query.design)
        if not public.private:
            return private.view(np.uint8)
        channel = public.channel(query)
        if isinstance(channel, Likelihood):
            return channel.draw(private, coins.streams(query), coins.release)
        if not isinstance(channel, Sampled):
            raise TypeError(f"{type(channel).__name__} draws no releases; give {type(self).__name__} a randomize")
        return channel.draw(private, coins.release)

    def packed(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits:
        """Return the released bits, device by device, packed most significant bit first; as `randomize` draws them."""
        return np.packbits(self.randomize(private, query, coins))


class PackedHalf(DeviceHalf):
    """A half that draws long releases as packed bits; its subclasses define `packed`."""

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits2:
        """Return the released bits, a byte each; see `DeviceHalf.randomize`."""
        packed = self.packed(private, query, coins)
        return unpack(packed.tobytes(), coins.devices * query.bits).reshape(coins.devices, query.bits)


class DeviceBlock:
    """Devices ``first`` to ``stop - 1`` of one kind in one process; each acts as if it were alone."""

    first: int  # First device
    stop: int  # One more than the last device

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Any:
        """Answer a question for devices ``first`` to ``stop - 1``; nothing but these answers ever leaves them."""
        raise NotImplementedError

    def share(self, side: str, question: Any, first: int, stop: int) -> Any:
        """Return devices' shares for one of two servers, where devices give any."""
        raise InputError(f"{type(self).__name__} gives no shares of a {type(question).__name__}; ask it")

    def rehearse(self, question: Query) -> None:
        """Compile what a question will need; nothing is answered or charged."""
        raise InputError(f"{type(self).__name__} rehearses no {type(question).__name__}; ask it")

    def inspect(self, question: Any, _first: int, _stop: int) -> Any:
        """Return what only the experimenter may see of devices."""
        raise InputError(f"{type(self).__name__} shows nothing of a {type(question).__name__}")


DeviceKind: TypeAlias = Callable[..., DeviceBlock]
"""A kind of devices with what all of them agreed to, such as ``partial(Cohort, budget=budget)``.

It is called with the holdings and the master secret of all devices, the first device of a block, the one after its
last, and ``keeper``.
"""
