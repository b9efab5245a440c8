"""Sketches: a device's ratings and a public query become private bits, one for each question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from actors.block_model import LIKED, UNRATED
from actors.ratings import Ratings
from coordinator.protocol.arrays import Bits, Bits2, Bools, Words
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import round_key
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.pairs import random_pairs
from coordinator.protocol.sensing import sensing_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """What devices know of one design.

    Attributes
    ----------
    questions : int
        Bits that a device answers.
    parameters : frozenset of str
        Names of the numbers that a query must bring, no more and no less.
    bits : callable
        (query, ratings, master secret, first device, count) to bits, uint8, shape (count, questions).
    """

    questions: int
    parameters: frozenset[str]
    bits: Callable[[Query, Ratings, Words, int, int], Bits2]


def maxsense(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Bits2:
    """MaxSense's bit: 1 if the device liked some item of its public sensing set (Banerjee et al., Figure 2)."""
    key = round_key(query.public_seed, query.round)
    table = sensing_table(query.parameters["sensing"])
    return ratings.maxsense(master, key, table, first, count).reshape(count, 1)


def _both_rated_equally(one: Bits, other: Bits) -> Bools:
    same: Bools = (one == other) & (one != UNRATED)
    return same


def _equal(one: Bits, other: Bits) -> Bools:
    same: Bools = (one == LIKED) == (other == LIKED)
    return same


def _both_liked(one: Bits, other: Bits) -> Bools:
    both: Bools = (one == LIKED) & (other == LIKED)
    return both


def _pairwise(agree: Callable[[Bits, Bits], Bools]) -> Sketch:
    """Return Pairwise-Preference's sketch: 1 if the device agrees about its public pair (Banerjee et al., Figure 1)."""

    def bits(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Bits2:
        key = round_key(query.public_seed, query.round)
        pairs = np.stack(random_pairs(key, first, count, query.items), axis=1)
        opinions = ratings.opinions(master, first, pairs)
        return agree(opinions[:, 0], opinions[:, 1]).astype(np.uint8).reshape(count, 1)

    return Sketch(questions=1, parameters=frozenset(), bits=bits)


SKETCHES = {
    "maxsense": Sketch(questions=1, parameters=frozenset({"sensing"}), bits=maxsense),
    "pairwise-rated-equal": _pairwise(_both_rated_equally),
    "pairwise-equal": _pairwise(_equal),
    "pairwise-positive": _pairwise(_both_liked),
}


def check(query: Query, ratings: Ratings) -> None:
    """Refuse a query that devices cannot answer as it stands, before anything is charged: a server may send anything.

    Raises
    ------
    InputError
        If the design is unknown, its catalogue, questions or parameters are not what devices know, or epsilon is not
        above 0 or cannot be expressed.
    """
    if (sketch := SKETCHES.get(query.design)) is None:
        raise InputError(f"design {query.design!r} is unknown to devices; they know {', '.join(SKETCHES)}")
    if query.items != ratings.items:
        raise InputError(f"{query} asks about {query.items} items, the devices' catalogue has {ratings.items}")
    if query.questions != sketch.questions:
        raise InputError(f"{query} asks {query.questions} questions, the design has {sketch.questions}")
    if query.parameters.keys() != sketch.parameters:
        raise InputError(f"{query} has parameters {sorted(query.parameters)}, not {sorted(sketch.parameters)}")
    if query.epsilon is not None and query.epsilon <= 0:
        raise InputError(f"{query} has an epsilon that is not above 0; a free answer would still tell something")
    bit_channel(query.epsilon_per_question)
    if "sensing" in query.parameters:
        sensing_table(query.parameters["sensing"])


def private_bits(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Bits2:
    """Return the private bits of devices ``first`` to ``first + count - 1``; they must not leave the device side.

    Parameters
    ----------
    query : Query
        What is asked; `check` has passed it.
    ratings : Ratings
        The devices' frozen ratings.
    master : ndarray of uint64, shape (2,)
        The population's master secret: synthetic devices draw their ratings from it.
    first, count : int
        The devices.

    Returns
    -------
    ndarray of uint8, shape (count, query.questions)
    """
    return SKETCHES[query.design].bits(query, ratings, master, first, count)
