"""Multi-MaxSense's statistic: the scores of items, over the sets of every device's random partition."""

from __future__ import annotations

import numpy as np
from numba import uint32

from coordinator.protocol.arrays import Bits, Bits2, Ints, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.partition import random_order
from coordinator.protocol.streams import device_streams
from coordinator.server.statistics.scores import FLUSH, ScoreStatistic, move_out


@compiled
def _add_up(key: Words, set_size: int, first: int, bits: Bits2, answered: Bits, sensed: Ints, scores: Ints) -> None:
    """Regenerate every answering device's sets and count."""
    order, chosen = (
        np.arange(sensed.size).astype(np.uint32),
        np.empty(min(sensed.size, set_size * bits.shape[1]), np.uint32),
    )
    swaps, counts, since = np.empty_like(chosen), np.zeros(sensed.size, np.uint32), 0
    streams = device_streams(key, first, len(bits))
    for k in range(len(bits)):
        if answered[k]:
            random_order(streams[k], order, swaps, chosen)
            for question in range(bits.shape[1]):
                unit = uint32(1) + (uint32(bits[k, question]) << uint32(16))
                for item in chosen[question * set_size : (question + 1) * set_size]:
                    counts[item] += unit
            since += 1
            if since == FLUSH:
                move_out(counts, sensed, scores)
                since = 0
    move_out(counts, sensed, scores)


def aggregate_partition(query: Query, release: Release) -> ScoreStatistic:
    """Return the statistic of one block's release, regenerating the sets; see `aggregation.aggregate`."""
    release.require(query)
    answered = release.answered_mask()
    bits = release.unpacked() & answered[:, None]
    sensed, scores = np.zeros(query.items, np.int64), np.zeros(query.items, np.int64)
    key, set_size = round_key(query.public_seed, query.round), int(query.parameters["set_size"])
    _add_up(key, set_size, release.first, bits, answered.view(np.uint8), sensed, scores)
    return ScoreStatistic(
        sensed=sensed,
        scores=scores,
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        ones=int(bits.sum(dtype=np.int64)),
        questions=query.questions,
    )
