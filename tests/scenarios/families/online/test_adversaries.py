"""Chains of adjacent patterns, each step of which is within epsilon, and Theorem 15's random configuration."""

import math

import pytest
from evidence import rate_fits
from hypothesis import given
from hypothesis import strategies as st
from runs import present

from coordinator.protocol.errors import InputError
from scenarios.families.online.adversaries import LIKED, VOTES, claim_1, configuration, draw, measure, theorem_15_chain
from scenarios.families.online.online_bounds import (
    epsilon_proved,
    loss_bound,
    own_lower_bound,
    theorem_15,
    worst_case_sim,
)


@pytest.mark.parametrize(("peers", "expected"), [(10, "1.721811"), (50, "0.357866")])
def test_check_value_4(peers: int, expected: str) -> None:
    steps = claim_1(1000, peers)
    assert len(steps) == peers
    assert sum(steps) == pytest.approx(math.log(1000), rel=1e-12)
    assert f"{max(steps):.6f}" == expected
    bound = present(epsilon_proved("p-rec-sim", 1000, 2, 2 * peers, peers))
    assert math.log(1000) / peers <= max(steps) <= bound
    # All voters are peers of one of two: there it is the worst step that there is.
    assert max(steps) == pytest.approx(max(worst_case_sim(2 * peers, peers, 1000)), rel=1e-12)


def test_claim_1_with_more_objects() -> None:
    """From (1 - 1/T) / 2 + 1 / mT to 1 / mT."""
    assert sum(claim_1(1000, 4, objects=3)) == pytest.approx(math.log(1 + 3 * 999 / 2), rel=1e-12)


def test_check_value_5() -> None:
    steps = theorem_15_chain(8, 3, 2, 1)
    assert len(steps) == 6
    assert f"{sum(steps):.12f}" == "8.124150603307"


@pytest.mark.parametrize("recommender", ["p-rec", "p-rec-lean", "p-rec-wide", "p-rec-sharp"])
@pytest.mark.parametrize(("diversity", "radius", "rounds"), [(4, 0, 1000), (0, 4, 1000), (3, 5, 8)])
def test_the_chains_total_is_p_recs_own_bound(recommender: str, diversity: int, radius: int, rounds: int) -> None:
    steps = theorem_15_chain(rounds, 5, diversity, radius, recommender=recommender)
    assert sum(steps) == pytest.approx((diversity + radius) * math.log(2 * rounds - 1), rel=1e-12)
    most = max(map(abs, steps))
    bound = present(epsilon_proved(recommender, rounds, 2, 10, 5, diversity, radius))
    assert own_lower_bound(rounds, 2, 10, 5, diversity, radius) <= most <= bound


def test_three_objects() -> None:
    assert sum(theorem_15_chain(100, 3, 1, 1, objects=3)) == pytest.approx(2 * math.log(298), rel=1e-12)


def test_the_literal_rule_loses_the_second_group_and_the_total_with_it() -> None:
    """D = 0: the second group is dead after one disagreement, and then nobody is left to follow."""
    total = sum(theorem_15_chain(1000, 5, 0, 3, recommender="p-rec-literal"))
    assert total != pytest.approx(3 * math.log(1999), rel=0.01)


@given(
    rounds=st.integers(2, 300),
    diversity=st.integers(0, 9),
    radius=st.integers(0, 9),
    seed=st.integers(0, 10**6),
    share=st.floats(0, 1),
)
def test_both_groups_stay_peers(rounds: int, diversity: int, radius: int, seed: int, share: float) -> None:
    found = configuration(rounds, diversity, radius, seed, share=share)
    assert len(found) == rounds
    assert sum(len(LIKED[setting]) > 1 for setting in found) <= diversity
    for voter in (0, 1):
        assert sum(VOTES[setting][voter] not in LIKED[setting] for setting in found) <= radius
    apart = [setting for setting in found if setting > 2]
    assert apart == sorted(apart)
    if 4 in apart:
        assert apart.count(3) == diversity


@pytest.mark.statistical
def test_shares_of_the_settings() -> None:
    """Two Clopper-Pearson intervals; false alarm 2e-6. The twin is wrong by one point in a hundred."""
    rounds = 100_000
    found = configuration(rounds, rounds, 0, seed=1, share=0.1)
    assert rate_fits(found.count(3), rounds, 0.1)
    assert rate_fits(found.count(2), rounds, 0.45)
    assert not rate_fits(found.count(3), rounds, 0.11)
    assert not rate_fits(found.count(2), rounds, 0.46)


@pytest.mark.thorough
def test_a_used_up_budget_costs_p_rec_what_its_chain_says_and_the_literal_rule_much_more() -> None:
    """D = 0, R = 3, T = 2000 (the spec: 24.9 against 1266): all three disagreements come within the first tenth."""
    found = measure("p-rec", 2000, 10, 0, 3, range(2), share=0.02)
    assert found.ratio == pytest.approx(3 * math.log(3999), rel=1e-9)
    size = (2000, 2, 20, 10, 0, 3)
    assert found.ratio / 20 == pytest.approx(own_lower_bound(*size), rel=1e-9)
    assert theorem_15(*size, max(found.loss, 0.5)) < own_lower_bound(*size) < present(epsilon_proved("p-rec", *size))
    assert found.loss < present(loss_bound("p-rec", *size))
    assert measure("p-rec-literal", 2000, 10, 0, 3, range(2), share=0.02).ratio > 1000


def test_the_random_recommender_hides_everything_and_plurality_nothing() -> None:
    uniform = measure("random", 400, 3, 2, 2, range(3))
    assert (uniform.ratio, uniform.ratio_error, epsilon_proved("random", 400, 2, 6, 3, 2, 2)) == (0, 0, 0)
    followed = measure("plurality", 400, 3, 20, 20, range(3))
    assert followed.ratio == math.inf
    assert followed.loss == 0


def test_the_same_seed_draws_the_same() -> None:
    assert draw("p-rec", 300, 3, 5, 5, 7) == draw("p-rec", 300, 3, 5, 5, 7)
    assert draw("p-rec", 300, 3, 5, 5, 7) != draw("p-rec", 300, 3, 5, 5, 8)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="share of disagreements is 2"):
        configuration(10, 40, 40, seed=0)
    with pytest.raises(InputError, match="diversity 5 and radius 4 do not fit into 8 rounds"):
        theorem_15_chain(8, 3, 5, 4)
