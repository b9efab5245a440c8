"""Pairs of liked items: groups of devices, sizes of sets, and the item-item model of noisy shares."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from evidence import hoeffding_radius, student_radius, variance_fits

from actors.device import Cohort
from actors.ratings import RatingsBlock
from actors.seeds import Coins
from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import as_words
from coordinator.protocol.decoding.estimates import range_shares, shares
from coordinator.protocol.decoding.pair_model import (
    LEAST_RIDGE,
    agreed,
    cleaned,
    ease_weights,
    item_to_item,
    noise_of,
    pair_matrix,
    subspace,
    tastes_of_pairs,
)
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import Tastes, likely, powers, scores
from coordinator.protocol.mechanism import Decoding
from coordinator.protocol.mechanisms import check_question, mechanism_of, subsets_of
from coordinator.protocol.mechanisms.sets import (
    CountedSet,
    GroupedSets,
    LikedPairs,
    liked_pairs,
    liked_sets,
    ranges_of,
)
from coordinator.protocol.messages import Model
from coordinator.protocol.moments.count_moments import sizes_for
from coordinator.protocol.pools import pairs_of, pool_of
from coordinator.protocol.statistics.counts import (
    PAIRED,
    RANKED,
    SHARED,
    SIZED,
    SIZED_TOP,
    CountStatistic,
    GroupStatistic,
    Rates,
    of_group,
)
from coordinator.protocol.value_channels import subset_channel
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.group_policies import Groups
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.state import ServerState, absorb
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario

EPSILON = Fraction(1)


def design_of(**changes: Any) -> LikedPairs:
    return LikedPairs(**{"items": 12, "rated": 6, "pair_items": 5, **changes})


def policy_of(**changes: Any) -> Groups:
    return Groups(design=design_of(**changes), epsilon=EPSILON, public_seed=worlds.PUBLIC)


def asked(design: GroupedSets, devices: int, answers: dict[str, list[int]], epsilon: Epsilon = None) -> ServerState:
    """The state after all rounds, in which groups tell these counts."""
    policy, state = Groups(design=design, epsilon=epsilon, public_seed=worlds.PUBLIC), ServerState(devices=devices)
    groups = [group for group, _ in design.steps]
    while (ask := policy.next_query(state)) is not None:
        check_question(ask.query)
        group, many = groups[len(state.asked)], ask.stop - ask.first
        counts = CountStatistic(sums=np.array(answers[group]), ones=0, devices=many, answered=many, refused=0)
        state = absorb(state, ask, of_group(group, counts))
    return state


def test_groups_of_fresh_devices_are_asked_about_all_items_the_most_liked_and_their_pairs() -> None:
    counts = [5, 90, 80, 80, 80, 1, 70, 80, 2, 3, 4, 60]  # of items 2, 3, 4 and 7 alike all are taken
    sums = {RANKED: counts, SHARED: [9, 1, 1, 1, 1], PAIRED: [3] * 10}
    state, top, likes = asked(design_of(), 1000, sums, EPSILON), [1, 2, 3, 4, 7], design_of().device_likes
    assert [(ask.first, ask.stop) for ask in state.asked] == [(0, 200), (200, 350), (350, 1000)]
    first, second, third = (ask.query for ask in state.asked)
    assert (first.pool, first.parameters["together"]) == (None, 1)
    for query, together in ((second, 1), (third, 2)):
        assert pool_of(query).tolist() == top
        assert (query.parameters["together"], query.parameters["padded"]) == (together, likes)
    assert {ask.query.epsilon for ask in state.asked} == {EPSILON}
    assert isinstance(state.merged, GroupStatistic)
    assert state.merged.heard.tolist() == [200, 150, 650, 0, 0]
    assert state.merged.of(RANKED).sums.tolist() == counts


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"items": 1, "rated": 1}, "items is 1; pairs needs at least 2"),
        ({"pair_likes": 6}, "pair_likes is 6; it must lie between 2 and 5"),
        ({"pair_likes": 1}, "pair_likes is 1"),
        ({"subset_size": 11}, "chosen is 11; it must be at most the number of pairs, 10"),
        ({"first_group": 0.5, "second_group": 0.5}, "leave some devices to name pairs"),
    ],
)
def test_what_cannot_be_asked_is_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        policy_of(**changes)


def pair_set_shares(like: tuple[float, float], items: int, rated: int, kept: int) -> Floats:
    """The probability that a pair of items is in a user's set of so many likes, over all that it can hold, (N, N)."""
    shares = np.zeros((items, items))
    for chance, told in worlds.holdings((like,), (1.0,), [item % 2 for item in range(items)], rated):
        own = np.flatnonzero([told.get(item, False) for item in range(items)])
        shares[np.ix_(own, own)] += chance * min(1, kept * (kept - 1) / max(len(own) * (len(own) - 1), 1))
    return shares


