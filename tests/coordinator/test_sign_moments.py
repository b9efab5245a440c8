"""Sign sensing's moments against enumeration of everything that devices can hold, be asked and release."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom
from thoroughness import examples

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.value_channels import choice_channel
from coordinator.server.moments.sign_moments import optimal_best_count, sign_contrast

LIKES = ((0.9, 0.2, 0.0, 0.7, 0.5), (0.1, 0.6, 1.0, 0.7, 0.3))
SHARES = (0.25, 0.75)


def rated_and_liked(items: int, rated: int) -> Iterator[tuple[float, dict[int, int]]]:
    """Everything that a device can hold, +1 a like and -1 a dislike, and its probability; two user classes."""
    subsets = list(itertools.combinations(range(items), rated))
    for share, row in zip(SHARES, LIKES, strict=True):
        for subset in subsets:
            for told in itertools.product((1, -1), repeat=rated):
                chances = (row[item] if like > 0 else 1 - row[item] for item, like in zip(subset, told, strict=True))
                yield share * math.prod(chances) / len(subsets), dict(zip(subset, told, strict=True))


def enumerated(items: int, pool: int, rated: int, vectors: int, kept: int, epsilon: Epsilon) -> list[float]:
    """``E[H_i S]`` of the pool's items, the first ones: over ratings, signs of all vectors, and what is released."""
    channel = choice_channel(epsilon, choices=2 * vectors, best_count=kept)
    found, matrices = np.zeros(pool), list(itertools.product((1, -1), repeat=vectors * pool))

    @functools.cache
    def preferred(sums: tuple[int, ...]) -> Floats:
        """By how much each vector is named with the sign + rather than -."""
        row = np.array(worlds.row_of(sums, channel), float)
        found: Floats = row[::2] - row[1::2]
        return found

    for chance, held in rated_and_liked(items, rated):
        for matrix in matrices:
            signs = [matrix[a * pool : (a + 1) * pool] for a in range(vectors)]
            sums = tuple(sum(one[item] * told for item, told in held.items() if item < pool) for one in signs)
            found += chance * (preferred(sums) @ np.array(signs))
    return [float(one) / len(matrices) for one in found]


CASES = [
    (1, 1, 1, 1),
    (3, 3, 1, 1),
    (4, 4, 3, 1),
    (5, 5, 5, 1),
    (5, 3, 2, 1),
    (5, 1, 4, 1),
    (1, 1, 1, 2),
    (3, 2, 2, 2),
    (3, 3, 3, 2),
    (4, 3, 2, 2),
    (5, 2, 3, 2),
    (2, 2, 1, 4),
    (3, 2, 2, 4),
]


@pytest.mark.parametrize("epsilon", [Fraction(1), None], ids=str)
@pytest.mark.parametrize(("items", "pool", "rated", "vectors"), CASES)
def test_the_contrast_is_that_of_full_enumeration(
    items: int, pool: int, rated: int, vectors: int, epsilon: Epsilon
) -> None:
    """Whatever users like: ``E[H_i S]`` is the contrast times ``2 b - 1``, b averaged over user classes."""
    liked = np.array(SHARES) @ np.array(LIKES)
    for kept in range(1, vectors + 1):
        contrast = sign_contrast(pool, items=items, rated=rated, vectors=vectors, best_count=kept, epsilon=epsilon)
        expected = enumerated(items, pool, rated, vectors, kept, epsilon)
        np.testing.assert_allclose(contrast * (2 * liked[:pool] - 1), expected, rtol=1e-10, atol=1e-13)
        assert contrast > 0


