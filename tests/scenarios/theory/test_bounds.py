"""Lower bounds on users: against exact integers, planted constants, and each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.protocol.errors import InputError
from scenarios.theory import bounds as information
from scenarios.theory import bounds as lower_bounds
from scenarios.theory import bounds as scarce_bounds
from scenarios.theory.bounds import Bound, LearningProblem, all_bounds, binding, bounds_rows


def by_name(bounds: list[Bound]) -> dict[str, Bound]:
    return {bound.name: bound for bound in bounds}


def test_fano_solves_the_inequality() -> None:
    """At the returned number of users Fano's bound on the error is exactly the failure asked for."""
    problem = LearningProblem(items=50, rated=5, epsilon=0.5, clusters=3, failure=0.2, mistakes=4)
    users = lower_bounds.capacity(problem)
    told = users * information.capacity_information(epsilon=0.5) / math.log(2)
    hypotheses = 3**50 / 6
    ball = sum(math.comb(50, i) * 2**i for i in range(5))
    assert 1 - (told + 1) / math.log2(hypotheses / ball) == pytest.approx(0.2, rel=1e-12)


def test_paper_closed_form_and_its_range() -> None:
    problem = LearningProblem(items=100, rated=5, epsilon=2.0, clusters=2, failure=0.25, mistakes=10)
    assert lower_bounds.distortion_paper(problem) == pytest.approx(0.75 * 100 * 2 * 0.4**2 / 6)
    assert lower_bounds.distortion_paper(problem) < lower_bounds.distortion(problem)
    for clusters, mistakes in ((3, 0), (2, 50), (2, 60)):
        with pytest.raises(InputError, match="distortion-paper"):
            lower_bounds.distortion_paper(
                LearningProblem(items=100, rated=5, epsilon=2.0, clusters=clusters, mistakes=mistakes)
            )
    assert lower_bounds.distortion_paper(LearningProblem(items=99, rated=5, epsilon=2.0, clusters=3, mistakes=33)) > 0


def test_adaptive_bound_against_its_recursion() -> None:
    """Users that the recursion `delta += C/N max(1, delta)` takes to the needed nats: at least the bound."""
    problem = LearningProblem(items=300, rated=1, epsilon=0.2)
    growth = 40 * math.expm1(0.2) ** 2 / 300
    target, delta, steps = ((1 - 0.5) * 299 - 1) * math.log(2), 0.0, 0
    while delta < target:
        delta += growth * max(1.0, delta)
        steps += 1
    bound = scarce_bounds.adaptive(problem)
    assert bound == pytest.approx(math.log(target) / math.log1p(growth))
    assert steps - 1 / growth - 2 < bound <= steps


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (scarce_bounds.one_bit, "one-bit bound at rated 2"),
        (scarce_bounds.adaptive, "adaptive bound at rated 2"),
        (scarce_bounds.scarce, "scarce bound at epsilon 1.0"),
    ],
)
def test_out_of_range_raises_one_line(function: Callable[[LearningProblem], float], text: str) -> None:
    with pytest.raises(InputError, match=text) as caught:
        function(LearningProblem(items=1000, rated=2, epsilon=1.0))
    assert "\n" not in str(caught.value)


def test_edges_of_ranges() -> None:
    assert scarce_bounds.scarce(LearningProblem(items=28, rated=3, epsilon=0.693)) > 0
    for items, epsilon in ((27, 0.5), (28, math.log(2))):
        with pytest.raises(InputError, match="scarce bound"):
            scarce_bounds.scarce(LearningProblem(items=items, rated=3, epsilon=epsilon))
    with pytest.raises(InputError, match="weak-scarce bound at rated 9 of 9"):
        scarce_bounds.weak_scarce(LearningProblem(items=9, rated=9, epsilon=1.0))


@pytest.mark.parametrize(
    "change",
    [
        {"items": 1},
        {"rated": 0},
        {"rated": 101},
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"clusters": 1},
        {"clusters": 101},
        {"failure": 1.0},
        {"failure": -0.1},
        {"mistakes": 100},
        {"mistakes": -1},
    ],
)
def test_bad_settings_are_refused_by_name(change: dict[str, Any]) -> None:
    given_values = {"items": 100, "rated": 5, "epsilon": 1.0, "clusters": 2} | change
    with pytest.raises(InputError, match=next(iter(change))):
        all_bounds(**given_values)


