"""Moments of answers, counts and probabilities: by enumeration, and as papers have them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import Command, refused
from statistical import chi_square_fits
from thoroughness import examples
from worlds import in_world

from actors.ratings import Ratings, RatingsBlock, StoredRatings
from actors.seeds import Coins
from coordinator.protocol.arrays import Floats
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.law import BlockPeople
from coordinator.protocol.mechanism import World
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.oracles import Grr
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.blocks import (
    BlockParameters,
    SketchMoments,
    maxsense_moments,
    mean_product,
    mean_product_in_a_set,
    multi_maxsense_moments,
)
from coordinator.protocol.moments.count_moments import (
    item_share,
)
from coordinator.protocol.value_channels import subset_channel

SPLIT = np.array([[0.9, 0.1]])


def block(items: int, rated: int, like: Floats = SPLIT) -> BlockParameters:
    """One class, two equal clusters, b = (0.9, 0.1) if nothing else is said."""
    sizes = np.full(2, items // 2)
    return BlockParameters(rated=rated, like=like, class_shares=np.ones(1), cluster_sizes=sizes)


def enumerated(parameters: BlockParameters, sensing: float, epsilon: float) -> tuple[float, Floats]:
    """q and P(S = 1 | i sensed) per item, summed over all rated sets, sensing sets and ratings."""
    labels = np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)
    items, contrast = parameters.items, math.tanh(epsilon / 2)
    rated_sets = list(itertools.combinations(range(items), parameters.rated))
    rate, joint = 0.0, np.zeros(items)
    for share, row in zip(parameters.class_shares, parameters.like, strict=True):
        for sensed in itertools.product((False, True), repeat=items):
            held = sum(sensed)
            chance = share * sensing**held * (1 - sensing) ** (items - held) / len(rated_sets)
            for rated in rated_sets:
                silent = math.prod(1 - row[labels[i]] for i in rated if sensed[i])
                answer = chance * ((1 + contrast) / 2 - contrast * silent)
                rate += answer
                joint += answer * np.array(sensed)
    return rate, joint / sensing


def six_items(rated: int) -> BlockParameters:
    """Two classes, and clusters of 3, 1 and 2 items."""
    like, shares = np.array([[0.9, 0.3, 0.0], [0.2, 1.0, 0.6]]), np.array([0.3, 0.7])
    return BlockParameters(rated=rated, like=like, class_shares=shares, cluster_sizes=np.array([3, 1, 2]))


def require_rates(moments: SketchMoments, rate: float, per_item: Floats) -> None:
    """Rates are those that an enumeration of six items has."""
    assert moments.answer_rate == pytest.approx(rate, rel=1e-12)
    np.testing.assert_allclose(np.repeat(moments.given_sensed, [3, 1, 2]), per_item, rtol=1e-12)
    keep = (1 + math.tanh(moments.epsilon / 2)) / 2
    released = keep * moments.private_rate + (1 - keep) * (1 - moments.private_rate)
    assert moments.answer_rate == pytest.approx(released, rel=1e-12)


@pytest.mark.parametrize("rated", [1, 3, 6])
@pytest.mark.parametrize("epsilon", [0.7, math.inf])
def test_rates_equal_full_enumeration(rated: int, epsilon: float) -> None:
    model = six_items(rated)
    moments = maxsense_moments(model, sensing=0.35, epsilon=epsilon)
    rate, per_item = enumerated(model, 0.35, epsilon)
    require_rates(moments, rate, per_item)
    np.testing.assert_allclose(moments.effect, moments.given_sensed - rate, rtol=1e-9, atol=1e-12)


@settings(max_examples=examples(200))
@given(data=st.data())
def test_mean_product_equals_the_mean_over_all_subsets(data: st.DataObject) -> None:
    sizes = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    value = st.one_of(st.sampled_from([0.0, 1.0, 1e-14]), st.floats(1e-3, 1.5))
    factors = np.array([data.draw(value) for _ in sizes])
    chosen = data.draw(st.integers(0, int(sizes.sum())))
    subsets = list(itertools.combinations(np.repeat(factors, sizes).tolist(), chosen))
    expected = math.fsum(math.prod(subset) for subset in subsets) / len(subsets)
    assert mean_product(factors, sizes, chosen) == pytest.approx(expected, rel=1e-11, abs=0)


def test_wrong_input_is_refused_with_one_line() -> None:
    good = {"rated": 2, "like": SPLIT, "class_shares": np.ones(1), "cluster_sizes": np.array([5, 5])}
    likes = [{"like": like} for like in (SPLIT.T, SPLIT * 2, SPLIT * np.nan)]
    parts = [{"class_shares": np.ones(1) / 2}, {"cluster_sizes": np.array([5, 0])}]
    for change in ({"rated": 0}, {"rated": 11}, *likes, *parts):
        with pytest.raises(InputError) as caught:
            BlockParameters(**{**good, **change})  # type: ignore[arg-type, dict-item] # mixed types
        assert "\n" not in str(caught.value)
    for sensing, epsilon in ((0.0, 1.0), (1.0, 1.0), (0.5, 0.0), (0.5, math.nan)):
        with pytest.raises(InputError):
            maxsense_moments(block(10, 2), sensing=sensing, epsilon=epsilon)
    moments = maxsense_moments(block(10, 2), sensing=0.5, epsilon=1)
    with pytest.raises(InputError, match="median"):
        moments.score_deviation(10, "median")
    with pytest.raises(InputError, match="users = 0"):
        moments.score_deviation(0, "paper")
    with pytest.raises(InputError, match="no subset"):
        mean_product(np.ones(1), np.array([3]), 4)


def test_a_design_that_does_not_fit_is_refused_with_one_line() -> None:
    wrong = [(0, 1, 1.0), (11, 1, 1.0), (3, 0, 1.0), (3, 5, 1.0), (10, 2, 1.0), (3, 2, 0.0), (3, 2, math.nan)]
    for size, questions, epsilon in wrong:
        with pytest.raises(InputError) as caught:
            multi_maxsense_moments(block(10, 2), set_size=size, questions=questions, epsilon=epsilon)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="9 marked"):
        mean_product_in_a_set(np.ones(1), np.array([4]), population=4, marked=9, set_size=2)


ITEMS, SIZES = 5, (2, 3)
CLUSTERS = np.repeat(np.arange(2), SIZES)
LIKES, SHARES = np.array([[0.9, 0.2], [0.1, 0.6]]), np.array([0.25, 0.75])
SECRET, USERS = bytes(range(16)), 20_000


@pytest.mark.parametrize("rated", [1, 2, 4, 5])
def test_shares_are_those_of_all_that_devices_can_hold(rated: int) -> None:
    liked, wanted, disliked = (np.zeros(ITEMS) for _ in range(3))
    for chance, told in worlds.holdings(LIKES.tolist(), SHARES.tolist(), CLUSTERS.tolist(), rated):
        many = sum(told.values())
        for item, like in told.items():
            liked[item] += chance * like / max(many, 1)
            wanted[item] += chance * like / rated
            disliked[item] += chance * (not like) / rated
    block = BlockParameters(rated=rated, like=LIKES, class_shares=SHARES, cluster_sizes=np.array(SIZES))
    people = BlockPeople.of(block, CLUSTERS.astype(np.int32))
    assert people.likers(lambda likes: 1 / likes) == pytest.approx(liked, rel=1e-9)
    assert list(people.raters(lambda likes: 1 / likes)) == [pytest.approx(wanted), pytest.approx(disliked)]


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


BLOCK_RATINGS = worlds.block_ratings(
    worlds.world(items=20, rated=7, like=LIKES.tolist(), shares=SHARES.tolist()), users=USERS
)
FILE_RATINGS = StoredRatings(  # the same as a file would hold them
    rows=BLOCK_RATINGS.rated(as_words(SECRET), 0, USERS), user=np.arange(USERS, dtype=np.int32)
)


def asked(told: str, pool: list[int] | None) -> Query:
    design = in_world(Grr, items=20, rated=7, told=told)
    some = None if pool is None else np.array(pool, np.int32)
    return design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=None, pool=some)


@pytest.mark.statistical
@pytest.mark.parametrize("ratings", [BLOCK_RATINGS, FILE_RATINGS], ids=["drawn", "stored"])
@pytest.mark.parametrize(
    ("told", "pool"),
    [("liked", None), ("rated", None), ("rated", [1, 2, 5, 13, 14, 15, 19])],
    ids=["liked", "rated", "rated of some"],
)
def test_a_device_names_a_uniform_one_of_its_items(ratings: Ratings, pool: list[int] | None, told: str) -> None:
    """Its place among those that it could name is uniform, for each number of them; false alarm 1e-6 each."""
    query = asked(told, pool)
    asked_about = list(range(20)) if pool is None else pool
    coins = Coins(as_words(SECRET), 0, USERS, query.words)
    named = Grr().sketch(query, RatingsBlock(ratings, coins), coins).private.ravel().tolist()
    table = ratings.rated(as_words(SECRET), 0, USERS)
    starts, rated, likes = table.starts, table.items, table.values
    places: dict[int, list[int]] = {}
    for device, value in enumerate(named):
        own = slice(starts[device], starts[device + 1])
        mine = zip(rated[own].tolist(), likes[own].tolist(), strict=True)
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


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("set", {"padded": 41}),
        ("set", {"chosen": 41}),
        ("set", {"chosen": 41, "counted_group": 0.1}),
        ("subset", {"chosen": 41}),
    ],
)
def test_sizes_beyond_the_catalogue_are_refused(name: str, told: dict[str, float]) -> None:
    half, world = registered_mechanisms()[name], World(items=40, rated=10, users=100, clusters=2, epsilon=Fraction(1))
    with pytest.raises(InputError, match=r"is 41; it must be at most the number of items, 40$"):
        half.design(half.settings(**told), world)


@pytest.mark.parametrize(("items", "padded", "chosen", "epsilon"), [(52, 40, 46, "0.1"), (44, 30, 40, "1")])
def test_subsets_that_tell_next_to_nothing_are_refused(
    items: int, padded: int, chosen: int, epsilon: str, blindrec: Command
) -> None:
    asked = ["--items", items, "--rated", padded, "--padded", padded, "--chosen", chosen, "--epsilon", epsilon]
    asked += ["--backend", "inprocess"]
    assert "tells next to nothing" in refused(blindrec, "run", "--design", "set", *asked, "--users", 500)


@pytest.mark.parametrize(
    ("values", "padded", "chosen", "words"),
    [
        *((8, *sizes, "padded is {} and chosen {} of 8 values".format(*sizes)) for sizes in ((0, 3), (3, 0), (4, 5))),
        (2**25, 2**24, 2**24, "rarer than 64-bit coins"),  # its exact share would take hours to write down
    ],
)
def test_a_subset_of_nothing_or_of_too_much_is_refused(values: int, padded: int, chosen: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        subset_channel(Fraction(1), values=values, padded=padded, subset_size=chosen)
