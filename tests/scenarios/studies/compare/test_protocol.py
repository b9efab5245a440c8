"""The protocol of comparisons: what is held out, lists and their scores by hand, models, and intervals."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from runs import likes, planted_ratings, present, rating_table, write_movielens
from scipy import sparse

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import DELTA
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import ItemToItem
from coordinator.protocol.rating_table import Held, RowTable
from scenarios.data.datasets import read_ratings
from scenarios.data.rating_split import LikesFold, fold_of, hold_out
from scenarios.data.side_tables import read_descriptions
from scenarios.studies.compare import advisors as item_models
from scenarios.studies.compare import scoring, worlds
from scenarios.studies.compare.comparison import comparison
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import LearnedScores, RowRequest
from scenarios.studies.compare.rows import registered_rows, trusted
from scenarios.studies.compare.rows.trusted import gaussian_noise, popularity, too_large
from scenarios.studies.compare.scoring import TOP, ListScores, _lists, score
from scenarios.studies.compare.worlds import FileWorld, sampled, world_of
from scenarios.studies.crossing import over_seeds_and_people


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=40, items=30, each=20))


def table_of(rows: Sequence[Sequence[int]], items: int) -> Held:
    starts = np.cumsum([0, *map(len, rows)])
    flat = np.array([item for row in rows for item in row], np.int32)
    return RowTable(starts=starts, items=flat, values=None, count=items)


def world(train: Sequence[Sequence[int]], held: Sequence[Sequence[int]], items: int) -> FileWorld:
    liked = table_of(train, items)
    likes = liked.valued(np.ones(liked.items.size, np.bool_))
    fold = LikesFold(train=likes, liked=liked, holdout=table_of(held, items))
    matrix = sparse.csr_array((np.ones(liked.items.size, np.float32), liked.items, liked.starts), (len(train), items))
    return FileWorld(fold=fold, matrix=matrix, features=None)


def asked(of: FileWorld, **changes: object) -> RowRequest:
    told = {"epsilon": None, "users": of.people, "public": 0.0, "seed": 0, **changes}
    return RowRequest(settings=Comparison(ratings=Path("none.csv")), **told)  # type: ignore[arg-type] # checked by the dataclass


def scored_by(of: FileWorld, popularity: Floats, seed: int = 0, **more: Any) -> ListScores:
    return score(of, LearnedScores(popularity=popularity, floor=1.0, **more), asked(of, seed=seed), features=False)


def test_a_share_of_likes_and_of_dislikes_is_held_out(ratings: Path) -> None:
    table = read_ratings(ratings)
    fold = fold_of(hold_out(table, held_out=0.2, like_from=4, seed=3))
    likes = table.where(table.values >= 4).degrees
    dislikes = table.degrees - likes
    expected = np.where(likes >= 2, np.maximum(1, likes // 5), 0)
    assert (fold.holdout.degrees == expected).all()
    assert (fold.liked.degrees == likes - expected).all()
    disliked = dislikes - np.where(dislikes >= 2, np.maximum(1, dislikes // 5), 0)
    assert (fold.train.degrees - fold.liked.degrees == disliked).all()
    for person in range(table.users):
        held, train = (one.block(person, person + 1).items for one in (fold.holdout, fold.train))
        assert not set(held.tolist()) & set(train.tolist())
    splits = (hold_out(table, held_out=0.2, like_from=4, seed=seed) for seed in (3, 4))
    again, other = (split.holdout.items.tolist() for split in splits)
    assert again == fold.holdout.items.tolist() != other


def test_a_file_in_which_nobody_has_two_likes_is_refused(tmp_path: Path) -> None:
    rows = [(user, item, 5.0 - item) for user in range(3) for item in range(2)]
    path = write_movielens(tmp_path / "ratings.csv", rows)
    with pytest.raises(InputError, match="of the 3 people none has two likes"):
        fold_of(hold_out(read_ratings(path), like_from=5, held_out=0.2, seed=0))
    with pytest.raises(InputError, match=r"of the 4 people none .* name --like-from"):
        fold_of(hold_out(rating_table([dict.fromkeys(range(3), 1.0)] * 4, 3), like_from=None, held_out=0.2, seed=0))


@pytest.mark.parametrize("by_time", [False, True])
def test_training_labels_know_nothing_of_what_is_held_out(by_time: bool) -> None:
    coins = np.random.default_rng(5)
    rows = [sorted(coins.choice(30, 12, replace=False).tolist()) for _ in range(60)]
    values = (coins.integers(1, 11, (60, 12)) / 2.0).tolist()
    table = rating_table([dict(zip(row, own, strict=True)) for row, own in zip(rows, values, strict=True)], 30)
    table = replace(table, times=coins.integers(0, 50, 720).astype(np.float64))
    how: dict[str, Any] = {"held_out": 0.2, "like_from": None, "seed": 3, "split_by": "time" if by_time else "random"}
    fold = fold_of(hold_out(table, **how))
    training = np.isin(table.owners * 30 + table.items, fold.train.owners * 30 + fold.train.items)
    assert 720 - training.sum() == 60 * 2
    for _ in range(20):
        other = replace(table, values=np.where(training, table.values, coins.integers(-9, 99, 720)))
        changed = fold_of(hold_out(other, **how))
        for before, after in ((fold.train, changed.train), (fold.liked, changed.liked)):
            assert before.items.tobytes() == after.items.tobytes()
            assert before.starts.tobytes() == after.starts.tobytes()
        assert fold.train.values.tobytes() == changed.train.values.tobytes()
        # what is held out is judged by the mean of what is not
        means = [other.values[training & (other.owners == person)].mean() for person in range(60)]
        above = ~training & (other.values > np.array(means)[other.owners] + 1e-6)
        assert changed.holdout.items.tolist() == other.items[above].tolist()


def test_lists_are_scored_as_by_hand() -> None:
    of = world([[0], [1, 11], []], [[1, 9], [3], []], items=12)
    scored = scored_by(of, np.arange(12.0)[::-1].copy())
    # the first is recommended 1 to 10, its likes at ranks 1 and 9; the second 0, 2 to 10, its like at rank 3
    gains = 1 / np.log2(np.arange(2, TOP + 2))
    first, second = (gains[0] + gains[8]) / gains[:2].sum(), gains[2]
    assert scored.ndcg == pytest.approx((first + second) / 2)
    assert (scored.hit_rate, scored.recall, scored.people) == (1.0, 1.0, 2)
    assert scored.coverage == pytest.approx(11 / 12)
    assert len(scored.resampled["ndcg"]) == 100
    assert min(scored.resampled["ndcg"]) >= min(first, second) - 1e-6


def test_equal_scores_are_ranked_at_random_and_the_same_again() -> None:
    of = world([[0]] * 200, [[1]] * 200, items=40)
    scores = [scored_by(of, np.ones(40), seed=seed) for seed in range(40)]
    assert {one.hit_rate for one in scores} == {0.0, 1.0}
    assert scored_by(of, np.ones(40), seed=7) == scores[7]


def test_only_the_people_of_a_row_are_evaluated() -> None:
    of = world([[0], [0], [0]], [[1], [2], [30]], items=40)
    scored = scored_by(of, -np.arange(40.0), people=np.array([0, 1]))
    assert (scored.people, scored.hit_rate) == (2, 1.0)


@pytest.mark.parametrize("pooled", [False, True])
def test_lists_without_scores_of_all_items_are_those_with_them(pooled: bool) -> None:
    """Some rated all but a few of the pool, so that lists end with what follows it; many scores are equal."""
    coins = np.random.default_rng(0)
    rows = [sorted(coins.choice(60, size, replace=False).tolist()) for size in coins.integers(1, 55, 40)]
    of, counts = world(rows, [[] for _ in rows], items=60), coins.integers(0, 5, 60).astype(np.float64)
    pool, order = np.sort(coins.choice(60, 15, replace=False)).astype(np.int32), coins.permutation(60)
    weights = coins.integers(-1, 2, (15, 15)).astype(np.float64)
    model = ItemToItem(pool=pool, liked=counts[pool], weights=weights)
    advice = item_models.pair_advice(model, counts, order, noise=0.0)
    if not pooled:
        advice = LearnedScores(popularity=counts, floor=1.0)
    slow: dict[str, Any] = {"before": None} if pooled else {"scorer": lambda own: np.tile(counts, (own.shape[0], 1))}
    one, other = (_lists(of, each, np.arange(40), order, features=False) for each in (advice, replace(advice, **slow)))
    assert one.tolist() == other.tolist()
    assert (one == -1).any()


def test_bounded_scores_give_the_lists_of_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some people rated most items with a large bound, so that their lists take all scores; many scores are equal."""
    monkeypatch.setattr(scoring, "SCORED", 14)
    coins = np.random.default_rng(1)
    rows = [sorted(coins.choice(60, size, replace=False).tolist()) for size in coins.integers(1, 55, 40)]
    of, bounds = world(rows, [[] for _ in rows], items=60), coins.integers(1, 30, 60).astype(np.float64)
    shares, order = coins.integers(1, 5, (40, 60)) / 4, coins.permutation(60)

    def scores(own: Any, items: Any = slice(None)) -> Any:
        return (shares[own[:, [60]].toarray()[:, 0]] * bounds)[:, items]

    numbers = sparse.csr_array(np.arange(40)[:, None])
    holds: Any = sparse.hstack([of.matrix, numbers]).tocsr().astype(np.int64)  # a scorer sees whose scores it makes
    learned = LearnedScores(popularity=bounds, floor=1.0, scorer=scores, holds=holds, bounded=(bounds, scores))
    wrong = replace(learned, bounded=(bounds / 9, scores))
    every = learned, replace(learned, bounded=None), wrong
    one, other, third = (_lists(of, each, np.arange(40), order, features=False) for each in every)
    assert one.tolist() == other.tolist() != third.tolist()


