"""Bounds on users, and Theorem 15's users: formulas, counts, and clusters that no number of users tells apart."""

import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from evidence import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from runs import present

from coordinator.protocol.errors import InputError
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.theory import bounds
from scenarios.theory.bounds import Bound, LearningProblem, all_bounds, binding, bounds_rows, log2_ball
from scenarios.theory.sufficient_users import delta_min, inseparable, sufficient_users, warning


def by_name(every: list[Bound]) -> dict[str, Bound]:
    return {bound.name: bound for bound in every}


def test_fano_solves_the_inequality() -> None:
    """At the returned number of users Fano's bound on the error is exactly the failure asked for."""
    problem = LearningProblem(items=50, rated=5, epsilon=0.5, clusters=3, failure=0.2, mistakes=4)
    users = by_name(all_bounds(**asdict(problem)))["capacity"].users
    told = users * bounds.capacity_information(problem) / math.log(2)
    hypotheses = 3**50 / 6
    ball = sum(math.comb(50, i) * 2**i for i in range(5))
    assert 1 - (told + 1) / math.log2(hypotheses / ball) == pytest.approx(0.2, rel=1e-12)


def test_range_of_the_papers_closed_form() -> None:
    edges = {(2, 10): True, (3, 0): True, (2, 50): False, (2, 60): False, (3, 34): True, (3, 67): False}
    for (clusters, mistakes), valid in edges.items():
        at = by_name(all_bounds(items=100, rated=5, epsilon=2.0, clusters=clusters, mistakes=mistakes))
        assert at["distortion-paper"].valid is valid
    edge, fewer = (by_name(all_bounds(items=99, rated=5, epsilon=2.0, clusters=3, mistakes=d)) for d in (33, 0))
    assert edge["distortion-paper"].users == fewer["distortion-paper"].users == pytest.approx(0.5 * 99 * 3 / 9 / 6)


def test_adaptive_bound_against_its_recursion() -> None:
    """Users that the recursion `delta += C/N max(1, delta)` takes to the needed nats: at least the bound."""
    problem = LearningProblem(items=300, rated=1, epsilon=0.2)
    growth = 40 * math.expm1(0.2) ** 2 / 300
    target, delta, steps = ((1 - 0.5) * 299 - 1) * math.log(2), 0.0, 0
    while delta < target:
        delta += growth * max(1.0, delta)
        steps += 1
    bound = bounds.adaptive(problem)
    assert bound == pytest.approx(math.log(target) / math.log1p(growth))
    assert steps - 1 / growth - 2 < bound <= steps


def test_edges_of_ranges() -> None:
    def valid(items: int, rated: int, epsilon: float) -> set[str]:
        every = all_bounds(items=items, rated=rated, epsilon=epsilon, clusters=2)
        return {bound.name for bound in every if bound.valid} & {"one-bit", "adaptive", "scarce", "weak-scarce"}

    assert valid(28, 3, 0.693) == {"scarce", "weak-scarce"}
    assert valid(27, 3, 0.5) == valid(28, 3, math.log(2)) == {"weak-scarce"}
    assert valid(9, 9, 1.0) == set()
    assert valid(1000, 2, 1.0) == {"weak-scarce"}
    assert valid(1000, 1, 1.0) == {"one-bit", "adaptive", "weak-scarce"}