@pytest.mark.statistical
def test_devices_keep_pairs_as_often_as_that() -> None:
    """40,000 devices of a block model, Hoeffding over three kinds of pairs, false alarm 3e-6; a twin keeps one more."""
    items, rated, devices = 8, 6, 40_000
    design = LikedPairs(items=items, rated=rated, pair_likes=3)
    query = design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=EPSILON)
    coins = Coins(as_words(worlds.SECRET), 0, devices, query.words)
    world = worlds.world(items=items, rated=rated, like=((0.9, 0.4),))
    own = liked_pairs(liked_sets(query, RatingsBlock(worlds.block_ratings(world, devices), coins), coins), items)
    counts = np.bincount(own.ravel(), minlength=pairs_of(items) + 3)[: pairs_of(items)]
    low, high = np.triu_indices(items, 1)
    stated, wrong = (pair_set_shares((0.9, 0.4), items, rated, kept)[low, high] for kept in (3, 4))
    for liked in (0, 1, 2):
        pairs = low % 2 + high % 2 == liked
        measured = counts[pairs].sum() / devices
        radius = hoeffding_radius(devices) * 3  # each device has three pairs at most
        assert abs(measured - stated[pairs].sum()) < radius
        assert abs(measured - wrong[pairs].sum()) > radius


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), EPSILON, Fraction(4)])
def test_the_question_is_k_ary_randomized_response_over_ranges(epsilon: Fraction) -> None:
    query = CountedSet(items=500, rated=20).of_numbers(round_number=0, public_seed=worlds.PUBLIC, epsilon=epsilon)
    mine, other = map(float, check_question(query).channel(query).rates)  # type: ignore[union-attr] # of subsets
    total = np.exp(float(epsilon)) + ranges_of(500) - 1
    assert (mine, other) == pytest.approx((np.exp(float(epsilon)) / total, 1 / total), rel=1e-9)


def test_a_devices_range_is_that_of_its_likes_in_the_pool() -> None:
    rows = [dict.fromkeys(range(many), True) | {400: True, 401: False} for many in range(300)]
    ratings = worlds.stored_ratings(rows, range(300), 500)
    pool = np.arange(399, dtype=np.int32)
    query = CountedSet(items=500, rated=20).of_numbers(
        round_number=0, public_seed=worlds.PUBLIC, epsilon=EPSILON, pool=pool
    )
    coins = Coins(as_words(worlds.SECRET), 0, len(rows), query.words)
    told = liked_sets(query, RatingsBlock(ratings, coins), coins, ranges=ranges_of(pool_of(query).size))
    assert told.ravel().tolist() == [min(many.bit_length(), 9) for many in range(300)]


def test_later_sets_are_as_large_as_a_first_group_says() -> None:
    """Without noise 1000 devices like 4 to 7 items, or 32 to 63; of few and many likes other sizes are best."""
    few, many = [0, 0, 0, 1000, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1000, 0, 0, 0]
    kept = []
    for ranges in (few, many):
        design = CountedSet(items=2000, rated=70, counted_group=0.1)
        state = asked(design, 10_000, {SIZED: ranges, RANKED: [0] * 2000})
        first, second = state.asked
        assert (first.first, first.stop, second.stop) == (0, 1000, 10_000)
        assert (first.query.parameters["together"], second.query.parameters["together"]) == (0, 1)
        kept.append(int(second.query.parameters["padded"]))
        assert (
            SumLearner(mechanism=mechanism_of("pairs"), how=Decoding(clusters=2, decoder="k-means"))
            .learn(state)[0]
            .score.size
            == 2000
        )
    assert 4 <= kept[0] <= 8
    assert 32 <= kept[1] <= 64


