"""Real catalogues: what planted clusters follow, and advice beside popularity and chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import statistical
from hypothesis import given
from hypothesis import strategies as st

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Indices
from scenarios.catalogue import Following, chance_of, score_advice, share_between, what_clusters_follow
from scenarios.datasets import RatingTable
from scenarios.likes import Split
from scenarios.metrics import ranking_scores

POPULARITY = np.repeat([0, 1], 20).astype(np.int32)
TASTE = np.tile([0, 1], 20).astype(np.int32)
NEITHER = np.tile([0, 0, 1, 1], 10).astype(np.int32)


def split_of(rows: Sequence[Sequence[tuple[int, bool]]], held: Sequence[Sequence[int]], items: int) -> Split:
    """A split of users who rated (item, liked), with these held-out items."""
    flat = [pair for row in rows for pair in sorted(row)]
    train = RatingTable(
        indptr=np.cumsum([0, *map(len, rows)]),
        items=np.array([item for item, _ in flat], np.int32),
        values=np.array([float(liked) for _, liked in flat]),
        user_labels=np.array([str(user) for user in range(len(rows))], np.object_),
        item_labels=np.array([str(item) for item in range(items)], np.object_),
        source="planted",
    )
    return Split(
        train=train,
        likes=np.array([liked for _, liked in flat], np.bool_),
        held_indptr=np.cumsum([0, *map(len, held)]),
        held_items=np.array([item for row in held for item in row], np.int32),
    )


def planted(raters: tuple[int, int], share: tuple[float, float], rare: bool = False) -> Split:
    """Items whose number of raters goes with POPULARITY and whose share of likes goes with TASTE, both exactly.

    With ``rare`` there are 40 items more, with four raters each, and their likes contradict everything.
    """
    rows: list[list[tuple[int, bool]]] = [[] for _ in range(max(raters))]
    for item in range(40):
        many = raters[POPULARITY[item]]
        for user in range(many):
            rows[user].append((item, user < share[TASTE[item]] * many))
    for item in range(40, 80 if rare else 40):
        for user in range(4):
            rows[user].append((item, item % 3 == 0))
    return split_of(rows, [[] for _ in rows], 80 if rare else 40)


def test_clusters_by_the_number_of_likes_follow_popularity() -> None:
    """Four levels of likes, 4, 6, 40 and 60, ten items each; their mean is 27.5, the clusters' means are 5 and 50."""
    found = what_clusters_follow(POPULARITY, POPULARITY, planted((10, 100), (0.4, 0.6)))
    squares = [(likes - 27.5) ** 2 for likes in (4, 6, 40, 60)]
    assert found.popularity == pytest.approx(22.5**2 / (sum(squares) / 4))
    assert found.taste == pytest.approx(0, abs=1e-12)
    assert (found.verdict, found.noiseless_ari) == ("popularity", 1)


def test_clusters_by_the_share_of_likes_follow_taste() -> None:
    found = what_clusters_follow(TASTE, TASTE, planted((20, 40), (0.2, 0.8)))
    squares = [(likes - 15) ** 2 for likes in (4, 16, 8, 32)]
    assert found.taste == pytest.approx(1)
    assert found.popularity == pytest.approx(9**2 / (sum(squares) / 4))
    assert found.verdict == "taste"


def test_clusters_unlike_those_without_noise_are_noise_whatever_they_follow() -> None:
    found = what_clusters_follow(POPULARITY, NEITHER, planted((10, 100), (0.4, 0.6)))
    assert found.noiseless_ari < 0.05
    assert found.verdict == "noise"


def test_clusters_that_explain_nothing_are_noise_though_they_agree_with_those_without_noise() -> None:
    nothing = what_clusters_follow(NEITHER, NEITHER, planted((10, 100), (0.4, 0.6)))
    assert (nothing.popularity, nothing.taste) == pytest.approx((0, 0), abs=1e-12)
    assert nothing.by_chance == pytest.approx((1, 1))
    assert (nothing.noiseless_ari, nothing.verdict) == (1, "noise")


@pytest.mark.parametrize("clusters", [2, 3])
def test_what_labels_at_random_explain_is_as_likely_as_simulated(clusters: int) -> None:
    """For normal values the F test is exact: 20,000 planted ones, a deviation below 5 standard errors (false alarm 6e-7)."""
    cluster = (np.arange(30) % clusters).astype(np.int32)
    values = np.random.default_rng(clusters).normal(size=(20_000, 30))
    shares = np.array([share_between(row, cluster) for row in values])
    for level in (0.05, 0.2):
        share = (shares >= level).mean()
        expected = chance_of(level, cluster)
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / 20_000)
        assert abs(share - chance_of(level * 1.3, cluster)) > 5 * math.sqrt(expected * (1 - expected) / 20_000)


