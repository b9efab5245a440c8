"""A group of devices tells how many items they like, and the sizes of all later sets follow from that."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from statistical import hoeffding_radius

from actors.mechanisms.sets import liked_sets
from actors.seeds import Coins
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.mechanisms.oracles import pool_of
from coordinator.protocol.mechanisms.sets import pairs_of, ranges_of
from coordinator.protocol.value_channels import subset_channel
from coordinator.server.decoding.count_decoding import number_shares, range_shares
from coordinator.server.design import Decoding
from coordinator.server.mechanisms import half_of
from coordinator.server.mechanisms.sets import CountedSet, GroupedSets, Groups, LikedPairs
from coordinator.server.moments.count_moments import sizes_for
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.state import ServerState, absorb
from coordinator.server.statistics.counts import PAIRED, RANKED, SHARED, SIZED, SIZED_TOP, CountStatistic, of_group
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario

EPSILON = Fraction(1)


def asked(design: GroupedSets, devices: int, told: dict[str, list[int]]) -> ServerState:
    """The state after all rounds, in which groups tell these counts."""
    policy, state = Groups(design=design, epsilon=None, public_seed=worlds.PUBLIC), ServerState(devices=devices)
    groups = [group for group, _ in design.steps]
    while (ask := policy.next_query(state)) is not None:
        check_question(ask.query)
        group, many = groups[len(state.asked)], ask.stop - ask.first
        counts = CountStatistic(sums=np.array(told[group]), ones=0, devices=many, answered=many, refused=0)
        state = absorb(state, ask, of_group(group, counts))
    return state


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
    told = liked_sets(query, ratings, coins, ranges=ranges_of(pool_of(query).size))
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
            SumLearner(half=half_of("pairs"), how=Decoding(clusters=2, decoder="k-means")).learn(state)[0].score.size
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


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 5, 6])
def test_few_devices_are_each_asked_once_and_something_is_learned(devices: int) -> None:
    told = {SIZED: [1] * 5, RANKED: [1] * 20, SIZED_TOP: [1] * 4, SHARED: [1] * 20, PAIRED: [1] * 40}
    for design in (
        CountedSet(items=12, rated=6, counted_group=0.1),
        LikedPairs(items=12, rated=6, pair_items=5, counted_group=0.1),
    ):
        state = asked(design, devices, told)
        assert [ask.first for ask in state.asked[1:]] == [ask.stop for ask in state.asked[:-1]]
        assert state.fresh == devices
        model = SumLearner(half=half_of("pairs"), how=Decoding(clusters=2, decoder="k-means")).learn(state)[0]
        assert (model.error == 1).all() or devices > 1


@pytest.mark.statistical
def test_shares_of_ranges_come_back_through_the_channel() -> None:
    """50,000 answers at epsilon 2, Hoeffding over six ranges, false alarm 6e-6; a twin undoes another epsilon.

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
    assert np.abs(range_shares(counts, *rates(3.0)) - shares).max() > radius


def test_where_nobody_answers_ranges_are_alike_and_where_few_do_hardly_anything_is_said() -> None:
    assert range_shares(np.zeros(4, np.int64), 0.4, 0.2) == pytest.approx(np.full(4, 0.25))
    few = range_shares(np.array([0, 5, 0, 0]), 0.26, 0.2467)  # epsilon .05
    assert few.max() - few.min() < 0.1
    assert number_shares(few, 7).sum() == pytest.approx(1)
    assert number_shares(np.full(10, 0.1), 9724).size == 512


def test_half_of_the_devices_keep_all_their_likes() -> None:
    likes = (0.1, 0.0, 0.3, 0.05, 0.1, 0.45)
    assert sizes_for(likes, 100, epsilon=EPSILON)[0] == 4
    assert sizes_for(likes, 100, epsilon=EPSILON, together=2, most=3)[0] == 3
    assert sizes_for((0.9, 0.1), 100, epsilon=EPSILON, together=2)[0] == 2
    assert sizes_for(likes, 100, epsilon=EPSILON, padded=3, subset_size=4) == (3, 4)


@pytest.mark.parametrize("together", [1, 2])
def test_releases_are_as_long_as_has_the_least_noise(together: int) -> None:
    likes = (0.2, 0.1, 0.1, 0.2, 0.4)
    own, chosen = sizes_for(likes, 30, epsilon=EPSILON, together=together)
    assert own == 3
    named, values = math.comb(30, together), math.comb(3, together)
    share = sum(part * math.comb(min(many, 3), together) for many, part in enumerate(likes)) / named / 2

    def noise(many: int) -> float:
        channel = subset_channel(EPSILON, values=named + values, padded=values, subset_size=many)
        mine, other = map(float, channel.rates)
        rate = other + (mine - other) * share
        return rate * (1 - rate) / (mine - other) ** 2

    assert chosen == min(range(1, named), key=noise)


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
        RunSpec(Scenario.model_validate({"counted_group": 0.1, "items": 40, "rated": 9, **changes}))


def test_such_refusals_are_of_input() -> None:
    with pytest.raises(InputError, match="chosen is 13"):
        CountedSet(items=12, rated=5, subset_size=13)
