"""Bounds on the loss: the spec's constants, special cases, and that none contradicts another."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import bounded_names, named_recommenders
from scenarios.families.online.bounds import (
    halving_constant,
    loss_bound,
    loss_lower_bound,
    slow_halving_loss,
    strikes_to_die,
)


@pytest.mark.parametrize(
    ("rounds", "expected"), [(100, "1.10417"), (1000, "1.17916"), (10**4, "1.22558"), (10**6, "1.27997")]
)
def test_the_sharp_constant(rounds: int, expected: str) -> None:
    assert f"{halving_constant(rounds):.5f}" == expected


def test_the_sharp_constant_tends_to_that_of_halving() -> None:
    found = [halving_constant(10**power) for power in (2, 10, 100, 300)]
    assert found == sorted(found)
    assert 0.99 / math.log(2) < found[-1] < 1 / math.log(2)
    assert halving_constant(10**300, sharp=True) < 1 / math.log(2)


def test_the_table_of_section_8() -> None:
    assert f"{loss_bound('p-rec', 1000, 2, 256, 4, 5, 5):.1f}" == "203.5"
    assert f"{loss_bound('p-rec-lean', 1000, 2, 256, 4, 5, 5):.1f}" == "120.3"
    assert f"{loss_bound('p-rec-sim', 1000, 2, 256, 4):.4f}" == "5.4040"


def test_bounds_by_hand() -> None:
    """N = e P is no whole number, so N = P: only the radius and the hidden coin are left."""
    assert loss_bound("p-rec", 100, 3, 7, 7, 2, 4) == pytest.approx(6 * 4 + 2 / 3)
    assert loss_bound("p-rec-sharp", 100, 2, 7, 7, 2, 4) == pytest.approx(4 * 4 + 1 / 2 + 1)
    assert loss_bound("plurality", 100, 3, 7, 7, 2, 4) == pytest.approx(3 * 4)
    assert loss_bound("random", 100, 4, 7, 7) == 75
    assert loss_bound("p-rec-sim", 100, 3, 8, 4) == pytest.approx(math.log(2) / math.log(6 / 5) + 2 / 3)


def test_where_nothing_is_proved() -> None:
    for name in ("p-rec-literal", "multiplicative-weights", "dsybil", "naive"):
        assert loss_bound(name, 100, 2, 20, 4, 1, 1) is None
    assert loss_bound("p-rec-sim", 100, 2, 20, 4, 1, 0) is None


def test_all_readings_are_p_rec_sim_without_diversity_and_radius() -> None:
    found = {loss_bound(name, 1000, 2, 64, 4) for name in bounded_names() if name != "p-rec-sharp"}
    assert len(found) == 1


def test_theorem_6() -> None:
    assert loss_lower_bound(1000, 2, 64, 1, 32) == 19
    assert loss_lower_bound(1000, 4, 7, 2, 0) == 0.5  # floor(log2 3.5) = 1
    assert loss_lower_bound(4, 2, 64, 1, 3) == 2  # rounds for one halving only
    assert loss_lower_bound(2, 2, 64, 1, 3) == 1


def test_slow_halving() -> None:
    assert slow_halving_loss("p-rec", 256, 4, 99, 5) == 66
    assert slow_halving_loss("p-rec-lean", 256, 4, 99, 5) == 36
    assert strikes_to_die("p-rec-sim", 3, 3) == 1
    with pytest.raises(InputError, match="random kicks nobody out"):
        slow_halving_loss("random", 256, 4)


@given(
    name=st.sampled_from([*bounded_names(), "random", "plurality"]),
    peers=st.integers(1, 50),
    more=st.integers(0, 5000),
    radius=st.integers(0, 40),
    rounds=st.sampled_from([100, 10**4]),
)
def test_no_upper_bound_is_below_the_lower_one(name: str, peers: int, more: int, radius: int, rounds: int) -> None:
    radius = 0 if name == "p-rec-sim" else radius
    upper = loss_bound(name, rounds, 2, peers + more, peers, 3 if radius else 0, radius)
    assert upper is not None
    assert upper >= loss_lower_bound(rounds, 2, peers + more, peers, radius)


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        ((1, 2, 4, 2, 0, 0), "rounds is 1"),
        ((9, 1, 4, 2, 0, 0), "objects is 1"),
        ((9, 2, 4, 0, 0, 0), "peers is 0"),
        ((9, 2, 4, 5, 0, 0), "voters is 4, fewer than peers 5"),
        ((9, 2, 4, 2, -1, 0), "diversity is -1"),
    ],
)
def test_numbers_that_cannot_be(numbers: tuple[int, int, int, int, int, int], match: str) -> None:
    for name in named_recommenders():
        with pytest.raises(InputError, match=match):
            loss_bound(name, *numbers)


def test_three_objects_are_too_many_for_sharp() -> None:
    with pytest.raises(InputError, match="p-rec-sharp weighs two objects"):
        loss_bound("p-rec-sharp", 100, 3, 8, 4)
