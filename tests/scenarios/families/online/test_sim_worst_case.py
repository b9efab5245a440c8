"""p-REC_sim's worst-case epsilon: check values, the spec's table, and the searches and bounds that must agree."""

from __future__ import annotations

import math

import pytest
from tiny_worst_case import Tiny, worst_case_tiny

from coordinator.protocol.errors import InputError
from scenarios.families.online.adversaries import claim_1
from scenarios.families.online.bounds import epsilon_proved
from scenarios.families.online.worst_case import worst_case_sim


@pytest.mark.parametrize(
    ("size", "plus", "minus"),
    [((20, 5, 100), 3.057734510226, 2.262229832807), ((40, 5, 1000), 5.536460572642, 4.460894467047)],
)
def test_check_value_3(size: tuple[int, int, int], plus: float, minus: float) -> None:
    assert worst_case_sim(*size) == pytest.approx((plus, minus), abs=1e-12)


@pytest.mark.parametrize(("rounds", "expected"), [(10**2, "4.1378"), (10**4, "4.6776"), (10**6, "4.8534")])
def test_the_table_of_section_5(rounds: int, expected: str) -> None:
    epsilon = max(worst_case_sim(800, 20, rounds))
    assert f"{epsilon * 20 / math.log(rounds):.4f}" == expected
    bound = epsilon_proved("p-rec-sim", rounds, 2, 800, 20)
    assert bound is not None
    assert 0.92 * bound < epsilon <= bound


@pytest.mark.parametrize(("rounds", "expected"), [(10**2, "7.73"), (10**4, "8.89"), (10**6, "9.46")])
def test_three_objects(rounds: int, expected: str) -> None:
    epsilon = max(worst_case_sim(200, 10, rounds, 3))
    assert f"{epsilon * 10 / math.log(rounds):.2f}" == expected
    bound = epsilon_proved("p-rec-sim", rounds, 3, 200, 10)
    assert bound is not None
    assert epsilon <= bound


def test_the_sharp_weighting_leaks_less() -> None:
    epsilon = max(worst_case_sim(800, 20, 10**6, sharp=True))
    assert f"{epsilon * 20 / math.log(10**6):.2f}" == "3.05"
    bound = epsilon_proved("p-rec-sharp", 10**6, 2, 800, 20)
    assert bound is not None
    assert 0.92 * bound < epsilon <= bound


@pytest.mark.parametrize("rounds", [10, 1000, 10**8])
@pytest.mark.parametrize("peers", [1, 2, 7])
@pytest.mark.parametrize("objects", [2, 3])
def test_no_worst_case_is_above_the_proved_epsilon(rounds: int, peers: int, objects: int) -> None:
    bound = epsilon_proved("p-rec-sim", rounds, objects, 40, peers)
    assert bound is not None
    assert max(worst_case_sim(40, peers, rounds, objects)) <= bound


@pytest.mark.parametrize(("voters", "peers", "objects", "rounds"), [(5, 1, 2, 50), (6, 2, 2, 1000), (4, 1, 3, 100)])
def test_the_exhaustive_search_finds_the_same(voters: int, peers: int, objects: int, rounds: int) -> None:
    """The programme grants all the rounds that it wants; eight are enough here."""
    tiny = Tiny(recommender="p-rec-sim", voters=voters, peers=peers, played=8, objects=objects, rounds=rounds)
    assert worst_case_sim(voters, peers, rounds, objects) == pytest.approx(worst_case_tiny(tiny), rel=1e-12)


@pytest.mark.parametrize(("peers", "expected"), [(10, "1.721811"), (50, "0.357866")])
def test_claim_1_has_the_worst_step_where_all_voters_are_peers_of_one_of_two(peers: int, expected: str) -> None:
    epsilon = max(worst_case_sim(2 * peers, peers, 1000))
    assert f"{epsilon:.6f}" == expected
    assert max(step.ratio for step in claim_1(1000, peers)) == pytest.approx(epsilon, rel=1e-12)


def test_sizes_that_would_not_end() -> None:
    with pytest.raises(InputError, match="objects is 4"):
        worst_case_sim(10, 2, 100, 4)
    with pytest.raises(InputError, match="voters is 1000000, objects 2"):
        worst_case_sim(10**6, 2, 100)
    with pytest.raises(InputError, match="p-rec-sharp"):
        worst_case_sim(10, 2, 100, 3, sharp=True)
