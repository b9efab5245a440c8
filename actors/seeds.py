"""Private coins: a device's secret, and the coins that follow from it for one purpose, query and question.

A population holds one master secret; a device's own secret is two words of SipHash-2-4 under it, so a million devices
need no memory and no Python call each. Coins are SipHash-2-4 under the device's secret: the same question always meets
the same coin, whatever the layout, and a retry cannot draw again. Their limits are in docs/reference/coins.md.
All functions work on many devices at once, which the compiler turns into vector code.
"""

from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Ints, Words, Words2
from coordinator.protocol.compiled import compiled, uint64
from coordinator.protocol.hashing import device_streams, siphash1, siphash4
from coordinator.protocol.messages import Query

RATINGS = np.uint64(1)  # Purpose: what a synthetic device rated, and how
RELEASE = np.uint64(2)  # Purpose: the local randomizer's coin for one question of one query
CHOICE = np.uint64(3)  # Purpose: the stream that breaks ties and picks among equal answers in one query
WHOLE = np.uint64(4)
"""Purpose: the coins of a whole vector that a private device releases: its sign, its candidate, its side."""
PLACE = np.uint64(5)  # Purpose: the noise of one coordinate of such a vector; the question is the coordinate
FAIR = np.uint64(6)
"""Purpose: random signs for coordinates that are exactly 0, 64 to a coin; the question is the coordinate over 64."""
SHUFFLE = np.uint64(7)  # Purpose: the stream that shuffles a private device's candidate vectors before it picks one
ABSENCE = np.uint64(8)  # Purpose: whether a device drops out of a query, or answers it too late
VOTE = np.uint64(9)
"""Purpose: the stream of a voter's coins in one series of rounds, for votes without an opinion and for ties."""

SKETCH = np.uint64(10)  # Purpose: what a device picks at random for its sketch, such as one of its rated items
WORDS = np.uint64(11)
"""Purpose: the key of the words that a release of many bits is drawn from; questions 0 and 1 are its halves."""
QUESTION = np.uint64(13)  # Purpose: the question that a device draws for itself, the word of its public stream
LIARS = np.uint64(12)  # Purpose: whether a device lies, one coin for all queries; see `actors.lying`
SHARES = np.uint64(14)
"""Purpose: the seed that hides a device's vector from one of two servers; questions 0 and 1 are its halves."""
NOISE = np.uint64(15)
"""Purpose: the key of a device's share of the noise of published sums; questions 0 and 1 are its halves."""

TILE = 1024
"""Devices whose secrets are in memory together: so many stay in the cache, those of a block would need fresh pages."""


@compiled
def device_secrets(master: Words, first: int, count: int) -> tuple[Words, Words]:
    """Return the secrets of ``count`` devices from ``first`` on: two arrays of uint64, one word each."""
    low, high = np.empty(count, np.uint64), np.empty(count, np.uint64)
    key0, key1, start = master[0], master[1], uint64(2) * uint64(first)
    for k in range(count):
        low[k] = siphash1(key0, key1, start + uint64(2) * uint64(k))
    for k in range(count):
        high[k] = siphash1(key0, key1, start + uint64(2) * uint64(k) + uint64(1))
    return low, high


@compiled
def ratings_streams(master: Words, first: int, count: int) -> Words:
    """Return the streams behind synthetic devices' ratings, uint64; they are the same in every query."""
    streams = np.empty(count, np.uint64)
    for start in range(0, count, TILE):
        low, high = device_secrets(master, first + start, min(TILE, count - start))
        for k in range(low.size):
            streams[start + k] = siphash1(low[k], high[k], RATINGS)
    return streams


@compiled
def private_coins(master: Words, first: int, count: int, purpose: np.uint64, query_id: Words, question: int) -> Words:
    """Return each device's 64-bit coin of one question, keyed by (device secret, purpose, query id, question)."""
    coins = np.empty(count, np.uint64)
    id0, id1, lane = query_id[0], query_id[1], uint64(question)
    for start in range(0, count, TILE):
        low, high = device_secrets(master, first + start, min(TILE, count - start))
        for k in range(low.size):
            coins[start + k] = siphash4(low[k], high[k], purpose, id0, id1, lane)
    return coins


