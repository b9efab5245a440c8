"""Information per user and counts of clusterings: against exact integers and planted constants."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.theory import bounds
from scenarios.theory.bounds import log2_ball, log2_hypotheses, log_binomial

SHAPES = [(2, 1), (2, 2), (3, 2), (4, 2), (7, 4), (9, 5), (60, 8), (60, 29), (60, 31), (1000, 30), (5000, 70)]
SHAPES += [(5000, 400), (10**6, 3), (10**9, 1), (10**9, 2), (10**9, 100), (10**9, 10**5)]


def exact_overlap(items: int, rated: int) -> tuple[Fraction, Fraction, Fraction]:
    """P(1), P(>= 2) and E[count; >= 2] of the overlap, by whole numbers."""
    total = math.comb(items, rated)
    none = Fraction(math.comb(items - rated, rated), total)
    one = Fraction(rated * math.comb(items - rated, rated - 1), total)
    return one, 1 - none - one, Fraction(rated * rated, items) - one


@pytest.mark.parametrize(("items", "rated"), [shape for shape in SHAPES if shape[1] <= 1000])
def test_overlap_equals_whole_number_arithmetic(items: int, rated: int) -> None:
    found = bounds.overlap(items=items, rated=rated)
    for value, exact in zip(found, exact_overlap(items, rated), strict=True):
        assert value == pytest.approx(float(exact), rel=1e-10, abs=0 if exact else 1e-300)


def test_overlap_of_large_sets_equals_high_precision_and_poisson() -> None:
    """Past what whole numbers reach: w^2/N = 10 at N = 10^9 is Poisson up to order w/N = 1e-4."""
    found = bounds.overlap(items=10**9, rated=10**5)
    assert found.one == pytest.approx(10 * math.exp(-10), rel=1e-2)
    assert found.more == pytest.approx(1 - 11 * math.exp(-10), rel=1e-5)
    assert bounds.overlap(items=10**9, rated=10**8) == (0.0, 1.0, 1e7)


def test_capacity_is_the_maximum_over_subset_mechanisms() -> None:
    for epsilon in (0.01, 0.5, 1.0, 3.0, 8.0):
        share = np.geomspace(1e-5, 1, 200_001)
        mass = 1 + share * math.expm1(epsilon)
        told = epsilon * share * math.exp(epsilon) / mass - np.log(mass)
        assert bounds.capacity_information(epsilon=epsilon) == pytest.approx(told.max(), rel=1e-7)
    assert bounds.capacity_information(epsilon=1.0) == pytest.approx(0.123, abs=5e-4)
    assert bounds.capacity_information(epsilon=math.inf) == math.inf


def test_capacity_for_small_epsilon_is_smooth_and_of_the_right_order() -> None:
    assert bounds.capacity_information(epsilon=1e-6) == pytest.approx(1e-12 / 8, rel=1e-5)
    below, above = (bounds.capacity_information(epsilon=1e-3 * (1 + sign * 1e-9)) for sign in (-1, 1))
    assert below == pytest.approx(above, rel=1e-8)


def test_constants_of_theorems_13_and_14_at_the_standard_setting() -> None:
    shape = {"items": 1000, "rated": 30}
    one, more, excess = (float(x) for x in exact_overlap(1000, 30))
    square = math.e**2
    weak, full = (
        bounds.weak_scarce_information(**shape, epsilon=1.0),
        bounds.scarce_information(**shape, epsilon=1.0),
    )
    assert weak == pytest.approx(square * (one / 2 + more), rel=1e-10)
    assert full == pytest.approx(2 * (math.e - 1) ** 2 * 0.03 + square * (excess + more), rel=1e-10)
    assert (round(weak, 1), round(full, 1)) == (3.1, 5.7)


@given(
    items=st.integers(2, 10**9),
    share=st.floats(0, 1),
    epsilon=st.floats(1e-6, 50),
)
def test_information_bounds_are_ordered(items: int, share: float, epsilon: float) -> None:
    rated = max(1, round(items**share))
    shape = {"items": items, "rated": rated}
    capacity = bounds.capacity_information(epsilon=epsilon)
    assert capacity <= bounds.tanh_information(epsilon=epsilon) <= bounds.fano_information(epsilon=epsilon)
    scarce = bounds.scarce_information(**shape, epsilon=epsilon)
    assert bounds.contraction_information(**shape, epsilon=epsilon) <= scarce * (1 + 1e-12)


@pytest.mark.parametrize(("items", "clusters"), [(2, 2), (9, 2), (40, 3), (300, 7)])
def test_counts_equal_whole_numbers(items: int, clusters: int) -> None:
    exact = math.log2(clusters**items) - math.log2(math.factorial(clusters))
    assert log2_hypotheses(items=items, clusters=clusters) == pytest.approx(exact, rel=1e-12)
    ball = 0
    for mistakes in range(items):
        ball += math.comb(items, mistakes) * (clusters - 1) ** mistakes
        assert log2_ball(items=items, clusters=clusters, mistakes=mistakes) == pytest.approx(math.log2(ball), rel=1e-11)


def test_large_counts_equal_whole_numbers() -> None:
    for total, chosen in ((10**9, 5), (10**9, 400), (10**6, 1000), (10**4, 5000)):
        exact = math.comb(total, chosen)
        shift = max(0, exact.bit_length() - 100)
        exact_log = math.log(exact >> shift) + shift * math.log(2)
        assert log_binomial(total, chosen) == pytest.approx(exact_log, rel=1e-9)
    five = sum(math.comb(10**9, i) * 2**i for i in range(6))
    assert log2_ball(items=10**9, clusters=3, mistakes=5) == pytest.approx(math.log2(five), rel=1e-12)
    assert log_binomial(3, 4) == -math.inf


def test_half_of_all_labellings_lie_within_the_middle_of_the_ball() -> None:
    """N odd and two clusters: exactly 2^(N-1) labellings have at most (N-1)/2 mistakes, at N about 10^9."""
    items = 10**9 - 1
    assert log2_ball(items=items, clusters=2, mistakes=(items - 1) // 2) == pytest.approx(items - 1, abs=1e-3)
