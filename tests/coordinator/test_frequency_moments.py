"""Frequency oracles' moments against everything that a device can hold, and devices' choices against their ratings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import worlds
from statistical import chi_square_fits

from actors.mechanisms.oracles import choices
from actors.ratings import BlockRatings, Ratings, StoredRatings
from actors.seeds import Coins
from coordinator.protocol.coins import as_words
from coordinator.protocol.messages import Query
from coordinator.server.mechanisms.oracles import Grr
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.count_moments import item_share, liked_shares, rated_shares

ITEMS, SIZES = 5, (2, 3)
CLUSTERS = np.repeat(np.arange(2), SIZES)
LIKES, SHARES = np.array([[0.9, 0.2], [0.1, 0.6]]), np.array([0.25, 0.75])
SECRET, USERS = bytes(range(16)), 60_000


def every_device(rated: int) -> Iterator[tuple[float, dict[int, bool]]]:
    """All that a device can hold, with its probability."""
    subsets = list(itertools.combinations(range(ITEMS), rated))
    for share, row in zip(SHARES.tolist(), LIKES.tolist(), strict=True):
        for subset in subsets:
            for liked in itertools.product((True, False), repeat=rated):
                told = dict(zip(subset, liked, strict=True))
                chances = (row[CLUSTERS[item]] if like else 1 - row[CLUSTERS[item]] for item, like in told.items())
                yield share / len(subsets) * math.prod(chances), told


@pytest.mark.parametrize("rated", [1, 2, 4, 5])
def test_shares_are_those_of_all_that_devices_can_hold(rated: int) -> None:
    liked, wanted, disliked = (np.zeros(ITEMS) for _ in range(3))
    for chance, told in every_device(rated):
        many = sum(told.values())
        for item, like in told.items():
            liked[item] += chance * like / max(many, 1)
            wanted[item] += chance * like / rated
            disliked[item] += chance * (not like) / rated
    block = BlockParameters(rated=rated, like=LIKES, class_shares=SHARES, cluster_sizes=np.array(SIZES))
    assert liked_shares(block)[CLUSTERS] == pytest.approx(liked, rel=1e-9)
    assert [part[CLUSTERS] for part in rated_shares(block)] == [pytest.approx(wanted), pytest.approx(disliked)]


@pytest.mark.parametrize("pool", [1, 3, 5])
def test_a_pools_item_is_named_as_its_share_of_a_users_likes_says(pool: int) -> None:
    """Where all items are liked alike: over how many of its items a user rated; and where all that is rated is told."""
    for likes in (0.3, 1.0):
        named = 0.0
        for subset in itertools.combinations(range(ITEMS), 3):
            inside = [item for item in subset if item < pool]
            for liked in itertools.product((True, False), repeat=len(inside)):
                if liked and liked[0] and inside[0] == 0:
                    chance = math.prod(likes if one else 1 - likes for one in liked)
                    named += chance / sum(liked) / math.comb(ITEMS, 3)
        assert item_share(pool, items=ITEMS, rated=3, likes=likes) == pytest.approx(named / likes, rel=1e-9)


def block_ratings() -> BlockRatings:
    return BlockRatings(
        users=USERS,
        rated_items=7,
        like=LIKES,
        class_shares=SHARES,
        clusters=np.repeat(np.arange(2), 10).astype(np.int32),
    )


def stored_ratings() -> StoredRatings:
    """The same as a file would hold them."""
    return StoredRatings(rows=block_ratings().rated(as_words(SECRET), 0, USERS), user=np.arange(USERS, dtype=np.int32))


def asked(told: str, pool: list[int] | None) -> Query:
    design = Grr(items=20, rated=7, source=told)
    some = None if pool is None else np.array(pool, np.int32)
    return design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=None, pool=some)


@pytest.mark.statistical
@pytest.mark.parametrize("ratings", [block_ratings(), stored_ratings()], ids=["drawn", "stored"])
@pytest.mark.parametrize(
    ("told", "pool"),
    [("liked", None), ("rated", None), ("rated", [1, 2, 5, 13, 14, 15, 19])],
    ids=["liked", "rated", "rated of some"],
)
def test_a_device_names_a_uniform_one_of_its_items(ratings: Ratings, pool: list[int] | None, told: str) -> None:
    """Its place among those that it could name is uniform, for each number of them; false alarm 1e-6 each."""
    query = asked(told, pool)
    asked_about = list(range(20)) if pool is None else pool
    named = choices(query, ratings, Coins(as_words(SECRET), 0, USERS, query.words)).tolist()
    table = ratings.rated(as_words(SECRET), 0, USERS)
    starts, rated, likes = table.starts, table.items, table.values
    places: dict[int, list[int]] = {}
    for device, value in enumerate(named):
        mine = zip(*(part[starts[device] : starts[device + 1]].tolist() for part in (rated, likes)), strict=True)
        able = [
            asked_about.index(item) + (0 if liked else len(asked_about))
            for item, liked in mine
            if item in asked_about and (liked or told == "rated")
        ]
        if able:
            places.setdefault(len(able), [0] * len(able))[able.index(value)] += 1
        else:
            assert value == len(asked_about) * (1 if told == "liked" else 2)
    assert len(places) > 2 or (told, pool) == ("rated", None)
    for counts in places.values():
        assert sum(counts) < 500 or len(counts) == 1 or chi_square_fits(counts, np.ones(len(counts)))
