"""Moments of answers, counts and probabilities: exact, by hand, by enumeration, and as SciPy has them."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import worlds
from evidence import chi_square_fits, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import Command, refused
from scipy import optimize, stats
from scipy.stats import norm
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
    best_sizes,
    best_subset,
    item_share,
    likes_of,
    set_share,
    sizes_for,
)
from coordinator.protocol.moments.probabilities import binomial_mass, hypergeometric_masses, root_between
from coordinator.protocol.statistics.counts import Rates
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


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("over_1024", "sizes", "chosen"),
    [
        ((1023, 1019), (500_000, 500_000), 1000),
        ((512, 768), (300_000, 700_000), 300),
        ((1, 1024), (50, 50), 70),
        ((256, 1024), (1, 999), 1000),
        ((1022, 1023), (2000, 2000), 3990),
    ],
)
def test_mean_product_equals_exact_integers(over_1024: tuple[int, int], sizes: tuple[int, int], chosen: int) -> None:
    choices = [[1], [1]]
    for side, (factor, size) in enumerate(zip(over_1024, sizes, strict=True)):
        for j in range(chosen):
            choices[side].append(choices[side][-1] * (size - j) // (j + 1))
        choices[side] = [count * factor**j for j, count in enumerate(choices[side])]
    total = sum(choices[0][j] * choices[1][chosen - j] for j in range(chosen + 1))
    exact = Fraction(total, math.comb(sum(sizes), chosen) * 1024**chosen)
    found = mean_product(np.array(over_1024) / 1024, np.array(sizes), chosen)
    assert abs(Fraction(found) / exact - 1) < Fraction(1, 10**10)


def right_share(moments: SketchMoments, users: int, decoder: str) -> float:
    """Share on the right side of the midpoint, two clusters."""
    gap = abs(moments.given_sensed[0] - moments.given_sensed[1])
    return float(norm.cdf(gap / 2 / moments.estimate_deviation(users, decoder)))


@pytest.mark.parametrize(
    ("rated", "theta", "epsilon", "users", "centred", "paper", "off"),
    [
        (30, 1, 1, 2_000_000, 0.9589, 0.901, 0.0005),
        (5, 1, 1, 6_000_000, 0.884, 0.810, 0.0005),
        (10, 3, 1, 6_000_000, 0.842, 0.726, 0.0005),
        (30, 1, math.inf, 500_000, 0.973, 0.931, 0.002),
        (30, 1, math.inf, 400_000, 0.957, 0.907, 0.002),
    ],
)
def test_recorded_figures(
    rated: int, theta: int, epsilon: float, users: int, centred: float, paper: float, off: float
) -> None:
    """Without noise, figures of 40 simulated seeds, whose standard error is about 0.001 (centred) and 0.002 (paper)."""
    moments = maxsense_moments(block(1000, rated), sensing=theta / rated, epsilon=epsilon)
    assert right_share(moments, users, "centred") == pytest.approx(centred, abs=off)
    assert right_share(moments, users, "paper") == pytest.approx(paper, abs=off if epsilon == 1 else 2 * off)


def test_scores_and_estimates_agree() -> None:
    moments = maxsense_moments(block(100, 10), sensing=0.1, epsilon=1)
    users, p, q = 1000, 0.1, moments.answer_rate
    assert moments.estimate_deviation(users, "paper") == pytest.approx(math.sqrt(q * (1 - p) / (users * p)))
    assert moments.estimate_deviation(users, "centred") == pytest.approx(math.sqrt(q * (1 - q) * (1 - p) / (users * p)))


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


def disjoint_sets(items: frozenset[int], size: int, count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ordered choices of disjoint sets."""
    if count == 0:
        yield ()
        return
    for first in itertools.combinations(sorted(items), size):
        for rest in disjoint_sets(items - set(first), size, count - 1):
            yield (first, *rest)


def multi_moments_enumerated(
    model: BlockParameters, size: int, questions: int, epsilon: float
) -> tuple[Floats, Floats, Floats]:
    """P(S = 1 | i sensed), and the covariances of one user's contributions to the scores, paper's and centred.

    Summed over all rated sets, all ordered choices of disjoint sensing sets, and classes; given those the answers are
    independent.
    """
    labels = np.repeat(np.arange(model.cluster_sizes.size), model.cluster_sizes)
    contrast = math.tanh(epsilon / questions / 2)
    asked = list(disjoint_sets(frozenset(range(model.items)), size, questions))
    held = np.zeros((len(asked), questions, model.items))
    for case, sets in enumerate(asked):
        for question, members in enumerate(sets):
            held[case, question, list(members)] = 1
    rates, chances = [], []
    rated_sets = list(itertools.combinations(range(model.items), model.rated))
    for share, row in zip(model.class_shares, model.like, strict=True):
        for rated in rated_sets:
            factors = np.ones(model.items)
            factors[list(rated)] = 1 - row[labels[list(rated)]]
            silent = np.where(held > 0, factors, 1).prod(axis=2)
            rates.append((1 + contrast) / 2 - contrast * silent)
            chances.append(share / len(rated_sets) / len(asked))
    weights, answers = np.array(chances), np.array(rates)
    given = np.einsum("c,csq,sqi->i", weights, answers, held) / (questions * size / model.items)
    rate = float(np.einsum("c,csq->", weights, answers)) / questions
    moments = []
    for centre in (0.0, rate):
        shifted = np.einsum("csq,sqi->csi", answers - centre, held)
        square = np.einsum("c,csi,csj->ij", weights, shifted, shifted)
        own = np.einsum("c,csq,sqi,sqj->ij", weights, answers * (1 - answers), held, held)
        mean = np.einsum("c,csi->i", weights, shifted)
        moments.append(square + own - np.outer(mean, mean))
    return given, moments[0], moments[1]


