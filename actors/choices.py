"""Sign sensing's local randomizer, compiled: which of its signed sign vectors a device names.

A device ranks the 2 m signed vectors by the signed sums of its ratings, with ties in random order. It names a random
one of the best ``kept`` or, less often, a random one of the others. This is epsilon-locally differentially private,
because there are ``kept`` best vectors whatever the ratings are. With one vector it is randomized response on the sum's
sign.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from actors.coins import Coins
from coordinator.protocol.arrays import Bools, Indices2, Ints, Words
from coordinator.protocol.channels import ChoiceChannel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.uniform import below


def choose(sums: Indices2, channel: ChoiceChannel, coins: Coins) -> tuple[Bools, Ints]:
    """Return the sign and the number of the vector that each device names.

    Parameters
    ----------
    sums : ndarray of int32, shape (devices, sign vectors)
        Private: signed sums of the devices.
    channel : ChoiceChannel
        Of ``2 m`` choices.
    coins : Coins
        The devices' private coins.
    """
    positive, vector = np.empty(len(sums), np.bool_), np.empty(len(sums), np.int64)
    best = coins.release(0) >= channel.threshold
    _choose(sums, best, coins.choices(), channel.kept, positive, vector)
    return positive, vector


@compiled
def _choose(sums: Indices2, best: Bools, streams: Words, kept: int, positive: Bools, vector: Ints) -> None:
    many = sums.shape[1]
    sizes = np.empty(many, np.int32)
    for k in range(len(sums)):
        rank = int64(below(streams[k], 0, kept))
        if not best[k]:
            rank = kept + int64(below(streams[k], 1, 2 * many - kept))
        for a in range(many):  # insertion sort, the largest first
            size, place = abs(sums[k, a]), a
            while place > 0 and sizes[place - 1] < size:
                sizes[place] = sizes[place - 1]
                place -= 1
            sizes[place] = size
        wanted = sizes[rank] if rank < many else -sizes[2 * many - 1 - rank]
        tied = 0
        for a in range(many):
            tied += (sums[k, a] == wanted) + (sums[k, a] == -wanted)
        chosen = int64(below(streams[k], 2, tied))
        for a in range(many):
            for sign in (True, False):
                if (sums[k, a] if sign else -sums[k, a]) == wanted:
                    if chosen == 0:
                        positive[k], vector[k] = sign, a
                    chosen -= 1
