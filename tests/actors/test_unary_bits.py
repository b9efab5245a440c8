"""Unary encoding's bits are coins of 64 bits held against a threshold, drawn 64 at a time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import reference
import worlds
from statistical import rate_fits

from actors.packed_releases import BLOCKS, ROWS, draw_block, draw_blocks, release_unary
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Words, Words2
from coordinator.protocol.channels import COIN, IndependentBits, UnaryChannel, unary_channel
from coordinator.protocol.coins import as_words
from coordinator.protocol.messages import unpack

QUERY_ID = bytes(range(16))
WORDS_PURPOSE = 11


def drawn(channel: UnaryChannel, values: list[int], first: int = 0) -> Bits2:
    coins = Coins(as_words(worlds.SECRET), first, len(values), as_words(QUERY_ID))
    packed = release_unary(np.array(values, np.int32), channel, coins)
    return unpack(packed.tobytes(), len(values) * channel.encoded.count).reshape(len(values), -1)


def block_of(device: int, first: int) -> tuple[Words2, Words]:
    """Blocks of a device's key from counter ``first`` on, and the block of that counter alone, as words of 64 bits."""
    key, purpose = reference.device_secret(worlds.SECRET, device), (WORDS_PURPOSE, *np.frombuffer(QUERY_ID, "<u8"))
    low, high = (np.uint64(reference.siphash_words(key, *(int(word) for word in purpose), half)) for half in (0, 1))
    many, one = np.empty((ROWS, BLOCKS), np.uint32), np.empty((ROWS, 1), np.uint32)
    draw_blocks(low, high, first, many)
    draw_block(low, high, np.uint64(first), one)
    return many.reshape(-1, 16 * 2).view(np.uint64), one.reshape(-1).view(np.uint64)


def first_digits(device: int, value: int) -> int:
    """The first 8 digits of a value's coin, which those of 1,023 other values are drawn with."""
    digits, _ = block_of(device, BLOCKS * (value // 1024))
    told = [int(row[value // 64 % 16]) >> (63 - value % 64) & 1 for row in digits]
    return int("".join(map(str, told)), 2)


def coins_of(device: int, values: int, threshold: int) -> list[int]:
    """Coins of all values; the other 56 digits are drawn, and counted, only where the first 8 are the threshold's."""
    coins, level = [first_digits(device, value) << 56 for value in range(values)], 0
    for word in range(0, values, 64):
        for value in reversed(range(word, min(word + 64, values))):
            if coins[value] >> 56 == threshold >> 56:
                coins[value] |= int(block_of(device, 2**32 + level // 8)[1][level % 8]) >> 8
                level += 1
    return coins


@pytest.mark.parametrize("threshold", [COIN - 1, 1 << 63, 3 << 61, 0x4567_89AB_CDEF_0123, 1, 0])
def test_a_bit_is_one_where_its_coin_is_below_the_threshold(threshold: int) -> None:
    """As in plain Python; values beyond 1,024 are of other groups, and some 10 coins are level with a threshold."""
    width, channel = 2500, UnaryChannel(IndependentBits(2500, COIN - 1, threshold, 1))
    bits = drawn(channel, [0, 1, 2, 2499], first=5)
    for device in (0, 3):
        own = (0, 2499)[device == 3]
        expected = [coin < threshold for coin in coins_of(5 + device, width, threshold)]
        expected[own] = reference.release_coin(worlds.SECRET, 5 + device, QUERY_ID, 0) < COIN - 1
        assert bits[device].tolist() == expected


def test_coins_are_held_against_the_threshold_to_the_last_digit() -> None:
    """The other 63 digits tell nothing where a threshold is a coin, or one more."""
    level = first_digits(5, 68) << 56
    coin = coins_of(5, 70, level)[68]
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