@compiled
def value_coins(master: Words, first: int, values: Words, purpose: np.uint64, query_id: Words, question: int) -> Words:
    """Return each device's coin of one question, keyed by a word for what it holds in place of half the query's id."""
    coins = np.empty(values.size, np.uint64)
    id0, lane = query_id[0], uint64(question)
    for start in range(0, values.size, TILE):
        low, high = device_secrets(master, first + start, min(TILE, values.size - start))
        for k in range(low.size):
            coins[start + k] = siphash4(low[k], high[k], purpose, id0, values[start + k], lane)
    return coins


@compiled
def place_coins(master: Words, first: int, count: int, purpose: np.uint64, query_id: Words, questions: int) -> Words2:
    """Return each device's coins of questions 0, 1, ..., uint64, shape (count, questions)."""
    (low, high), coins = device_secrets(master, first, count), np.empty((count, questions), np.uint64)
    id0, id1 = query_id[0], query_id[1]
    for k in range(count):
        for question in range(questions):
            coins[k, question] = siphash4(low[k], high[k], purpose, id0, id1, uint64(question))
    return coins


class Coins(NamedTuple):
    """Coins of a block of devices in one query."""

    master: Words  # The population's master secret, uint64, shape (2,)
    first: int
    devices: int  # The devices that draw are ``first`` to ``first + devices - 1``
    query_id: Words  # The query's id as two words
    # Of answers that are repeated as long as a device holds the same, a word for that; uint64, shape (devices,)
    values: Words | None = None

    @property
    def numbers(self) -> Ints:
        """Number of each device, int64, shape (devices,)."""
        return np.arange(self.first, self.first + self.devices, dtype=np.int64)

    def _private(self, purpose: np.uint64, question: int) -> Words:
        if self.values is None:
            return private_coins(self.master, self.first, self.devices, purpose, self.query_id, question)
        return value_coins(self.master, self.first, self.values, purpose, self.query_id, question)

    def streams(self, query: Query) -> Words:
        """Return the public stream that each device's question follows from, uint64, shape (devices,)."""
        # It is that of the device's address in this round; or a private coin, which its release then brings.
        if query.own_questions:
            return self._private(QUESTION, 0)
        return device_streams(query.key, self.first, self.devices)

    def release(self, question: int) -> Words:
        """Return each device's coin for the local randomizer of one question, uint64, shape (devices,)."""
        return self._private(RELEASE, question)

    def choices(self) -> Words:
        """Return each device's stream for breaking ties and picking among equal answers, uint64, shape (devices,)."""
        return self._private(CHOICE, 0)

    def keys(self) -> tuple[Words, Words]:
        """Return each device's 128-bit key as two arrays of uint64, shape (devices,), for packed releases."""
        low, high = (self._private(WORDS, k) for k in (0, 1))
        return low, high

    def share_keys(self) -> Words2:
        """Return each device's seed of its shares, uint64, shape (devices, 2)."""
        return place_coins(self.master, self.first, self.devices, SHARES, self.query_id, 2)

    def noise_keys(self) -> Words2:
        """Return each device's key of its share of noise, uint64, shape (devices, 2)."""
        return place_coins(self.master, self.first, self.devices, NOISE, self.query_id, 2)

    def sketch(self, question: int = 0) -> Words:
        """Return each device's coin for a random choice in its sketch, uint64, shape (devices,)."""
        return self._private(SKETCH, question)

    def whole(self, question: int = 0) -> Words:
        """Return each device's coin for its whole vector, uint64, shape (devices,)."""
        return self._private(WHOLE, question)

    def shuffles(self) -> Words:
        """Return each device's stream for shuffling its candidates, uint64, shape (devices,)."""
        return self._private(SHUFFLE, 0)

    def places(self, count: int) -> Words2:
        """Return a coin for each of ``count`` coordinates, uint64, shape (devices, count)."""
        return place_coins(self.master, self.first, self.devices, PLACE, self.query_id, count)

    def fair(self, items: int) -> Words2:
        """Return fair coins for the items, 64 to a word, uint64, shape (devices, ceil(items / 64))."""
        return place_coins(self.master, self.first, self.devices, FAIR, self.query_id, -(-items // 64))