def test_pairs_are_padded_to_what_devices_like_of_the_most_liked_items() -> None:
    design = LikedPairs(items=300, rated=70, pair_items=20, counted_group=0.05)
    told = {
        SIZED: [0, 0, 0, 0, 0, 100, 0, 0, 0, 0],
        RANKED: list(range(300)),
        SIZED_TOP: [0, 0, 200, 0, 0, 0],
        SHARED: [1] * 20,
        PAIRED: [1] * pairs_of(20),
    }
    state = asked(design, 2000, told)
    queries = [ask.query for ask in state.asked]
    assert [query.parameters["together"] for query in queries] == [0, 1, 0, 1, 2]
    assert [ask.stop for ask in state.asked] == [100, 500, 600, 900, 2000]
    sizes = [query.parameters["padded"] for query in queries]
    assert 16 <= sizes[1] <= 32  # of all items devices like 16 to 31
    assert sizes[3] == sizes[4] == 2  # of the top 20 they like 2 or 3
    assert [pool_of(query)[0] for query in queries[2:]] == [280] * 3
    whole = LikedPairs(items=20, rated=9, counted_group=0.05)
    assert [group for group, _ in whole.steps] == [SIZED, RANKED, PAIRED]


@pytest.mark.parametrize("devices", range(1, 8))
def test_few_devices_are_each_asked_once_and_something_is_learned(devices: int) -> None:
    told = {SIZED: [1] * 5, RANKED: [1] * 20, SIZED_TOP: [1] * 4, SHARED: [1] * 20, PAIRED: [1] * 40}
    for design in (CountedSet(items=12, rated=6, counted_group=0.1), design_of(counted_group=0.1), design_of()):
        state = asked(design, devices, told)
        assert [ask.first for ask in state.asked[1:]] == [ask.stop for ask in state.asked[:-1]]
        assert state.fresh == devices
        model = SumLearner(mechanism=mechanism_of("pairs"), how=Decoding(clusters=2, decoder="k-means")).learn(state)[0]
        assert (model.error == 1).all() or devices > 1 or not design.counted_group
        assert model.score.shape == (12,)
    assert (model.near is not None) == (devices >= 3), "of three groups"


@pytest.mark.statistical
def test_shares_of_ranges_come_back_through_the_channel() -> None:
    """50,000 answers at epsilon 2, Hoeffding over six ranges, false alarm 6e-6; a twin undoes one of 2.5.

    Inside of the simplex the most probable shares are the unbiased estimates, but for a prior of six in 50,000.
    """
    shares, devices, coins = np.array([0.05, 0.1, 0.3, 0.35, 0.15, 0.05]), 50_000, np.random.default_rng(0)

    def rates(epsilon: float) -> tuple[float, float]:
        total = np.exp(epsilon) + 5
        return float(np.exp(epsilon) / total), float(1 / total)

    own, other = rates(2.0)
    counts = coins.multinomial(devices, other + (own - other) * shares)
    radius = hoeffding_radius(devices) / (own - other) + 2e-4
    assert np.abs(range_shares(counts, own, other) - shares).max() < radius
    assert np.abs(range_shares(counts, *rates(2.5)) - shares).max() > radius


def test_half_of_the_devices_keep_all_their_likes() -> None:
    likes = (0.1, 0.0, 0.3, 0.05, 0.1, 0.45)
    assert sizes_for(likes, 100, epsilon=EPSILON)[0] == 4
    assert sizes_for(likes, 100, epsilon=EPSILON, together=2, most=3)[0] == 3
    assert sizes_for((0.9, 0.1), 100, epsilon=EPSILON, together=2)[0] == 2
    assert sizes_for(likes, 100, epsilon=EPSILON, padded=3, subset_size=4) == (3, 4)


@pytest.mark.parametrize("together", [1, 2])
def test_releases_are_as_long_as_has_the_least_noise(together: int) -> None:
    likes = (0.2, 0.1, 0.1, 0.2, 0.4)
    own, sizes = sizes_for(likes, 30, epsilon=EPSILON, together=together)
    assert own == 3
    named, values = math.comb(30, together), math.comb(3, together)
    share = sum(part * math.comb(min(many, 3), together) for many, part in enumerate(likes)) / named / 2

    def noise(many: int) -> float:
        channel = subset_channel(EPSILON, values=named + values, padded=values, subset_size=many)
        mine, other = map(float, channel.rates)
        rate = other + (mine - other) * share
        return rate * (1 - rate) / (mine - other) ** 2

    assert sizes == min(range(1, named), key=noise)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"design": "set", "padded": 5}, "padded is 5, but devices of counted_group 0.1 would tell it"),
        ({"design": "set", "policy": "one-round"}, "set takes groups alone"),
        ({"design": "set", "decoder": "posterior"}, "policy groups asks several"),
        ({"design": "pairs", "pair_likes": 5}, "pair_likes is 5, but devices of counted_group"),
        ({"design": "pairs", "first_group": 0.7}, "twice counted_group 0.1; leave some devices"),
        ({"design": "set", "policy": "groups", "counted_group": 0}, "set counted_group for groups"),
    ],
)
def test_what_contradicts_a_counted_group_is_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        resolve(Scenario.model_validate({"counted_group": 0.1, "items": 40, "rated": 9, **changes}))