def test_all_bounds_at_the_standard_setting() -> None:
    found = by_name(all_bounds(items=1000, rated=30, epsilon=1.0, clusters=2))
    valid = {name for name, bound in found.items() if bound.valid}
    assert valid == {"fano", "fano-tanh", "capacity", "distortion", "distortion-paper", "weak-scarce"}
    assert all(bound.users == 0 for bound in found.values() if not bound.valid)
    assert found["fano"].users == pytest.approx((0.5 * 999 - 1) * math.log(2))
    best = binding(list(found.values()))
    assert best is not None
    assert best.name == "capacity"


def test_each_regime_has_its_binding_bound() -> None:
    def best(**values: Any) -> str:
        found = binding(all_bounds(clusters=2, **values))
        assert found is not None
        return found.name

    assert best(items=10**6, rated=10**6, epsilon=1.0) == "capacity"
    assert best(items=10**6, rated=20, epsilon=0.3) == "scarce"
    assert best(items=10**6, rated=20, epsilon=0.8) == "weak-scarce"
    assert best(items=10**6, rated=1, epsilon=0.8) == "one-bit"
    assert best(items=10**6, rated=1, epsilon=math.inf) == "one-bit"
    assert best(items=10**6, rated=20, epsilon=0.8, adaptive_queries=True) == "capacity"
    assert best(items=10**6, rated=20, epsilon=0.8, ours=True) == "contraction"
    assert best(items=10**6, rated=20, epsilon=math.inf, ours=True) == "ratings"


def test_orders_in_the_number_of_items() -> None:
    """N^2/w for scarce, N^2/w^2 for weak-scarce, N for the capacity: slopes between N = 10^8 and 10^9."""
    small, large = (by_name(all_bounds(items=n, rated=4, epsilon=0.5, clusters=2)) for n in (10**8, 10**9))
    for name, order in (("capacity", 1), ("fano", 1), ("weak-scarce", 2), ("scarce", 2)):
        assert math.log10(large[name].users / small[name].users) == pytest.approx(order, abs=1e-4)
    double = by_name(all_bounds(items=10**9, rated=8, epsilon=0.5, clusters=2))
    assert math.log2(large["scarce"].users / double["scarce"].users) == pytest.approx(1, abs=1e-4)
    assert math.log2(large["weak-scarce"].users / double["weak-scarce"].users) == pytest.approx(2, abs=1e-4)


def test_no_privacy_leaves_private_bounds_silent() -> None:
    found = all_bounds(items=1000, rated=30, epsilon=math.inf, clusters=2)
    assert all(bound.users == 0 for bound in found)
    assert binding(found) is None
    assert not any(row["binds"] for row in bounds_rows(found))


@settings(max_examples=examples(60))
@given(
    items=st.integers(2, 10**9),
    share=st.floats(0, 1),
    epsilon=st.floats(1e-9, 900) | st.just(math.inf),
    clusters=st.integers(2, 30),
    failure=st.floats(0, 0.99),
    mistakes=st.integers(0, 50),
)
def test_all_bounds_are_numbers_and_fall_with_mistakes(
    items: int, share: float, epsilon: float, clusters: int, failure: float, mistakes: int
) -> None:
    values: dict[str, Any] = {"items": items, "rated": max(1, round(items**share)), "epsilon": epsilon}
    values |= {"clusters": min(clusters, items), "failure": failure, "ours": True}
    strict = by_name(all_bounds(**values))
    loose = by_name(all_bounds(**values, mistakes=min(mistakes, items - 1)))
    for name, bound in loose.items():
        assert 0 <= bound.users < math.inf
        if bound.valid and strict[name].valid:
            assert bound.users <= strict[name].users


def test_table_has_a_row_a_bound_and_one_that_binds() -> None:
    found = all_bounds(items=1000, rated=30, epsilon=1.0, clusters=4, mistakes=10)
    rows = bounds_rows(found)
    assert all(list(row) == ["name", "users", "valid", "binds", "range", "source"] for row in rows)
    assert len({row["name"] for row in rows}) == len(rows) == len(found) == 9
    assert [row["name"] for row in rows if row["binds"]] == ["capacity"]
