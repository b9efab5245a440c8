"""The exact channels of a bit and of a choice: within their epsilon, and as close to it as 64-bit coins allow."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.protocol.channels import COIN, LARGEST_EPSILON, BitChannel, bit_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.value_channels import ChoiceChannel, choice_channel

EPSILONS = st.one_of(
    st.fractions(min_value=Fraction(1, 10**6), max_value=30, max_denominator=10**6),
    st.floats(min_value=1e-12, max_value=30).map(Fraction),
    st.integers(1, 10**6).map(lambda k: Fraction(k, 2**62)),
)


@settings(max_examples=examples(80))
@given(EPSILONS)
@example(Fraction(30))
@example(Fraction(1, 2**62))
@example(Fraction(1, 10**30))
def test_flips_are_rounded_towards_more_noise_and_by_less_than_one_coin(epsilon: Fraction) -> None:
    """Held against rational bounds on e**epsilon: the odds of truth are within, with one coin less not."""
    flips = bit_channel(epsilon).flips
    low, high = reference.exp_bounds(epsilon)
    assert Fraction(COIN - flips, flips) <= high
    assert Fraction(COIN - flips + 1, flips - 1) > low
    assert flips == reference.flips(epsilon)
    assert flips <= COIN // 2


@settings(max_examples=examples(80))
@given(EPSILONS)
def test_rows_sum_to_one_and_the_largest_log_ratio_is_epsilon(epsilon: Fraction) -> None:
    channel = bit_channel(epsilon)
    matrix = channel.matrix
    assert [sum(row) for row in matrix] == [1, 1]
    assert all(0 < entry < 1 for row in matrix for entry in row)
    ratios = [matrix[one][answer] / matrix[1 - one][answer] for one in (0, 1) for answer in (0, 1)]
    with localcontext() as context:
        context.prec = 50
        largest = max((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln() for ratio in ratios)
        asked = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        assert Decimal(0) <= asked - largest < Decimal("1e-6")
        assert channel.epsilon == pytest.approx(float(largest), rel=1e-12, abs=1e-25)


@settings(max_examples=examples(50))
@given(EPSILONS)
def test_contrast_and_threshold_say_the_same(epsilon: Fraction) -> None:
    channel = bit_channel(epsilon)
    assert channel.contrast == pytest.approx(math.tanh(float(epsilon) / 2), rel=1e-9, abs=1e-18)
    assert channel.flip_probability == Fraction(channel.flips, 2**64)
    assert isinstance(channel.threshold, np.uint64)
    assert int(channel.threshold) == channel.flips


def test_known_channels() -> None:
    assert bit_channel(Fraction(1)).flips == math.ceil(Decimal(2**64) / (1 + Decimal(1).exp()))
    assert float(bit_channel(Fraction(1)).flip_probability) == pytest.approx(0.2689414213699951, rel=1e-15)
    assert bit_channel(Fraction(1, 10**30)).flips == 2**63


@given(st.fractions(min_value=Fraction(1, 100), max_value=29), st.fractions(min_value=Fraction(1, 100), max_value=1))
def test_more_epsilon_is_less_noise(epsilon: Fraction, more: Fraction) -> None:
    assert bit_channel(epsilon + more).flips < bit_channel(epsilon).flips


def test_no_noise_is_the_identity() -> None:
    channel = bit_channel(None)
    assert channel.flips == int(channel.threshold) == 0
    assert channel.matrix == [[1, 0], [0, 1]]
    assert channel.epsilon == math.inf
    assert channel.contrast == 1


@pytest.mark.parametrize("above", [Fraction(1, 10**30), Fraction(1), Fraction(10**6)])
def test_what_coins_cannot_express_is_refused(above: Fraction) -> None:
    assert bit_channel(Fraction(LARGEST_EPSILON)).flips == 1_726_177
    with pytest.raises(InputError, match=r"^epsilon .* above 30.*inf for no noise$"):
        bit_channel(LARGEST_EPSILON + above)


def test_an_epsilon_beyond_floats_is_refused_too() -> None:
    with pytest.raises(InputError, match="above 30"):
        bit_channel(Fraction(10**400))


def test_a_channel_is_a_value() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        bit_channel(Fraction(1)).flips = 0  # type: ignore[misc]  # what is tried
    assert BitChannel(5) == BitChannel(5)


CHOICES = st.integers(1, 7).flatmap(lambda power: st.tuples(st.just(1 << power), st.integers(1, (1 << power) - 1)))
"""Signed vectors, a power of two of them, and how many are kept."""


@settings(max_examples=examples(40))
@given(EPSILONS, CHOICES)
@example(Fraction(30), (128, 1))
@example(Fraction(30), (128, 64))
@example(Fraction(1, 10**30), (4, 2))
def test_a_choice_is_within_its_epsilon_and_not_by_one_coin_less(epsilon: Fraction, choices: tuple[int, int]) -> None:
    """Held against rational bounds on e**epsilon: the best are at most that many times as probable."""
    many, kept = choices
    channel = choice_channel(epsilon, choices=many, best_count=kept)
    low, high = reference.exp_bounds(epsilon)
    best, other = channel.probabilities
    assert kept * best + (many - kept) * other == 1
    assert 0 < other <= best
    assert best <= high * other
    looser = ChoiceChannel(many, kept, channel.misses - 1).probabilities
    assert looser[0] > low * looser[1]
    assert channel.misses == reference.misses(epsilon, kept, many - kept)


@settings(max_examples=examples(80))
@given(EPSILONS, CHOICES)
def test_epsilon_contrast_and_threshold_of_a_choice(epsilon: Fraction, choices: tuple[int, int]) -> None:
    channel = choice_channel(epsilon, choices=choices[0], best_count=choices[1])
    best, other = channel.probabilities
    assert channel.contrast == pytest.approx(float(best - other), rel=1e-12)
    assert channel.epsilon == pytest.approx(float(epsilon), rel=1e-6, abs=1e-16)
    assert isinstance(channel.threshold, np.uint64)
    assert int(channel.threshold) == channel.misses


@settings(max_examples=examples(60))
@given(st.none() | EPSILONS)
def test_a_choice_of_two_is_randomized_response(epsilon: Fraction | None) -> None:
    bit, choice = bit_channel(epsilon), choice_channel(epsilon, choices=2, best_count=1)
    assert choice.misses == bit.flips
    assert [*choice.probabilities] == bit.matrix[0]
    assert choice.contrast == bit.contrast
    assert choice.epsilon == pytest.approx(bit.epsilon, rel=1e-12, abs=1e-25)


def test_a_choice_without_noise_is_always_among_the_best() -> None:
    channel = choice_channel(None, choices=8, best_count=3)
    assert channel.misses == int(channel.threshold) == 0
    assert channel.probabilities == (Fraction(1, 3), Fraction(0))
    assert channel.epsilon == math.inf
    assert channel.contrast == pytest.approx(1 / 3)


@pytest.mark.parametrize(("choices", "kept"), [(2, 0), (2, 2), (8, 8), (8, -1), (1, 1)])
def test_choices_that_leave_nothing_over_are_refused(choices: int, kept: int) -> None:
    with pytest.raises(InputError, match=f"^best_count is {kept}; .* between 1 and {choices - 1}") as caught:
        choice_channel(Fraction(1), choices=choices, best_count=kept)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("above", [Fraction(1, 10**30), Fraction(10**400)])
def test_choices_that_coins_cannot_express_are_refused(above: Fraction) -> None:
    with pytest.raises(InputError, match=r"^epsilon .* above 30.*inf for no noise$"):
        choice_channel(LARGEST_EPSILON + above, choices=4, best_count=1)