def spread(covariance: Floats) -> float:
    """Half the variance of a difference, averaged over all pairs of items."""
    items = len(covariance)
    return (float(np.trace(covariance)) - float(covariance.sum()) / items) / (items - 1)


@pytest.mark.parametrize(("size", "questions"), [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2), (4, 1), (6, 1)])
@pytest.mark.parametrize("rated", [1, 3, 6])
@pytest.mark.parametrize("epsilon", [0.7, math.inf])
def test_everything_equals_full_enumeration(size: int, questions: int, rated: int, epsilon: float) -> None:
    """Rates, effects and both noises to rounding."""
    model = six_items(rated)
    moments = multi_maxsense_moments(model, set_size=size, questions=questions, epsilon=epsilon)
    given, paper, centred = multi_moments_enumerated(model, size, questions, epsilon)
    require_rates(moments, float(given.mean()), given)
    assert moments.noise_paper == pytest.approx(spread(paper), rel=1e-11, abs=1e-14)
    assert moments.noise_centred == pytest.approx(spread(centred), rel=1e-11, abs=1e-14)
    assert moments.sensing == pytest.approx(size * questions / 6)
    assert moments.epsilon == epsilon / questions


def test_effects_are_exact_where_differences_of_rates_would_not_be() -> None:
    """A user rates one of a million items: no other item makes the set speak, and the effect has a closed form."""
    items, size = 1_000_000, 1000
    moments = multi_maxsense_moments(block(items, 1), set_size=size, questions=1, epsilon=math.inf)
    expected = 0.4 / items * (items - size) / (items - 1)  # half of the other items differ, by 0.8
    np.testing.assert_allclose(moments.effect, [expected, -expected], rtol=1e-9)


def test_a_smaller_last_set_counts_as_a_full_one() -> None:
    """ceil(N / s) questions are allowed and cover every item once; the rates are those of full sets."""
    partial = multi_maxsense_moments(block(100, 10), set_size=30, questions=4, epsilon=4)
    full = multi_maxsense_moments(block(100, 10), set_size=30, questions=1, epsilon=1)
    assert partial.sensing == 1
    assert partial.answer_rate == full.answer_rate
    np.testing.assert_array_equal(partial.effect, full.effect)
    nearly = multi_maxsense_moments(block(100, 10), set_size=25, questions=4, epsilon=4)
    assert partial.noise_centred == pytest.approx(nearly.noise_centred, rel=0.05)


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
SECRET, USERS = bytes(range(16)), 60_000


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
    """Its place among those that it could name is uniform, for each number of them; false alarm 1e-6 each.

    The twin names its first one a fifth more often.
    """
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
    most = max((counts for counts in places.values() if len(counts) > 1), key=sum)
    assert not chi_square_fits(most, [1.2, *[1.0] * (len(most) - 1)])


BLOCK = BlockParameters(
    rated=4, like=np.array([[0.9, 0.2], [0.4, 0.7]]), class_shares=np.array([0.6, 0.4]), cluster_sizes=np.array([4, 5])
)


@pytest.mark.parametrize("padded", [1, 2, 3, 4])
def test_how_often_an_item_is_kept_is_exact(padded: int) -> None:
    """Over every subset that a user can rate, and every like."""
    cluster, shares = np.repeat([0, 1], BLOCK.cluster_sizes).tolist(), np.zeros(9)
    for chance, told in worlds.holdings(BLOCK.like.tolist(), BLOCK.class_shares.tolist(), cluster, 4):
        for item, liked in told.items():
            shares[item] += chance * liked * min(1, padded / max(sum(told.values()), 1))
    people = BlockPeople.of(BLOCK, np.array(cluster, np.int32))
    assert people.likers(lambda likes: np.minimum(1, padded / likes)) == pytest.approx(shares, rel=1e-12)


@pytest.mark.parametrize(("items", "rated", "pool"), [(20_000, 200, 2_000), (2_000, 1_900, 500), (300, 150, 100)])
def test_likes_of_a_pool_that_is_liked_for_certain_are_hypergeometric(items: int, rated: int, pool: int) -> None:
    """Exact to rounding, also where a user rates few items of many or nearly all."""
    found = likes_of(np.array([1.0, 0.0]), np.array([pool, items - pool]), rated)
    exact = stats.hypergeom.pmf(np.arange(rated + 1), items, pool, rated)
    np.testing.assert_allclose(found, exact, atol=1e-12)


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