WRONG: dict[str, tuple[float, ...]] = {"items": (1,), "rated": (0, 101), "epsilon": (0.0, math.nan)}
WRONG |= {"clusters": (1, 101), "failure": (1.0, -0.1), "mistakes": (100, -1)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_bad_settings_are_refused_by_name(name: str, value: float) -> None:
    settings_: dict[str, Any] = {"items": 100, "rated": 5, "epsilon": 1.0, "clusters": 2, name: value}
    with pytest.raises(InputError, match=name):
        all_bounds(**settings_)


def test_each_regime_has_its_binding_bound() -> None:
    def best(**values: Any) -> str:
        bound = present(binding(all_bounds(clusters=2, **values)))
        return bound.name

    assert best(items=10**6, rated=10**6, epsilon=1.0) == "capacity"
    assert best(items=10**6, rated=20, epsilon=0.3) == "scarce"
    assert best(items=10**6, rated=20, epsilon=0.8) == "weak-scarce"
    assert best(items=10**6, rated=1, epsilon=0.8) == best(items=10**6, rated=1, epsilon=math.inf) == "one-bit"
    assert best(items=10**6, rated=20, epsilon=0.8, adaptive_queries=True) == "capacity"
    assert best(items=10**6, rated=20, epsilon=0.8, ours=True) == "contraction"
    assert best(items=10**6, rated=20, epsilon=math.inf, ours=True) == "ratings"


def test_no_privacy_leaves_private_bounds_silent() -> None:
    found = all_bounds(items=1000, rated=30, epsilon=math.inf, clusters=2)
    assert all(bound.users == 0 for bound in found)
    assert binding(found) is None
    assert not any(row["binds"] for row in bounds_rows(found))


ORDERED = st.floats(1e-9, 900) | st.just(math.inf)


@settings(max_examples=examples(200))
@given(
    items=st.tuples(st.integers(2, 10**9), st.floats(0, 1)).map(lambda two: (two[0], two[0] + round(1e9 ** two[1]))),
    share=st.floats(0, 1),
    epsilon=st.tuples(ORDERED, ORDERED).map(sorted),
    clusters=st.integers(2, 30),
    failure=st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)).map(sorted),
    mistakes=st.tuples(st.integers(0, 50), st.floats(0, 1)),
    adaptive=st.booleans(),
)
@example(
    items=(90, 90),
    share=0.3,
    epsilon=[1.0, 1.0],
    clusters=3,
    failure=[0.5, 0.5],
    mistakes=(0, 0.35),
    adaptive=False,
)
def test_a_stricter_promise_needs_no_fewer_users(
    items: tuple[int, int],
    share: float,
    epsilon: list[float],
    clusters: int,
    failure: list[float],
    mistakes: tuple[int, float],
    *,
    adaptive: bool,
) -> None:
    """Less epsilon, failure, mistakes, more items: no row of the table falls, also where it says nothing."""
    few = min(mistakes[0], items[0] - 1)
    loose = LearningProblem(
        items=items[0],
        rated=(rated := max(1, round(items[0] ** share))),
        epsilon=epsilon[1],
        clusters=(clusters := min(clusters, items[0])),
        failure=failure[1],
        mistakes=min(items[0] - 1, few + round(mistakes[1] * items[0])),
    )
    strict = LearningProblem(
        items=items[0], rated=rated, epsilon=epsilon[0], clusters=clusters, failure=failure[0], mistakes=few
    )
    rows = [all_bounds(**asdict(one), ours=True, adaptive_queries=adaptive) for one in (loose, strict)]
    larger = all_bounds(**asdict(strict) | {"items": items[1]}, ours=True, adaptive_queries=adaptive)
    for least, most, of_more_items in zip(*rows, larger, strict=True):
        assert 0 <= least.users <= most.users * (1 + 1e-9) < math.inf, least.name
        assert most.users <= of_more_items.users * (1 + 1e-9), most.name


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
    assert found.single == pytest.approx(10 * math.exp(-10), rel=1e-2)
    assert found.more == pytest.approx(1 - 11 * math.exp(-10), rel=1e-5)
    assert bounds.overlap(items=10**9, rated=10**8) == (0.0, 1.0, 1e7)


def capacity_at(epsilon: float) -> float:
    return bounds.capacity_information(LearningProblem(items=1000, rated=30, epsilon=epsilon))


def test_capacity_is_the_maximum_over_subset_mechanisms() -> None:
    for epsilon in (0.01, 0.5, 1.0, 3.0, 8.0):
        share = np.geomspace(1e-5, 1, 200_001)
        mass = 1 + share * math.expm1(epsilon)
        told = epsilon * share * math.exp(epsilon) / mass - np.log(mass)
        assert capacity_at(epsilon) == pytest.approx(told.max(), rel=1e-7)
    assert capacity_at(1.0) == pytest.approx(0.123, abs=5e-4)
    assert capacity_at(math.inf) == math.inf


def test_capacity_for_small_epsilon_is_smooth_and_of_the_right_order() -> None:
    assert capacity_at(1e-6) == pytest.approx(1e-12 / 8, rel=1e-5)
    below, above = (capacity_at(1e-3 * (1 + sign * 1e-9)) for sign in (-1, 1))
    assert below == pytest.approx(above, rel=1e-8)


