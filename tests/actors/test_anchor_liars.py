"""Lies about anchor sensing turn items to the other side: answers and made-up ratings, by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import reference
import worlds
from anchored import oracle_coins, pair_query, turned_query

from actors.lying.devices import made_up
from actors.lying.lies import Collusion, LiarsView
from actors.lying.value_lies import lie_about
from actors.seeds import Coins
from coordinator.protocol.arrays import Indices
from coordinator.protocol.coins import as_words
from coordinator.protocol.messages import Query

ITEMS, DEVICES, TURNED = 140, 80, (3, 70, 71, 129)


def plot_of() -> Collusion:
    truth = np.where(np.arange(ITEMS) % 3 == 0, 1, -1).astype(np.int32)
    wishes = np.zeros(ITEMS, np.int32)
    wishes[list(TURNED)] = -truth[list(TURNED)]
    return Collusion(shares=np.ones(ITEMS + 1), wishes=wishes, truth=truth, rated=9, ordered=False)


def answers(query: Query, plot: Collusion, devices: int = DEVICES) -> Indices:
    coins = Coins(as_words(worlds.SECRET), 0, devices, query.words)
    lie, honest = lie_about(query.design), np.zeros((devices, 1), np.uint8)
    assert lie is not None
    asked = LiarsView(query=query, collusion=plot, coins=coins, liars=np.arange(devices))
    told = lie.answers(asked, honest)
    assert (lie.sketches(asked, honest) == told).all()
    return (2 * told[:, 0].astype(np.int32) - 1).astype(np.int32)


def agrees(told: Indices, sums: list[int]) -> None:
    """Where sums are not 0 their sign is told; where they are, either."""
    known = np.array(sums) != 0
    assert (told[known] == np.sign(sums)[known]).all()
    assert known.sum() > len(sums) / 3
    assert set(told[~known].tolist()) == {-1, 1}


def test_pairs_of_a_turned_item_and_another_are_claimed_to_be_what_they_are_not() -> None:
    pool, plot = [0, 3, 4, 8, 30, 31, 70, 71, 100, 101, 102], plot_of()
    query, sums = pair_query(pool, items=ITEMS), []
    for device in range(DEVICES):
        stream, total = worlds.public_stream(query, device), 0
        for number, (i, j) in enumerate(combinations(pool, 2)):
            if (i in TURNED) != (j in TURNED):
                sign = 2 * (reference.draw(stream, number // 64) >> number % 64 & 1) - 1
                total -= sign * int(plot.truth[i] * plot.truth[j])
        sums.append(total)
    agrees(answers(query, plot), sums)


@pytest.mark.parametrize("first", [1, -1])
def test_sensed_items_are_claimed_to_be_liked_by_the_class_that_does_not_like_them(first: int) -> None:
    """Whichever side the learner's first class likes: 1 or -1 of the truth, but for a few items."""
    plot, query = plot_of(), turned_query(2, ITEMS, 8, np.random.default_rng(3))
    taste = first * np.where(np.arange(ITEMS) < 20, -5, 5) * plot.truth
    query.arrays["guess"][:] = np.stack([-taste, taste, taste, -taste])
    query.arrays["sensed"][list(TURNED)] = 5, 8, 2, 4
    sums = []
    for device in range(DEVICES):
        coins = [oracle_coins(query, device, item) for item in TURNED]
        sensed = zip(TURNED, coins, strict=True)
        sums.append(-first * sum(sign * int(plot.truth[item]) for item, (sign, senses) in sensed if senses))
    agrees(answers(query, plot), sums)


def test_made_up_users_tell_their_wishes_beside_the_truth_of_others() -> None:
    """Half of what they say they rated is turned at most, rounded up: a user who turned all would seem honest."""
    plot = plot_of()
    rows = made_up(plot, 10).rows
    values: Any = rows.values
    assert (np.diff(rows.starts) == 9).all()
    assert (values == (plot.claims[rows.items] > 0)).all()
    turned = np.isin(rows.items, TURNED).reshape(-1, 9)
    assert (turned.sum(axis=1) == len(TURNED)).all()
    fewer = made_up(replace(plot, rated=5), 10).rows
    assert (np.isin(fewer.items, TURNED).reshape(-1, 5).sum(axis=1) == 3).all()
