"""What frequency oracles count: for every private value, the devices whose report speaks for it."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Indices, Ints
from coordinator.protocol.channels.kary_kernels import values_of
from coordinator.protocol.messages import Query, Release
from coordinator.server.statistics.counts import CountStatistic
from coordinator.server.statistics.statistic import no_answer


def reported(query: Query, release: Release, outputs: int) -> Indices:
    """Return the whole number that each device of a block reports, int32, shape (devices,); 0 where it is silent."""
    release.require(query)
    values = np.empty(release.count, np.int32)
    values_of(release.unpacked(), values)
    values[~release.answered_mask()] = 0
    if values.size and values.max() >= outputs:
        raise no_answer(query, release, f"it reports {values.max()}, numbers end at {outputs - 1}")
    return values


def counted(query: Query, release: Release, supports: Ints) -> CountStatistic:
    """Return the statistic of one block's release.

    Shapes: ``supports`` (K,).
    """
    answered = release.answered_mask()
    return CountStatistic(
        sums=supports,
        ones=_ones(release),
        devices=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        pooled=0 if query.pool is None else release.count,
    )


def _ones(release: Release) -> int:
    """Return how many of the answering devices' bits are 1; where all answer, none is unpacked."""
    if release.answered is None:
        bits = np.frombuffer(release.bits, np.uint8)
        whole = bits.size // 8 * 8
        return sum(
            int(np.bitwise_count(part).sum(dtype=np.int64)) for part in (bits[:whole].view(np.uint64), bits[whole:])
        )
    return int(release.unpacked()[release.answered_mask()].sum(dtype=np.int64))
