"""The shape of ratings files: planted tastes come back, luck is no taste, and files without a shape are told."""

import numpy as np
import pytest
from runs import printed, rating_table

from coordinator.protocol.errors import InputError
from scenarios.config.scenario import Scenario
from scenarios.data.datasets import RatingTable
from scenarios.studies.planner.least_users import Target
from scenarios.studies.planner.plan import show_learnable
from scenarios.studies.planner.request import learnable, learnable_of, shape_of

pytestmark = pytest.mark.usefixtures("few_draws")
TARGET = Target(success=None, accuracy=0.99)


def drawn(likes: list[float], *, users: int, each: int, seed: int = 1) -> RatingTable:
    """Users rate ``each`` items with 1 or 0; item i is liked with probability ``likes[i]``."""
    world = np.random.default_rng(seed)
    rows = [
        {int(item): float(world.random() < likes[item]) for item in world.choice(len(likes), size=each, replace=False)}
        for _ in range(users)
    ]
    return rating_table(rows, len(likes))


def test_a_planted_block_model_comes_back() -> None:
    """4000 ratings: a cluster's share of likes has standard error 0.014 or less; 0.06 is passed with 2e-5 at most."""
    world = shape_of(drawn([0.8] * 6 + [0.3] * 14, users=500, each=8), like_from=1)
    assert (world.items, world.rated, len(world.like)) == (20, 8, 1)
    assert world.cluster_shares == pytest.approx((0.3, 0.7))
    assert world.like[0] == pytest.approx((0.8, 0.3), abs=0.06)


def test_luck_is_no_taste() -> None:
    """All items alike, 10 ratings each: sorting by luck would give clusters about 0.2 apart.

    Measured in the other half, the difference has standard error 0.05: 0.2 is passed with probability below 1e-4 each.
    """
    for seed in range(5):
        world = shape_of(drawn([0.5] * 40, users=50, each=8, seed=seed), like_from=1)
        assert abs(world.like[0][0] - world.like[0][1]) < 0.2


def test_the_median_user_counts() -> None:
    rows = [{item: float(item < 2) for item in range(4 if user < 5 else 2)} for user in range(9)]
    assert shape_of(rating_table(rows, 4), like_from=1).rated == 4


def test_epsilon_and_theta_are_taken_over() -> None:
    world = shape_of(drawn([0.8] * 5 + [0.2] * 5, users=60, each=5), like_from=1, epsilon="1/2", theta=2.0)
    assert (float(world.epsilon or 0), world.value("theta")) == (0.5, 2.0)


def test_theta_above_what_users_rated_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"^theta is 6.0; .*at most rated, 5$"):
        shape_of(drawn([0.8] * 5 + [0.2] * 5, users=60, each=5), like_from=1, theta=6)


@pytest.mark.parametrize(
    "rows",
    [
        [{0: 1.0}],
        [{0: float(user % 2)} for user in range(20)],
        [dict.fromkeys(range(5), 3.0)] * 10,
    ],
)
def test_files_without_clusters_are_told(rows: list[dict[int, float]]) -> None:
    table = rating_table(rows, len(rows[0]))
    with pytest.raises(InputError, match="too few to find 2 clusters; give more ratings") as refused:
        shape_of(table)
    assert "\n" not in str(refused.value)
    assert learnable_of(table, None) == []


def test_what_is_no_better_than_one_label_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a file with .64 of its items in one cluster: .64 at epsilon 1 and .50 at 8 tell nothing, .80 at 2 does."""
    world = Scenario.model_validate({"items": 100, "rated": 10, "cluster_shares": (0.64, 0.36), "like": ((0.9, 0.1),)})
    found = {1: 0.64, 2: 0.8, 4: 0.67, 8: 0.5}
    best = "scenarios.studies.planner.request.quick_best"
    monkeypatch.setattr(best, lambda of, *_, **__: {"accuracy": found[int(of.epsilon or 0)]})
    [row] = learnable(world, 600, TARGET)
    assert (row["epsilon"], row["accuracy"], row["one_label"]) == (2, 0.8, 0.64)
    assert "than one label for all of them does" in printed(lambda console: show_learnable(console, []), 200)
