import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from evidence import chi_square_fits, examples, hoeffding_radius
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import rating_table

from coordinator.protocol.arrays import Ints
from coordinator.protocol.errors import InputError
from scenarios.data import rating_split
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import Split, describe, hold_out, judge_likes

Rows = list[dict[int, float]]
rows_of_ratings = st.lists(
    st.dictionaries(st.integers(0, 8), st.integers(1, 10).map(lambda tenths: tenths / 10)), min_size=1, max_size=8
)


def rows_of(table: RatingTable) -> Rows:
    rows = [table.block(user, user + 1) for user in range(table.users)]
    return [dict(zip(row.items.tolist(), row.values.tolist(), strict=True)) for row in rows]


def held_of(split: Split) -> list[list[int]]:
    return [split.holdout.block(user, user + 1).items.tolist() for user in range(split.holdout.users)]


def liked_exactly(row: dict[int, float], like_from: float | None) -> list[int]:
    """Return the liked items of one user by exact arithmetic on tenths."""
    tenths = {item: round(value * 10) for item, value in row.items()}
    if like_from is not None:
        return sorted(item for item in tenths if tenths[item] >= round(like_from * 10))
    mean = Fraction(sum(tenths.values()), max(len(tenths), 1))
    return sorted(item for item in tenths if tenths[item] > mean)


@settings(max_examples=examples(150))
@given(rows=rows_of_ratings, like_from=st.sampled_from([None, 0.3, 0.7]))
def test_likes_agree_with_exact_arithmetic(rows: Rows, like_from: float | None) -> None:
    table = rating_table(rows)
    likes = judge_likes(table, like_from)
    assert likes.dtype == np.bool_
    found = [table.items[a:b][likes[a:b]].tolist() for a, b in zip(table.starts, table.starts[1:], strict=False)]
    assert found == [liked_exactly(row, like_from) for row in rows]


@pytest.mark.parametrize("value", [0.0, 0.1, 0.7, -3.3, 9.95, -1e9])
def test_equal_ratings_are_no_likes_whatever_their_mean_rounds_to(value: float) -> None:
    for count in range(1, 40):
        assert not judge_likes(rating_table([dict.fromkeys(range(count), value)], items=40)).any()


@settings(max_examples=examples(150))
@given(
    rows=rows_of_ratings,
    per_user=st.integers(0, 3),
    like_from=st.sampled_from([None, 0.4]),
    seed=st.integers(-5, 2**70),
)
def test_a_split_keeps_every_rating_once_and_judges_without_the_held_ones(
    rows: Rows, per_user: int, like_from: float | None, seed: int
) -> None:
    split = hold_out(rating_table(rows), held_out=per_user, like_from=like_from, seed=seed)
    train = rows_of(split.train)
    for row, kept, held in zip(rows, train, held_of(split), strict=True):
        likes = liked_exactly(row, like_from)
        assert len(held) == (per_user if len(likes) > per_user else 0)
        assert held == sorted(held)
        assert set(held) <= set(likes)
        assert kept == {item: value for item, value in row.items() if item not in held}
    assert split.likes.sum() == sum(len(liked_exactly(kept, like_from)) for kept in train)
    np.testing.assert_array_equal(split.likes, judge_likes(rating_table(train), like_from))
    assert split.evaluated.tolist() == [user for user, held in enumerate(held_of(split)) if held]
    assert split.train.count == 9


def test_a_users_draw_depends_on_the_seed_and_its_own_number_only() -> None:
    rng = np.random.default_rng(0)
    rows: Rows = [{int(item): 5.0 for item in rng.permutation(200)[:20]} | {200: 1.0} for _ in range(30)]
    others: Rows = [{item: 2.0 + item % 2 for item in range(20)} for _ in range(30)]
    mixed = [row if user % 3 == 0 else other for user, (row, other) in enumerate(zip(rows, others, strict=True))]
    whole = held_of(hold_out(rating_table(rows, 201), held_out=4, like_from=None, seed=9))
    part = held_of(hold_out(rating_table(mixed, 201), held_out=4, like_from=None, seed=9))
    assert whole[::3] == part[::3]
    assert whole == held_of(hold_out(rating_table(rows, 201), held_out=4, like_from=None, seed=9))
    assert whole != held_of(hold_out(rating_table(rows, 201), held_out=4, like_from=None, seed=10))
    shifted = held_of(hold_out(rating_table(rows[1:], 201), held_out=4, like_from=None, seed=9))
    assert whole[1:] != shifted


