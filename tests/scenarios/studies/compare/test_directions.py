"""Directions of taste in a comparison: the law is that of devices, both rank alike, and too few people are told."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from runs import planted_ratings, write_movielens
from statistical import normal_radius

from actors.advice import public_order
from actors.device import Cohort
from actors.ratings import StoredRatings
from benchmarks.tastes import in_catalogue, likenesses
from coordinator.protocol.arrays import Floats
from coordinator.protocol.messages import Model
from coordinator.protocol.rating_table import Likes, starts_of
from coordinator.server.anchor.anchor_queries import AnchorSensing
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import AGGREGATE, DEVICES, RowRequest
from scenarios.studies.compare.rows import local, registered_rows
from scenarios.studies.compare.rows.local import Directions, people_of
from scenarios.studies.compare.scoring import TOP, _lists
from scenarios.studies.compare.sum_laws import pair_agreements, pair_means
from scenarios.studies.compare.worlds import FileWorld, LikesFold, world_of

ITEMS = 12
POOL = np.arange(1, ITEMS, dtype=np.int32)
CENTRES = np.linspace(-20, 24, ITEMS - 1).astype(np.int32)


def people(numbers: list[int]) -> FileWorld:
    """People who rated so many items, likes and dislikes at random."""
    coins, items, likes = np.random.default_rng(0), [], []
    for number in numbers:
        items.append(np.sort(coins.permutation(ITEMS)[:number]))
        likes.append(coins.random(number) < 0.6)
    rows = Likes(
        starts=starts_of(np.array(numbers)),
        items=np.concatenate(items).astype(np.int32),
        values=np.concatenate(likes),
        count=ITEMS,
    )
    held = rows.where(rows.values).valued(None)
    return FileWorld(fold=LikesFold(train=rows, liked=held, holdout=held), matrix=None, features=None)


def means(world: FileWorld, centres: np.ndarray = CENTRES) -> Floats:
    query = AnchorSensing(items=ITEMS, rated=6).query(
        round_number=2, public_seed=bytes(16), epsilon=None, pool=POOL, centres=centres
    )
    return pair_means(query, world.fold)


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 7])
def test_the_law_is_that_of_all_signs(number: int) -> None:
    """One person, with all signs of its pairs gone through; beyond ten pairs the law is within 4 % of that."""
    world = people([number])
    rows, exact = world.fold.train, np.zeros((ITEMS - 1, ITEMS - 1))
    inside = [(int(i) - 1, 32 * (2 * int(like) - 1)) for i, like in zip(rows.items, rows.values, strict=True) if i]
    values = [(i, value - int(CENTRES[i])) for i, value in inside]
    pairs = [(i, j, a * b) for (i, a), (j, b) in combinations(values, 2)]
    signs = np.array(list(product((-1, 1), repeat=len(pairs))), np.int8)
    agreed = np.sign(signs @ np.array([size for *_, size in pairs], np.int64))
    for at, (i, j, _) in enumerate(pairs):
        exact[i, j] = np.mean(agreed * signs[:, at])
    told = means(world)
    assert told == pytest.approx(exact[np.triu_indices(ITEMS - 1, 1)], rel=1e-9 if len(pairs) <= 10 else 0.04, abs=1e-4)


@pytest.mark.statistical
def test_the_law_is_that_of_devices() -> None:
    """False alarm 1e-6 over all pairs, of 300,000 answers; the twin's ratings are counted from other centres."""
    world, users = people([2, 3, 4, 5, 6, 9, 12] * 3), 300_000
    wanted = Comparison(ratings=Path("none.csv"), likes=6)
    asked = RowRequest(settings=wanted, epsilon=Fraction(4), users=users, public=0, seed=0)
    query = AnchorSensing(items=ITEMS, rated=6).query(
        round_number=2, public_seed=bytes(16), epsilon=Fraction(4), pool=POOL, centres=CENTRES
    )
    answered = local.collected_sums(query, world, people_of(world, asked), asked)
    drawn = pair_agreements(query, means(world), users, np.random.default_rng(0))
    wrong = pair_agreements(query, means(world, -CENTRES), users, np.random.default_rng(0))
    radius = normal_radius(np.sqrt(2 * users) / 2, comparisons=answered.pairs.size)
    assert np.abs(answered.pairs - drawn.pairs).max() < radius
    assert np.abs(answered.pairs - wrong.pairs).max() > radius


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("file")
    path, movies = (
        write_movielens(folder / "ratings.csv", planted_ratings(users=150, items=30, each=12)),
        folder / "m.csv",
    )
    lines = [f"{item + 1},Film {item} (19{50 + item}),{'Drama' if item % 3 else 'War|Drama'}" for item in range(30)]
    movies.write_text("movieId,title,genres\n" + "\n".join(lines) + "\n")
    privacy = (Fraction(8),)
    return Comparison(ratings=path, features=movies, like_from=4, likes=10, devices=200_000, epsilon=privacy, paired=20)