def test_an_item_is_in_a_set_as_often_as_its_likers_keep_it() -> None:
    """All of four items are rated by three, each liked by half: of two, one and three likes two, one and two count."""
    assert set_share(4, items=4, rated=3, likes=0.5, padded=2) == pytest.approx((2 * 3 + 1 * 3 + 2 * 1) / 8 / (4 * 0.5))


@pytest.mark.parametrize(("pool", "rated", "epsilon", "padded"), [(20, 12, 4, 0), (20, 12, 1, 1)])
def test_sizes_have_the_least_noise_at_half_the_share(pool: int, rated: int, epsilon: int, padded: int) -> None:
    """Against all sizes of sets w and of reports k, by the exact channel, where half of all ratings are likes."""

    def noise(sizes: tuple[int, int]) -> float:
        w, k = sizes
        rates = subset_channel(Fraction(epsilon), values=pool + w, padded=w, subset_size=k).rates
        inside, outside = map(float, rates)
        others = stats.binom.pmf(np.arange(rated), rated - 1, 0.5)
        share = rated / pool / 2 * float(others @ np.minimum(1, w / np.arange(1, rated + 1)))
        rate = outside + (inside - outside) * share / 2
        return math.inf if inside <= outside else rate * (1 - rate) / (inside - outside) ** 2 / share**2

    sizes = itertools.product([padded] if padded else range(1, rated + 1), range(1, pool + 1))
    assert best_sizes(pool, rated=rated, epsilon=Fraction(epsilon), padded=padded) == min(sizes, key=noise)


def test_reports_name_as_many_values_as_half_the_mean_share_asks_for() -> None:
    """Everybody likes 20 of 100 items: a report names one value, as at a share of .1, and not two, as at .2."""
    named = [best_subset(120, set_size=20, epsilon=Fraction(1), share=share) for share in (0.1, 0.2)]
    assert named == [1, 2]
    assert sizes_for((0.0,) * 20 + (1.0,), 100, epsilon=Fraction(1)) == (20, 1)
    heavy = np.zeros(101)
    heavy[[20, 100]] = 0.6, 0.4  # who likes all keeps 20 of them, too
    assert sizes_for(tuple(heavy.tolist()), 100, epsilon=Fraction(1)) == (20, 1)


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
    assert rates.spread(likes, likes)[0] == pytest.approx(squares - mean**2)


@pytest.mark.parametrize("chance", [0, 1e-9, 0.1, 0.5, 0.999, 1])
def test_binomial_masses_are_scipys(chance: float) -> None:
    for many in (0, 1, 2, 15, 16, 17, 1000, 10**6, 10**12):
        around = many * chance + math.sqrt(many * chance * (1 - chance)) * np.linspace(-12, 12, 100)
        counts = np.concatenate(([-1, many + 1], np.unique(np.clip(np.rint(around), 0, many))))
        assert binomial_mass(counts, many, chance) == pytest.approx(stats.binom.pmf(counts, many, chance), rel=1e-8)


@pytest.mark.parametrize("urn", [(1, 0, 0), (9, 4, 3), (9, 8, 7), (10_000, 300, 2_000)])
def test_hypergeometric_masses_are_scipys(urn: tuple[int, int, int]) -> None:
    first, masses = hypergeometric_masses(*urn)
    assert masses == pytest.approx(stats.hypergeom.pmf(first + np.arange(masses.size), *urn), rel=1e-9)
    assert masses.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("width", [2e-12, 1e-4])
def test_roots_are_looked_for_where_scipy_looks_for_them(width: float) -> None:
    """The same numbers are tried in the same order, which makes plans the same."""
    generator, tried = np.random.default_rng(5), 0
    for steep, root, bend in generator.normal(size=(200, 3)).tolist():
        ours, theirs = list[float](), list[float]()

        def value(x: float, seen: list[float], steep: float = steep, root: float = root, bend: float = bend) -> float:
            seen.append(x)
            return math.tanh(steep * (x - root)) + 0.3 * math.sin(bend * x)

        low, high = root - 4, root + 3
        if value(low, []) * value(high, []) > 0:
            continue
        found = root_between(lambda x, seen=ours: value(x, seen), low, high, width=width)  # type: ignore[misc] # mypy infers no type of its default
        assert found == optimize.brentq(value, low, high, args=(theirs,), xtol=width)
        assert ours == theirs
        tried += 1
    assert tried > 100


def test_without_a_change_of_sign_there_is_no_root() -> None:
    with pytest.raises(InputError, match=r"is 1\.0 at 0 and 2\.0 at 1; its signs must differ"):
        root_between(lambda x: 1.0 + x, 0, 1)
    assert root_between(lambda x: x - 1, 0, 1) == 1
