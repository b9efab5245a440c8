"""k-ary randomized response in closed form: its sampler's coins are counted, and values as bits are read back."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from coordinator.protocol.arrays import Words
from coordinator.protocol.channels import COIN, matrix_channel, odds_within
from coordinator.protocol.errors import InputError
from coordinator.protocol.kary_kernels import values_of
from coordinator.protocol.value_channels import KaryChannel, kary_channel


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