def test_constants_of_theorems_13_and_14_at_the_standard_setting() -> None:
    problem = LearningProblem(items=1000, rated=30, epsilon=1.0)
    one, more, excess = (float(x) for x in exact_overlap(1000, 30))
    square = math.e**2
    weak, full = bounds.weak_scarce_information(problem), bounds.scarce_information(problem)
    assert weak == pytest.approx(square * (one / 2 + more), rel=1e-10)
    assert full == pytest.approx(2 * (math.e - 1) ** 2 * 0.03 + square * (excess + more), rel=1e-10)
    assert (round(weak, 1), round(full, 1)) == (3.1, 5.7)


@given(items=st.integers(2, 10**9), share=st.floats(0, 1), epsilon=st.floats(1e-6, 50))
def test_information_bounds_are_ordered(items: int, share: float, epsilon: float) -> None:
    rated = max(1, round(items**share))
    problem = LearningProblem(items=items, rated=rated, epsilon=epsilon)
    capacity = bounds.capacity_information(problem)
    assert capacity <= bounds.tanh_information(problem) <= bounds.fano_information(problem)
    assert bounds.contraction_information(problem) <= bounds.scarce_information(problem) * (1 + 1e-12)


@pytest.mark.parametrize(("items", "clusters"), [(2, 2), (9, 2), (40, 3), (300, 7)])
def test_counts_equal_whole_numbers(items: int, clusters: int) -> None:
    exact = math.log2(clusters**items) - math.log2(math.factorial(clusters))
    assert bounds.log2_hypotheses(items=items, clusters=clusters) == pytest.approx(exact, rel=1e-12)
    ball = 0
    for mistakes in range(items):
        ball += math.comb(items, mistakes) * (clusters - 1) ** mistakes
        assert log2_ball(items=items, clusters=clusters, mistakes=mistakes) == pytest.approx(math.log2(ball), rel=1e-11)


def test_large_counts_equal_whole_numbers() -> None:
    for total, chosen in ((10**9, 5), (10**9, 400), (10**6, 1000), (10**4, 5000)):
        exact = math.comb(total, chosen)
        shift = max(0, exact.bit_length() - 100)
        exact_log = math.log(exact >> shift) + shift * math.log(2)
        assert bounds.log_binomial(total, chosen) == pytest.approx(exact_log, rel=1e-9)
    five = sum(math.comb(10**9, i) * 2**i for i in range(6))
    assert log2_ball(items=10**9, clusters=3, mistakes=5) == pytest.approx(math.log2(five), rel=1e-12)
    assert bounds.log_binomial(3, 4) == -math.inf


def test_half_of_all_labellings_lie_within_the_middle_of_the_ball() -> None:
    """N odd and two clusters: exactly 2^(N-1) labellings have at most (N-1)/2 mistakes, at N about 10^9."""
    items = 10**9 - 1
    assert log2_ball(items=items, clusters=2, mistakes=(items - 1) // 2) == pytest.approx(items - 1, abs=1e-3)


def test_delta_min_by_hand() -> None:
    like, alpha, beta = [[0.9, 0.1, 0.5], [0.2, 0.3, 0.7]], [0.25, 0.75], [0.5, 0.3, 0.2]
    first = 0.25 * math.exp(-2 * (0.45 + 0.03 + 0.1))
    second = 0.75 * math.exp(-2 * (0.1 + 0.09 + 0.14))
    gaps = [abs(first * x + second * y) for x, y in ((0.8, -0.1), (0.4, -0.5), (-0.4, -0.4))]
    found = delta_min(like=like, user_shares=alpha, cluster_shares=beta, theta=2.0)
    assert found == pytest.approx(min(gaps), rel=1e-12)


def test_sufficient_users_by_hand_and_above_every_lower_bound() -> None:
    users = sufficient_users(items=1000, rated=30, epsilon=1.0, like=[[0.9, 0.1]])
    eps_hat, gap = 2 * (math.e - 1) / (math.e + 1), math.exp(-0.5) * 0.8
    by_hand = 300 * 1e6 * (math.log(2) + 2 * math.log(1000)) / (eps_hat**2 * gap**2 * 30 * (29 / 30) ** 2)
    assert users == pytest.approx(by_hand, rel=1e-12)
    assert users > 12.3e6  # what the paper's decoder needs for even odds
    assert users > max(b.users for b in all_bounds(items=1000, rated=30, epsilon=1.0, clusters=2, ours=True))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"like": [[0.9, 0.1], [0.1, 0.9]]}, "delta_min .*Pairwise-Preference"),
        ({"like": [[0.9, 1.1]]}, "like"),
        ({"like": [0.9]}, "like"),
        ({"theta": 30.0}, "theta 30.0 at rated 30"),
        ({"theta": 0.0}, "theta 0.0"),
        ({"exponent": 0.0}, "exponent"),
        ({"cluster_shares": [0.5, 0.6]}, "cluster_shares"),
        ({"user_shares": [0.5, 0.5]}, "user_shares"),
        ({"epsilon": -1.0}, "epsilon -1.0"),
    ],
)
def test_sufficient_users_refuses(change: dict[str, Any], text: str) -> None:
    values: dict[str, Any] = {"items": 1000, "rated": 30, "epsilon": 1.0, "like": [[0.9, 0.1]]} | change
    with pytest.raises(InputError, match=text):
        sufficient_users(**values)


