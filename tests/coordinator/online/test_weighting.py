"""Recommendation by weight: check values, plain formulas, and Lemmas A and B with twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.server.online.weighting import Weighting

ROUNDS = st.sampled_from([10, 100, 1000, 10**6, 10**12])
PLACES = st.integers(0, 4)
COUNTS = st.integers(2, 5).flatmap(lambda m: st.lists(st.integers(0, 400), min_size=m, max_size=m))


def chances(weighting: Weighting, counts: list[int]) -> list[float]:
    return [float(p) for p in weighting.chances(np.array(counts, np.float64))]


def plain(rounds: int, counts: list[int], *, sharp: bool = False) -> list[float]:
    """Equation (2) as it is written."""
    m, n = len(counts), sum(counts)
    steepness, rho = (2 * math.log(rounds), 0.0) if sharp else (2 * m * math.log(rounds), 1 / (2 * m))
    phi = [math.exp(steepness * c / n) - math.exp(steepness * rho) if c / n > rho else 0.0 for c in counts]
    return [1 / (rounds * m) + (1 - 1 / rounds) * value / sum(phi) for value in phi]


@pytest.mark.parametrize(
    ("rounds", "counts", "expected"),
    [
        (100, [3, 5], [0.01383928571429, 0.9861607142857]),
        (100, [2, 6], [0.005, 0.995]),
        (100, [4, 4], [0.5, 0.5]),
        (1000, [2, 5, 3], [3.363106731722e-4, 0.9990804805500, 5.832087768218e-4]),
    ],
)
def test_check_values(rounds: int, counts: list[int], expected: list[float]) -> None:
    found = chances(Weighting(rounds=rounds, objects=len(counts)), counts)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


@given(rounds=st.integers(2, 200), counts=COUNTS.filter(any), sharp=st.booleans())
def test_the_logarithms_are_the_formula(rounds: int, counts: list[int], sharp: bool) -> None:
    sharp = sharp and len(counts) == 2
    weighting = Weighting(rounds=rounds, objects=len(counts), sharp=sharp)
    assert chances(weighting, counts) == pytest.approx(plain(rounds, counts, sharp=sharp), rel=1e-9)


@given(rounds=st.integers(2, 10**9), counts=COUNTS)
def test_probabilities_add_up_and_none_is_below_the_coins(rounds: int, counts: list[int]) -> None:
    found = chances(Weighting(rounds=rounds, objects=len(counts)), counts)
    assert sum(found) == pytest.approx(1, rel=1e-12)
    assert min(found) >= 1 / (rounds * len(counts)) * (1 - 1e-12)


def test_nobody_votes_and_nothing_overflows() -> None:
    assert chances(Weighting(rounds=10, objects=3), [0, 0, 0]) == pytest.approx([1 / 3] * 3)
    assert chances(Weighting(rounds=10**300, objects=2), [5, 5]) == [0.5, 0.5]
    assert chances(Weighting(rounds=10**300, objects=2), [1, 9]) == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize(("rounds", "objects", "sharp"), [(1, 2, False), (10, 1, False), (10, 3, True)])
def test_weightings_that_there_are_not(rounds: int, objects: int, sharp: bool) -> None:
    with pytest.raises(ValueError, match="no weighting"):
        Weighting(rounds=rounds, objects=objects, sharp=sharp)


def shares(rounds: int, counts: list[int], *, sharp: bool, slope: float = 1.0) -> list[tuple[float, float]]:
    """Lemma A's ``r_k`` beside ``p_k``, for a lambda of ``slope`` times the weighting's."""
    m, n = len(counts), sum(counts)
    steepness = slope * (2 if sharp else 2 * m) * math.log(rounds)
    rho = 0.0 if sharp else 1 / (2 * m)
    top = max(counts) / n
    big = [math.exp(steepness * (c / n - top)) if c / n > rho else 0.0 for c in counts]
    phi = [e - math.exp(steepness * (rho - top)) if e else 0.0 for e in big]
    r = [(1 - 1 / rounds) * e / sum(phi) for e in big]
    return [(r_k, 1 / (rounds * m) + (1 - 1 / rounds) * value / sum(phi)) for r_k, value in zip(r, phi, strict=True)]


@given(rounds=ROUNDS, counts=COUNTS.filter(any), sharp=st.booleans())
def test_lemma_a(rounds: int, counts: list[int], sharp: bool) -> None:
    for r, p in shares(rounds, counts, sharp=sharp and len(counts) == 2):
        assert r <= p * (1 + 1e-9)


def test_lemma_a_is_met_by_an_even_vote_and_fails_for_a_lambda_one_per_cent_smaller() -> None:
    for r, p in shares(10, [7, 7], sharp=False):
        assert r == pytest.approx(p, rel=1e-12)
    assert all(r > 1.002 * p for r, p in shares(10, [7, 7], sharp=False, slope=0.99))


def leak(weighting: Weighting, counts: list[int], recommended: int, vote: int) -> float:
    more = [count + (k == vote) for k, count in enumerate(counts)]
    return math.log(chances(weighting, more)[recommended] / chances(weighting, counts)[recommended])


def relative(weighting: Weighting, counts: list[int], recommended: int, vote: int) -> dict[str, float]:
    """How far a leak goes towards Lemma B's bounds, 1 where it meets them."""
    n, m = sum(counts), len(counts)
    share = counts[recommended] / n
    unit = weighting.steepness / (n + 1)
    found = abs(leak(weighting, counts, recommended, vote))
    bounds = {"any": 2.0}
    if vote == recommended:
        bounds["b"] = 2 * (1 - share)
    else:
        bounds |= {"a": (2 if m == 2 else 2 * m - 1) * share, "d": 1.0}
    return {
        name: found / (bound * unit) if bound else math.inf if found > 1e-9 else 0.0 for name, bound in bounds.items()
    }


@settings(max_examples=examples(300))
@given(rounds=ROUNDS, counts=COUNTS.filter(any), votes=st.tuples(PLACES, PLACES), sharp=st.booleans())
def test_lemma_b(rounds: int, counts: list[int], votes: tuple[int, int], sharp: bool) -> None:
    weighting = Weighting(rounds=rounds, objects=len(counts), sharp=sharp and len(counts) == 2)
    recommended, vote = votes[0] % len(counts), votes[1] % len(counts)
    for name, found in relative(weighting, counts, recommended, vote).items():
        assert found <= 1 + 1e-9, name


@pytest.mark.parametrize("sharp", [False, True])
def test_lemma_b_fails_for_slightly_smaller_constants(sharp: bool) -> None:
    """Two objects: 2 of the types a, b and c is nearly met; of type d, 1; of any, 1.2 (sharp: 1.4) of 2."""
    weighting = Weighting(rounds=10**12, objects=2, sharp=sharp)
    most: dict[str, float] = {}
    for count in range(1, 400):
        for vote in (0, 1):
            for name, found in relative(weighting, [count, 400 - count], 0, vote).items():
                most[name] = max(most.get(name, 0.0), found)
    assert 1.99999 / 2 < min(most["a"], most["b"]) <= max(most["a"], most["b"]) <= 1
    assert 0.91 < most["d"] <= 1
    assert 2 * most["any"] == pytest.approx(1.417 if sharp else 1.204, abs=1e-3)