def test_a_matrix_is_inverted_in_place_also_where_it_is_not_positive() -> None:
    gram = np.random.default_rng(0).normal(size=(300, 300))
    gram += gram.T
    for matrix in (gram, gram @ gram):
        inverse = item_models.inverse_of(matrix.copy(), 2.0)
        np.testing.assert_allclose(inverse @ (matrix + 2 * np.eye(300)), np.eye(300), atol=1e-6)


def test_popularity_is_scored_among_the_same_private_people() -> None:
    of = world([[0], [0], [0, 1], [2]], [[1], [2], [9], [30]], items=40)
    learned = LearnedScores(popularity=-np.arange(40.0), floor=1.0, people=np.array([0, 1, 3]))
    scored = score(of, learned, asked(of, public=0.25), features=False)
    plain = score(of, replace(popularity(of), people=learned.people), asked(of), features=False)
    assert present(scored.popular)["ndcg"] == (plain.ndcg, *plain.resampled["ndcg"])
    assert plain.popular is None


def matrix_of(dense: Any) -> Any:
    """Return a sparse matrix with places of 64 bits, as worlds have them: for others kernels would be compiled anew."""
    rows: Any = sparse.csr_array(dense)
    return sparse.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), rows.shape)


def test_both_forms_of_ease_agree_and_solve_its_equations() -> None:
    likes: Any = matrix_of((np.random.default_rng(0).random((25, 12)) < 0.4).astype(np.float32))
    weights = item_models.of_gram((likes.T @ likes).toarray().astype(np.float64), 3.0)
    padded: Any = sparse.hstack([likes, sparse.csr_array((25, 30))]).tocsr()
    found = item_models.ease_of_likes(padded, 3.0)(padded)[:, :12]
    np.testing.assert_allclose(found, likes @ weights, atol=1e-4)
    gram = (likes.T @ likes).toarray().astype(np.float64)
    others = np.arange(12) != 5
    alone = np.linalg.solve(gram[np.ix_(others, others)] + 3 * np.eye(11), gram[others, 5])
    np.testing.assert_allclose(weights[others, 5], alone, atol=1e-9)