def tie(rated: int) -> Fraction:
    """The formula's g: ``C(k - 1, floor((k - 1) / 2)) / 2^(k - 1)``."""
    return Fraction(math.comb(rated - 1, (rated - 1) // 2), 2 ** (rated - 1))


@settings(max_examples=examples(80))
@given(data=st.data(), items=st.integers(1, 400), epsilon=st.none() | st.sampled_from([Fraction(1), Fraction(1, 100)]))
def test_one_vector_about_all_items_is_the_formula(data: st.DataObject, items: int, epsilon: Epsilon) -> None:
    rated = data.draw(st.integers(1, items))
    contrast = sign_contrast(items, items=items, rated=rated, vectors=1, best_count=1, epsilon=epsilon)
    truth = 1.0 if epsilon is None else math.tanh(float(epsilon) / 2)
    assert contrast == pytest.approx(truth * rated / items * float(tie(rated)), rel=1e-11)


@settings(max_examples=examples(80))
@given(data=st.data(), items=st.integers(1, 300))
def test_one_vector_about_a_pool_averages_over_how_many_of_it_were_rated(data: st.DataObject, items: int) -> None:
    """Exact: a rated item shares the pool with a hypergeometric number of others."""
    rated, pool = data.draw(st.integers(1, items)), data.draw(st.integers(1, items))
    subsets = math.comb(items - 1, rated - 1)
    mean = sum(
        Fraction(math.comb(pool - 1, others) * math.comb(items - pool, rated - 1 - others), subsets) * tie(others + 1)
        for others in range(min(pool, rated))
    )
    contrast = sign_contrast(pool, items=items, rated=rated, vectors=1, best_count=1, epsilon=Fraction(1))
    assert contrast == pytest.approx(math.tanh(0.5) * rated / items * float(mean), rel=1e-10)


def test_recorded_contrast_of_the_standard_setting() -> None:
    """N = 1000, w = 30: t (w/N) sqrt(2 / (pi w)), to a hundredth; a pool of 100 items tells more of each."""
    whole, part = (
        sign_contrast(pool, items=1000, rated=30, vectors=1, best_count=1, epsilon=Fraction(1)) for pool in (1000, 100)
    )
    assert whole == pytest.approx(math.tanh(0.5) * 0.03 * math.sqrt(2 / (math.pi * 30)), rel=0.01)
    others = np.arange(30)
    averaged = hypergeom.pmf(others, 999, 99, 29) @ np.array([float(tie(k + 1)) for k in range(30)])
    assert part == pytest.approx(math.tanh(0.5) * 0.03 * averaged, rel=1e-12)
    assert part > 2 * whole


@pytest.mark.parametrize("pool", [1, 100, 10_000])
def test_large_catalogues_are_computed_too(pool: int) -> None:
    for rated in (1, 30, 5000, 10_000):
        for vectors in (1, 64):
            contrast = sign_contrast(
                pool, items=10_000, rated=rated, vectors=vectors, best_count=vectors, epsilon=Fraction(1)
            )
            assert 0 < contrast <= math.tanh(0.5) * rated / 10_000


@settings(max_examples=examples(60))
@given(data=st.data(), items=st.integers(1, 60), power=st.integers(0, 6))
def test_the_best_number_to_keep_has_the_largest_contrast(data: st.DataObject, items: int, power: int) -> None:
    rated, pool = data.draw(st.integers(1, items)), data.draw(st.integers(1, items))
    epsilon = data.draw(st.none() | st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(3), Fraction(20)]))
    vectors = 1 << power
    best = optimal_best_count(pool, items=items, rated=rated, vectors=vectors, epsilon=epsilon)
    contrasts = [
        sign_contrast(pool, items=items, rated=rated, vectors=vectors, best_count=kept, epsilon=epsilon)
        for kept in range(1, vectors + 1)
    ]
    assert 1 <= best <= vectors
    assert contrasts[best - 1] >= max(contrasts) * (1 - 1e-12)


def test_more_is_kept_where_there_is_more_noise() -> None:
    kept = [
        optimal_best_count(500, items=1000, rated=30, vectors=16, epsilon=epsilon)
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3), Fraction(10), None)
    ]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 1
    assert kept[-1] == 1


@pytest.mark.parametrize("rated", [1, 2, 7, 30])
def test_more_vectors_tell_more(rated: int) -> None:
    """At the same epsilon, each with the best number kept."""
    contrasts = []
    for vectors in (1, 2, 4, 8, 16, 32, 64):
        kept = optimal_best_count(90, items=100, rated=rated, vectors=vectors, epsilon=Fraction(1))
        contrasts.append(
            sign_contrast(90, items=100, rated=rated, vectors=vectors, best_count=kept, epsilon=Fraction(1))
        )
    assert contrasts == sorted(contrasts)
