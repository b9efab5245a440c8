"""k-ary randomized response in closed form: its sampler's coins are counted, and values as bits are read back."""

import math
import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from evidence import chi_square_fits, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol.arrays import Bits2, Indices2, Ints, Words
from coordinator.protocol.channels import (
    COIN,
    CoinOf,
    IndependentBits,
    Likelihood,
    MatrixChannel,
    bit_channel,
    flipped_bits,
    independent_bits,
    matrix_channel,
    odds_within,
)
from coordinator.protocol.errors import InputError
from coordinator.protocol.public_draws import values_of
from coordinator.protocol.value_channels import KaryChannel, SubsetChannel, kary_channel


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


@pytest.mark.parametrize("value", [-1, 3])
def test_a_sketch_that_is_no_private_value_is_refused_with_the_last_one(value: int) -> None:
    matrix = matrix_channel([[Fraction(1, 2), Fraction(1, 2)]] * 3, Fraction(1))
    for channel in (kary_channel(Fraction(1), values=3), matrix):
        with pytest.raises(InputError, match="no whole number from 0 to 2, the channel's private values"):
            channel.draw(np.array([[0], [value]], np.int32), lambda _: np.zeros(2, np.uint64))


def test_one_coin_less_would_exceed_epsilon() -> None:
    for values, epsilon in ((3, Fraction(1)), (3707, Fraction(4)), (1024, Fraction(30))):
        channel = kary_channel(epsilon, values=values)
        assert Fraction(channel.same, channel.other) <= odds_within(epsilon)
        looser = KaryChannel(values, channel.other - 1)
        assert Fraction(looser.same, looser.other) > odds_within(epsilon)