def test_neighbours_are_the_nearest_by_cosine() -> None:
    dense = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]], np.float32)
    own = matrix_of(np.array([[0, 1, 0, 0]], np.float32))
    size = np.sqrt(dense.sum(axis=0))
    cosines = dense.T @ dense / np.outer(size, size)
    np.fill_diagonal(cosines, 0)
    np.testing.assert_allclose(item_models.neighbours(matrix_of(dense), 4)(own)[0], cosines[1], atol=1e-6)
    nearest = item_models.neighbours(matrix_of(dense), 1)(own)[0]
    kept = cosines == cosines.max(axis=1, keepdims=True)
    np.testing.assert_allclose(nearest, (cosines * kept)[:, 1], atol=1e-6)


def test_a_constant_is_judged_by_the_hidden_likes_that_ten_places_could_hold() -> None:
    """Of 15 items in their order: a list without the one that is shown has one of one, two of four, ten of twelve."""
    shown, hidden = np.zeros((3, 15), np.float32), np.zeros((3, 15), np.float32)
    shown[:, 0] = 1
    hidden[0, 4] = hidden[1, [9, 10, 11, 14]] = hidden[2, 1:13] = 1
    scores = np.broadcast_to(-np.arange(15.0), shown.shape)
    share = item_models._share_of_hidden(lambda _: scores, matrix_of(shown), matrix_of(hidden))
    assert share == pytest.approx((1 + 2 / 4 + 10 / 10) / 3)


