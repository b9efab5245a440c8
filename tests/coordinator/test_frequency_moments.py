"""Exact moments of frequency oracles and of the set mechanism."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import worlds
from runs import Command, refused
from statistical import chi_square_fits

from actors.mechanisms.oracles import choices
from actors.ratings import BlockRatings, Ratings, StoredRatings
from actors.seeds import Coins
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.value_channels import subset_channel
from coordinator.server.design import World
from coordinator.server.mechanisms import server_halves
from coordinator.server.mechanisms.oracles import Grr
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.count_moments import (
    best_sizes,
    item_share,
    liked_shares,
    likes_of,
    rated_shares,
    set_share,
    set_shares,
)
from coordinator.server.statistics.counts import Rates

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


BLOCK = BlockParameters(
    rated=4,
    like=np.array([[0.9, 0.2], [0.4, 0.7]]),
    class_shares=np.array([0.6, 0.4]),
    cluster_sizes=np.array([4, 5]),
)


def by_hand(padded: int) -> list[float]:
    """Over every subset that a user can rate, and every like."""
    cluster, shares = np.repeat([0, 1], BLOCK.cluster_sizes), np.zeros(9)
    for part, like in zip(BLOCK.class_shares, BLOCK.like, strict=True):
        for rated in itertools.combinations(range(9), 4):
            for likes in itertools.product((True, False), repeat=4):
                chance = math.prod(
                    like[cluster[item]] if liked else 1 - like[cluster[item]]
                    for item, liked in zip(rated, likes, strict=True)
                )
                for item, liked in zip(rated, likes, strict=True):
                    shares[item] += part * chance * liked * min(1, padded / max(sum(likes), 1)) / math.comb(9, 4)
    return [shares[0], shares[-1]]


@pytest.mark.parametrize("padded", [1, 2, 3, 4])
def test_how_often_an_item_is_kept_is_exact(padded: int) -> None:
    assert set_shares(BLOCK, padded) == pytest.approx(by_hand(padded), rel=1e-12)


def test_a_set_of_one_is_a_random_item() -> None:
    assert set_shares(BLOCK, 1) == pytest.approx(liked_shares(BLOCK), rel=1e-12)
    for likes in (0.1, 0.5, 1.0):
        one = set_share(30, items=200, rated=40, likes=likes, padded=1)
        assert one == pytest.approx(item_share(30, items=200, rated=40, likes=likes), rel=1e-11)
    assert set_share(30, items=200, rated=40, likes=0.4, padded=40) == pytest.approx(40 / 200, rel=1e-11)


@pytest.mark.parametrize(("sizes", "rated"), [([5, 0], 3), ([2, 3], 5), ([4, 6], 0), ([300, 700], 200)])
def test_numbers_of_likes_are_a_distribution_with_its_mean(sizes: list[int], rated: int) -> None:
    found = likes_of(np.array([0.8, 0.3]), np.array(sizes), rated)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    mean = rated * float(np.average([0.8, 0.3], weights=sizes))
    assert found @ np.arange(rated + 1) == pytest.approx(mean, abs=1e-9)


def test_rates_are_those_of_the_papers() -> None:
    """PrivSet's formulas, and with one value those of subset selection."""
    odds = math.e
    for values, own, many in ((306, 10, 9), (61, 20, 3), (40, 1, 11)):
        avoid = math.comb(values - own, many) / math.comb(values, many)
        others = math.comb(values - 1 - own, many - 1) / math.comb(values - 1, many - 1)
        total = odds * (1 - avoid) + avoid
        stated = odds * many / values / total, many / values * (odds * (1 - others) + others) / total
        rates = subset_channel(Fraction(1), values=values, padded=own, subset_size=many).rates
        assert [float(rate) for rate in rates] == pytest.approx(stated, rel=1e-12)
    mine, other = (float(rate) for rate in rates)
    assert mine == pytest.approx(odds * 11 / (odds * 11 + 29))
    assert other == pytest.approx((mine * 10 + (1 - mine) * 11) / 39)