ITEMS = 60
RATES = Rates(0.02, 0.012)  # Of subsets of a few of thousands of pairs


def planted(strength: float = 0.5) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], Floats2]:
    """Shares of items, and of pairs, of users of two tastes: each likes its half of the items more, the other less."""
    base = np.linspace(0.3, 0.08, ITEMS)
    sign = np.where(np.arange(ITEMS) % 2, 1.0, -1.0)
    tastes = [base * (1 + strength * sign), base * (1 - strength * sign)]
    pairs: Floats2 = (np.outer(tastes[0], tastes[0]) + np.outer(tastes[1], tastes[1])) / 2
    np.fill_diagonal(pairs, 0.0)
    return base, pairs


def test_without_noise_the_covariance_is_what_was_planted() -> None:
    liked, pairs = planted()
    sign = np.where(np.arange(ITEMS) % 2, 1.0, -1.0)
    alpha, excess = cleaned(pairs, liked, 0.0)
    wanted = 0.25 * np.outer(liked * sign, liked * sign)
    off = ~np.eye(ITEMS, dtype=bool)
    assert alpha == pytest.approx(1.0, abs=0.02)
    assert np.abs((excess - wanted)[off]).max() < 0.05 * wanted.max()
    best = np.argsort(-item_to_item(np.arange(ITEMS, dtype=np.int32), liked, pairs, 0.0).weights, axis=1)[:, :10]
    assert (best % 2 == np.arange(ITEMS)[:, None] % 2).all(), "those that a like lifts most are of its own half"


