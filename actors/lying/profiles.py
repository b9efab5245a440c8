"""Made-up ratings: what liars claim to have rated who decide on it before they know any query."""

from __future__ import annotations

import numpy as np

from actors.lying.plot import Plot
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Indices2, Ints
from coordinator.protocol.rows import RowTable

PROFILES = 8192
"""Different made-up users; further liars claim what one of them does."""


def made_up(plot: Plot, devices: int, *, rated_public: bool = False) -> StoredRatings:
    """Return what every device would claim if it lied.

    A made-up user rated as many items as others did: as many of the wished ones as there are room for, in turn, each
    as wished, and for the rest other items, in turn, which it dislikes, so that they do not hide what it likes. Where
    clusters have no order half of its ratings at most are of wished items, and it likes the first cluster of the
    others: what it says of an item counts only beside what it says of these.

    Parameters
    ----------
    plot : Plot
        The wishes, and how many items are rated.
    devices : int
        Devices of the population.
    rated_public : bool
        Whether it is public which items a device rated.
    """
    wished, others = (np.flatnonzero(plot.wishes != 0), np.flatnonzero(plot.wishes == 0))
    coins = np.random.default_rng(0)
    some = min(plot.rated if plot.ordered else -(-plot.rated // 2), wished.size)
    liked = (plot.wishes if plot.ordered else plot.claims) > 0
    items = np.concatenate(
        [_in_turn(coins.permutation(wished), some), _in_turn(coins.permutation(others), plot.rated - some)], axis=1
    )
    items.sort(axis=1)
    starts = np.arange(len(items) + 1, dtype=np.int64) * items.shape[1]
    rows = RowTable(starts=starts, items=items.ravel(), values=liked[items.ravel()], count=plot.wishes.size)
    user = (np.arange(devices) % PROFILES).astype(np.int32)
    return StoredRatings(rows=rows, user=user, rated_public=rated_public)


def _in_turn(items: Ints, each: int) -> Indices2:
    """Return ``each`` items, or all where there are fewer, for each made-up user; all items equally often."""
    each = min(each, items.size)
    if not each:
        return np.empty((PROFILES, 0), np.int32)
    turns = np.arange(PROFILES)[:, None] * each + np.arange(each)
    found: Indices2 = items[turns % items.size].astype(np.int32)
    return found
