"""Plans for a share of liars: by hand from the formulas, and beyond the universal limit none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.config.scenario import Scenario
from scenarios.show.tables import name_of
from scenarios.studies.planner.least_users import Candidate, Target, any_design, users_needed
from scenarios.studies.planner.plan import plan
from scenarios.studies.planner.withstanding import _rows, withstanding
from scenarios.theory.liars import influence_of

pytestmark = pytest.mark.usefixtures("few_draws")
WORLD = Scenario(items=1000, rated=30, **any_design())
ALL_RIGHT = Target(success=0.95, accuracy=None)


def rows(target: Target, share: float, design: str = "sign") -> dict[float, dict[str, Any]]:
    one = Candidate(world=WORLD, settings={"design": design, "decoder": "posterior" if design == "sign" else "centred"})
    row = {**one.settings, "users": users_needed(one, WORLD.epsilon, target).users, "epsilon": 1.0}
    found = _rows(one, row, target, share)
    return {row["pool_size"] if row["theta"] is None else row["theta"]: row for row in found}


def test_pools_cost_users_and_let_more_liars_be_as_the_spec_says() -> None:
    """f* of one item: .160 % of all items together, .489 % in pools of 100, 1.10 % one by one, the universal limit."""
    found = rows(ALL_RIGHT, 0.001)
    tipping = {size: row["tipping_share"] for size, row in found.items()}
    assert [tipping[size] for size in (1000, 100, 1)] == pytest.approx([0.00160, 0.00489, 0.01097], abs=1e-5)
    honest, left = found[1000]["users_honest"], 1 - 0.001 / 0.999 * 0.9984 / 0.0016
    assert found[1000]["users"] == pytest.approx(honest / (0.999 * left) ** 2, rel=0.01)
    assert found[100]["users"] < found[1000]["users"] < found[1]["users"]
    assert rows(ALL_RIGHT, 0.001, "maxsense")[1.0]["tipping_share"] == pytest.approx(0.0034, abs=1e-5)


def test_one_percent_of_liars_leaves_item_queries_for_all_right_and_everything_for_most() -> None:
    """All right: 10^10 users, one item a pool, and nothing else. 95 % right: little more than honest users take."""
    strict = rows(ALL_RIGHT, 0.01)
    assert [size for size, row in strict.items() if row["users"]] == [1]
    assert 1e10 < strict[1]["users"] < 3e10
    assert "turn an item round from" in strict[1000]["note"]
    pools = rows(Target(success=None, accuracy=0.95), 0.01)
    most = pools[1000]
    assert all(row["users"] > 1.01 * row["users_honest"] for row in pools.values())
    assert pools[100]["users"] < pools[10]["users"] < pools[1]["users"]
    assert 1.1 * most["users_honest"] < most["users"] < 2 * most["users_honest"]


def test_fewer_sensed_items_cost_users_and_let_more_liars_be() -> None:
    """Of MaxSense; an honest gap is (1 - p b')^29, in all."""
    found = rows(ALL_RIGHT, 0.001, "maxsense")
    assert sorted(found) == [0.25, 0.5, 1.0, 2.0]
    tipping = [found[theta]["tipping_share"] for theta in (0.25, 0.5, 1.0, 2.0)]
    assert tipping == sorted(tipping, reverse=True)
    alone, honest = (0.462117 * 0.03 * 0.8 / 2 * (1 - 0.5 * p) ** 29 for p in (0.25 / 30, 1 / 30))
    assert tipping[0] / (1 - tipping[0]) == pytest.approx(alone / (1 - 0.25 / 30), rel=0.05)
    assert tipping[2] / (1 - tipping[2]) == pytest.approx(honest / (1 - 1 / 30), rel=0.05)
    left = 1 - 0.001 / 0.999 * (1 - tipping[0]) / tipping[0]
    cost = found[0.25]["users"] * (0.999 * left) ** 2 / found[0.25]["users_honest"]
    assert 1.5 < cost < 1.8


def test_a_pairs_answer_is_turned_round_as_the_spec_says() -> None:
    """f* of one item: .0257 % at N = 1000 and w = 30; 22.8 % where everybody rated all of 100 items."""
    for items, rated, tips in ((1000, 30, 0.000257), (100, 100, 0.228)):
        influence = influence_of(Scenario(design="pairwise", items=items, rated=rated, users=1000).complete())
        assert influence is not None
        assert influence.tipping(1) == pytest.approx(tips, rel=5e-3)
        assert influence.tipping(items // 2) == 1.0


def test_beyond_the_universal_limit_nothing_is_planned_and_the_limit_is_named() -> None:
    made = plan(Scenario(items=40, rated=8, **any_design()), ALL_RIGHT)
    odds = math.tanh(0.5) * 0.2 * 0.8
    limit = odds / (1 + odds)
    with pytest.raises(InputError, match=rf"from {limit:.4g} on liars turn an item round at epsilon 1, .* tanh\("):
        withstanding(made, limit, None)
    assert withstanding(made, 0.5 * limit, None)["recommended"]["pool_size"] < 40
    with pytest.raises(InputError, match="above 0 and below 1"):
        withstanding(made, 1.0, None)


def test_liars_lie_at_the_epsilon_that_a_plan_found() -> None:
    made = plan(Scenario(items=20, rated=5, **any_design()), ALL_RIGHT, users=3000, inverse=True)
    found = withstanding(made, 0.03, None)
    sought = {name_of(row): row["epsilon"] for row in made.rows}
    told = {row["design"]: row["epsilon"] for row in found["designs"]}
    assert len(set(told.values())) > 3
    assert told.items() <= sought.items()
    assert found["epsilon"] == max(told.values())
    sign = next(row for row in found["designs"] if row["design"] == "sign" and row["pool_size"] == 20)
    alone = influence_of(Scenario(design="sign", items=20, rated=5, epsilon=parse_epsilon(sign["epsilon"])).complete())
    assert alone is not None
    assert sign["tipping_share"] == alone.tipping(1)


def test_sets_of_several_questions_do_not_overlap_at_another_theta() -> None:
    """At epsilon 20 "auto" asks nine questions, which leave no room for 2 rated items a set of 10."""
    made = plan(Scenario(items=200, rated=10, epsilon=20, **any_design()), ALL_RIGHT)
    found = withstanding(made, 0.01, None)["designs"]
    thetas = {name: {row["theta"] for row in found if row["design"].startswith(name)} for name in ("maxsense", "multi")}
    assert 2.0 in thetas["maxsense"]
    assert thetas["multi"]
    assert 2.0 not in thetas["multi"]


def test_where_clusters_are_liked_alike_no_advice_is_given() -> None:
    made = plan(Scenario(items=20, rated=5, like=((0.5, 0.5),), **any_design()), ALL_RIGHT)
    found = withstanding(made, 0.01, None)
    assert (found["designs"], found["recommended"], found["tipping_limit"]) == ([], None, 0.0)
