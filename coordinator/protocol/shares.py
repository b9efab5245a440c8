"""What crosses where two servers add up: shares of devices' vectors, who gave them, and the sums that are published.

A device holds a vector v of whole numbers and draws a seed. One server gets v minus what the seed expands to, word by
word modulo 2**32; the other one gets the seed. Either alone looks uniform, and both together are v.
"""

import hashlib
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol import checked
from coordinator.protocol.arrays import Bits, Bools, Counts, Ints, Words2, Words32
from coordinator.protocol.checked import MOST_DEVICES, MOST_ITEMS, Checked
from coordinator.protocol.coins import SEED_BYTES, derive
from coordinator.protocol.errors import InputError, LostError
from coordinator.protocol.messages import ID_BYTES, Query, pack, unpack

WORD_BYTES = 4
MODULUS = 1 << 32
WORDS_SERVER, SEEDS_SERVER = "words", "seeds"
"""The two servers: the one that gets words, and the one that gets seeds."""
SIDES = (WORDS_SERVER, SEEDS_SERVER)
DEVIATIONS = 12  # Of the noise, beyond which nobody reckons with a sum: it would be read with the wrong sign
_DIGEST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBlock(Checked):
    """Which devices of a block gave their shares to one server."""

    query_id: bytes  # Which query the shares answer
    first: int  # The devices: ``first`` to ``first + count - 1``
    count: int
    answered: bytes = field(repr=False)  # ``count`` packed bits, 1 where the device gave a share
    refused: int = 0  # Devices that refused; they are among those that gave none

    def check(self) -> None:
        """Refuse a block whose parts do not fit each other; see `Checked.check`."""
        checked.require_bytes("query id", self.query_id, ID_BYTES)
        checked.require_whole("first device", self.first, 0, MOST_DEVICES)
        checked.require_whole("devices of a share", self.count, 0, MOST_DEVICES)
        checked.require_bytes("mask of who answered", self.answered, -(-self.count // 8))
        checked.require_whole("refusing devices", self.refused, 0, self.count)

    def heard(self) -> Bits:
        """Return 1 for each device that gave its share, uint8, shape (count,)."""
        return unpack(self.answered, self.count)


class ShareRoll(ShareBlock):
    """Who gave shares to one server, which is public and must be the same at the other one before a sum is opened."""

    __slots__ = ()

    def mask(self) -> Bools:
        """Return which devices gave a share, bool, shape (count,)."""
        return self.heard().astype(np.bool_)

    @property
    def devices(self) -> int:
        """Devices that gave a share."""
        return int(self.mask().sum())

    def same_devices(self, other: "ShareRoll") -> bool:
        """Return whether both rolls are of one query and name the same devices."""
        mine, theirs = ((roll.query_id, roll.first, roll.count, roll.answered) for roll in (self, other))
        return mine == theirs

    def common(self, other: "ShareRoll") -> bytes | None:
        """Return packed bits, 1 for the devices that both rolls name; None if they are of different rounds."""
        mine, theirs = ((roll.query_id, roll.first, roll.count) for roll in (self, other))
        return pack(self.heard() & other.heard()) if mine == theirs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WordShare(ShareBlock):
    """The shares of a block of devices for the server of words: uniform by themselves, whatever devices hold."""

    width: int  # Words of a device
    # ``count * width`` words of 32 bits, little-endian, device by device; those of a silent device are 0
    vector_bytes: bytes = field(repr=False)

    def check(self) -> None:
        """Refuse shares whose parts do not fit each other; see `Checked.check`."""
        ShareBlock.check(self)
        checked.require_whole("words of a device", self.width, 1, MOST_ITEMS)
        checked.require_bytes("words of a share", self.vector_bytes, WORD_BYTES * self.count * self.width)

    def rows(self) -> Words32:
        """Return the words, uint32, shape (count, width)."""
        return np.frombuffer(self.vector_bytes, "<u4").astype(np.uint32, copy=False).reshape(self.count, self.width)

    @property
    def content(self) -> bytes:
        """What a server's transcript is the digest of."""
        return self.vector_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedShare(ShareBlock):
    """The shares of a block of devices for the server of seeds: coins, which no rating has touched."""

    width: int  # Words that a seed expands to
    seeds: bytes = field(repr=False)  # ``count`` seeds of 16 bytes, device by device; that of a silent device is 0

    def check(self) -> None:
        """Refuse shares whose parts do not fit each other; see `Checked.check`."""
        ShareBlock.check(self)
        checked.require_whole("words of a device", self.width, 1, MOST_ITEMS)
        checked.require_bytes("seeds of a share", self.seeds, SEED_BYTES * self.count)

    def keys(self) -> Words2:
        """Return the seeds as keys of two 64-bit words, uint64, shape (count, 2)."""
        return np.frombuffer(self.seeds, "<u8").astype(np.uint64, copy=False).reshape(self.count, 2)

    @property
    def content(self) -> bytes:
        """What a server's transcript is the digest of."""
        return self.seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSum(Checked):
    """What one of two servers publishes of a round: the sum of its shares, with its own noise, modulo 2**32."""

    side: str  # "words", "seeds"; Which server it is
    roll: ShareRoll  # Whose shares were added up
    width: int  # Words of the sum
    sum_bytes: bytes = field(repr=False)  # ``width`` words of 32 bits, little-endian
    transcript: bytes  # SHA-256 of all shares that the server got, in the order of devices, and of its roll

    def check(self) -> None:
        """Refuse a sum whose parts do not fit each other; see `Checked.check`."""
        if type(self.side) is not str or self.side not in SIDES:
            raise InputError(f"side is {checked.shown(self.side)}; it must be {' or '.join(SIDES)}")
        ShareRoll.valid(self.roll)
        checked.require_whole("words of a sum", self.width, 1, MOST_ITEMS)
        checked.require_bytes("words of a sum", self.sum_bytes, WORD_BYTES * self.width)
        checked.require_bytes("transcript of a server", self.transcript, _DIGEST)

    @property
    def sums(self) -> Counts:
        """The words, uint32, shape (width,)."""
        return np.frombuffer(self.sum_bytes, "<u4").astype(np.uint32, copy=False)


def as_bytes_of_words(vectors: Counts | Words32) -> bytes:
    """Return words as they cross: little-endian, row by row."""
    return vectors.astype("<u4", copy=False).tobytes()


def require_readable(query: Query, devices: int, deviation: float) -> None:
    """Refuse a sum of so many devices' ones that could be read with the wrong sign."""
    # ``deviation`` is that of all noise in the sum, of which `DEVIATIONS` are reckoned with.
    if devices + DEVIATIONS * deviation >= MODULUS // 2:
        raise InputError(
            f"{query} adds {devices:,} devices and noise of deviation {deviation:g} up in words of 32 bits, whose sign "
            f"would be lost; ask fewer devices than {MODULUS // 2:,}, or raise epsilon"
        )


def opened(vectors_sum: PublishedSum, seeds: PublishedSum) -> Ints:
    r"""Return what both servers' sums say together, read as signed numbers, int64, shape (width,).

    >>> roll = ShareRoll(query_id=bytes(16), first=0, count=1, answered=b"\x80")
    >>> parts = dict(roll=roll, width=2, transcript=bytes(32))
    >>> one = PublishedSum(side="words", sum_bytes=as_bytes_of_words(np.array([5, 1], np.uint32)), **parts)
    >>> other = PublishedSum(side="seeds", sum_bytes=as_bytes_of_words(np.array([2, 2**32 - 4], np.uint32)), **parts)
    >>> opened(one, other).tolist()
    [7, -3]
    """
    for published, side in ((vectors_sum, WORDS_SERVER), (seeds, SEEDS_SERVER)):
        if PublishedSum.valid(published).side != side:
            raise InputError(f"a sum of the server of {side} is expected here, not of {published.side}")
    if not vectors_sum.roll.same_devices(seeds.roll) or vectors_sum.width != seeds.width:
        raise InputError("two servers published sums of different devices; they say nothing together, ask again")
    return (vectors_sum.sums + seeds.sums).view(np.int32).astype(np.int64)


def digest_of_published(sums: tuple[PublishedSum, PublishedSum]) -> bytes:
    """Return the SHA-256 of what two servers published: who answered, and the words of both."""
    hasher = hashlib.sha256(sums[0].roll.answered)
    for published in sums:
        hasher.update(published.sum_bytes)
    return hasher.digest()


def secret_of(seed: int, side: str) -> bytes:
    """Return the secret that keys one server's noise, derived one-way from a run's seed."""
    return derive(seed, f"noise of the server of {side}")


class RollError(LostError):
    """Two servers hold shares of different devices, so that neither opens its sum."""
