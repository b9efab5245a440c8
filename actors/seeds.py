"""Private coins: a device's secret, and what is drawn from it for one purpose, query and question.

A population holds one master secret; a device's own secret is two words of SipHash-2-4 under it, so a million
devices need no memory and no Python call each. Coins are SipHash-2-4 under the device's secret: the same question
always meets the same coin, whatever the layout, and a retry cannot draw again. What these coins are not is written
in docs/coins.md.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import siphash1, siphash4

RATINGS = np.uint64(1)
"""Purpose: what a synthetic device rated, and how."""
RELEASE = np.uint64(2)
"""Purpose: the local randomizer's coin for one question of one query."""


@compiled
def device_secret(master: Words, device: int) -> tuple[np.uint64, np.uint64]:
    """Return the two words of one device's secret."""
    first = uint64(2) * uint64(device)
    return siphash1(master[0], master[1], first), siphash1(master[0], master[1], first + uint64(1))


@compiled
def ratings_stream(master: Words, device: int) -> np.uint64:
    """Return the stream behind one synthetic device's ratings; they are the same in every query."""
    secret0, secret1 = device_secret(master, device)
    return siphash1(secret0, secret1, RATINGS)


@compiled
def release_coin(master: Words, device: int, query_id: Words, question: int) -> np.uint64:
    """Return the 64-bit coin of one question: keyed by (device secret, purpose, query id, question)."""
    secret0, secret1 = device_secret(master, device)
    return siphash4(secret0, secret1, RELEASE, query_id[0], query_id[1], uint64(question))