CROSSED = ((0.9, 0.1), (0.1, 0.9))
FIRST_ORDER = ["maxsense", "multi-maxsense", "item-query", "full-reveal", "curator-items"]
PAIRED: list[dict[str, object]] = [{"design": design} for design in ("anchor", "curator-pairs", "pairwise")]
PAIRED += [{"design": "pairwise", "agreement": one} for one in ("equal", "positive")]
PAIRED += [{"design": "pairwise", "agreement": one, "rated_items": "public"} for one in ("rated-equal", "positive")]


def scenario(like: tuple[tuple[float, ...], ...], **more: object) -> Scenario:
    return Scenario.model_validate({"items": 40, "rated": 10, "users": 10, "like": like, **more})


def warned(like: tuple[tuple[float, ...], ...], **more: object) -> str:
    return present(warning(resolve(scenario(like, **more))))


@pytest.mark.parametrize("design", FIRST_ORDER)
def test_designs_that_ask_about_single_items_are_blind_where_classes_cancel(design: str) -> None:
    assert inseparable(resolve(scenario(CROSSED, design=design))) == [(0, 1)]
    line = warned(CROSSED, design=design)
    assert f"{design} cannot tell clusters 0 and 1 apart" in line
    assert line.endswith("anchor sensing can (--design anchor)")
    assert warning(resolve(scenario(((0.9, 0.1),), design=design))) is None
    assert warning(resolve(scenario(CROSSED, design=design, class_shares="0.6,0.4"))) is None
    assert inseparable(resolve(scenario(((0.9, 0.5, 0.5),), design=design))) == [(1, 2)]


@pytest.mark.parametrize("more", PAIRED, ids=str)
def test_designs_that_ask_about_pairs_are_not(more: dict[str, object]) -> None:
    assert inseparable(resolve(scenario(CROSSED, **more))) == []
    assert "(--design" not in warned(((0.4, 0.4),), **more)


def test_a_large_catalogue_is_warned_of_without_a_way_that_it_cannot_go() -> None:
    assert warned(CROSSED, items=10_000, rated=100).endswith("(--design anchor)")  # pairs would be too many
    assert warning(resolve(scenario(CROSSED, items=10_000, rated=1))) is not None


def test_asking_about_everything_in_one_set_tells_nothing() -> None:
    for design in ("maxsense", "multi-maxsense"):
        assert inseparable(resolve(scenario(((0.9, 0.1),), design=design, theta=10.0))) == [(0, 1)]
    for questions in (1, 5, "auto"):
        assert inseparable(resolve(scenario(((0.9, 0.1),), design="multi-maxsense", questions=questions))) == []


@pytest.mark.parametrize("design", ["multi-maxsense", "item-query", "curator-items"])
def test_one_rated_item_makes_no_pair_that_could_help(design: str) -> None:
    assert "(--design" not in warned(CROSSED, design=design, rated=1)


def test_noise_makes_no_clusters_coincide() -> None:
    for design in ("maxsense", "multi-maxsense", "curator-items"):
        assert inseparable(resolve(scenario(((0.9, 0.1),), design=design, epsilon="0.0001"))) == []
    assert inseparable(resolve(scenario(((0.9, 0.1),), design="curator-pairs", epsilon="100"))) == []
