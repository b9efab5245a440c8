"""Splits, thinning, validation, scores and advice of the two-tier experiment, each against what it must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from completions import complete_many, features_of, planted

from actors.advice import top_items
from coordinator.protocol.errors import InputError
from coordinator.protocol.rating_table import Rows, stacked
from coordinator.server.completion.fitting import Fitting
from coordinator.server.completion.weighing import baseline_errors, squared_errors
from scenarios.backends.selection import InProcess
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import draw_ratings
from scenarios.families.two_tier.two_tier_scenario import Scale, onto_scale, read_scale, scale_of
from scenarios.families.two_tier.two_tier_seed import advice_scores, liked
from scenarios.families.two_tier.two_tier_worlds import PlantedShape, how_many, planted_ratings, split_users
from scenarios.families.two_tier.validation import choose_fitting, downhill, folds_of

SHAPE_OF_PARTS = PlantedShape(users=90, items=50, ratings=2500, rank=3, fewest=20)
WIDE = Scale(lowest=-99.0, highest=99.0, levels=None)


@pytest.fixture(scope="module")
def planted() -> RatingTable:
    return planted_ratings(SHAPE_OF_PARTS, 0)


def test_planted_ratings_have_the_shape_that_was_asked_for(planted: RatingTable) -> None:
    assert (planted.users, planted.count) == (90, 50)
    assert 0.9 * 2500 < planted.ratings < 1.1 * 2500
    assert planted.degrees.min() >= 20
    assert set(np.unique(planted.values)) <= set(np.arange(0.5, 5.5, 0.5))
    owners = planted.owners.astype(np.int64) * 50 + planted.items
    assert np.array_equal(owners, np.unique(owners))
    again, other = planted_ratings(SHAPE_OF_PARTS, 0), planted_ratings(SHAPE_OF_PARTS, 1)
    assert np.array_equal(again.values, planted.values)
    assert other.values.size != planted.values.size or not np.array_equal(other.items, planted.items)
    counts = np.sort(np.bincount(planted.items, minlength=50))
    assert counts[-5:].sum() > 3 * counts[:5].sum()


def test_a_split_holds_out_as_many_of_everyone_and_deals_users_once(planted: RatingTable) -> None:
    split = split_users(planted, public=20, private=30, public_by="most", private_by="random", holdout=4, seed=3)
    assert set(split.test.degrees) == {4}
    assert np.array_equal(split.train.degrees, planted.degrees - 4)
    assert len({*split.public.tolist(), *split.private.tolist()}) == 50
    least = split.train.degrees[split.public].min()
    others = np.setdiff1d(np.arange(90), split.public)
    assert least >= split.train.degrees[others].max()
    both = [np.concatenate([split.train.items[a:b], split.test.items[c:d]]) for a, b, c, d in _bounds(split)]
    expected = np.split(planted.items, planted.starts[1:-1])
    assert all(np.array_equal(np.sort(one), other) for one, other in zip(both, expected, strict=True))
    elsewhere = split_users(planted, public=20, private=30, public_by="random", private_by="random", holdout=4, seed=4)
    assert not np.array_equal(elsewhere.test.items, split.test.items)
    assert not np.array_equal(elsewhere.public, split.public)


def _bounds(split: object) -> list[tuple[int, int, int, int]]:
    train, test = split.train.starts, split.test.starts  # type: ignore[attr-defined] # a split
    return list(zip(train[:-1], train[1:], test[:-1], test[1:], strict=True))


def test_shares_of_users_are_at_least_one_user() -> None:
    assert [how_many(0.05, 90), how_many(0.001, 90), how_many(7, 90)] == [4, 1, 7]


def test_rows_are_taken_filtered_and_put_below_each_other() -> None:
    rows = Rows(starts=np.array([0, 2, 2, 5]), items=np.arange(5, dtype=np.int32), values=np.arange(5.0), count=6)
    some = rows.of(np.array([2, 0]))
    assert (some.starts.tolist(), some.items.tolist()) == ([0, 3, 5], [2, 3, 4, 0, 1])
    even = rows.where(rows.values % 2 == 0)
    assert (even.starts.tolist(), even.items.tolist()) == ([0, 1, 1, 3], [0, 2, 4])
    both = stacked((some, even))
    assert both.starts.tolist() == [0, 3, 5, 6, 6, 8]
    assert both.items.tolist() == [2, 3, 4, 0, 1, 0, 2, 4]
    drawn = draw_ratings(rows, np.array([1, 0, 3]), 0, "test")
    assert [drawn[:2].sum(), drawn[2:].sum()] == [1, 3]


def test_ratings_that_are_not_finite_are_refused_by_name(planted: RatingTable) -> None:
    values = planted.values.copy()
    values[planted.starts[7]] = np.inf
    with pytest.raises(InputError, match="user '8' rated item"):
        replace(planted, values=values)


def test_scales_are_read_and_ratings_moved_onto_them(planted: RatingTable) -> None:
    assert read_scale("0.5:2:0.5") == (0.5, 1.0, 1.5, 2.0)
    assert read_scale("1,2,5") == (1.0, 2.0, 5.0)
    moved = onto_scale(replace(planted, values=np.resize([0.5, 1.5, 1.6, 9.0], planted.ratings)), (1.0, 2.0, 5.0))
    assert moved.values[:4].tolist() == [1.0, 1.0, 2.0, 5.0]
    assert scale_of(None, np.array([3.0, 1.0])).levels == (1.0, 3.0)
    assert scale_of(None, np.linspace(0, 1, 40)).levels is None
    assert scale_of((0.0, 5.0), np.array([3.0, 1.0])) == Scale(lowest=0.0, highest=5.0, levels=(0.0, 5.0))


def test_scores_are_those_of_completed_vectors_clipped() -> None:
    of = planted(9, 12, rank=2, share=0.7)
    features = features_of(
        np.random.default_rng(1).standard_normal((12, 2)), np.zeros(12), lowest=-0.6, highest=0.4, scale=None
    )
    seen = Rows(starts=of.starts, items=of.items, values=of.values, count=12)
    asked = Rows(starts=np.arange(10), items=np.full(9, 3, np.int32), values=np.full(9, 0.1), count=12)
    hidden = seen.where(seen.items != 3)
    completed = complete_many(features, hidden.starts, hidden.items, hidden.values)[:, 3]
    expected = np.square(np.clip(completed, -0.6, 0.4) - 0.1)
    assert np.allclose(squared_errors(features, hidden, asked), expected)
    assert np.array_equal(squared_errors(features, hidden, asked, 2), squared_errors(features, hidden, asked))
    assert np.allclose(baseline_errors(features, asked), 0.01)


def rows_with(users: int, *, noise: float, seed: int = 0) -> Rows:
    of = planted(users, 40, rank=2, share=0.6, noise=noise, seed=seed)
    return Rows(starts=of.starts, items=of.items, values=of.values, count=40)


def test_folds_hold_out_every_public_user_once_whole() -> None:
    public = rows_with(23, noise=0.1)
    folds = folds_of(public, 5)
    assert sum(fold.seen.users for fold in folds) == 23
    for fold in folds:
        assert fold.train.users + fold.seen.users == 23
        assert np.array_equal(fold.seen.degrees, (fold.seen.degrees + fold.targets.degrees) // 2)
    with pytest.raises(InputError, match="holds public users out"):
        folds_of(public.block(0, 1), 5)


def test_validation_finds_the_planted_rank_and_less_noise_takes_less_regularisation() -> None:
    session = InProcess(1)
    chosen = []
    for noise in (0.05, 3.0):
        public = rows_with(40, noise=noise)
        fitting, tried = choose_fitting(
            folds_of(public, 1), Fitting(rank=1, kappa=1), WIDE, session, rank=5, kappa=None
        )
        best = min(tried, key=lambda one: one[2])
        assert (fitting.rank, fitting.kappa) == best[:2]
        chosen.append(fitting.kappa)
    assert chosen[0] < chosen[1] / 3


@pytest.mark.parametrize(("start", "lowest"), [(2, 7), (2, -5), (7, 7)])
def test_going_downhill_ends_at_the_bottom(start: int, lowest: int) -> None:
    assert downhill(lambda powers: [abs(power - lowest) for power in powers], start) == lowest


def test_advice_ranks_unseen_items_and_counts_likes_above_the_own_mean() -> None:
    vectors = np.zeros((6, 1))
    features = features_of(vectors, np.array([1.0, 5, 4, 3, 2, 2]), kappa=1.0)
    train = Rows(starts=np.array([0, 2, 3]), items=np.array([0, 1, 5], np.int32), values=np.array([1.0, 3, 2]), count=6)
    test = Rows(starts=np.array([0, 2, 3]), items=np.array([2, 3, 4], np.int32), values=np.array([3.0, 1, 2]), count=6)
    ranked = top_items(features, train, 5)
    assert ranked.tolist() == [[2, 3, 4, 5, -1], [1, 2, 3, 4, 0]]
    assert liked(train, test).tolist() == [True, False, False]
    scores = advice_scores(features, np.array([9, 9, 0, 1, 1, 1]), train, test)
    assert (scores["evaluated"], scores["hit_rate"], scores["ndcg"]) == (1, 1.0, 1.0)
    assert scores["popularity_ndcg"] < 1
    assert advice_scores(features, np.ones(6, np.int64), train, test.where(np.zeros(3, np.bool_))) == {}
