"""Chains of adjacent patterns, by the coordinator's own code: check values, and that each step is within epsilon."""

from __future__ import annotations

import math

import pytest

from coordinator.protocol.errors import InputError
from scenarios.families.online.adversaries import claim_1, theorem_15_chain
from scenarios.families.online.bounds import epsilon_proved, own_lower_bound


@pytest.mark.parametrize(("peers", "expected"), [(10, "1.721811"), (50, "0.357866")])
def test_check_value_4(peers: int, expected: str) -> None:
    steps = claim_1(1000, peers)
    assert len(steps) == peers
    assert steps[-1].total == pytest.approx(math.log(1000), rel=1e-12)
    assert f"{max(step.ratio for step in steps):.6f}" == expected
    bound = epsilon_proved("p-rec-sim", 1000, 2, 2 * peers, peers)
    assert bound is not None
    assert math.log(1000) / peers <= max(step.ratio for step in steps) <= bound


def test_claim_1_with_more_objects() -> None:
    """From (1 - 1/T) / 2 + 1 / mT to 1 / mT."""
    assert claim_1(1000, 4, objects=3)[-1].total == pytest.approx(math.log(1 + 3 * 999 / 2), rel=1e-12)


def test_check_value_5() -> None:
    steps = theorem_15_chain(8, 3, 2, 1)
    assert len(steps) == 6
    assert f"{steps[-1].total:.12f}" == "8.124150603307"
    assert (steps[-1].first, steps[-1].second) == (0, 3)


@pytest.mark.parametrize("recommender", ["p-rec", "p-rec-lean", "p-rec-wide", "p-rec-sharp"])
@pytest.mark.parametrize(("diversity", "radius", "rounds"), [(4, 0, 1000), (0, 4, 1000), (3, 5, 8)])
def test_the_chains_total_is_p_recs_own_bound(recommender: str, diversity: int, radius: int, rounds: int) -> None:
    steps = theorem_15_chain(rounds, 5, diversity, radius, recommender=recommender)
    assert steps[-1].total == pytest.approx((diversity + radius) * math.log(2 * rounds - 1), rel=1e-12)
    most = max(abs(step.ratio) for step in steps)
    bound = epsilon_proved(recommender, rounds, 2, 10, 5, diversity, radius)
    assert bound is not None
    assert own_lower_bound(rounds, 2, 10, 5, diversity, radius) <= most <= bound


def test_the_literal_rule_loses_the_second_group_and_the_total_with_it() -> None:
    """D = 0: the second group is dead after one disagreement, and then nobody is left to follow."""
    total = theorem_15_chain(1000, 5, 0, 3, recommender="p-rec-literal")[-1].total
    assert total != pytest.approx(3 * math.log(1999), rel=0.01)


def test_three_objects() -> None:
    total = theorem_15_chain(100, 3, 1, 1, objects=3)[-1].total
    assert total == pytest.approx(2 * math.log(298), rel=1e-12)


def test_disagreements_must_fit_into_the_rounds() -> None:
    with pytest.raises(InputError, match="diversity 5 and radius 4 do not fit into 8 rounds"):
        theorem_15_chain(8, 3, 5, 4)
