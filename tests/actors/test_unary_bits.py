"""Unary encoding's bits are coins of 64 bits held against a threshold, drawn 64 at a time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import reference
import worlds
from statistical import rate_fits

from actors.chacha import BLOCKS, DIGITS, draw_blocks
from actors.coins import Coins
from actors.unary_kernels import release_unary
from coordinator.protocol.arrays import Bits2
from coordinator.protocol.channels import COIN, IndependentBits, UnaryChannel, unary_channel
from coordinator.protocol.coins import as_words
from coordinator.protocol.messages import unpack

QUERY_ID = bytes(range(16))
WORDS_PURPOSE = 11


def drawn(channel: UnaryChannel, values: list[int], first: int = 0) -> Bits2:
    coins = Coins(as_words(worlds.SECRET), first, len(values), as_words(QUERY_ID))
    packed = release_unary(np.array(values, np.int32), channel, coins)
    return unpack(packed.tobytes(), len(values) * channel.encoded.count).reshape(len(values), -1)


def coin_of(device: int, value: int) -> int:
    """Coin of a value's bit: digit d, from the highest on, is its bit in row d % 16 of blocks of its group of 512."""
    key, purpose = reference.device_secret(worlds.SECRET, device), (WORDS_PURPOSE, *np.frombuffer(QUERY_ID, "<u8"))
    low, high = (reference.siphash_words(key, *(int(word) for word in purpose), half) for half in (0, 1))
    coin, group, word = 0, value // 512, value // 64 % 8
    for part in range(4):
        blocks = np.empty((DIGITS, BLOCKS), np.uint32)
        draw_blocks(np.uint64(low), np.uint64(high), BLOCKS * (4 * group + part), blocks)
        for lower, upper in blocks[:, 2 * word : 2 * word + 2].tolist():
            coin = 2 * coin + ((upper << 32 | lower) >> (63 - value % 64) & 1)
    return coin


@pytest.mark.parametrize("threshold", [COIN - 1, 1 << 63, 3 << 61, 0x4567_89AB_CDEF_0123, 1, 0])
def test_a_bit_is_one_where_its_coin_is_below_the_threshold(threshold: int) -> None:
    """Digit by digit, in plain Python; the fourth device's bits lie across bytes."""
    width, channel = 70, UnaryChannel(IndependentBits(70, COIN - 1, threshold, 1))
    bits = drawn(channel, [0, 1, 2, 69], first=5)
    for device in (0, 3):
        own = (0, 69)[device == 3]
        expected = [coin_of(5 + device, value) < threshold for value in range(width)]
        expected[own] = reference.release_coin(worlds.SECRET, 5 + device, QUERY_ID, 0) < COIN - 1
        assert bits[device].tolist() == expected


def test_coins_are_held_against_the_threshold_to_the_last_digit() -> None:
    """The other 63 digits tell nothing where a threshold is a coin, or one more."""
    coin = coin_of(5, 68)
    for threshold in (coin, coin + 1):
        bits = drawn(UnaryChannel(IndependentBits(70, COIN - 1, threshold, 1)), [0], first=5)
        assert bits[0, 68] == (threshold > coin)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(3)])
def test_the_own_bit_and_others_have_their_probabilities(epsilon: Fraction) -> None:
    """Clopper-Pearson, false alarm 1e-6 a rate, 20,000 devices and 100 values; twins err by 0.04 in epsilon."""
    values, devices = 100, 20_000
    bits = drawn(unary_channel(epsilon, values=values), [device % values for device in range(devices)])
    own = int(bits[np.arange(devices), np.arange(devices) % values].sum())
    others, many = int(bits.sum()) - own, devices * (values - 1)

    def fits(claimed: Fraction) -> bool:
        mine, other = unary_channel(claimed, values=values).rates
        return rate_fits(own, devices, float(mine)) and rate_fits(others, many, float(other))

    assert fits(epsilon)
    assert not fits(epsilon + Fraction(4, 100))
    assert not fits(epsilon - Fraction(4, 100))


def test_bits_of_one_release_are_independent() -> None:
    """Correlations of 128 bits of 20,000 devices; the largest of 8128 exceeds 6 standard errors with chance 2e-5."""
    bits = drawn(unary_channel(Fraction(1), values=129), [128] * 20_000)[:, :128].astype(float)
    correlations = np.corrcoef(bits.T) - np.eye(128)
    assert np.abs(correlations).max() < 6 / np.sqrt(20_000)


def test_without_noise_no_other_bit_is_one() -> None:
    bits = drawn(unary_channel(None, values=65), [3] * 500)
    assert set(np.flatnonzero(bits.any(axis=0)).tolist()) == {3}
    assert 150 < int(bits.sum()) < 350
