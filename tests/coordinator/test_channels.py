"""Channels: their probabilities, and those of k-ary randomized response."""

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

from coordinator.protocol.arrays import Words
from coordinator.protocol.channels import (
    COIN,
    LARGEST_EPSILON,
    BitChannel,
    ChoiceChannel,
    KaryChannel,
    bit_channel,
    choice_channel,
    kary_channel,
    matrix_channel,
    odds_within,
)
from coordinator.protocol.channels.kary_kernels import values_of
from coordinator.protocol.errors import InputError

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


def told(channel: KaryChannel, private: int, coins: list[int]) -> list[int]:
    """What devices with one private value tell by these coins."""
    drawn: Words = np.array(coins, np.uint64)
    bits = channel.draw(np.full((drawn.size, 1), private, np.int32), lambda _: drawn)
    found = np.empty(drawn.size, np.int32)
    values_of(bits, found)
    return found.tolist()


@pytest.mark.parametrize("values", [2, 5, 1001])
@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(4)])
def test_every_other_value_has_the_same_stretch_of_coins_and_the_value_itself_the_rest(
    values: int, epsilon: Fraction
) -> None:
    channel = kary_channel(epsilon, values=values)
    for private in {0, 1, values - 1}:
        others = [value for value in range(values) if value != private]
        ends = [place * channel.other for place in range(values)]
        assert told(channel, private, ends[:-1]) == others
        assert told(channel, private, [end - 1 for end in ends[1:]]) == others
        assert told(channel, private, [ends[-1], COIN - 1]) == [private] * 2


def test_chances_are_those_of_the_matrix_that_is_never_made() -> None:
    epsilon = Fraction(3, 2)
    channel, odds = kary_channel(epsilon, values=6), odds_within(epsilon)
    rows = [[(odds if told == private else Fraction(1)) / (odds + 5) for told in range(6)] for private in range(6)]
    matrix = matrix_channel(rows, epsilon)
    for private in range(6):
        ours, theirs = channel.chances(np.array([private])), matrix.chances(np.array([private]))
        assert sum(ours) == 1
        assert max(abs(one - other) for one, other in zip(ours, theirs, strict=True)) <= Fraction(6, COIN)


def test_one_coin_less_would_exceed_epsilon() -> None:
    for values, epsilon in ((3, Fraction(1)), (3707, Fraction(4)), (1024, Fraction(30))):
        channel = kary_channel(epsilon, values=values)
        assert Fraction(channel.own, channel.other) <= odds_within(epsilon)
        looser = KaryChannel(values, channel.other - 1)
        assert Fraction(looser.own, looser.other) > odds_within(epsilon)


def test_without_noise_a_value_is_told_as_it_is() -> None:
    assert told(kary_channel(None, values=5), 3, [0, COIN // 2, COIN - 1]) == [3, 3, 3]


@pytest.mark.parametrize(("values", "other"), [(1, 0), (4, -1), (4, COIN // 4 + 1), ((1 << 31) + 1, 0)])
def test_what_is_no_channel_is_refused(values: int, other: int) -> None:
    with pytest.raises(InputError):
        KaryChannel(values, other)


def test_as_many_values_as_fit_into_a_number_are_taken() -> None:
    assert KaryChannel(1 << 31, 1).bits == 31


@pytest.mark.parametrize("private", [-1, 5])
def test_a_sketch_that_is_no_value_is_refused_without_telling_it(private: int) -> None:
    sketch = np.full((2, 1), private, np.int32)
    with pytest.raises(InputError, match="from 0 to 4") as caught:
        kary_channel(Fraction(1), values=5).draw(sketch, lambda _: np.zeros(2, np.uint64))
    assert str(private) not in str(caught.value).replace("0 to 4", "")