@pytest.mark.parametrize("name", ["local: directions", "public-rates: directions"])
@pytest.mark.parametrize("users", [100_000, 3_000_000])
def test_devices_rank_as_the_row_does(name: str, users: int, wanted: Comparison) -> None:
    world, row = world_of(wanted, 0), registered_rows()[name]
    assert isinstance(row, Directions)
    asked = RowRequest(settings=wanted, epsilon=Fraction(8), users=users, public=0, seed=0)
    model = row.learn(world, asked)
    advised = row.ranking_of(world, asked, model)
    assert advised.simulated == (DEVICES if users <= wanted.devices else AGGREGATE)
    assert model.tastes is not None
    assert model.tastes.vectors.shape[1] >= 1
    everybody = np.arange(world.people)
    devices = StoredRatings(rows=world.fold.train, user=everybody.astype(np.int32), rated_public=False)
    cohort, order = (
        Cohort(devices, bytes(16), 0, everybody.size, None),
        public_order(None, model.score).astype(np.int64),
    )
    for features in (None, world.features):
        lists = cohort.recommend(model, 0, everybody.size, TOP, features)
        assert lists.tolist() == _lists(world, advised, everybody, order, features=features is not None).tolist()
    pool, limit = local.limit_of(wanted, 0)
    cosine, three, signs = likenesses(model.tastes.vectors, in_catalogue(pool, limit.vectors, world.items))
    assert cosine > (0.9 if row.rates_public else 0.8)
    assert min(three, signs) > 0.3


def test_everybody_of_a_file_answers_once_in_all_groups(wanted: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epsilon is of a person: with as many people as the file has, no two devices are of the same one."""
    world, row, asking = world_of(wanted, 0), registered_rows()["local: directions"], list[int]()
    held = StoredRatings.__init__

    def looked_at(self: StoredRatings, *, user: np.ndarray, **more: object) -> None:
        asking.extend(user.tolist())
        held(self, user=user, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(StoredRatings, "__init__", looked_at)
    assert isinstance(row, Directions)
    row.learn(world, RowRequest(settings=wanted, epsilon=Fraction(8), users=world.people, public=0, seed=0))
    assert sorted(asking) == list(range(world.people))


def test_too_few_people_have_no_direction_and_are_told(wanted: Comparison) -> None:
    """At the threshold a direction is about to stand out: a quarter of it shows none, four times it does."""
    row, world = registered_rows()["public-rates: directions"], world_of(wanted, 0)
    assert isinstance(row, Directions)
    enough, low = local.threshold(wanted, 0, Fraction(1)), wanted.model_copy(update={"devices": 0})
    assert f"{enough:,.0f} at epsilon 1" in row.remarks(wanted.model_copy(update={"epsilon": (Fraction(1),)}))[0]
    for times, some in ((0.25, False), (4, True)):
        asked = RowRequest(settings=low, epsilon=Fraction(1), users=round(times * enough), public=0, seed=0)
        tastes = row.learn(world, asked).tastes
        assert tastes is not None
        assert (tastes.vectors.shape[1] > 0) == some


def test_rates_follow_from_likes_and_mean_ratings() -> None:
    """Without noise what devices tell gives the rates back; where all is noise, every item has the mean's."""
    rated, liked = np.array([0.8, 0.5, 0.4]), np.array([0.5, 0.0, -0.5])
    likes, error = rated * (1 + liked) / 2, np.zeros(3)
    nowhere = np.zeros(3, np.int32)
    liking = Model(cluster=nowhere, score=likes, error=error, clusters=1)
    judging = Model(cluster=nowhere, score=rated * liked / 0.5, error=error, clusters=1)
    told = local.estimated_rates(liking, judging, 0.5)
    assert told.rated == pytest.approx(rated)
    assert told.liked == pytest.approx(liked)
    noisy = local.estimated_rates(replace(liking, error=error + 1), replace(judging, error=error + 1), 0.5)
    assert noisy.score == pytest.approx(np.full(3, likes.mean()))
    assert np.ptp(noisy.liked) == pytest.approx(0)
