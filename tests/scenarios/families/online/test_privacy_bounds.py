"""The proved epsilon: Theorem P's closed forms, the table of Theorem P_sim, and what is not proved."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import bounded_names
from scenarios.families.online.bounds import epsilon_proved, sim_constants, theorem_p, theorem_p_sim

SMALL = st.integers(0, 40)


@given(d=SMALL, r=SMALL, rounds=st.integers(2, 10**9), peers=st.integers(1, 99))
def test_theorem_p_for_two_objects(d: int, r: int, rounds: int, peers: int) -> None:
    unit = 4 * math.log(rounds) / peers
    for name in ("p-rec", "p-rec-wide"):
        assert theorem_p(name, rounds, 2, peers, d, r) == pytest.approx(unit * (6 * (d + r) + 4 * r + 4))
    lean = theorem_p("p-rec-lean", rounds, 2, peers, d, r)
    assert lean == pytest.approx(unit * (4 * (d + r) + 2 * r + 4))
    assert theorem_p("p-rec-sharp", rounds, 2, peers, d, r) == pytest.approx(lean / 2)


@given(d=SMALL, r=SMALL, m=st.integers(3, 9), peers=st.integers(1, 99))
def test_theorem_p_for_more_objects(d: int, r: int, m: int, peers: int) -> None:
    unit, both = 2 * m * math.log(1000) / peers, d + r
    ruled = (2 * m - 1) * (3 * r + 1) + 8 * both + 2 * r + 4
    assert theorem_p("p-rec", 1000, m, peers, d, r) == pytest.approx(unit * ruled)
    lean = (2 * m - 1) * (2 * r + 1) + 2 * (2 * both + 1) + (both + 1) + (r + 1)
    assert theorem_p("p-rec-lean", 1000, m, peers, d, r) == pytest.approx(unit * lean)
    wide = (2 * m - 1) * (3 * r + 1) + 2 * (3 * both + 1) + (2 * both + 1) + 2 * (2 * r + 1)
    assert theorem_p("p-rec-wide", 1000, m, peers, d, r) == pytest.approx(unit * wide)


def test_knowing_the_voters_sharpens_it() -> None:
    """P = 40, N = 640, T = 10^6, D = R = 8, and three objects."""
    for name, plain, refined in (("p-rec", 528, 511.5), ("p-rec-lean", 336, 327.5)):
        unit = math.log(10**6) / 40
        assert theorem_p(name, 10**6, 2, 40, 8, 8) == pytest.approx(plain * unit)
        assert epsilon_proved(name, 10**6, 2, 640, 40, 8, 8) == pytest.approx(refined * unit)
    unit = 6 * math.log(1000) / 10
    refined = theorem_p("p-rec", 1000, 3, 10, 1, 1, voters=40)
    assert refined == pytest.approx(unit * (5 * (3 * 0.75 + 1) + 2 * (5 * 0.75 + 2) + 5 + 3))


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (100, ("1.02379", "0.76862", "1.05837", "4.2335")),
        (10**4, ("1.13910", "0.87732", "1.19462", "4.7785")),
        (10**6, ("1.16908", "0.91097", "1.24600", "4.9840")),
    ],
)
def test_the_table_of_theorem_p_sim(rounds: int, expected: tuple[str, str, str, str]) -> None:
    found = sim_constants(rounds)
    assert tuple(f"{found[name]:.5f}" for name in ("K_a", "K_b", "K_+")) == expected[:3]
    assert f"{found['C_T']:.4f}" == expected[3]


def test_limits_of_theorem_p_sim() -> None:
    found = sim_constants(10**300)
    assert found["K_+"] == pytest.approx(45 / 32, abs=0.01)
    assert found["K_-"] == pytest.approx(5 / 4, abs=0.01)
    assert 5.59 < found["C_T"] < 5.625
    assert 3.72 < sim_constants(10**300, sharp=True)["C_T"] < 3.75


@given(rounds=st.sampled_from([2, 3, 5, 10, 100, 10**5, 10**9]))
def test_the_closed_form_of_theorem_p_sim(rounds: int) -> None:
    found = sim_constants(rounds)
    assert max(found["K_+"], found["K_-"]) <= 9 / 4
    assert sim_constants(rounds, sharp=True)["C_T"] < found["C_T"]


def test_the_least_is_given_where_d_and_r_are_0() -> None:
    for name in bounded_names():
        sharp = name == "p-rec-sharp"
        assert epsilon_proved(name, 100, 2, 800, 20) == theorem_p_sim(100, 20, sharp=sharp)
        assert theorem_p_sim(100, 20, sharp=sharp) < theorem_p(name, 100, 2, 20)
        if not sharp:
            assert epsilon_proved(name, 100, 3, 800, 20) == theorem_p("p-rec", 100, 3, 20, voters=800)


def test_where_nothing_is_proved() -> None:
    for name in ("plurality", "multiplicative-weights", "dsybil", "p-rec-literal"):
        assert epsilon_proved(name, 100, 2, 20, 4, 1, 1) is None
    assert epsilon_proved("p-rec-sim", 100, 2, 20, 4, 1, 0) is None
    assert epsilon_proved("random", 100, 2, 20, 4) == 0
    assert epsilon_proved("naive", 100, 2, 20, 4, epsilon=0.5) == 0.5


def test_fewer_rounds_than_objects() -> None:
    with pytest.raises(InputError, match="rounds is 4 and objects 5: Theorem P needs T >= m"):
        epsilon_proved("p-rec", 4, 5, 20, 4, 1, 1)
    with pytest.raises(InputError, match="Theorem P bounds"):
        theorem_p("dsybil", 100, 2, 4)
    with pytest.raises(InputError, match="fewer than peers"):
        epsilon_proved("p-rec", 100, 2, 3, 4, 1, 1)
