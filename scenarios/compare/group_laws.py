"""Laws of the sums of groups that are asked different things; see `scenarios.compare.laws`."""

from __future__ import annotations

import numpy as np
from numba import uint32

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.compiled import compiled
from coordinator.protocol.mechanisms.pairs import Pairs, ranges_of, together
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import asked, pool_of
from coordinator.protocol.subset_form import PADDED
from coordinator.server.mechanisms.pairs import group_of
from coordinator.server.mechanisms.subset import subset_rates
from coordinator.server.statistics.counts import CountStatistic
from coordinator.server.statistics.groups import GroupStatistic, of_group
from scenarios.compare.splitting import Fold


def shares_of(query: Query, fold: Fold) -> Floats:
    """Return how many of the people have each value in their sets, a share each: items, pairs, or numbers of likes.

    One of l likes in the pool is among the w that are kept with probability ``min(1, w / l)``, a pair of them with
    ``min(1, w (w - 1) / l (l - 1))``.
    """
    liked, kept, pool = fold.liked, query.parameters[PADDED], pool_of(query)
    place = np.full(liked.count, -1, np.int32)
    place[pool] = np.arange(pool.size)
    inside = liked if pool.size == liked.count else liked.where(place[liked.items] >= 0)
    likes, places = inside.degrees.astype(np.float64), place[inside.items]
    if together(query) == 0:
        ranges = ranges_of(asked(query))
        told: Floats = np.bincount(np.minimum(np.frexp(likes)[1], ranges - 1), minlength=ranges) / liked.users
        return told
    if together(query) == 1:
        weight = np.minimum(1, kept / np.maximum(likes, 1))
        return np.bincount(places, weights=weight[inside.owners], minlength=pool.size) / liked.users
    both = np.zeros((pool.size, pool.size))
    _add_pairs(inside.starts, places, np.minimum(1, kept * (kept - 1) / np.maximum(likes * (likes - 1), 1)), both)
    return both[np.triu_indices(pool.size, 1)] / liked.users


@compiled
def _add_pairs(starts: Ints, places: Indices, weights: Floats, both: Floats2) -> None:
    """Add each person's weight to all pairs of its places, which ascend as a pool does, shape (places, places)."""
    for person in range(weights.size):
        weight = weights[person]
        for k in range(starts[person], starts[person + 1]):
            place = uint32(places[k])
            for m in range(k + 1, starts[person + 1]):
                both[place, uint32(places[m])] += weight


def group_counts(query: Query, fold: Fold, users: int, coins: np.random.Generator) -> GroupStatistic:
    """Draw how many subsets of a group's devices name each value; see `scenarios.compare.laws`.

    Where a device names one range of how many items it likes, all counts are drawn together, from their exact law.
    """
    rates, counts = subset_rates(query), np.zeros(Pairs().values(query), np.int64)
    shares = shares_of(query, fold)
    chances = rates.others + rates.contrast * shares
    counts[: shares.size] = (coins.binomial if together(query) else coins.multinomial)(users, chances)
    one = CountStatistic(sums=counts, told=0, asked=users, answered=users, refused=0)
    return of_group(group_of(query), one)