@pytest.mark.statistical
def test_pure_noise_leaves_next_to_nothing() -> None:
    """Wigner's edge: of 200 eigenvalues of a random matrix at most a few lie beyond it, barely. One of either sign is
    10 % beyond with probability 1e-6 (Tracy and Widom's law of symmetric matrices, whose scale is 200^(-2/3) / 2 =
    1.46 %, has right tail exp(-(2/3) s^(3/2)) / (4 sqrt(pi) s^(3/4)), here at s = 6.8). Of those sqrt(1 - 1.1^-2) =
    .417 is kept; of four fifths of the noise, in which the twin believes, .6."""
    many, noise = 200, 1e-3
    values = np.random.default_rng(3).normal(0, noise, many * (many - 1) // 2)
    pairs, liked = pair_matrix(values, many), np.full(many, 1e-6)
    largest = np.abs(np.linalg.eigvalsh(pairs)).max()
    assert largest < 1.1 * 2 * noise * np.sqrt(many)
    kept = [np.abs(np.linalg.eigvalsh(cleaned(pairs, liked, told)[1])).max() for told in (noise, 0.8 * noise)]
    assert kept[0] < 0.42 * largest < kept[1]


@pytest.mark.statistical
def test_noise_of_popular_items_is_no_taste() -> None:
    """Independent likes, some items fifty times as popular as others: Wigner's edge holds once entries are alike, by
    10 % with false alarm 1e-6, as above. The twin believes that all entries are as uncertain as the mean one."""
    many, devices, rates = 200, 10**6, Rates(mine=0.5, others=1e-4)
    liked = np.geomspace(0.5, 0.01, many)
    shares_of = np.outer(liked, liked)[np.triu_indices(many, 1)]
    counts = np.random.default_rng(4).binomial(devices, rates.others + rates.contrast * shares_of)
    pairs = pair_matrix(shares(rates, counts, devices), many)
    noise = noise_of(rates, counts, devices, many)
    variances = np.outer(noise, noise)[np.triu_indices(many, 1)]
    assert np.corrcoef(variances, rates.spread(shares_of) / devices)[0, 1] > 0.98
    alpha, excess = cleaned(pairs, liked, noise)
    assert alpha == pytest.approx(1, abs=0.01)
    largest = np.abs(np.linalg.eigvalsh(excess / np.sqrt(np.outer(noise, noise)))).max()
    assert largest < (1.1**2 - 1) ** 0.5 * 2 * np.sqrt(many)
    mean = float(np.sqrt(variances.mean()))
    assert np.abs(np.linalg.eigvalsh(cleaned(pairs, liked, mean)[1])).max() > 0.7 * 2 * mean * np.sqrt(many)


@pytest.mark.statistical
def test_noise_of_devices_that_answer_is_that() -> None:
    """40,000 devices that like nothing: chi-square over 435 pairs, false alarm 1e-6; the twin is 1.6 times as large."""
    devices, many = 40_000, 30
    query = LikedPairs(items=many, rated=12).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(2))
    ratings = worlds.stored_ratings([dict.fromkeys(range(12), False)], [0] * devices, many)
    release = Cohort(ratings, worlds.SECRET, 0, devices, None).answer(query, 0, devices)
    told = aggregate(query, release)
    assert isinstance(told, GroupStatistic)
    rates, counts = subsets_of(query).reports(query), told.of(PAIRED).sums[: many * (many - 1) // 2]
    found = shares(rates, counts, devices)
    noise = noise_of(rates, counts, devices, many)
    scaled = found / np.sqrt(np.outer(noise, noise)[np.triu_indices(many, 1)])
    assert variance_fits(scaled, 1.0)
    assert not variance_fits(scaled, 1.6)


def test_ease_is_the_least_squares_solution() -> None:
    """Against its definition: every column minimises the ridge loss among weights that leave the item itself out."""
    generator = np.random.default_rng(0)
    likes = (generator.random((500, 6)) < generator.random(6)).astype(float)
    second = likes.T @ likes / 500
    found = ease_weights(second)
    for item in range(6):
        others = np.arange(6) != item
        normal = second[np.ix_(others, others)] + LEAST_RIDGE * np.eye(5)
        assert found[others, item] == pytest.approx(np.linalg.solve(normal, second[others, item]))
    assert not np.diag(found).any()


def test_ease_takes_what_is_no_covariance_too() -> None:
    """Noise makes a matrix with negative eigenvalues; the ridge lies above them."""
    second = np.array([[0.01, 0.3], [0.3, 0.01]])
    ridge = 1.2 * 0.29 + 0.015
    assert ease_weights(second)[0, 1] == pytest.approx(0.3 / (0.01 + ridge))


def test_scores_add_up_a_devices_likes_exactly() -> None:
    """Weights lie on the public grid, so that sums are the same on every processor and in every block."""
    model = item_to_item(np.arange(ITEMS, dtype=np.int32), *planted(), 0.0)
    likes = np.random.default_rng(1).random((300, ITEMS)) < 0.4
    whole = scores(model, likes)
    by_hand = np.array([sum(model.weights[item] for item in np.flatnonzero(row)[::-1]) for row in likes])
    assert (whole == by_hand).all()
    assert (whole[17:18] == scores(model, likes[17:18])).all()


TASTE_ITEMS = 60
PLANTED = np.linalg.qr(np.random.default_rng(0).standard_normal((TASTE_ITEMS, 2)))[0]


def matrices(noise: float, strengths: Floats, many: int) -> list[Floats2]:
    """Planted directions of such strengths, and symmetric noise with a diagonal of 0."""
    coins, found = np.random.default_rng(1), []
    for _ in range(many):
        upper = np.triu(coins.standard_normal((TASTE_ITEMS, TASTE_ITEMS)) * noise, 1)
        found.append((PLANTED * strengths) @ PLANTED.T + upper + upper.T)
    return found


@pytest.mark.statistical
def test_strengths_and_overlaps_are_those_of_the_planted_direction() -> None:
    """Means over 200 matrices: false alarm 1e-6 and 3 % for a finite matrix; a twin that is told .8 of the noise fails.

    A direction of strength s, in units of sigma sqrt(M), is seen at s + 1 / s with an overlap of 1 - 1 / s^2.
    """
    noise, drawn = 0.1, matrices(0.1, np.array([2.0 * 0.1 * math.sqrt(TASTE_ITEMS), 0.0]), 200)

    def strays(told: float) -> list[bool]:
        with one_thread():
            found = [subspace(one, told) for one in drawn]
        strengths = np.array([one.strengths[0] for one in found]) / (2 * noise * math.sqrt(TASTE_ITEMS)) - 1
        overlaps = np.array([one.overlaps[0] - (one.vectors[:, 0] @ PLANTED[:, 0]) ** 2 for one in found])
        both = np.stack([strengths, overlaps], axis=1)
        far: list[bool] = (np.abs(both.mean(axis=0)) > 0.03 + student_radius(both)).tolist()
        return far

    assert strays(noise) == [False, False]
    assert strays(0.8 * noise) == [True, True]


def test_noise_alone_has_no_direction_and_pairs_become_a_matrix() -> None:
    found = subspace(matrices(0.1, np.zeros(2), 1)[0], 0.11)
    assert found.vectors.shape == (TASTE_ITEMS, 0)
    matrix, noise = agreed(np.array([75, 50, 25]), 100, 3)
    assert matrix.tolist() == [[0, 0.5, 0], [0.5, 0, -0.5], [0, -0.5, 0]]
    assert noise == 0.1


def test_directions_of_a_pool_say_nothing_of_other_items() -> None:
    pool = np.array([1, 3], np.int32)
    told = subspace(np.array([[0.0, 0.25], [0.25, 0.0]]), 0)
    found = tastes_of_pairs(pool, told, 0.25, rated=np.array([0.0, 0.5, 0.5, 2.0]), liked=np.array([-1, 0, 0.5, 1.0]))
    assert np.abs(found.vectors[:, 0]) == pytest.approx([0, math.sqrt(0.5), 0, math.sqrt(0.5)], abs=1e-6)
    assert found.rated == pytest.approx([1e-5, 0.5, 0.5, 0.99], abs=1e-6)
    assert found.liked == pytest.approx([-0.99, 0, 0.5, 0.99], abs=1e-6)


def test_powers_expect_as_many_ratings_as_a_device_has() -> None:
    rated, numbers = np.array([0.9, 0.5, 0.2, 0.1]), np.array([3, 1, 2, 1, 4, 0])
    found = powers(rated, numbers)
    assert (rated ** found[:, None]).sum(axis=1)[:4] == pytest.approx(numbers[:4])
    assert found[4:] == pytest.approx([0, 8], abs=1e-6)


def test_a_device_likes_what_goes_with_its_own_likes() -> None:
    """Ridge regression by hand, on a device that rated as much as the average and on one that rated nothing."""
    vectors = np.array([[1.0], [1.0], [-1.0], [0.0]])
    tastes = Tastes(rated=np.full(4, 0.5), liked=np.array([0.5, 0.0, 0.0, 0.0]), vectors=vectors, ridge=2.0)
    one, nothing = likely(tastes, worlds.likes([{0: True, 3: False}, {}], 4))
    taste = 0.5 / (1 + 2.0)  # its rating, 0.5 above the mean, on the direction
    assert one == pytest.approx(0.5 * (1 + np.array([0.5 + taste, taste, -taste, 0])) / 2)
    assert nothing == pytest.approx(0.5**8 * np.array([0.75, 0.5, 0.5, 0.5]), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rated": np.zeros(3)}, "shares of tastes"),
        ({"liked": np.ones(3)}, "mean ratings of tastes"),
        ({"liked": np.zeros(2)}, "mean ratings of tastes"),
        ({"vectors": np.zeros((2, 1))}, "directions of tastes"),
        ({"vectors": np.full((3, 1), np.nan)}, "directions of tastes"),
        ({"vectors": np.zeros((3, 65))}, "64 at most"),
        ({"ridge": 0.0}, "ridge"),
    ],
)
def test_tastes_that_do_not_fit_are_refused(changes: dict[str, Any], line: str) -> None:
    good: dict[str, Any] = {"rated": np.full(3, 0.5), "liked": np.zeros(3), "vectors": np.zeros((3, 1)), "ridge": 1.0}
    zeros = {"cluster": np.zeros(4, np.int32), "score": np.zeros(4), "error": np.ones(4), "clusters": 1}
    with pytest.raises(InputError, match=line):
        Tastes(**{**good, **changes})
    with pytest.raises(InputError, match="tastes of a model"):
        replace(Model(**zeros), tastes=Tastes(**good))  # type: ignore[arg-type]


def test_without_noise_a_subspace_is_exact() -> None:
    found = subspace(matrices(0, np.array([3.0, 1.0]), 1)[0], 0)
    assert found.strengths == pytest.approx([3, 1])
    assert found.overlaps == pytest.approx([1, 1])
    for many in (1, 2):  # squared cosines
        assert np.square(found.vectors[:, :many].T @ PLANTED).sum() == pytest.approx(many)
    assert not found.directions(0).any()
    v = found.directions(0.5)
    assert v @ v.T * 0.5 == pytest.approx((PLANTED * [3.0, 1.0]) @ PLANTED.T)
