"""PrivUnit over public candidates, as a device does it: it ranks them by nearness to its vector, and names one.

Everything is compared in whole numbers and correctly rounded divisions, so all processors rank alike. Another ranking,
of a vector that is 0 or not a number too, would be as private: all that is told is who is among the first ``kept``.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint64

from actors.coins import Coins
from actors.second_order.device_half import SecondOrderDevice
from actors.second_order.directions import directions
from coordinator.protocol.arrays import Bools, Floats, Floats2, Halves, Ints, Ints2, Words
from coordinator.protocol.candidates import LEVELS, candidates_key, gaussian
from coordinator.protocol.caps import CapChannel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.directions import basis_of
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.hashing import draw, siphash1
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_mechanisms.privunit import channel_of
from coordinator.protocol.uniform import below

_GRID = 2.0**24


def named(vectors: Floats2, channel: CapChannel, query_id: bytes, coins: Coins) -> Halves:
    """Return the answers of devices: ``2 v`` for candidate v, ``2 v + 1`` for its opposite.

    Parameters
    ----------
    vectors : ndarray of float64, shape (devices, d)
        Private, each of length 1, or 0: then the answer tells nothing.
    channel : CapChannel
        Of d dimensions.
    query_id : bytes
        What was asked; it keys the candidates.
    coins : Coins
        Of these devices in this query.

    Returns
    -------
    ndarray of uint16, shape (devices,)
        Each below ``2 channel.vectors``.
    """
    whole = np.rint(np.nan_to_num(np.clip(vectors, -1.0, 1.0)) * _GRID).astype(np.int64)
    best, picks = coins.whole() >= channel.choice.threshold, coins.whole(1)
    told = np.empty(coins.devices, np.uint16)
    _name(
        whole,
        channel.choice.kept,
        candidates_key(query_id),
        coins.first,
        LEVELS,
        best,
        picks,
        np.empty(channel.vectors),
        told,
    )
    return told


@compiled
def _name(
    vectors: Ints2,
    kept: int,
    key: Words,
    first: int,
    levels: Ints,
    best: Bools,
    picks: Words,
    cosines: Floats,
    told: Halves,
) -> None:
    many = cosines.size
    for k in range(vectors.shape[0]):
        _compare(vectors[k], siphash1(key[0], key[1], uint64(first) + uint64(k)), levels, cosines)
        order = np.argsort(-np.abs(cosines), kind="mergesort")  # the nearest first; of those that tie the first
        rank = int64(below(picks[k], 0, kept))
        if not best[k]:
            rank = kept + int64(below(picks[k], 1, 2 * many - kept))
        vector = order[rank] if rank < many else order[2 * many - 1 - rank]
        nearer = cosines[vector] >= 0.0
        told[k] = 2 * vector + (nearer != (rank < many))


@compiled
def _compare(vector: Ints, stream: np.uint64, levels: Ints, cosines: Floats) -> None:
    """Write the cosine of the angle between the vector, times its length, and every candidate."""
    for v in range(cosines.size):
        along, square = int64(0), int64(0)
        for a in range(vector.size):
            number = gaussian(draw(stream, uint64(v * vector.size + a)), levels)
            along += number * vector[a]
            square += number * number
        cosines[v] = along / np.sqrt(float(square))


class PrivUnit(SecondOrderDevice):
    """Releases which public candidate is near the second moment of the vector's direction."""

    names = ("privunit",)

    def payloads(
        self, residuals: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins
    ) -> list[bytes]:
        """Return the answer of every device."""
        mine = directions(residuals, basis_of(features))
        told = named(mine, channel_of(features, query.epsilon), query.id, coins)
        return [answer.tobytes() for answer in told.astype("<u2")]


DEVICE = (PrivUnit(),)