@pytest.mark.parametrize("misses", [COIN // 10, COIN * 9 // 10])
def test_sets_are_told_by_their_report_as_well_where_it_avoids_its_own(misses: int) -> None:
    """The stated ratio is the largest of two devices' chances, whichever of them it favours."""
    channel = SubsetChannel(4, 1, 1, misses)
    of_reports = zip(*(channel.chances(np.array([value])) for value in range(4)), strict=True)
    assert channel.ratio == max(max(chances) / min(chances) for chances in of_reports)


def test_without_noise_a_value_is_told_as_it_is() -> None:
    assert told(kary_channel(None, values=5), 3, [0, COIN // 2, COIN - 1]) == [3, 3, 3]


@pytest.mark.parametrize(("values", "other"), [(1, 0), (4, -1), (4, COIN // 4 + 1), ((1 << 31) + 1, 0)])
def test_what_is_no_channel_is_refused(values: int, other: int) -> None:
    with pytest.raises(InputError):
        KaryChannel(values, other)


# Channels that draw: the sampler follows the stated chances, coin by coin, and no claim is exceeded.
DEVICES = 200_000


def coin_of(seed: int, devices: int) -> CoinOf:
    """Coins that differ by question."""
    return lambda question: np.random.default_rng([seed, question]).integers(0, COIN, devices, np.uint64)


def these(coins: Sequence[int]) -> CoinOf:
    return lambda _: np.array(coins, np.uint64)


def numbers(bits: Bits2) -> Ints:
    """Releases as whole numbers, the most significant bit first."""
    return bits.astype(np.int64) @ (1 << np.arange(bits.shape[1])[::-1])


def fits(bits: Bits2, chances: Sequence[Fraction]) -> bool:
    counts = np.bincount(numbers(bits), minlength=len(chances))
    heard = [(int(count), float(share)) for count, share in zip(counts, chances, strict=True) if share]
    assert sum(count for count, _ in heard) == len(bits)
    return chi_square_fits(*zip(*heard, strict=True))


def response(values: int, epsilon: float) -> list[list[float]]:
    odds = math.exp(epsilon)
    return [[(odds if i == j else 1) / (odds + values - 1) for j in range(values)] for i in range(values)]


def test_every_coin_at_an_edge_falls_on_its_side() -> None:
    """Exactly so many coins as stated make a release: those at its edges, and no others; 0 coins make none."""
    rows = ((5, COIN - 12, 7, 0), (0, 0, COIN, 0), (0, 1, 0, COIN - 1), (COIN, 0, 0, 0))
    channel = MatrixChannel(rows)
    for row, edges in enumerate(([0, 4, 5, COIN - 8, COIN - 7, COIN - 1], [0, COIN - 1], [0, 1], [0, COIN - 1])):
        told = channel.draw(np.full((len(edges), 1), row, np.int32), these(edges))
        assert numbers(told).tolist() == ([0, 0, 1, 1, 2, 2], [2, 2], [1, 3], [0, 0])[row]


def test_bits_fall_on_their_side_of_every_edge() -> None:
    channel = IndependentBits(1, COIN - 3, 5, None)
    for private, coins, told in ((0, [0, 4, 5, COIN - 1], [1, 1, 0, 0]), (1, [0, 2, 3, COIN - 1], [0, 0, 1, 1])):
        bits = channel.draw(np.full((4, 1), private, np.uint8), these(coins))
        assert bits[:, 0].tolist() == told


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(4)])
def test_flipped_bits_have_as_many_times_the_epsilon_of_one(count: int, epsilon: Fraction) -> None:
    channel = flipped_bits(count, epsilon)
    of_one = bit_channel(epsilon).log_ratio.ratio
    assert of_one is not None
    assert channel.log_ratio.ratio == of_one**count
    rows = [channel.chances(np.array(sketch)) for sketch in np.ndindex(*[2] * count)]
    assert all(sum(row) == 1 for row in rows)
    ratio = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
    assert math.log(ratio) == pytest.approx(channel.epsilon, rel=1e-12)


@settings(max_examples=examples(60))
@given(
    count=st.integers(1, 4),
    ones=st.one_of(st.none(), st.integers(1, 4)),
    rates=st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)),
)
def test_epsilon_is_the_largest_log_ratio_over_all_sketches(
    count: int, ones: int | None, rates: tuple[float, float]
) -> None:
    channel = independent_bits(count=count, if_one=max(rates), if_zero=min(rates), epsilon=None, ones=ones)
    sketches = [one for one in np.ndindex(*[2] * count) if ones is None or sum(one) <= ones]
    rows = [channel.chances(np.array(sketch)) for sketch in sketches]
    largest = max(math.log(Fraction(max(column), min(column))) for column in zip(*rows, strict=True))
    assert channel.epsilon == pytest.approx(largest, rel=1e-12, abs=1e-15)


@settings(max_examples=examples(60))
@given(values=st.integers(2, 9), epsilon=st.floats(0.01, 20))
def test_dust_of_floats_is_mended_and_the_claim_is_never_exceeded(values: int, epsilon: float) -> None:
    claim = Fraction(epsilon)
    channel = matrix_channel(response(values, epsilon * (1 + 5e-10)), claim)
    assert all(sum(row) == COIN for row in channel.rows)
    assert epsilon * (1 - 1e-6) < channel.epsilon <= epsilon
    assert channel.log_ratio.within(claim)
    bits = independent_bits(
        count=values, if_one=0.5, if_zero=1 / (math.exp(epsilon * (1 + 5e-10)) + 1), epsilon=claim, ones=1
    )
    assert epsilon * (1 - 1e-6) < bits.epsilon <= epsilon
    assert bits.log_ratio.within(claim)


def test_a_claim_that_is_exceeded_is_refused_by_both_numbers() -> None:
    for lie in (
        lambda: matrix_channel(response(4, 1.001), Fraction(1)),
        lambda: independent_bits(count=4, if_one=0.5, if_zero=1 / (math.exp(1.001) + 1), epsilon=Fraction(1), ones=1),
        lambda: independent_bits(count=1001, if_one=0.75, if_zero=0.25, epsilon=Fraction(1)),
        lambda: matrix_channel([[1.0, 0.0], [0.5, 0.5]], Fraction(1)),
    ):
        with pytest.raises(InputError, match=r"log-ratio of the channel is (1\.001|1099\.\d+|inf).* epsilon 1;"):
            lie()


@pytest.mark.parametrize(("one", "zero"), [(1.0000001, 0.5), (0.5, -0.0000001), (0.25, 0.5), (math.nan, 0.5)])
def test_bits_of_what_is_no_probability_are_refused(one: float, zero: float) -> None:
    with pytest.raises(InputError, match=re.escape(f"{one} and {zero}; give some from 0 to 1, the first not below")):
        independent_bits(count=4, if_one=one, if_zero=zero, epsilon=None)


@pytest.mark.parametrize(
    "rows", [[], [[1.0], [0.5, 0.5]], [[0.5, 0.4]], [[1.5, -0.5]], [[math.nan, 1.0]], [[math.inf, 0.0]]]
)
def test_rows_that_are_no_distributions_are_refused(rows: list[list[float]]) -> None:
    with pytest.raises(InputError, match="row") as caught:
        matrix_channel(rows, None)
    assert "\n" not in str(caught.value)


def test_sketches_that_are_none_of_the_channel_are_refused_without_telling_them() -> None:
    matrix, unary = matrix_channel(response(3, 1), None), IndependentBits(4, COIN // 2, COIN // 4, 1)
    wrong: list[tuple[MatrixChannel | IndependentBits, Bits2 | Indices2]] = [
        (matrix, np.array([[0], [3]], np.int32)),
        (matrix, np.array([[-1]], np.int32)),
        (unary, np.array([[0, 1, 1, 0]], np.uint8)),
        (unary, np.array([[0, 2, 0, 0]], np.uint8)),
        (unary, np.array([[0, 1, 0]], np.uint8)),
    ]
    for channel, private in wrong:
        with pytest.raises(InputError, match="sketch"):
            channel.draw(private, coin_of(0, len(private)))
    for few in ((0, 1, 0), (1, COIN, COIN), (1, 0, 0), (1, 5, 6), (1, COIN + 1, 0)):
        with pytest.raises(InputError):
            IndependentBits(*few)
    with pytest.raises(InputError, match="fewer bits"):
        flipped_bits(40, Fraction(1)).chances(np.zeros(40, np.int64))


@pytest.mark.statistical
def test_a_likelihood_is_held_against_an_enumeration_where_there_is_one() -> None:
    """Local hashing into two buckets: exact given a public stream; a twin that lies about its epsilon is refused.

    Draws follow it by Pearson's test, false alarm 1e-6, and not a channel whose epsilon is a twentieth larger.
    """

    def bucket(value: int, stream: np.uint64) -> int:
        return int(stream) >> value & 1

    def of(epsilon: Fraction) -> Likelihood:
        def likelihood(private: Ints, public: np.uint64) -> list[float]:
            return response(2, 1)[bucket(int(private[0]), public)]

        def sampler(private: Bits2 | Indices2, public: Words, coin: CoinOf) -> Bits2:
            values = [bucket(int(value), stream) for value, stream in zip(private[:, 0], public, strict=True)]
            return matrix_channel(response(2, 1), epsilon).draw(np.array(values, np.int32)[:, None], coin)

        return Likelihood(claimed=epsilon, bits=1, likelihood=likelihood, sampler=sampler)

    privates = [np.array([value]) for value in range(4)]
    channel = of(Fraction(1))
    assert channel.epsilon == 1
    matrix = channel.matrix(privates, np.uint64(0b0110))
    assert matrix.epsilon == pytest.approx(1, rel=1e-12)
    assert sum(channel.chances(privates[0], np.uint64(6))) == 1
    told = channel.draw(np.zeros((DEVICES, 1), np.int32), np.full(DEVICES, 6, np.uint64), coin_of(7, DEVICES))
    assert fits(told, channel.chances(privates[0], np.uint64(6)))
    assert not fits(told, [Fraction(one) for one in response(2, 1.05)[bucket(0, np.uint64(6))]])
    with pytest.raises(InputError, match=r"claim of epsilon 0\.5"):
        of(Fraction(1, 2)).matrix(privates, np.uint64(6))
