"""The weight of releases is validated on public users whom no announced model knows: it sees help and does no harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from completions import planted

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.rating_table import Rows
from coordinator.server.completion.batches import CompletionOutcome, announced, start
from coordinator.server.completion.crowd import local_crowd
from coordinator.server.completion.fitting import Fitting
from coordinator.server.completion.weighing import DIGITS, WEIGHTS, Weighing, surest
from scenarios.backends.selection import InProcess
from scenarios.config.settings import validated
from scenarios.data.datasets import RatingTable
from scenarios.families.two_tier.two_tier_run import follow
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import TwoTierWorld, plan_of, read_table, run, world_of
from scenarios.families.two_tier.two_tier_worlds import MOST, weighing_of

SESSION = InProcess(1)
SMALL = {"planted": "800,200,40000", "public": 60, "private": 150, "batch": 30, "rank": 6, "regularisation": 1}
HELP = 0.003
"""RMSE that a validated weight gains at least where the weight 0.25 gains 0.009."""
HARM = 0.0005
"""RMSE that a validated weight loses at most where nothing is to be gained."""


def wanted_of(mechanism: str, epsilon: object, **changes: object) -> TwoTier:
    return validated(TwoTier, None, {**SMALL, "mechanism": mechanism, "epsilon": epsilon, "seed": 1, **changes})


@pytest.fixture(scope="module")
def table() -> RatingTable:
    return read_table(wanted_of("pmc", None))


def gain_of(told: dict[str, Any]) -> float:
    return float(told["rmse_public_only"] - told["rmse"])


def test_a_weight_that_helps_is_seen(table: RatingTable) -> None:
    """Validation that tried what releases tell outside the announced models gave this world the weight 0."""
    told = run(wanted_of("laplace", 5), SESSION, table)
    assert told["weight"] >= 0.03
    assert told["validation_users"] == 12
    assert gain_of(told) > HELP


@pytest.mark.parametrize(("mechanism", "epsilon"), [("laplace", "0.1"), ("sslp", 1), ("privunit", "0.5")])
def test_a_weight_does_no_harm_where_nothing_is_to_be_gained(
    mechanism: str, epsilon: object, table: RatingTable
) -> None:
    """The twin: a weight that was not validated loses more than is allowed."""
    assert gain_of(run(wanted_of(mechanism, epsilon), SESSION, table)) > -HARM
    assert gain_of(run(wanted_of(mechanism, epsilon, weight=1), SESSION, table)) < -HARM


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
    """Every user's items and ratings."""
    both = np.stack([table.items, table.values], axis=1)
    return np.split(both, table.starts[1:-1])


def course_of(world: TwoTierWorld) -> CompletionOutcome:
    return follow(plan_of(world, Fitting(rank=6, kappa=1)), SESSION).outcome


def test_a_weight_that_is_given_announces_the_model_of_all_public_users(table: RatingTable) -> None:
    world = world_of(wanted_of("pmc", None, private=30), table)
    plan = plan_of(world, Fitting(rank=6, kappa=1))
    crowd = local_crowd(plan.server.public)
    assert course_of(world).announced[0] == announced(start(plan.server, crowd), crowd).features.digest
    assert run(wanted_of("pmc", None, private=30), SESSION, table)["validation_users"] is None


def test_the_gain_that_is_largest_less_its_standard_error_is_taken() -> None:
    coins = np.random.default_rng(0)
    noise = coins.standard_normal(50)
    noise -= noise.mean()
    noise /= noise.std(ddof=1) / np.sqrt(50)  # standard error 1

    def chosen(*settings: tuple[float, float]) -> int:
        """What is chosen of gains with these means and standard errors."""
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
        of = planted(users, 12, rank=2, share=0.5)
        public = Rows(starts=of.starts, items=of.items, values=of.values, count=12)
        weighing = weighing_of(public, Fitting(rank=2, kappa=1), 0)
        assert (weighing.folds[0].seen.users, weighing.announced_to.users) == (held, users - held)
    with pytest.raises(InputError, match="give --weight"):
        weighing_of(public.block(0, 1), Fitting(rank=2, kappa=1), 0)
    assert list(WEIGHTS) == sorted(WEIGHTS)
    assert WEIGHTS[0] == 0