def test_one_cluster_or_as_many_as_items_explain_nothing() -> None:
    assert chance_of(1.0, np.zeros(9, np.int32)) == 1
    assert chance_of(1.0, np.arange(9, dtype=np.int32)) == 1


def test_items_that_few_rated_say_nothing_of_taste() -> None:
    cluster = np.concatenate([TASTE, np.arange(40) // 20]).astype(np.int32)
    assert what_clusters_follow(cluster, cluster, planted((20, 40), (0.2, 0.8), rare=True)).taste == pytest.approx(1)
    lonely = planted((2, 3), (0.5, 1.0))
    assert what_clusters_follow(TASTE, TASTE, lonely).taste == 0


@pytest.mark.parametrize(
    ("popularity", "taste", "ari", "chance", "verdict"),
    [
        (0.5, 0.4, 0.06, (0.0, 0.0), "popularity"),
        (0.4, 0.5, 0.06, (0.0, 0.0), "taste"),
        (0.4, 0.4, 0.06, (0.0, 0.0), "taste"),
        (0.9, 0.1, 0.04, (0.0, 0.0), "noise"),
        (0.9, 0.1, -0.01, (0.0, 0.0), "noise"),
        (0.9, 0.1, 0.9, (0.0, 0.9), "popularity"),
        (0.1, 0.9, 0.9, (0.9, 0.0), "taste"),
        (0.1, 0.9, 0.9, (0.9, 0.9), "noise"),
    ],
)
def test_the_verdict(popularity: float, taste: float, ari: float, chance: tuple[float, float], verdict: str) -> None:
    found = Following(popularity=popularity, taste=taste, noiseless_ari=ari, by_chance=chance)
    assert found.verdict == verdict


def test_the_share_between_by_hand() -> None:
    pairs = np.array([0, 0, 1, 1], np.int32)
    assert share_between(np.array([1.0, 2.0, 3.0, 4.0]), pairs) == pytest.approx(0.8)
    assert share_between(np.array([1.0, 1.0, 7.0, 7.0]), pairs) == pytest.approx(1)
    assert share_between(np.array([3.0, 3.0, 3.0, 3.0]), pairs) == 0
    assert share_between(np.array([1.0, 2.0, 3.0, 4.0]), pairs * 5) == pytest.approx(0.8)
    assert share_between(np.array([]), pairs[:0]) == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=2, max_size=12))
def test_the_share_between_is_what_lies_not_within(pairs: list[tuple[int, int]]) -> None:
    values = [value for value, _ in pairs]
    own = [[value for value, mine in pairs if mine == label] for _, label in pairs]
    within = sum((value - sum(group) / len(group)) ** 2 for value, group in zip(values, own, strict=True))
    spread = sum((value - sum(values) / len(values)) ** 2 for value in values)
    found = share_between(np.array(values, float), np.array([label for _, label in pairs], np.int32))
    assert found == pytest.approx(1 - within / spread if spread else 0, abs=1e-9)


ITEMS, K, COPIES = 20, 10, 20_000
LIKED = {0: [0, 1, 2], 1: [*range(0, 17, 2)], 2: [3]}
RATED = {0: range(5), 1: range(17), 2: range(3, 9)}
HELD = ([6, 7], [18], [])


def world(copies: int) -> tuple[Split, StoredRatings]:
    """Three users: one who rated little, one whose unrated items are fewer than K, one with nothing held out."""
    split = split_of([[(item, item in LIKED[user]) for item in RATED[user]] for user in range(3)], HELD, ITEMS)
    ratings = StoredRatings(
        items=ITEMS,
        starts=split.train.indptr,
        rated_items=split.train.items,
        likes=split.likes,
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
    right = ranking_scores(advice, np.cumsum([0, *map(len, held)]), np.array([item for row in held for item in row]))
    told = score_advice(np.full((9, K), -1, np.int32), ratings, split)
    assert (told["popularity_hit_rate"], told["popularity_ndcg"]) == (right.hit_rate, right.ndcg)
    assert right.hit_rate == 1


def test_only_the_advised_devices_count() -> None:
    split, ratings = world(5)
    told = score_advice(np.tile(np.array([18, *range(100, 109)], np.int32), (2, 1)), ratings, split)
    assert (told["evaluated"], told["hit_rate"], told["ndcg"]) == (1, 1, 1)


def test_without_held_out_likes_there_is_nothing_to_score() -> None:
    split, ratings = world(2)
    assert score_advice(np.full((1, K), -1, np.int32), ratings, split) == {}