def subsets_drawn(users: int, seed: int) -> Ints:
    """Count which 2 of 5 likes each of many equal users had held out, over the 10 subsets."""
    table = rating_table([{0: 1.0, 1: 5.0, 3: 5.0, 4: 5.0, 6: 5.0, 8: 5.0}] * users)
    held = hold_out(table, held_out=2, like_from=4.0, seed=seed).holdout.items.reshape(users, 2)
    return np.array([np.all(held == pair, axis=1).sum() for pair in combinations((1, 3, 4, 6, 8), 2)], dtype=np.int64)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_held_out_likes_are_drawn_uniformly(seed: int) -> None:
    """False alarm: 1e-6 a seed (Pearson, 9 degrees of freedom, 20 thousand users)."""
    counts = subsets_drawn(20_000, seed)
    assert counts.sum() == 20_000
    assert chi_square_fits(counts, np.ones(10))


def test_a_slightly_uneven_draw_would_be_refused() -> None:
    """Subsets with the first like 15 % too frequent: noncentrality 20000 * 0.15^2 * 2/3 = 300, missed below 1e-20."""
    weights = np.array([1.15] * 4 + [0.9] * 6)
    counts = np.random.default_rng(1).multinomial(20_000, weights / weights.sum())
    assert not chi_square_fits(counts, np.ones(10))


@pytest.mark.statistical
def test_draws_of_two_users_or_seeds_are_independent() -> None:
    """Two draws of 1 of 4 agree with probability 1/4; Hoeffding: off by more than 0.027 of 10 thousand below 1e-6."""
    users = 10_000
    table = rating_table([{0: 1.0, 1: 5.0, 2: 5.0, 3: 5.0, 4: 5.0}] * users)
    radius = hoeffding_radius(users)
    first = hold_out(table, held_out=1, like_from=None, seed=0).holdout.items
    second = hold_out(table, held_out=1, like_from=None, seed=1).holdout.items
    assert abs(np.mean(first == second) - 0.25) < radius
    assert abs(np.mean(first[::2] == first[1::2]) - 0.25) < radius * math.sqrt(2)
    copied = np.where(np.random.default_rng(0).random(users) < 0.1, first, second)  # agrees with 0.325
    assert abs(np.mean(first == copied) - 0.25) > radius


def test_describe_gives_the_planted_numbers() -> None:
    told = describe(rating_table([{0: 5.0, 1: 1.0, 2: 3.0}, {0: 2.0}, {0: 4.0, 3: 1.0}], items=5))
    assert json.loads(json.dumps(told)) == {
        "format": "test",
        "users": 3,
        "items": 5,
        "ratings": 6,
        "density": 0.4,
        "ratings_per_user": {"min": 1, "lower_quartile": 1.5, "median": 2, "mean": 2, "upper_quartile": 2.5, "max": 3},
        "ratings_per_item": {"min": 0, "lower_quartile": 1, "median": 1, "mean": 1.2, "upper_quartile": 1, "max": 3},
        "rating": {"min": 1, "mean": 16 / 6, "max": 5},
        "like_from": None,
        "likes": 2,
        "share_of_likes": 2 / 6,
        "users_without_like": 1,
    }
    assert describe(rating_table([{0: 5.0}, {1: 3.0}]), 3.0)["users_without_like"] == 0


def test_bad_arguments_are_refused_and_the_text_form_shows_no_data() -> None:
    table = rating_table([{0: 731.0, 1: 1.0, 2: 731.0}])
    with pytest.raises(InputError, match="like_from=nan"):
        judge_likes(table, math.nan)
    with pytest.raises(InputError, match="held_out is -1"):
        hold_out(table, held_out=-1, like_from=None, seed=0)
    split = hold_out(table, held_out=1, like_from=None, seed=0)
    assert repr(split) == "Split(train=RatingTable(users=1, items=9, ratings=2, source='test'), evaluated=1, holdout=1)"


@pytest.mark.parametrize("like_from", [None, 0.5])
def test_judging_people_in_blocks_changes_no_like(like_from: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    coins = np.random.default_rng(5)
    table = rating_table([dict.fromkeys(coins.permutation(9)[: coins.integers(0, 9)].tolist(), 0.5) for _ in range(40)])
    table = replace(table, values=coins.random(table.ratings))
    whole = hold_out(table, held_out=0.2, like_from=like_from, seed=1)
    monkeypatch.setattr(rating_split, "PEOPLE", 7)
    blocks = hold_out(table, held_out=0.2, like_from=like_from, seed=1)
    assert np.array_equal(whole.likes, blocks.likes)
    assert np.array_equal(whole.holdout.items, blocks.holdout.items)
    assert np.array_equal(whole.train.starts, blocks.train.starts)
