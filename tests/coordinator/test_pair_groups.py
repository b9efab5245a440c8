"""Groups of devices that tell pairs of likes: who is asked what, what follows from releases, and the exact moments."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from statistical import hoeffding_radius

from actors.mechanisms.sets import liked_pairs, liked_sets
from actors.seeds import Coins
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.mechanisms.oracles import pool_of
from coordinator.protocol.mechanisms.sets import MOST_ITEMS, pairs_of
from coordinator.server.design import Decoding
from coordinator.server.mechanisms import half_of, server_halves
from coordinator.server.mechanisms.sets import Groups, LikedPairs
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.count_moments import best_subset, pair_set_shares
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.state import ServerState, absorb
from coordinator.server.statistics.counts import PAIRED, RANKED, SHARED, CountStatistic, GroupStatistic, of_group
from coordinator.server.statistics.statistic import merge

EPSILON = Fraction(1)


def design_of(**changes: Any) -> LikedPairs:
    return LikedPairs(**{"items": 12, "rated": 6, "pair_items": 5, **changes})


def policy_of(**changes: Any) -> Groups:
    return Groups(design=design_of(**changes), epsilon=EPSILON, public_seed=worlds.PUBLIC)


def told(group: str, sums: list[int], devices: int) -> GroupStatistic:
    counts = CountStatistic(sums=np.array(sums), ones=7, devices=devices, answered=devices, refused=0)
    return of_group(group, counts)


def test_groups_of_fresh_devices_are_asked_about_all_items_the_most_liked_and_their_pairs() -> None:
    policy, state = policy_of(), ServerState(devices=1000)
    first = policy.next_query(state)
    assert first is not None
    assert (first.first, first.stop, first.query.pool) == (0, 200, None)
    assert first.query.parameters["together"] == 1
    counts = [5, 90, 80, 80, 80, 1, 70, 80, 2, 3, 4, 60]  # of items 2, 3, 4 and 7 alike all are taken
    state = absorb(state, first, told(RANKED, counts, 200))
    second = policy.next_query(state)
    assert second is not None
    assert (second.first, second.stop) == (200, 350)
    assert pool_of(second.query).tolist() == [1, 2, 3, 4, 7]
    assert (second.query.parameters["together"], second.query.parameters["padded"]) == (1, design_of().device_likes)
    state = absorb(state, second, told(SHARED, [9, 1, 1, 1, 1], 150))
    third = policy.next_query(state)
    assert third is not None
    assert (third.first, third.stop, pool_of(third.query).tolist()) == (350, 1000, [1, 2, 3, 4, 7])
    assert (third.query.parameters["together"], third.query.parameters["padded"]) == (2, design_of().device_likes)
    for ask in (first, second, third):
        assert ask.query.epsilon == EPSILON
        check_question(ask.query)
    state = absorb(state, third, told(PAIRED, [3] * 10, 650))
    assert policy.next_query(state) is None
    assert isinstance(state.merged, GroupStatistic)
    assert state.merged.heard.tolist() == [200, 150, 650, 0, 0]
    assert state.merged.of(RANKED).sums.tolist() == counts


def test_where_pairs_of_all_items_are_asked_about_nobody_has_to_choose_them() -> None:
    policy, state = policy_of(pair_items=12), ServerState(devices=1000)
    first = policy.next_query(state)
    assert first is not None
    assert (first.stop, first.query.pool) == (350, None)
    second = policy.next_query(absorb(state, first, told(RANKED, [1] * 12, 350)))
    assert second is not None
    assert (second.first, second.stop, second.query.pool) == (350, 1000, None)
    assert second.query.parameters["together"] == 2


@pytest.mark.parametrize("devices", range(1, 8))
def test_few_devices_are_each_asked_once(devices: int) -> None:
    """What is learned of missing groups is left out."""
    policy, state, asked = policy_of(), ServerState(devices=devices), list[int]()
    for group in (RANKED, SHARED, PAIRED):
        if (ask := policy.next_query(state)) is not None:
            asked += range(ask.first, ask.stop)
            state = absorb(state, ask, told(group, [1] * 15, ask.stop - ask.first))
    assert asked == list(range(devices))
    assert policy.next_query(state) is None
    model = SumLearner(half=half_of("pairs"), how=Decoding(clusters=2, decoder="k-means")).learn(state)[0]
    assert (model.near is not None) == (devices >= 3)
    assert model.score.shape == (12,)


def test_statistics_of_groups_add_up_group_by_group() -> None:
    one, other = told(RANKED, [1, 2, 3], 4), told(RANKED, [10, 20, 30], 5)
    pairs = told(PAIRED, [7, 8], 6)
    whole = merge(one, pairs, other)
    assert isinstance(whole, GroupStatistic)
    assert whole.of(RANKED).sums.tolist() == [11, 22, 33]
    assert whole.of(PAIRED).sums.tolist() == [7, 8]
    assert [whole.of(group).answered for group in (RANKED, SHARED, PAIRED)] == [9, 0, 6]
    assert (whole.answered, whole.ones) == (15, 21)
    with pytest.raises(InputError, match="have no sum"):
        merge(one, CountStatistic(sums=np.ones(3, np.int64), ones=1, devices=1, answered=1, refused=0))


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


def test_sizes_follow_from_public_numbers_alone() -> None:
    for rated, kept in ((1, 2), (6, 3), (30, 15), (70, 20), (1000, 20)):
        assert LikedPairs(items=2000, rated=rated).device_likes == kept
    wide = LikedPairs(items=5000, rated=70, pair_items=MOST_ITEMS)
    query = wide.query(round_number=2, public_seed=worlds.PUBLIC, epsilon=EPSILON)
    assert pairs_of(MOST_ITEMS) == 79_800
    assert check_question(query).channel(query).epsilon == pytest.approx(1, abs=1e-12)
    values, own = pairs_of(5) + 3, 3
    best = best_subset(values, own=own, epsilon=EPSILON, share=0.1)

    def noise(many: int) -> float:
        half, design = server_halves()["pairs"], design_of(pair_likes=3, subset_size=many)
        query = design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=EPSILON)
        mine, other = map(float, check_question(query).channel(query).rates)  # type: ignore[union-attr] # of subsets
        assert half.asks == (query.design,)
        rate = other + (mine - other) * 0.1
        return rate * (1 - rate) / (mine - other) ** 2

    assert best == min(range(1, 11), key=noise)


BLOCK = BlockParameters(
    rated=4,
    like=np.array([[0.9, 0.2], [0.4, 0.7]]),
    class_shares=np.array([0.6, 0.4]),
    cluster_sizes=np.array([3, 4]),
)


@pytest.mark.parametrize("kept", [2, 3, 4])
def test_how_often_a_pair_is_kept_is_exact(kept: int) -> None:
    """Over every subset that a user can rate, and every like."""
    cluster, shares = np.repeat([0, 1], BLOCK.cluster_sizes), np.zeros((7, 7))
    for part, like in zip(BLOCK.class_shares, BLOCK.like, strict=True):
        for rated in itertools.combinations(range(7), 4):
            for likes in itertools.product((True, False), repeat=4):
                chance = math.prod(
                    like[cluster[item]] if liked else 1 - like[cluster[item]]
                    for item, liked in zip(rated, likes, strict=True)
                )
                own = [item for item, liked in zip(rated, likes, strict=True) if liked]
                for one, other in itertools.permutations(own, 2):
                    both = min(1, kept * (kept - 1) / (len(own) * (len(own) - 1)))
                    shares[one, other] += part * chance * both / math.comb(7, 4)
    by_hand = [[shares[0, 1], shares[0, 6]], [shares[6, 0], shares[5, 6]]]
    assert pair_set_shares(BLOCK, kept) == pytest.approx(np.array(by_hand), rel=1e-12)


@pytest.mark.statistical
def test_devices_keep_pairs_as_often_as_that() -> None:
    """40,000 devices of a block model, Hoeffding over three kinds of pairs, false alarm 3e-6; a twin keeps one more."""
    devices, world = 40_000, worlds.world(items=12, rated=8, like=((0.9, 0.4),))
    design = LikedPairs(items=12, rated=8, pair_likes=3)
    query = design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=EPSILON)
    coins = Coins(as_words(worlds.SECRET), 0, devices, query.words)
    own = liked_pairs(liked_sets(query, worlds.block_ratings(world, devices), coins), 12)
    counts = np.bincount(own.ravel(), minlength=pairs_of(12) + 3)[: pairs_of(12)]
    low, high = np.triu_indices(12, 1)
    block = BlockParameters(
        rated=8, like=np.array([[0.9, 0.4]]), class_shares=np.ones(1), cluster_sizes=np.array([6, 6])
    )
    stated, wrong = pair_set_shares(block, 3), pair_set_shares(block, 4)
    for one, other in ((0, 0), (0, 1), (1, 1)):
        of_kind = np.sort([low % 2, high % 2], axis=0) == np.array([[one], [other]])
        pairs = of_kind.all(axis=0)
        measured = counts[pairs].sum() / devices
        radius = hoeffding_radius(devices) * 3  # each device has three pairs at most
        assert abs(measured - stated[one, other] * pairs.sum()) < radius
        assert abs(measured - wrong[one, other] * pairs.sum()) > radius
