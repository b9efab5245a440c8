"""Advice on real catalogues, scored beside popularity and chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statistical
from runs import split_of

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Indices
from scenarios.data.metrics import ADVICE, ranking_scores, score_advice
from scenarios.data.rating_split import Split

ITEMS, K, COPIES = 20, 10, 20_000
LIKED = {0: [0, 1, 2], 1: [*range(0, 17, 2)], 2: [3]}
RATED = {0: range(5), 1: range(17), 2: range(3, 9)}
HELD: tuple[list[int], ...] = ([6, 7], [18], [])


def world(copies: int) -> tuple[Split, StoredRatings]:
    """Three users: one who rated little, one whose unrated items are fewer than K, one with nothing held out."""
    split = split_of([[(item, item in LIKED[user]) for item in RATED[user]] for user in range(3)], HELD, ITEMS)
    ratings = StoredRatings(
        rows=split.train.valued(split.likes),
        user=np.tile([2, 1, 0], copies),
    )
    return split, ratings


def by_chance(ratings: StoredRatings, places: int) -> Indices:
    """Unrated items at random for every device, -1 where none is left."""
    luck = np.random.default_rng(1).random((ratings.users, ITEMS))
    for device, user in enumerate(ratings.user.tolist()):
        luck[device, list(RATED[user])] = 2
    advice = np.argsort(luck, axis=1)[:, :K].astype(np.int32)
    advice[np.take_along_axis(luck, advice, axis=1) > 1] = -1
    advice[:, places:] = -1
    return advice


@pytest.mark.statistical
def test_chance_agrees_with_simulation() -> None:
    """False alarm: 1e-6 for each of the two, by Hoeffding's inequality over 40,000 evaluated devices.

    The twin recommends eight items of ten.
    """
    split, ratings = world(COPIES)
    told, fewer = (score_advice(by_chance(ratings, places), ratings, split) for places in (K, K - 2))
    radius = statistical.hoeffding_radius(2 * COPIES)
    assert told["evaluated"] == 2 * COPIES
    for name in ("hit_rate", "ndcg"):
        assert abs(told[name] - told[f"random_{name}"]) < radius
        assert abs(fewer[name] - told[f"random_{name}"]) > radius


def test_chance_by_hand() -> None:
    split, ratings = world(1)
    told = score_advice(np.full((3, K), -1, np.int32), ratings, split)
    assert (told["hit_rate"], told["ndcg"]) == (0, 0)
    assert told["random_hit_rate"] == pytest.approx((1 - math.comb(13, 10) / math.comb(15, 10) + 1) / 2)
    gains = [1 / math.log2(rank + 1) for rank in range(1, 11)]
    assert told["random_ndcg"] == pytest.approx((2 / 15 * sum(gains) / sum(gains[:2]) + sum(gains[:3]) / 3) / 2)


def test_popularity_recommends_what_most_users_of_the_file_like() -> None:
    split, ratings = world(3)
    likes = [sum(item in LIKED[user] for user in range(3)) for item in range(ITEMS)]
    best = sorted(range(ITEMS), key=lambda item: -likes[item])
    top = [[item for item in best if item not in RATED[user]][:K] for user in (2, 1, 0)] * 3
    advice = np.array([row + [-1] * (K - len(row)) for row in top], np.int32)
    held = [HELD[user] for user in (2, 1, 0)] * 3
    right = ranking_scores(advice, split_of([[]] * 9, held, ITEMS).holdout)
    told = score_advice(np.full((9, K), -1, np.int32), ratings, split)
    assert (told["popularity_hit_rate"], told["popularity_ndcg"]) == (right.hit_rate, right.ndcg)
    assert right.hit_rate == 1


def test_only_the_advised_devices_count() -> None:
    split, ratings = world(5)
    told = score_advice(np.tile(np.array([18, *range(100, 109)], np.int32), (2, 1)), ratings, split)
    assert (told["evaluated"], told["hit_rate"], told["ndcg"]) == (1, 1, 1)


def test_without_held_out_likes_there_is_nothing_to_score() -> None:
    split, ratings = world(2)
    scores = score_advice(np.full((1, K), -1, np.int32), ratings, split)
    assert scores.pop("evaluated") == 0
    assert set(scores) == set(ADVICE)
    assert set(scores.values()) == {None}