@pytest.mark.parametrize("likes", [(30, 12), (12, 30)], ids=["more people", "more items"])
def test_ridges_that_share_counts_give_the_weights_of_each_alone(likes: tuple[int, int]) -> None:
    own = matrix_of((np.random.default_rng(0).random(likes) < 0.3).astype(np.float32))
    counts = item_models.ease_counts(own)
    for ridge in (3.0, 20.0):  # counts are not overwritten
        np.testing.assert_array_equal(
            item_models.ease_of_likes(own, ridge, counts)(own), item_models.ease_of_likes(own, ridge)(own)
        )


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(8)])
def test_gaussian_noise_is_just_enough(epsilon: Fraction) -> None:
    for factor, private in ((1.001, True), (0.999, False)):
        shift, normal = 5 / (factor * gaussian_noise(epsilon, 5.0, DELTA)), scipy.stats.norm
        likely, unlikely = (normal.cdf(side * shift / 2 - epsilon / shift) for side in (1, -1))
        assert bool(likely - math.exp(epsilon) * unlikely <= 1e-6) is private
    assert gaussian_noise(None, 5.0, DELTA) == 0


def test_gaussian_noise_is_found_wherever_its_limits_are_known() -> None:
    """At next to no epsilon delta is the normal laws' total variation; at a huge one, at delta 1/2, mu^2 / 2 is it."""
    assert gaussian_noise(Fraction(1, 10**300), 1.0, 1e-12) == pytest.approx(1e12 / math.sqrt(2 * math.pi), rel=1e-3)
    assert gaussian_noise(Fraction(10**300), 1.0, 0.5) <= gaussian_noise(Fraction(10**7), 1.0, 0.5)
    assert gaussian_noise(Fraction(10**7), 1.0, 0.5) == pytest.approx(1 / math.sqrt(2 * 10**7), rel=1e-3)


def test_features_are_words_and_decades_of_the_catalogue(tmp_path: Path) -> None:
    lines = [f'{item},"Title, The ({1990 + item})",{"Drama|War" if item % 2 else "Comedy"}' for item in range(20)]
    path = tmp_path / "movies.csv"
    path.write_text("\n".join(["movieId,title,genres", *lines, "999,Unrated (1995),Drama"]), encoding="utf-8")
    found = read_descriptions(path, np.array([str(item) for item in range(20)], np.object_)).features
    assert found.names == ("title: 1990s", "title: 2000s", "genres: Comedy", "genres: Drama", "genres: War")
    assert found.has.sum(axis=0).tolist() == [10, 10, 10, 10, 10]
    gains = found.gains(np.array([[0, 0, 0, 5.0, 5.0], [0, 0, 0, 0, 0]]), np.array([5.0, 0.0]), np.ones(20))
    assert gains[0, 1] > 0 > gains[0, 0]  # whoever likes dramas
    np.testing.assert_allclose(gains[1], 0, atol=1e-9)  # whoever likes nothing yet
    with pytest.raises(InputError, match="describes none of these 2 items"):
        read_descriptions(path, np.array(["a", "b"], np.object_))
    of_ratings = write_movielens(tmp_path / "ratings.csv", [(user, 6, user % 5) for user in range(40)])
    with pytest.raises(InputError, match="tells of movieId '7' in several lines"):
        read_descriptions(of_ratings, np.array(["7"], np.object_))
    with pytest.raises(InputError, match=r"gone\.csv cannot be read") as missing:
        read_descriptions(tmp_path / "gone.csv", np.array(["0"], np.object_))
    assert str(missing.value).count("cannot be read") == 1


