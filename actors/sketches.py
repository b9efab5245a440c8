"""Sketches: a device's ratings and a public query become private bits, one for each question."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from actors.ratings import Ratings
from coordinator.protocol.arrays import Bits2, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.sensing import sensing_table

Sketch = Callable[[Query, Ratings, Words, int, int], Bits2]


def maxsense(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Bits2:
    """MaxSense's bit: 1 if the device liked some item of its public sensing set (Banerjee et al., Figure 2)."""
    key = round_key(query.public_seed, query.round)
    table = sensing_table(query.parameters["sensing"])
    return ratings.maxsense(master, key, table, first, count).reshape(count, 1)


SKETCHES: dict[str, Sketch] = {"maxsense": maxsense}


def private_bits(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Bits2:
    """Return the private bits of devices ``first`` to ``first + count - 1``; they must not leave the device side.

    Parameters
    ----------
    query : Query
        What is asked.
    ratings : Ratings
        The devices' frozen ratings.
    master : ndarray of uint64, shape (2,)
        The population's master secret: synthetic devices draw their ratings from it.
    first, count : int
        The devices.

    Returns
    -------
    ndarray of uint8, shape (count, query.questions)

    Raises
    ------
    InputError
        If devices do not know the design, or the query's catalogue is not theirs.
    """
    if query.design not in SKETCHES:
        raise InputError(f"design {query.design!r} is unknown to devices; they know {', '.join(SKETCHES)}")
    if query.items != ratings.items:
        raise InputError(f"{query} asks about {query.items} items, the devices' catalogue has {ratings.items}")
    if count == 0:
        return np.empty((0, query.questions), np.uint8)
    return SKETCHES[query.design](query, ratings, master, first, count)
