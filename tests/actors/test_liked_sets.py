"""The set mechanism's private sets: exactly as many values on every device, its likes or some of them, and dummies."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import worlds
from statistical import chi_square_fits

from actors.mechanisms.sets import liked_sets
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.coins import as_words
from coordinator.protocol.messages import Query

ITEMS = 12


def query_of(padded: int, pool: list[int] | None = None) -> Query:
    return Query(
        design="set",
        items=ITEMS,
        round=0,
        public_seed=worlds.PUBLIC,
        epsilon=Fraction(1),
        parameters={"sides": 1, "likes": 0.5, "padded": padded, "chosen": 2},
        pool=None if pool is None else np.array(pool, np.int32),
    )


def sets_of(query: Query, ratings: Ratings, devices: int) -> list[list[int]]:
    return liked_sets(query, ratings, Coins(as_words(worlds.SECRET), 0, devices, query.words)).tolist()


@pytest.mark.parametrize("pool", [None, [1, 2, 5, 7, 8, 9, 11]])
@pytest.mark.parametrize("kind", ["stored", "drawn"])
def test_every_set_has_exactly_as_many_values_all_of_them_likes_or_dummies(kind: str, pool: list[int] | None) -> None:
    world = worlds.world(items=ITEMS, rated=9, like=((0.8, 0.3),))
    block = worlds.block_ratings(world, 300)
    told = block.rated(as_words(worlds.SECRET), 0, 300)
    starts, items, likes = told.starts, told.items, told.values
    rows = [dict(zip(*(of[a:b].tolist() for of in (items, likes)), strict=True)) for a, b in itertools.pairwise(starts)]
    ratings: Ratings = block if kind == "drawn" else worlds.stored_ratings(rows, range(300), ITEMS)
    asked, seen = pool or list(range(ITEMS)), set()
    for padded in (1, 3, 7):
        for row, own in zip(rows, sets_of(query_of(padded, pool), ratings, 300), strict=True):
            liked = {asked.index(item) for item in asked if row.get(item)}
            kept = [value for value in own if value < len(asked)]
            assert len(own) == padded == len(set(own))
            assert set(kept) <= liked
            assert len(kept) == min(len(liked), padded)
            assert own[len(kept) :] == [len(asked) + place for place in range(padded - len(kept))]
            seen.add(len(liked) - padded)
    assert min(seen) < 0 < max(seen)


@pytest.mark.statistical
def test_whoever_likes_more_keeps_any_of_them_alike() -> None:
    """Pearson's test over the ten pairs of five likes, false alarm 1e-6; the twin's first pair is 15 % rarer."""
    devices = 40_000
    ratings = worlds.stored_ratings([dict.fromkeys((0, 2, 3, 7, 11), True)], [0] * devices, ITEMS)
    found: dict[tuple[int, ...], int] = {}
    for own in sets_of(query_of(2), ratings, devices):
        found[tuple(sorted(own))] = found.get(tuple(sorted(own)), 0) + 1
    assert len(found) == 10
    assert chi_square_fits(list(found.values()), np.ones(10))
    assert not chi_square_fits(list(found.values()), [0.85, *[1.0] * 9])