def test_chances_of_two_values_are_those_of_all_subsets() -> None:
    channel = subset_channel(Fraction(1), values=8, padded=2, subset_size=4)
    chances = channel.chances(np.array([6, 7]))
    told = sum(chance for release, chance in enumerate(chances) if release >> 6 == 0b11)
    assert channel.both == told


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)])
def test_the_sizes_that_are_chosen_have_the_least_noise(epsilon: Fraction) -> None:
    """Over all sizes, by the channel's own rates; and where one of them is given."""
    pool, rated = 40, 12

    def noise(own: int, many: int) -> float:
        mine, other = (float(r) for r in subset_channel(epsilon, values=pool + own, padded=own, subset_size=many).rates)
        kept = sum(math.comb(11, x) / 2**11 * min(1, own / (1 + x)) for x in range(12))
        share = rated / pool / 2 * kept
        rate = other + (mine - other) * share / 2
        return rate * (1 - rate) / ((mine - other) * share) ** 2

    every = list(itertools.product(range(1, 13), range(1, 41)))
    assert best_sizes(pool, rated=rated, epsilon=epsilon) == min(every, key=lambda sizes: noise(*sizes))
    for own in (1, 9):
        best = min(range(1, 41), key=lambda many: noise(own, many))
        assert best_sizes(pool, rated=rated, epsilon=epsilon, padded=own) == (own, best)


def test_one_value_takes_as_many_as_unary_encoding_expects() -> None:
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(2)):
        _, many = best_sizes(3706, rated=77, epsilon=epsilon, padded=1)
        assert many == pytest.approx(3707 / (math.exp(epsilon) + 1), abs=1)


@pytest.mark.parametrize(
    ("name", "told"), [("set", {"padded": 41}), ("set", {"chosen": 41}), ("subset", {"chosen": 41})]
)
def test_sizes_beyond_the_catalogue_are_refused(name: str, told: dict[str, int]) -> None:
    half, world = server_halves()[name], World(items=40, rated=10, users=100, clusters=2, epsilon=Fraction(1))
    with pytest.raises(InputError, match=r"is 41; it must be at most the number of items, 40$"):
        half.design(half.settings(**told), world)


@pytest.mark.parametrize(("items", "padded", "chosen", "epsilon"), [(52, 40, 46, "0.1"), (44, 30, 40, "1")])
def test_subsets_that_tell_next_to_nothing_are_refused(
    items: int, padded: int, chosen: int, epsilon: str, blindrec: Command
) -> None:
    asked = ["--items", items, "--rated", padded, "--padded", padded, "--chosen", chosen, "--epsilon", epsilon]
    asked += ["--backend", "inprocess"]
    assert "tells next to nothing" in refused(blindrec, "run", "--design", "set", *asked, "--users", 500)


def test_a_subset_that_hardly_ever_avoids_a_set_is_refused_at_once() -> None:
    """Its exact share would take hours to write down."""
    with pytest.raises(InputError, match="rarer than 64-bit coins"):
        subset_channel(Fraction(1), values=2**25, padded=2**24, subset_size=2**24)


@pytest.mark.parametrize(("padded", "chosen"), [(0, 3), (3, 0), (4, 5)])
def test_a_subset_of_nothing_or_of_too_much_is_refused(padded: int, chosen: int) -> None:
    with pytest.raises(InputError, match=f"padded is {padded} and chosen {chosen} of 8 values"):
        subset_channel(Fraction(1), values=8, padded=padded, subset_size=chosen)


def test_liked_less_disliked_scatters_as_enumerated() -> None:
    """Unary bits of one item: the two are of one device's value, so that they hardly ever are named together."""
    rates, likes = Rates(0.5, 0.01), np.array([0.25])
    each = {"liked": 0.25, "disliked": 0.25, "none": 0.5}
    squares = mean = 0.0
    for value, share in each.items():
        for one, other in itertools.product((0, 1), repeat=2):
            up, down = (rates.mine if value == side else rates.others for side in ("liked", "disliked"))
            chance = share * (up if one else 1 - up) * (down if other else 1 - down)
            told = (one - other) / rates.contrast
            mean, squares = mean + chance * told, squares + chance * told**2
    assert rates.spread_between(likes, likes)[0] == pytest.approx(squares - mean**2)