def test_features_help_where_taste_follows_them(tmp_path: Path) -> None:
    world = np.random.default_rng(0)
    rows = likes(world.choice(50, 15, replace=False) + 50 * (user % 2) for user in range(60))
    path = write_movielens(tmp_path / "ratings.csv", rows)
    features = tmp_path / "movies.csv"
    features.write_text("item,kind\n" + "".join(f"{item + 1},{'ab'[item // 50]}\n" for item in range(100)))
    of = world_of(Comparison(ratings=path, features=features, like_from=4), 0)
    learned = LearnedScores(popularity=of.popularity, floor=0.5)
    plain, better = (score(of, learned, asked(of), features=features) for features in (False, True))
    assert better.ndcg > 1.5 * plain.ndcg


def test_intervals_are_over_seeds_and_people() -> None:
    samples = [np.array([0.1, 0.3, 0.2]), np.array([0.3, 0.5, 0.4])]
    mean, low, high = over_seeds_and_people([0.2, 0.4], samples)
    seeds = scipy.stats.t.ppf(0.975, 1) * 0.1
    people = scipy.stats.norm.ppf(0.975) * 0.1
    reach = math.hypot(seeds, people)
    assert (mean, low, high) == pytest.approx((0.3, 0.3 - reach, 0.3 + reach))
    assert over_seeds_and_people([0.2], samples[:1])[2] - 0.2 == pytest.approx(people)


def test_very_many_items_have_the_weights_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    likes: Any = matrix_of((np.random.default_rng(0).random((400, 150)) < 0.3).astype(np.float32))
    scores = item_models.ease_of_likes(likes, 3.0)(likes)
    monkeypatch.setattr(item_models, "DENSE", 149)
    in_place = item_models.ease_of_likes(likes, 3.0)(likes)
    assert in_place.dtype == np.float32
    np.testing.assert_allclose(in_place, scores, atol=1e-4)
    with pytest.raises(InputError, match="raise --ridge"):
        item_models.of_gram(item_models.co_liked(likes[:3]), 1e-9)


def test_what_takes_too_much_memory_stands_below_the_tables(ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"ratings": ratings, "trust_models": "none", "mechanisms": "popularity,EASE", "seeds": 3}
    too_large.cache_clear()
    monkeypatch.setattr(trusted, "memory_left", lambda: 1000)
    sweep = comparison(settings)
    units = {key: unit() for key, unit in sweep.units({}).items()}
    assert {key.mechanism for key in units} == {"popularity"}
    [line] = [line for line in sweep.result(units)["remarks"] if line.startswith("none: EASE: not measured: it needs")]
    assert "for 30 x 30 items, and 500 bytes are left to it" in line
    too_large.cache_clear()
    assert "at most 20,000" in too_large(10**6, 20_001)
    too_large.cache_clear()


def test_of_many_people_a_sample_is_scored_and_said(ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Comparison(ratings=ratings)
    worlds_of_seeds = [world_of(settings, seed) for seed in (0, 1)]
    everybody = [one.fold.evaluated for one in worlds_of_seeds]
    assert sampled(settings) == []
    monkeypatch.setattr(worlds, "EVALUATED", 10)
    samples = [one.evaluated for one in worlds_of_seeds]
    assert all(set(few) < set(many) and few.size == 10 for few, many in zip(samples, everybody, strict=True))
    assert np.array_equal(samples[0], samples[1])  # in all splits the same people, if all are evaluated in each
    [line] = sampled(settings)
    assert line == "lists of 10 people are scored in each split, a random sample of the 36 with a like held out"


@pytest.mark.parametrize("name", ["popularity", "EASE"])
def test_scoring_people_in_blocks_changes_nothing(name: str, ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of, row = world_of(Comparison(ratings=ratings), 0), registered_rows()[f"none: {name}"]
    assert of.evaluated.size > 7
    whole = score(of, row.advise(of, asked(of)), asked(of), features=False)
    monkeypatch.setattr(worlds, "BLOCK", 7 * of.items)
    assert score(of, row.advise(of, asked(of)), asked(of), features=False) == whole
