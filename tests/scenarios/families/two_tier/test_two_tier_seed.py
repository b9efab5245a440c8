"""Splits, validation, weights, scores and theorems of two tiers, each against what it must be."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import complete_many, features_of, planted

from actors.advice import top_items
from benchmarks.completion_rates import completion_errors, sample_bound, sample_errors, second_moment, slope
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.rating_table import Rows, stacked
from coordinator.server.completion.batches import CompletionOutcome, announced, start
from coordinator.server.completion.crowd import local_public_users
from coordinator.server.completion.fitting import Fitting
from coordinator.server.completion.weighing import DIGITS, WEIGHTS, Weighing, baseline_errors, squared_errors, surest
from scenarios.backends.selection import InProcess
from scenarios.config.settings import validated
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import Split, judge_likes
from scenarios.families.two_tier.two_tier_run import follow
from scenarios.families.two_tier.two_tier_scenario import Scale, TwoTier, onto_scale, read_scale, scale_of
from scenarios.families.two_tier.two_tier_seed import (
    TwoTierWorld,
    advice_scores,
    overlap,
    plan_of,
    read_table,
    run,
    world_of,
)
from scenarios.families.two_tier.two_tier_worlds import (
    MOST,
    PlantedShape,
    choose_fitting,
    downhill,
    folds_of,
    planted_ratings,
    split_users,
    weighing_of,
)

SHAPE = PlantedShape(users=90, items=50, ratings=2500, rank=3, fewest=20)
WIDE = Scale(lowest=-99.0, highest=99.0, levels=None)


@pytest.fixture(scope="module")
def small_table() -> RatingTable:
    return planted_ratings(SHAPE, 0)


def test_a_split_holds_out_as_many_of_everyone_and_deals_users_once(small_table: RatingTable) -> None:
    settings = TwoTier(planted=(90, 50, 2500), public=20, private=30, private_by="random", holdout=4, seed=3)
    split = split_users(small_table, settings)
    assert set(split.test.degrees) == {4}
    assert np.array_equal(split.train.degrees, small_table.degrees - 4)
    assert len({*split.public.tolist(), *split.private.tolist()}) == 50
    least = split.train.degrees[split.public].min()
    others = np.setdiff1d(np.arange(90), split.public)
    assert least >= split.train.degrees[others].max()
    for user in range(90):
        train, test, both = (one.block(user, user + 1).items for one in (split.train, split.test, small_table))
        assert sorted([*train, *test]) == both.tolist()
    elsewhere = split_users(small_table, settings.model_copy(update={"public_by": "random", "seed": 4}))
    assert not np.array_equal(elsewhere.test.items, split.test.items)
    assert not np.array_equal(elsewhere.public, split.public)


def test_ratings_that_are_not_finite_are_refused_by_name(small_table: RatingTable) -> None:
    values = small_table.values.copy()
    values[small_table.starts[7]] = np.inf
    with pytest.raises(InputError, match="user '8' rated item"):
        replace(small_table, values=values)


def test_scales_are_read_and_ratings_moved_onto_them(small_table: RatingTable) -> None:
    assert read_scale("0.5:2:0.5") == (0.5, 1.0, 1.5, 2.0)
    assert read_scale("1,2,5") == (1.0, 2.0, 5.0)
    moved = onto_scale(
        replace(small_table, values=np.resize([0.5, 1.5, 1.6, 9.0], small_table.ratings)), (1.0, 2.0, 5.0)
    )
    assert moved.values[:4].tolist() == [1.0, 1.0, 2.0, 5.0]
    assert scale_of(None, np.array([3.0, 1.0])).levels == (1.0, 3.0)
    assert scale_of(None, np.linspace(0, 1, 40)).levels is None
    assert scale_of((0.0, 5.0), np.array([3.0, 1.0])) == Scale(lowest=0.0, highest=5.0, levels=(0.0, 5.0))


def test_scores_are_those_of_completed_vectors_clipped() -> None:
    seen = rows_with(9, 12, share=0.7)
    features = features_of(
        np.random.default_rng(1).standard_normal((12, 2)), np.zeros(12), lowest=-0.6, highest=0.4, scale=None
    )
    asked = Rows(starts=np.arange(10), items=np.full(9, 3, np.int32), values=np.full(9, 0.1), count=12)
    hidden = seen.where(seen.items != 3)
    completed = complete_many(features, hidden.starts, hidden.items, hidden.values)[:, 3]
    expected = np.square(np.clip(completed, -0.6, 0.4) - 0.1)
    assert np.allclose(squared_errors(features, hidden, asked), expected)
    assert np.array_equal(squared_errors(features, hidden, asked, 2), squared_errors(features, hidden, asked))
    assert np.allclose(baseline_errors(features, asked), 0.01)


def rows_with(users: int, items: int = 40, **how: float) -> Rows:
    of = planted(users, items, **{"rank": 2, "share": 0.6, **how})  # type: ignore[arg-type] # whole numbers are whole
    return Rows(starts=of.starts, items=of.items, values=of.values, count=items)


def test_folds_hold_out_every_public_user_once_whole() -> None:
    public = rows_with(23, noise=0.1)
    folds = folds_of(public, 5)
    assert sum(fold.seen.users for fold in folds) == 23
    for fold in folds:
        assert fold.train.users + fold.seen.users == 23
        assert np.array_equal(fold.seen.degrees, (fold.seen.degrees + fold.targets.degrees) // 2)
    with pytest.raises(InputError, match="holds public users out"):
        folds_of(public.block(0, 1), 5)


@pytest.mark.thorough
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


@pytest.mark.parametrize(("start", "lowest"), [(2, 7), (2, -3), (7, 7)])
def test_going_downhill_ends_at_the_bottom(start: int, lowest: int) -> None:
    assert downhill(lambda power: abs(power - lowest), start) == lowest


def test_advice_ranks_unseen_items_and_counts_likes_above_the_own_mean() -> None:
    vectors = np.zeros((6, 1))
    features = features_of(vectors, np.array([1.0, 5, 4, 3, 2, 2]), kappa=1.0)
    train = Rows(starts=np.array([0, 2, 3]), items=np.array([0, 1, 5], np.int32), values=np.array([1.0, 3, 2]), count=6)
    test = Rows(starts=np.array([0, 2, 3]), items=np.array([2, 3, 4], np.int32), values=np.array([3.0, 1, 2]), count=6)
    ranked = top_items(features, train, 5)
    assert ranked.tolist() == [[2, 3, 4, 5, -1], [1, 2, 3, 4, 0]]
    labels: dict[str, Any] = {"user_labels": np.arange(2, dtype=object), "item_labels": np.arange(6, dtype=object)}
    whole = stacked((train.block(0, 1), test.block(0, 1), train.block(1, 2), test.block(1, 2)))
    known = RatingTable(
        starts=np.array([0, 4, 6]), items=whole.items, values=whole.values, count=6, source="made", **labels
    )
    held = np.array([False, False, True, True, False, True])
    likes = judge_likes(known, None, ~held) & held
    assert likes.tolist() == [False, False, True, False, False, False]
    split = Split(
        train=known.where(~held),
        likes=np.array([False, True, False]),
        holdout=known.where(likes).valued(None),
        test=test,
    )
    scores = advice_scores(features, split)
    assert (scores["evaluated"], scores["hit_rate"], scores["ndcg"]) == (1, 1.0, 1.0)
    assert (scores["popularity_hit_rate"], split.popular[0]) == (1.0, 1)
    assert advice_scores(features, replace(split, holdout=known.where(likes & ~held).valued(None))) == {}


SESSION = InProcess(1)
SMALL = {
    "planted": "800,200,40000",
    "holdout": 10,
    "public": 60,
    "private": 150,
    "batch": 30,
    "rank": 6,
    "regularisation": 1,
}
HELP = 0.003  # RMSE that a validated weight gains at least where the weight 0.25 gains 0.009


def wanted_of(mechanism: str, epsilon: object, **changes: object) -> TwoTier:
    return validated(TwoTier, None, {**SMALL, "mechanism": mechanism, "epsilon": epsilon, "seed": 1, **changes})


@pytest.fixture(scope="module")
def table() -> RatingTable:
    return read_table(wanted_of("pmc", None))


def gain_of(told: dict[str, Any]) -> float:
    return float(told["rmse_public_only"] - told["rmse"])


@pytest.mark.thorough
def test_a_weight_that_helps_is_seen(table: RatingTable) -> None:
    """Validation that tried what releases tell outside the announced models gave this world the weight 0."""
    told = run(wanted_of("laplace", 5), SESSION, table)
    assert told["weight"] >= 0.03
    assert told["validation_users"] == 12
    assert gain_of(told) > HELP


def test_no_announced_model_knows_validation_users_and_the_final_one_does(table: RatingTable) -> None:
    """Validation users rate everything else than before: what is announced, asked and released is the same."""
    world = world_of(wanted_of("laplace", 5, private=30), table)
    weighing = plan_of(world, Fitting(rank=6, kappa=1)).server.weight
    assert isinstance(weighing, Weighing)
    known = {row.tobytes() for row in rows_of(weighing.announced_to)}
    held = [
        user
        for user, row in zip(world.split.public, rows_of(world.split.public_rows), strict=True)
        if row.tobytes() not in known
    ]
    assert len(held) == 12
    values = world.split.train.values.copy()
    for user in held:
        here = slice(*world.split.train.starts[user : user + 2])
        values[here] = 5.5 - values[here]
    changed = replace(world, split=replace(world.split, train=replace(world.split.train, values=values)))
    before, after = course_of(world), course_of(changed)
    assert before.announced == after.announced
    assert before.releases_sha256 == after.releases_sha256
    assert before.features.digest != after.features.digest
    assert before.features.mean.shape == (200,)
    assert not np.array_equal(before.features.mean, after.features.mean)


def rows_of(table: Rows) -> list[Floats2]:
    both = np.stack([table.items, table.values], axis=1)
    return np.split(both, table.starts[1:-1])


def course_of(world: TwoTierWorld) -> CompletionOutcome:
    return follow(plan_of(world, Fitting(rank=6, kappa=1)), SESSION).outcome


def test_a_weight_that_is_given_announces_the_model_of_all_public_users(table: RatingTable) -> None:
    world = world_of(wanted_of("pmc", None, private=30), table)
    plan = plan_of(world, Fitting(rank=6, kappa=1))
    crowd = local_public_users(plan.server.public)
    assert course_of(world).announced[0] == announced(start(plan.server, crowd), crowd).features.digest
    assert run(wanted_of("pmc", None, private=30), SESSION, table)["validation_users"] is None


def test_a_course_goes_on_from_what_another_one_began(table: RatingTable) -> None:
    """To the same model; a course whose announced models leave validation users out begins these itself."""
    for mechanism in ("pmc", "pmc-rr"):
        settings = wanted_of(mechanism, 1.0 if mechanism == "pmc-rr" else None, private=30)
        plan = plan_of(world_of(settings, table), Fitting(rank=6, kappa=1))
        first_fit = start(plan.server, local_public_users(plan.server.public))
        went_on = follow(replace(plan, server=replace(plan.server, first_fit=first_fit)), SESSION).outcome
        alone = follow(plan, SESSION).outcome
        assert went_on.announced == alone.announced
        assert went_on.features.digest == alone.features.digest
        assert start(replace(plan.server, first_fit=first_fit), local_public_users(plan.server.public)) is first_fit


def test_the_gain_that_is_largest_less_its_standard_error_is_taken() -> None:
    coins = np.random.default_rng(0)
    noise = coins.standard_normal(50)
    noise -= noise.mean()
    noise /= noise.std(ddof=1) / np.sqrt(50)  # standard error 1

    def chosen(*settings: tuple[float, float]) -> int:
        return surest(100 - np.array([mean + error * noise for mean, error in ((0.0, 0.0), *settings)]))

    assert chosen((1, 0.4), (3, 1), (2, 0.5)) == 2
    assert chosen((1, 0.4), (3, 2.5), (2, 1.2)) == 3, "3 less 2.5 is below 2 less 1.2"
    assert chosen((1, 1.1), (3, 3.1)) == 0, "no gain is above its standard error"
    assert chosen((-1, 0.1), (-3, 0.1)) == 0
    assert chosen((0, 0), (0, 0)) == 0
    assert chosen((2, 0.1), (2, 0.1)) == 1, "the smaller of equally good ones"
    assert chosen((2, 0.1), (2 + 10 ** -(DIGITS + 1), 0.1)) == 1, "last bits choose nothing"
    assert surest(np.array([[2.0], [1.0]])) == 0, "one user says nothing of the spread"
    assert surest(np.zeros((2, 0))) == 0


def test_validation_users_are_a_fifth_at_least_one_and_at_most_so_many() -> None:
    for users, held in ((2, 1), (16, 3), (60, 12), (MOST * 5 + 100, MOST)):
        public = rows_with(users, 12, share=0.5)
        weighing = weighing_of(public, Fitting(rank=2, kappa=1), 0)
        assert (weighing.folds[0].seen.users, weighing.announced_to.users) == (held, users - held)
    with pytest.raises(InputError, match="give --weight"):
        weighing_of(public.block(0, 1), Fitting(rank=2, kappa=1), 0)
    assert list(WEIGHTS) == sorted(WEIGHTS)
    assert WEIGHTS[0] == 0


def test_the_error_of_the_second_moment_falls_with_the_root_of_the_users() -> None:
    counts = [100 * 2**power for power in range(8)]
    errors = np.mean([sample_errors(counts, items=50, rank=4, seed=seed) for seed in range(30)], axis=0)
    found = slope(list(zip(counts, errors.tolist(), strict=True)))
    assert -0.55 <= found <= -0.45
    assert all(error < sample_bound(count, rank=4) for count, error in zip(counts, errors, strict=True))
    assert sample_bound(800, rank=4) == pytest.approx(1.47, abs=0.005)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_error_of_completion_falls_with_the_ratings_as_the_bound_does(seed: int) -> None:
    points = completion_errors([0.15, 0.3, 0.6], size=120, rank=3, noise=0.5, seed=seed)
    assert -0.70 <= slope(points) <= -0.45
    assert all(point.second_moment <= np.sqrt(2) * point.matrix for point in points)


@settings(max_examples=examples(100))
@given(users=st.integers(1, 6), items=st.integers(1, 6), apart=st.floats(1e-3, 100), seed=st.integers(0, 10**6))
def test_polar_factors_are_no_farther_apart_than_root_two_times_their_matrices(
    users: int, items: int, apart: float, seed: int
) -> None:
    """Lemma 3.3, and that a single row which turns a little reaches it."""
    coins = np.random.default_rng(seed)
    one = coins.standard_normal((users, items)) * coins.choice([0, 1, 1e-3], items)
    other = one + apart * coins.standard_normal((users, items))
    most = np.sqrt(2) * np.linalg.norm(one - other) / np.sqrt(one.size)
    assert np.linalg.norm(second_moment(one) - second_moment(other)) <= most * (1 + 1e-9)
    row, turned = np.array([[1.0, 0.0]]), np.array([[1.0, 1e-3]])
    assert np.linalg.norm(second_moment(row) - second_moment(turned)) > 0.999e-3


def test_gamma_is_the_smallest_that_holds_for_the_whole_span() -> None:
    coins = np.random.default_rng(0)
    features = features_of(coins.standard_normal((30, 3)), np.zeros(30))
    starts, items = np.array([0, 12, 14]), np.arange(14, dtype=np.int32)
    few, many = overlap(features, starts, items)[1], overlap(features, starts, items)[0]
    assert np.isinf(few)
    basis = np.linalg.qr(features.vectors)[0]
    inside = basis @ coins.standard_normal((3, 5000))
    ratios = np.square(inside).sum(axis=0) / (30 / 12 * np.square(inside[:12]).sum(axis=0))
    assert 0.8 * many < ratios.max() <= many * (1 + 1e-9)
    every = overlap(features, np.array([0, 30]), np.arange(30, dtype=np.int32))
    assert every[0] == pytest.approx(1)
