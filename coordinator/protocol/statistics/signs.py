"""Statistics of public signs: how often they agreed with devices' bits, for items, for pairs and for turned signs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Ints, Words, Words2
from coordinator.protocol.compiled import borrowing, uint64
from coordinator.protocol.hashing import draw
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.pools import LEVELS, SENSED, pairs_of
from coordinator.protocol.public_draws import sensed_planes, streams_of, word_coins
from coordinator.protocol.statistics.slices import carry_on, planes_for, read_out
from coordinator.protocol.statistics.statistic import Statistic, device_counts

_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


@borrowing
def _add_pair(streams: Words, lanes: Words, flips: Words, heard: Words, first: int, plane: Words, carry: Words) -> None:
    """Add the agreements of devices ``first`` and ``first + 1`` to the plane of level 0; write what it carries."""
    stream_a, lane_a, flip_a, heard_a = streams[first], lanes[first], flips[first], heard[first]
    stream_b, lane_b, flip_b, heard_b = streams[first + 1], lanes[first + 1], flips[first + 1], heard[first + 1]
    for w in range(plane.size):
        a = (draw(stream_a, lane_a + uint64(w)) ^ flip_a) & heard_a
        b = (draw(stream_b, lane_b + uint64(w)) ^ flip_b) & heard_b
        sum_word = plane[w]
        carry[w] = (a & b) | ((a ^ b) & sum_word)
        plane[w] = a ^ b ^ sum_word


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


def agreements(streams: Words, positive: Bools, answered: Bools, places: int, lanes: Ints | int = 0) -> Ints:
    """Return how many answering devices agree with the public sign of each place, int64, one count a place."""
    # Shapes: ``streams``, ``positive``, ``answered``, ``lanes`` (devices,).
    count = positive.size
    even = count + count % 2
    public, begin, flips, heard = np.zeros((4, even), np.uint64)
    public[:count], begin[:count], flips[:count] = streams, lanes, np.where(positive, 0, _FULL)
    heard[:count] = np.where(answered, _FULL, 0)
    counts = np.zeros(places, np.int64)
    _add_up(public, begin, flips, heard, *planes_for(even, places), counts)
    return counts


@dataclass(frozen=True, kw_only=True)
class AnchorStatistic(Statistic):
    """Sums over the devices that answered; see `Statistic`. What a round was not about is empty."""

    counts: ClassVar[tuple[str, ...]] = ("pairs", "sensed", "scores")
    padded: ClassVar[tuple[str, ...]] = counts

    # shape (M (M - 1) / 2,); Devices whose bit was the public sign of a pair of the pool, by an upper triangle's rows
    pairs: Ints
    # shape (N,); Devices whose public coin had them sense an item, and those of them whose bit was its public sign
    sensed: Ints
    scores: Ints
    ones: int  # Ones among the released bits

    @property
    def means(self) -> Floats:
        """Mean of ``H_i S`` over the devices that sensed each item; 0 where none did."""
        return (2 * self.scores - self.sensed) / np.maximum(self.sensed, 1)


def aggregate_anchor(query: Query, release: Release) -> AnchorStatistic:
    """Return the statistic of one block's release to `PairSigns` or `Anchor`; see `mechanisms.aggregate`."""
    release.require(query)
    answered, positive = release.answered_mask(), release.unpacked()[:, 0].astype(np.bool_)
    streams, (pairs, sensed, scores) = streams_of(query, release), np.zeros((3, 0), np.int64)
    if SENSED in query.arrays:
        sensed, scores = turned_agreements(query, streams, positive, answered)
    else:
        assert query.pool is not None  # a device answers no other
        pairs = agreements(streams, positive, answered, pairs_of(query.pool.size))
    return AnchorStatistic(
        pairs=pairs, sensed=sensed, scores=scores, **device_counts(release), ones=int((positive & answered).sum())
    )


def turned_agreements(query: Query, streams: Words, positive: Bools, answered: Bools) -> tuple[Ints, Ints]:
    """Return how many answering devices sensed each item, and how many of them agreed with its sign, int64, (N,)."""
    count = positive.size
    even = count + count % 2
    public, flips, heard = np.zeros((3, even), np.uint64)
    public[:count] = streams
    flips[:count], heard[:count] = np.where(positive, 0, _FULL), np.where(answered, _FULL, 0)
    sensing = sensed_planes(query.arrays[SENSED], int(query.parameters[LEVELS]))
    sensed, scores = np.zeros((2, query.items), np.int64)
    of_sensed, of_scores = planes_for(even, query.items), planes_for(even, query.items)
    _add_up_turned(public, flips, heard, sensing, of_sensed, of_scores, sensed, scores)
    return sensed, scores


@borrowing
def _add_up_turned(
    streams: Words,
    flips: Words,
    heard: Words,
    sensing: Words2,
    of_sensed: tuple[Words2, Words2],
    of_scores: tuple[Words2, Words2],
    sensed: Ints,
    scores: Ints,
) -> None:
    """Count an even number of devices; both pairs of planes are of `slices.planes_for`, whose invariant this keeps."""
    pairs, word_count = streams.size // 2, sensing.shape[1]
    (planes, waiting), (agreed, agreed_waiting) = of_sensed, of_scores
    for pair in range(pairs):
        first_stream, other = 2 * pair, 2 * pair + 1
        out, agreed_out = waiting[1 - (pair & 1)], agreed_waiting[1 - (pair & 1)]
        for w in range(word_count):
            sign, mask = word_coins(streams[first_stream], w, sensing)
            sign_b, mask_b = word_coins(streams[other], w, sensing)
            a, b, plane = mask & heard[first_stream], mask_b & heard[other], planes[0, w]
            out[w], planes[0, w] = (a & b) | ((a ^ b) & plane), a ^ b ^ plane
            a, b, plane = a & (sign ^ flips[first_stream]), b & (sign_b ^ flips[other]), agreed[0, w]
            agreed_out[w], agreed[0, w] = (a & b) | ((a ^ b) & plane), a ^ b ^ plane
        carry_on(pair, planes, waiting)
        carry_on(pair, agreed, agreed_waiting)
    read_out(pairs, planes, waiting, sensed)
    read_out(pairs, agreed, agreed_waiting, scores)
