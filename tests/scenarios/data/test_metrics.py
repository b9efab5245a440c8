"""Scores of clusterings, rankings and advice, held against other ways to compute them."""

import itertools
import math

import numpy as np
import pytest
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import complains, split_of
from sklearn.metrics import adjusted_rand_score, ndcg_score, normalized_mutual_info_score

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Ints
from coordinator.protocol.rating_table import Held, RowTable
from scenarios.data.metrics import ADVICE, clustering_scores, ranking_scores, score_advice
from scenarios.data.rating_split import Split

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)


@settings(max_examples=examples(150))
@given(pairs=LABELS)
def test_accuracy_is_the_best_over_all_matchings_and_indices_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    found, truth = np.array(pairs).T
    best = max(int((np.array(names)[found] == truth).sum()) for names in itertools.permutations(range(4)))
    scores = clustering_scores(found, truth)
    assert scores.accuracy == pytest.approx(best / len(pairs))
    assert scores.exact == (best == len(pairs))
    assert scores.ari == pytest.approx(adjusted_rand_score(truth, found))
    assert scores.nmi == pytest.approx(normalized_mutual_info_score(truth, found))


def rows_of(starts: Ints, items: Ints) -> Held:
    """Held-out items of some users."""
    return RowTable(starts=starts, items=items.astype(np.int32), values=None, count=200)


def test_ranking_by_hand() -> None:
    """Hits at ranks 1 and 3 of three held out; a miss; a user without held-out items; a hit at rank 2 of one."""
    recommended = np.array([[5, 1, 7], [0, 1, 2], [0, 1, 2], [-1, 4, -1]])
    scores = ranking_scores(recommended, rows_of(np.array([0, 3, 4, 4, 5]), np.array([7, 5, 9, 3, 4])))
    first = (1 + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2)
    values = np.array([first, 0, 1 / math.log2(3)])
    assert scores.evaluated == 3
    assert scores.hit_rate == pytest.approx(2 / 3)
    assert scores.hit_rate_error == pytest.approx(math.sqrt(2 / 9 / 3))
    assert scores.ndcg == pytest.approx(values.mean())
    assert scores.ndcg_error == pytest.approx(values.std() / math.sqrt(3))


@pytest.mark.parametrize(
    ("recommended", "held"), [([[3], [1]], [1, 3]), ([[7], [0]], [1, 3]), ([[0, -1], [-1, -1]], [4, 0])]
)
def test_another_users_held_out_item_is_no_hit(recommended: list[list[int]], held: list[int]) -> None:
    """Nor is an item above all held-out ones read as one of the next user, or an empty place as the last one's."""
    scores = ranking_scores(np.array(recommended), rows_of(np.array([0, 1, 2]), np.array(held)))
    assert (scores.hit_rate, scores.ndcg) == (0, 0)


@settings(max_examples=examples(50))
@given(seed=st.integers(0, 2**32 - 1), places=st.integers(1, 8))
def test_ndcg_equals_scikit_learn(seed: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    held = rng.random((20, 12)) < 0.3
    held[0, 0] = True
    order = rng.permuted(np.tile(np.arange(12), (20, 1)), axis=1)
    ranks = np.argsort(order, axis=1)
    offsets = np.concatenate(([0], held.sum(axis=1).cumsum()))
    scores = ranking_scores(order[:, :places].astype(np.int32), rows_of(offsets, np.nonzero(held)[1]))
    some = held.any(axis=1)
    assert scores.ndcg == pytest.approx(ndcg_score(held[some], -ranks[some], k=places))
    hits = [bool(held[u, order[u, :places]].any()) for u in np.nonzero(some)[0]]
    assert scores.hit_rate == pytest.approx(np.mean(hits))


def test_held_out_items_told_twice_count_once() -> None:
    scores = ranking_scores(np.array([[2, 0]]), rows_of(np.array([0, 2]), np.array([2, 2])))
    assert scores.ndcg == 1


@pytest.mark.parametrize(
    ("recommended", "starts", "items"),
    [
        ([[1, 1]], [0, 1], [1]),
        ([[1, 2]], [0, 0], []),
        ([[1, 2]], [0, 1, 1], [1]),
        ([[1, 2]], [0, 2], [1]),
        ([[1], [2]], [0, 2, 1], [1]),
        ([[]], [0, 1], [1]),
        ([[1, 2]], [0, 1], [-1]),
    ],
)
def test_wrong_rankings_are_refused(recommended: list[list[int]], starts: list[int], items: list[int]) -> None:
    with complains():
        ranking_scores(np.array(recommended, np.int64), rows_of(np.array(starts), np.array(items)))


ITEMS, K, COPIES = 20, 10, 20_000
LIKED = {0: [0, 1, 2], 1: [*range(0, 17, 2)], 2: [3]}
RATED = {0: range(5), 1: range(17), 2: range(3, 9)}
HELD: tuple[list[int], ...] = ([6, 7], [18], [])


def world(copies: int) -> tuple[Split, StoredRatings]:
    """Three users: one who rated little, one whose unrated items are fewer than K, one with nothing held out."""
    split = split_of([[(item, item in LIKED[user]) for item in RATED[user]] for user in range(3)], HELD, ITEMS)
    return split, StoredRatings(rows=split.train.valued(split.likes), user=np.tile([2, 1, 0], copies))


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
    best = sorted(split.popular.tolist(), key=lambda item: -likes[item])  # equal ones as every command ranks them
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
