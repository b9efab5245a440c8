"""How popular items truly are, which only the experimenter knows."""

from __future__ import annotations

import numpy as np

from actors.ratings import BlockRatings, StoredRatings
from coordinator.protocol.arrays import Floats
from scenarios.data.populations import Population


def liked_share(population: Population, users: int | None = None) -> Floats:
    """Return the share of devices that like each item, float64, shape (N,): what an estimated list is held against.

    Parameters
    ----------
    population : Population
        With a ratings file the likes that its devices hold are counted, without those that were held out; in a block
        model it is the probability that a device rated the item and likes it.
    users : int, optional
        Count the first devices only; default: all.
    """
    ratings = population.ratings
    if isinstance(ratings, StoredRatings):
        chosen = ratings.user[:users]
        rows, devices = ratings.rows, np.bincount(chosen, minlength=ratings.rows.users)
        liked = np.bincount(rows.items, weights=devices[rows.owners] * rows.values, minlength=rows.count)
        return liked / max(chosen.size, 1)
    assert isinstance(ratings, BlockRatings)  # there is no third kind
    share: Floats = ratings.class_shares @ ratings.like * (ratings.rated_items / ratings.items)
    return share[ratings.clusters]
