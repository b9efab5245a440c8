"""Plans for a share of liars: by hand from the formulas, and beyond the universal limit none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from coordinator.protocol.errors import InputError
from scenarios.given.config import Scenario
from scenarios.planner.candidates import Candidate, any_design
from scenarios.planner.needs import Target, users_needed
from scenarios.planner.plan import DesignPlan
from scenarios.planner.withstanding import _rows, withstanding
from scenarios.theory.lying import sway_of

WORLD = Scenario(items=1000, rated=30, **any_design())
EMPTY: dict[str, Any] = {"rows": [], "bounds": [], "recommended": None, "best": None, "sufficient": None}


def rows(target: Target, share: float, design: str = "sign") -> dict[float, dict[str, Any]]:
    one = Candidate(world=WORLD, settings={"design": design, "decoder": "posterior" if design == "sign" else "centred"})
    row = {**one.settings, "users": users_needed(one, WORLD.epsilon, target).users}
    found = _rows(one, row, target, share)
    return {row["pool_size"] if row["theta"] is None else row["theta"]: row for row in found}


def test_pools_cost_users_and_let_more_liars_be_as_the_spec_says() -> None:
    """f* of one item: .160 % of all items together, .489 % in pools of 100, 1.10 % one by one, the universal limit."""
    found = rows(Target(success=0.95, accuracy=None), 0.001)
    tipping = {size: row["tipping_share"] for size, row in found.items()}
    assert [tipping[size] for size in (1000, 100, 1)] == pytest.approx([0.00160, 0.00489, 0.01097], abs=1e-5)
    honest, left = found[1000]["users_honest"], 1 - 0.001 / 0.999 * 0.9984 / 0.0016
    assert found[1000]["users"] == pytest.approx(honest / (0.999 * left) ** 2, rel=0.01)
    assert found[100]["users"] < found[1000]["users"] < found[1]["users"]
    assert rows(Target(success=0.95, accuracy=None), 0.001, "maxsense")[1.0]["tipping_share"] == pytest.approx(
        0.0034, abs=1e-5
    )


def test_one_percent_of_liars_leaves_item_queries_for_all_right_and_everything_for_most() -> None:
    """All right: 10^10 users, one item a pool, and nothing else. 95 % right: little more than honest users take."""
    strict = rows(Target(success=0.95, accuracy=None), 0.01)
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
    found = rows(Target(success=0.95, accuracy=None), 0.001, "maxsense")
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
        sway = sway_of(Scenario(design="pairwise", items=items, rated=rated, users=1000).complete())
        assert sway is not None
        assert sway.tipping(1) == pytest.approx(tips, rel=5e-3)
        assert sway.tipping(items // 2) == 1.0


def test_beyond_the_universal_limit_nothing_is_planned_and_the_limit_is_named() -> None:
    made = DesignPlan(**EMPTY, target=Target(success=0.95, accuracy=None), world=WORLD, users_here=None)
    limit = math.tanh(0.5) * 0.03 * 0.8
    with pytest.raises(InputError, match=r"from 0.01097 on liars turn an item round .* tanh\(epsilon / 2\)"):
        withstanding(made, limit, None)
    with pytest.raises(InputError, match="above 0 and below 1"):
        withstanding(made, 1.0, None)
