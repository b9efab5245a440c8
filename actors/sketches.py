"""Sketches: a device's ratings and a public query become private bits, one for each question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from actors.agreement import AGREEMENTS, Agree
from actors.block_model import DISLIKED, LIKED
from actors.randomizers import Randomizer, flip, name_vector
from actors.ratings import Ratings, Terms
from coordinator.protocol.arrays import Bits2, Bools, Indices2, Ints, Words
from coordinator.protocol.coins import device_streams, round_key
from coordinator.protocol.item_queries import item_queries
from coordinator.protocol.messages import Query
from coordinator.protocol.pairs import pairs_among, random_pairs
from coordinator.protocol.reveal import kept, reveals
from coordinator.protocol.sensing import sensing_table
from coordinator.protocol.signs import UNIT


class Sketched(NamedTuple):
    """What a block of devices has to say, before it is privatized."""

    private: Bits2 | Indices2
    """Private bits, uint8, shape (devices, questions), or sums, int32; they must not leave the device side."""
    able: Bools | None = None
    """Which devices can answer, a function of public things alone; None: all."""
    pairs: Indices2 | None = None
    """Public pairs that the bits are about, shape (devices, 2), where they follow from public ratings."""


SketchFunction = Callable[[Query, Ratings, Words, int, int], Sketched]
"""(query, ratings, master secret, first device, count) to what these devices have to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """What devices know of one design, beside what is public of it: `coordinator.protocol.questions.KINDS`.

    Attributes
    ----------
    sketch : callable
        Makes the private bits.
    randomizer : callable
        The local randomizer: (what is private, query, master secret, first device) to the released bits.
    """

    sketch: SketchFunction
    randomizer: Randomizer = flip


def maxsense(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Sketched:
    """MaxSense's bit: 1 if the device liked some item of its public sensing set (Banerjee et al., Figure 2)."""
    key, bits = round_key(query.public_seed, query.round), np.empty(count, np.uint8)
    pool = np.empty(0, np.int32) if query.pool is None else query.pool
    ratings.maxsense(master, key, sensing_table(query.parameters["sensing"]), pool, first, bits)
    return Sketched(bits.reshape(count, 1))


def sign(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Sketched:
    """Sign sensing's sums: the device's ratings of the pool, under each sign vector, less their centres if any."""
    assert query.pool is not None
    sums = np.empty((count, int(query.parameters["vectors"])), np.int32)
    plain = Terms(query.pool, np.zeros(query.pool.size, np.int32), 1)
    counts = plain if query.centres is None else Terms(query.pool, query.centres, UNIT)
    ratings.signed_sums(master, round_key(query.public_seed, query.round), counts, first, sums)
    return Sketched(sums)


def multi_maxsense(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Sketched:
    """Multi-MaxSense's bits: 1 for each set in which the device liked some item (Banerjee et al., Figure 3)."""
    bits = np.empty((count, query.questions), np.uint8)
    key = round_key(query.public_seed, query.round)
    ratings.multi_maxsense(master, key, int(query.parameters["set_size"]), first, bits)
    return Sketched(bits)


def item_query(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Sketched:
    """Answer "is (i, z) your rating?": 1 if the device rated the item with that value (after Theorem 10 [4.3])."""
    assert query.pool is not None
    items, values = item_queries(round_key(query.public_seed, query.round), first, count, query.pool)
    opinions = ratings.opinions(master, first, items[:, None])[:, 0]
    return Sketched((opinions == np.where(values, LIKED, DISLIKED)).astype(np.uint8).reshape(count, 1))


def reveal(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Sketched:
    """Tell everything: which items were rated, then which were liked, at most ``most`` ratings a device.

    With probability ``1 - share``, by a public coin, a device tells nothing: its bits are all 0.
    """
    streams = device_streams(round_key(query.public_seed, query.round), first, count)
    starts, rated, likes = ratings.rated(master, first, count)
    device: Ints = np.repeat(np.arange(count), np.diff(starts))
    tells = reveals(streams, query.parameters["share"])[device]
    tells &= kept(streams, starts, int(query.parameters["most"]))
    bits = np.zeros((count, 2 * query.items), np.uint8)
    bits[device[tells], rated[tells]] = 1
    bits[device[tells], query.items + rated[tells]] = likes[tells]
    return Sketched(bits)


def _pairwise(agree: Agree) -> SketchFunction:
    """Return Pairwise-Preference's sketch: 1 if the device agrees about its public pair (Banerjee et al., Figure 1)."""

    def sketch(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Sketched:
        key = round_key(query.public_seed, query.round)
        pairs = np.stack(random_pairs(key, first, count, query.items), axis=1)
        opinions = ratings.opinions(master, first, pairs)
        return Sketched(agree(opinions[:, 0], opinions[:, 1]).astype(np.uint8).reshape(count, 1))

    return sketch


def _pairwise_of_rated(agree: Agree) -> SketchFunction:
    """Return the sketch where rated items are public and the pair is drawn among them; fewer than two: no answer."""

    def sketch(query: Query, ratings: Ratings, master: Words, first: int, count: int) -> Sketched:
        starts, rated, likes = ratings.rated(master, first, count)
        places = pairs_among(round_key(query.public_seed, query.round), first, np.diff(starts))
        able = places[:, 0] >= 0
        rows = np.where(able[:, None], starts[:-1, None] + places, 0)
        pairs = np.full((count, 2), -1, np.int32)
        opinions = np.full((count, 2), DISLIKED, np.uint8)
        if able.any():
            pairs[able] = rated[rows[able]]
            opinions[able] = np.where(likes[rows[able]], LIKED, DISLIKED)
        bits = agree(opinions[:, 0], opinions[:, 1]) & able
        return Sketched(bits.astype(np.uint8).reshape(count, 1), None if able.all() else able, pairs)

    return sketch


SKETCHES = {
    "maxsense": Sketch(sketch=maxsense),
    "sign": Sketch(sketch=sign, randomizer=name_vector),
    "multi-maxsense": Sketch(sketch=multi_maxsense),
    **{f"pairwise-{name}": Sketch(sketch=_pairwise(agree)) for name, agree in AGREEMENTS.items()},
    **{f"pairwise-{name}-of-rated": Sketch(sketch=_pairwise_of_rated(agree)) for name, agree in AGREEMENTS.items()},
    "item-query": Sketch(sketch=item_query),
    **dict.fromkeys(("full-reveal", "curator-items", "curator-pairs"), Sketch(sketch=reveal)),
}
