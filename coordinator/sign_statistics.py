"""Sign sensing's statistic: how often a device's public sign of an item agreed with its bit, 64 items at a time.

Counts are kept bit-sliced. A plane of level b holds one bit of weight 2^b an item, 64 items to a word. Two devices are
added to the plane of level 0 by a carry-save adder, five operations a word; its carries, two of them at a time, are
added to the plane of level 1, and so on: one adder a device in all, whatever the number of devices.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Bits2, Bools, Ints, Words, Words2
from coordinator.protocol.coins import device_streams, round_key
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.signs import from_bits, sign_words
from coordinator.statistics import ScoreStatistic

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def _add_pair(streams: Words, lanes: Words, flips: Words, heard: Words, first: int, plane: Words, carry: Words) -> None:
    """Add the agreements of devices ``first`` and ``first + 1`` to the plane of level 0; write what it carries."""
    stream_a, lane_a, flip_a, heard_a = streams[first], lanes[first], flips[first], heard[first]
    stream_b, lane_b, flip_b, heard_b = streams[first + 1], lanes[first + 1], flips[first + 1], heard[first + 1]
    for w in range(plane.size):
        a = (draw(stream_a, lane_a + uint64(w)) ^ flip_a) & heard_a
        b = (draw(stream_b, lane_b + uint64(w)) ^ flip_b) & heard_b
        one = plane[w]
        carry[w] = (a & b) | ((a ^ b) & one)
        plane[w] = a ^ b ^ one


@compiled
def _add_carries(waiting: Words, carry: Words, plane: Words, out: Words) -> None:
    """Add two carries to the plane of their level; write what it carries, which may be where ``carry`` stood."""
    for w in range(plane.size):
        a, b, one = waiting[w], carry[w], plane[w]
        out[w] = (a & b) | ((a ^ b) & one)
        plane[w] = a ^ b ^ one


@compiled
def _add_up(
    streams: Words, lanes: Words, flips: Words, heard: Words, planes: Words2, waiting: Words2, counts: Ints
) -> None:
    """Count agreements of an even number of devices: item j's in ``counts[j]``."""
    pairs, carry = streams.size // 2, np.empty(planes.shape[1], np.uint64)
    for pair in range(pairs):
        level, ends = 0, not pair & 1
        _add_pair(streams, lanes, flips, heard, 2 * pair, planes[0], waiting[1] if ends else carry)
        while not ends:
            level += 1
            ends = not (pair >> level) & 1
            _add_carries(waiting[level], carry, planes[level], waiting[level + 1] if ends else carry)
    for level in range(planes.shape[0]):
        waits = uint64(level > 0 and (pairs >> (level - 1)) & 1)
        for place in range(counts.size):
            word, bit = place >> 6, uint64(place & 63)
            both = ((planes[level, word] >> bit) & uint64(1)) + ((waiting[level, word] >> bit) & waits)
            counts[place] += int(both) << level


def aggregate_signs(query: Query, release: Release) -> ScoreStatistic:
    """Return the statistic of one block's release, regenerating the signs; see `aggregation.aggregate`.

    ``sensed`` holds the answering devices, for every item of the pool; ``scores`` those of them that named a vector
    whose sign of the item is +1, so that ``sum_u H_ui S_u = 2 scores - sensed``.
    """
    release.require(query)
    assert query.pool is not None  # a device answers no other
    answered = release.answered_mask()
    bits = release.unpacked()
    agreed = count_agreements(query, release.first, bits, answered)
    sensed, scores = np.zeros(query.items, np.int64), np.zeros(query.items, np.int64)
    sensed[query.pool], scores[query.pool] = answered.sum(), agreed
    return ScoreStatistic(
        sensed=sensed,
        scores=scores,
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        ones=int((bits[:, 0] & answered).sum(dtype=np.int64)),
    )


def count_agreements(query: Query, first: int, bits: Bits2, answered: Bools) -> Ints:
    """Return how many devices named a vector whose sign of an item is +1, int64, one count an item of the pool.

    Parameters
    ----------
    query : Query
        Of sign sensing.
    first : int
        The first device.
    bits : ndarray of uint8, shape (devices, answer bits)
        What they released; see `protocol.signs.from_bits`.
    answered : ndarray of bool, shape (devices,)
        Those that did not answer do not count.
    """
    assert query.pool is not None  # a device answers no other
    count, words = len(bits), sign_words(query.pool.size)
    even = count + count % 2
    streams = device_streams(round_key(query.public_seed, query.round), first, even)
    positive, vector = from_bits(bits)
    lanes, flips, heard = np.zeros((3, even), np.uint64)
    lanes[:count], flips[:count] = vector * words, np.where(positive, 0, _FULL)
    heard[:count] = np.where(answered, _FULL, 0)
    planes = np.zeros((max(even, 2).bit_length() + 1, words), np.uint64)
    counts = np.zeros(query.pool.size, np.int64)
    _add_up(streams, lanes, flips, heard, planes, np.zeros_like(planes), counts)
    return counts
