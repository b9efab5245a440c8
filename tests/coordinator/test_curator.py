"""The curator's noise: exact epsilon of the law, the sampler tied to it, and what neighbours tell."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import statistical
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.protocol.arrays import Ints
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.curator import (
    LARGEST_SCALE,
    DiscreteLaplace,
    item_sensitivity,
    noisy_symmetric,
    noisy_totals,
    pair_sensitivity,
)

SEED = bytes(range(16))
RATES = st.fractions(min_value=Fraction(1, 100), max_value=20, max_denominator=1000)


@settings(max_examples=examples(60))
@given(RATES, st.integers(1, 10))
def test_the_law_sums_to_one_and_has_its_variance(budget: Fraction, sensitivity: int) -> None:
    noise = DiscreteLaplace(budget=budget, sensitivity=sensitivity)
    reach = math.ceil(60 / noise.rate)
    values = np.arange(-reach, reach + 1)
    law = np.exp(noise.log_pmf(values))
    assert law.sum() == pytest.approx(1, rel=1e-9)
    assert law @ values**2 == pytest.approx(noise.variance, rel=1e-9)


@settings(max_examples=examples(60))
@given(RATES, st.integers(1, 50))
def test_the_largest_log_ratio_of_neighbours_is_epsilon(budget: Fraction, sensitivity: int) -> None:
    """One total moved by the whole sensitivity: the ratio is ``budget`` wherever noise has not the moved sign."""
    noise = DiscreteLaplace(budget=budget, sensitivity=sensitivity)
    outcomes = np.arange(-3 * sensitivity, 3 * sensitivity + 1)
    ratios = noise.log_pmf(outcomes) - noise.log_pmf(outcomes - sensitivity)
    assert np.abs(ratios).max() == pytest.approx(float(budget), rel=1e-12)
    assert noise.epsilon(sensitivity) == budget
    assert noise.epsilon(2 * sensitivity) == 2 * budget


def test_neighbouring_users_on_every_outcome_of_tiny_totals() -> None:
    """Three items, w = 2: whatever a user adds, released triples differ in probability by epsilon at most, and do."""
    rated, budget = 2, Fraction(3, 2)
    noise = DiscreteLaplace(budget=budget, sensitivity=item_sensitivity(rated))
    outcomes = np.array(list(itertools.product(range(-4, 5), repeat=3)))
    losses = []
    for items in itertools.combinations(range(3), rated):
        for signs in itertools.product((-1, 1), repeat=rated):
            added = np.zeros(3, int)
            added[list(items)] = signs
            ratio = noise.log_pmf(outcomes).sum(axis=1) - noise.log_pmf(outcomes - added).sum(axis=1)
            losses.append(np.abs(ratio).max())
    assert losses == pytest.approx([1.5] * 12, rel=1e-12)


def test_sensitivities_by_brute_force() -> None:
    for rated in range(2, 5):
        signs = np.array(list(itertools.product((-1, 1), repeat=rated)))
        assert {int(np.abs(row).sum()) for row in signs} == {item_sensitivity(rated)}
        pairs = {int(np.abs(np.triu(np.outer(row, row), 1)).sum()) for row in signs}
        assert pairs == {pair_sensitivity(rated)}


def drawn(budget: Fraction) -> Ints:
    totals = np.zeros((200, 500), np.int64)
    noisy, _ = noisy_totals(totals, epsilon=budget, sensitivity=3, seed=SEED)
    return noisy.astype(np.int64).ravel()


def agrees(sample: Ints, budget: Fraction) -> bool:
    noise = DiscreteLaplace(budget=budget, sensitivity=3)
    middle = np.arange(-20, 21)
    law = np.exp(noise.log_pmf(middle))
    tail = (1 - law.sum()) / 2
    counts = np.bincount(np.clip(sample, -21, 21) + 21, minlength=43)
    return statistical.chi_square_fits(counts, np.concatenate(([tail], law, [tail])))


@pytest.mark.statistical
def test_the_sampler_draws_the_law() -> None:
    """Chi-square over 43 cells of 100 thousand draws, false alarm 1e-6; the twin draws at 5 % less noise."""
    assert agrees(drawn(Fraction(1)), Fraction(1))
    assert not agrees(drawn(Fraction(21, 20)), Fraction(1))


def test_noise_is_of_the_seed_and_no_noise_is_none() -> None:
    totals = np.arange(60, dtype=np.int64).reshape(3, 4, 5)
    first, law = noisy_totals(totals, epsilon=Fraction(1), sensitivity=30, seed=SEED)
    again, _ = noisy_totals(totals, epsilon=Fraction(1), sensitivity=30, seed=SEED)
    other, _ = noisy_totals(totals, epsilon=Fraction(1), sensitivity=30, seed=SEED[::-1])
    assert first.shape == totals.shape
    assert np.array_equal(first, again)
    assert np.array_equal(first, np.rint(first))
    assert not np.array_equal(first, other)
    assert law.variance == pytest.approx(2 * 30**2, rel=1e-3)
    bare, law = noisy_totals(totals, epsilon=None, sensitivity=30, seed=SEED)
    assert np.array_equal(bare, totals)
    assert (law.variance, law.epsilon(1)) == (0, None)
    assert law.log_pmf([0, 1, -2]).tolist() == [0, -math.inf, -math.inf]


def test_pairs_have_one_draw_each() -> None:
    totals = np.triu(np.arange(3600, dtype=np.int64).reshape(60, 60))
    noisy, _ = noisy_symmetric(totals, epsilon=Fraction(1, 100), sensitivity=10, seed=SEED)
    assert np.array_equal(noisy, noisy.T)
    assert not noisy.diagonal().any()
    above = np.triu_indices(60, 1)
    noise = (noisy - totals)[above]
    assert np.unique(noise).size > 1000  # of 1770 draws of scale 1000
    exact, _ = noisy_symmetric(totals, epsilon=None, sensitivity=10, seed=SEED)
    assert np.array_equal(exact[above], totals[above])
    items, _ = noisy_totals(np.zeros(1770, np.int64), epsilon=Fraction(1, 100), sensitivity=10, seed=SEED)
    assert np.mean(items == noise) < 0.05  # two kinds of release do not share coins


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(InputError, match="sensitivity is 0"):
        DiscreteLaplace(budget=Fraction(1), sensitivity=pair_sensitivity(1))
    with pytest.raises(InputError, match="epsilon 1e-12 asks for noise"):
        DiscreteLaplace(budget=Fraction(1, LARGEST_SCALE), sensitivity=2)
    with pytest.raises(InputError, match="seed has 3 bytes"):
        noisy_totals(np.zeros(2, np.int64), epsilon=None, sensitivity=1, seed=b"abc")
    with pytest.raises(InputError, match=r"shape \(2, 3\)"):
        noisy_symmetric(np.zeros((2, 3), np.int64), epsilon=None, sensitivity=1, seed=SEED)


def test_hardly_any_noise() -> None:
    noise = DiscreteLaplace(budget=Fraction(10**6), sensitivity=1)
    assert noise.variance == 0
    assert noisy_totals(np.arange(5), epsilon=Fraction(10**6), sensitivity=1, seed=SEED)[0].tolist() == [0, 1, 2, 3, 4]
