"""Published rivals by gradients: a release's epsilon, the total, estimates without bias, the law of sums, the table."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from runs import Command, planted_ratings, write_movielens
from statistical import normal_radius

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.budget import Epsilon
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows.private_gradients import FACTORS, ROWS, GradientRow, chances, part_of
from scenarios.studies.compare.worlds import FileWorld, world_of

pytestmark = pytest.mark.usefixtures("undrawn")

SEEDS = 30
FIRST: Floats2 = np.random.default_rng(3).uniform(0, 0.2, (30, FACTORS))
EACH = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.mechanism)


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_movielens(tmp_path_factory.mktemp("rivals") / "r.csv", planted_ratings(users=60, items=30, each=12))


@pytest.fixture(scope="module")
def world(ratings: Path) -> FileWorld:
    return world_of(Comparison(ratings=ratings, like_from=4), 0)


def request(epsilon: Epsilon, users: int, seed: int = 0) -> RowRequest:
    return RowRequest(settings=Comparison(ratings=Path("none.csv")), epsilon=epsilon, users=users, seed=seed)


def estimate(row: GradientRow, world: FileWorld, asked: RowRequest, *, devices: bool, public: int = 0) -> Floats2:
    people = np.sort(asked.coins.integers(world.people, size=asked.users)) if devices else None
    return row.estimate(row.ratings(world), FIRST, people, asked, np.random.default_rng(public))


@EACH
@pytest.mark.parametrize("total", [Fraction(1, 2), Fraction(4), Fraction(24)])
def test_the_largest_log_ratios_of_all_releases_add_up_to_epsilon(row: GradientRow, total: Fraction) -> None:
    """A release is a cell, chosen whatever is rated, and a bit; the twin gives every release the whole epsilon."""

    def ratio(rounds: int) -> float:
        one = chances(np.linspace(-1, 1, 201), part_of(total, rounds))
        return row.rounds * max(math.log(bits.max() / bits.min()) for bits in (one, 1 - one))

    assert ratio(row.rounds) == pytest.approx(float(total), rel=1e-6)
    assert row.rounds == 1 or ratio(1) > 1.01 * float(total)


def gradient(row: GradientRow, world: FileWorld) -> Floats2:
    """The mean bounded gradient, person by person and cell by cell, where places are not projected."""
    own = row.ratings(world).toarray()
    tastes, total = row.tastes(row.ratings(world), FIRST), np.zeros(FIRST.shape)
    for person, rated in enumerate(own):
        fit = FIRST @ tastes[person]
        error = np.where(rated != 0, rated - fit, 0.0) if row is ROWS[0] else (1 + 20 * rated) * (rated - fit)
        total += np.clip(error[:, None] * tastes[person] / (math.inf if row is ROWS[0] else row.bound), -1, 1)
    return total / len(own)


def test_estimates_of_many_answers_are_the_mean_gradient(world: FileWorld) -> None:
    """1e12 answers leave no noise to see; the twin's gradient is that of no errors' signs."""
    row = ROWS[1]
    told, exact = estimate(row, world, request(None, 10**12), devices=False), gradient(row, world)
    assert told == pytest.approx(exact, abs=1e-3)
    assert told != pytest.approx(-exact, abs=1e-3)


def test_projected_estimates_are_the_mean_gradient_on_average(world: FileWorld) -> None:
    """Over 300 projections, without a bound: a correlation above .9; the twin multiplies by no ratings' own tastes."""
    row = replace(ROWS[0], bound=1e3)
    tastes = row.tastes(row.ratings(world), FIRST)
    missed = row.ratings(world).toarray()
    missed = np.where(missed != 0, missed - tastes @ FIRST.T, 0.0)
    told = np.mean([estimate(row, world, request(None, 10**15), devices=False, public=one) for one in range(300)], 0)

    def correlation(other: Floats2) -> float:
        return float(np.corrcoef(told.ravel(), (missed.T @ other).ravel())[0, 1])

    assert correlation(tastes) > 0.9
    assert correlation(tastes[::-1]) < 0.9


@EACH
def test_a_first_round_that_units_share_is_that_of_each_alone(row: GradientRow, world: FileWorld) -> None:
    shared = replace(world, shared={})
    for one in (request(epsilon, 10**6) for epsilon in (Fraction(1), Fraction(4))):
        alone = row.advise(replace(world, shared={}), replace(one))
        together = row.advise(shared, replace(one))
        assert alone.scorer
        assert together.scorer
        own = row.ratings(world)
        np.testing.assert_array_equal(together.scorer(own), alone.scorer(own))
    assert [*shared.shared] == [(row.mechanism, 0)]


@pytest.mark.statistical
@EACH
def test_sums_of_bits_are_those_of_devices(row: GradientRow, world: FileWorld) -> None:
    """False alarm 1e-6 a rival, if the cells' spreads are alike; the twin's devices have another bound."""

    def sample(one: GradientRow, *, devices: bool, first: int) -> Floats2:
        asked = (request(None, 100_000, first + seed) for seed in range(SEEDS))
        return np.array([estimate(one, world, each, devices=devices).ravel() for each in asked])

    def doubt(answered: Floats2, law: Floats2) -> float:
        spread: Floats = np.hypot(answered.std(axis=0, ddof=1), law.std(axis=0, ddof=1))
        # With few seeds each cell's own spread is uncertain: all cells share one
        return float(np.abs(answered.mean(axis=0) - law.mean(axis=0)).max() / spread.mean() * math.sqrt(SEEDS))

    answered, law = sample(row, devices=True, first=0), sample(row, devices=False, first=100)
    other = sample(replace(row, bound=row.bound / 30), devices=False, first=100)
    radius = 1.3 * normal_radius(1.0, comparisons=FIRST.size)
    assert doubt(answered, law) < radius
    assert doubt(answered, other) > radius


def test_the_table_says_from_which_paper_a_rival_is_and_what_updates_take(ratings: Path, blindrec: Command) -> None:
    names = ",".join(row.mechanism for row in ROWS)
    options = ("--trust-models", "local", "--mechanisms", names, "--epsilon", 4, "--scale", "1,100", "--devices", 1000)
    result = blindrec("compare", ratings, "--like-from", 4, "--backend", "inprocess", "--json", "-", *options).result
    assert {(row["mechanism"], row["messages"], row["users"], row["simulated"]) for row in result["rows"]} == {
        (row.mechanism, row.rounds, users, simulated)
        for row in ROWS
        for users, simulated in ((60, "devices"), (6000, "aggregate"))
    }
    for row in ROWS:
        lines = [line for line in result["remarks"] if line.startswith(f"local: {row.mechanism}: ")]
        assert any(f"re-implemented from the abstract of {row.paper}" in line for line in lines)
        assert any(f"{row.rounds} bits, each under epsilon {4 / row.rounds:.3g}," in line for line in lines)
