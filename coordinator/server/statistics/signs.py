"""Sign sensing's statistic: how often a device's public sign of an item agreed with its bit, 64 items at a time."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Bits2, Bools, Ints, Words, Words2
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import borrowing
from coordinator.protocol.hashing import draw
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.signs import from_bits, sign_words
from coordinator.protocol.streams import device_streams
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.sliced import carry_on, planes_for, read_out

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


@borrowing
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


@borrowing
def _add_up(
    streams: Words, lanes: Words, flips: Words, heard: Words, planes: Words2, waiting: Words2, counts: Ints
) -> None:
    """Count agreements of an even number of devices: item j's in ``counts[j]``."""
    pairs = streams.size // 2
    for pair in range(pairs):
        _add_pair(streams, lanes, flips, heard, 2 * pair, planes[0], waiting[1 - (pair & 1)])
        carry_on(pair, planes, waiting)
    read_out(pairs, planes, waiting, counts)


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
    positive, vector = from_bits(bits)
    key, pool = round_key(query.public_seed, query.round), query.pool.size
    return agreements(key, first, positive, answered, pool, vector * sign_words(pool))


def agreements(key: Words, first: int, positive: Bools, answered: Bools, places: int, lanes: Ints | int = 0) -> Ints:
    """Return how many answering devices said what the public sign of a place is, int64, one count a place.

    Parameters
    ----------
    key : ndarray of uint64, shape (2,)
        The round's public key.
    first : int
        The first device.
    positive, answered : ndarray of bool, shape (devices,)
        Whether each device said +1, and whether it said anything.
    places : int
        Signs of a device; see `protocol.signs`.
    lanes : ndarray of int64, shape (devices,), or int
        Where the signs that it answered about begin in its public stream.
    """
    count = positive.size
    even = count + count % 2
    streams = device_streams(key, first, even)
    begin, flips, heard = np.zeros((3, even), np.uint64)
    begin[:count], flips[:count] = lanes, np.where(positive, 0, _FULL)
    heard[:count] = np.where(answered, _FULL, 0)
    counts = np.zeros(places, np.int64)
    _add_up(streams, begin, flips, heard, *planes_for(even, places), counts)
    return counts
