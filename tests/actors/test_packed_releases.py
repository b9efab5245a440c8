"""Unary encoding's bits are coins of 64 bits held against a threshold, drawn 64 at a time."""

import hashlib
import itertools
from fractions import Fraction

import evidence
import numpy as np
import pytest
import worlds
from evidence import chi_square_fits, rate_fits

from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Bools2, Indices2, Words, Words2, Words32
from coordinator.protocol.channels import COIN, IndependentBits, UnaryChannel, unary_channel
from coordinator.protocol.coins import as_words
from coordinator.protocol.messages import unpack
from coordinator.protocol.packed_releases import (
    BLOCKS,
    ROWS,
    _start,
    draw_block,
    draw_blocks,
    draw_words,
    release_subsets,
    release_unary,
    wipe,
)
from coordinator.protocol.value_channels import SubsetChannel, subset_channel

QUERY_ID = bytes(range(16))
WORDS_PURPOSE = 11


def drawn(channel: UnaryChannel, values: list[int], first: int = 0) -> Bits2:
    coins = Coins(as_words(worlds.SECRET), first, len(values), as_words(QUERY_ID))
    packed = release_unary(np.array(values, np.int32), channel, coins)
    return unpack(packed.tobytes(), len(values) * channel.encoded.count).reshape(len(values), -1)


def block_of(device: int, first: int) -> tuple[Words2, Words]:
    """Blocks of a device's key from counter ``first`` on, and the block of that counter alone, as words of 64 bits."""
    key, purpose = evidence.device_secret(worlds.SECRET, device), (WORDS_PURPOSE, *np.frombuffer(QUERY_ID, "<u8"))
    low, high = (np.uint64(evidence.siphash_words(key, *(int(word) for word in purpose), half)) for half in (0, 1))
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


@pytest.mark.few(1)
@pytest.mark.parametrize("threshold", [COIN - 1, 1 << 63, 3 << 61, 0x4567_89AB_CDEF_0123, 1, 0])
def test_a_bit_is_one_where_its_coin_is_below_the_threshold(threshold: int) -> None:
    """As in plain Python; values beyond 1,024 are of other groups, and some 10 coins are level with a threshold."""
    width, channel = 2500, UnaryChannel(IndependentBits(2500, COIN - 1, threshold, 1))
    bits = drawn(channel, [0, 1, 2, 2499], first=5)
    for device in (0, 3):
        own = (0, 2499)[device == 3]
        expected = [coin < threshold for coin in coins_of(5 + device, width, threshold)]
        expected[own] = evidence.release_coin(worlds.SECRET, 5 + device, QUERY_ID, 0) < COIN - 1
        assert bits[device].tolist() == expected


def test_coins_are_held_against_the_threshold_to_the_last_digit() -> None:
    """The other 63 digits tell nothing where a threshold is a coin, or one more."""
    level = first_digits(5, 68) << 56
    coin = coins_of(5, 70, level)[68]
    for threshold in (coin, coin + 1):
        bits = drawn(UnaryChannel(IndependentBits(70, COIN - 1, threshold, 1)), [0], first=5)
        assert bits[0, 68] == (threshold > coin)


def test_without_noise_no_other_bit_is_one() -> None:
    bits = drawn(unary_channel(None, values=65), [3] * 500)
    assert set(np.flatnonzero(bits.any(axis=0)).tolist()) == {3}
    assert 150 < int(bits.sum()) < 350


# ChaCha8 is what its author and others made of it, block for block.
LOWEST = 0xFFFFFFFF
LINES = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def blocks(low: int, high: int, first: int) -> Words32:
    words = np.empty((16, BLOCKS), np.uint32)
    draw_blocks(np.uint64(low), np.uint64(high), first, words)
    return words


def expected(low: int, high: int, counter: int) -> list[int]:
    """A block in plain Python; source: Bernstein (2008), sections 2 and 3."""
    key = [low & LOWEST, low >> 32, high & LOWEST, high >> 32]
    name = [int(word) for word in np.frombuffer(b"expand 16-byte k", "<u4")]
    begun = [*name, *key, *key, counter & LOWEST, counter >> 32, 0, 0]
    state = list(begun)
    for _ in range(4):
        for a, b, c, d in [*LINES, *DIAGONALS]:
            for one, two in ((16, 12), (8, 7)):
                state[a] = (state[a] + state[b]) & LOWEST
                state[d] = rotated(state[d] ^ state[a], one)
                state[c] = (state[c] + state[d]) & LOWEST
                state[b] = rotated(state[b] ^ state[c], two)
    return [(one + other) & LOWEST for one, other in zip(state, begun, strict=True)]


def rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & LOWEST


def test_the_published_block_of_a_key_of_zeros() -> None:
    """128 bits of key and nonce 0, eight rounds, first block: TC1 of draft-strombergson-chacha-test-vectors."""
    told = (
        "e28a5fa4a67f8c5defed3e6fb7303486aa8427d31419a729572d777953491120"
        "b64ab8e72b8deb85cd6aea7cb6089a101824beeb08814a428aab1fa2c816081b"
    )
    assert blocks(0, 0, 0)[:, 0].astype("<u4").tobytes().hex() == told


@pytest.mark.parametrize("first", [0, 7, (1 << 32) - 3, 1 << 40])
def test_every_block_is_that_of_its_counter(first: int) -> None:
    low, high = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
    found = blocks(low, high, first)
    for k in (0, 2, 3, BLOCKS - 1):
        assert found[:, k].tolist() == expected(low, high, first + k)


# Bits that are written packed lie where packing byte by byte puts them, and silent devices' bits are wiped.
def some_bits(devices: int, width: int) -> Bits2:
    return np.random.default_rng([devices, width]).integers(0, 2, (devices, width), np.uint8)


@pytest.mark.parametrize("width", [1, 3, 8, 13, 64, 101])
def test_silent_devices_release_zeros_and_others_what_they_did(width: int) -> None:
    bits, answered = some_bits(41, width), np.random.default_rng(width).integers(0, 2, 41, np.uint8)
    packed = np.packbits(bits)
    wipe(packed, width, answered)
    assert packed.tobytes() == np.packbits(bits * answered[:, None]).tobytes()


# Subsets that devices release: how often they meet the device's set, which of them, and with how much noise.
LISTED, AS_BITS = {"values": 40, "padded": 5, "subset_size": 4}, {"values": 40, "padded": 5, "subset_size": 9}
"""A subset as six bits a value that it holds, and as a bit a value."""


def subset_releases(channel: SubsetChannel, own: Indices2) -> Bools2:
    """Which values each device's subset holds; a list ascends, so that no value comes twice."""
    devices, (parts, bits) = len(own), channel.form
    packed = release_subsets(own, channel, Coins(as_words(worlds.SECRET), 7, devices, as_words(bytes(range(16)))))
    told = unpack(packed.tobytes(), devices * parts * bits).reshape(devices, parts, bits)
    if not channel.listed:
        held = told[:, :, 0].astype(np.bool_)
    else:
        named = (told.astype(np.int64) << np.arange(bits)[::-1]).sum(axis=2)
        assert (np.diff(named, axis=1) > 0).all()
        held = np.zeros((devices, channel.values), np.bool_)
        held[np.arange(devices)[:, None], named] = True
    assert (held.sum(axis=1) == channel.subset_size).all()
    return held


def same_set(devices: int, padded: int) -> Indices2:
    return np.tile(np.arange(1, 1 + padded, dtype=np.int32), (devices, 1))


@pytest.mark.parametrize(("sizes", "digest"), [(LISTED, "c62484dfd8e16c9e"), (AS_BITS, "ea7011fbfb7b6f76")])
def test_subsets_are_drawn_as_in_every_version(sizes: dict[str, int], digest: str) -> None:
    """A device that is asked again after an update repeats its answer."""
    members = subset_releases(subset_channel(Fraction(1), **sizes), same_set(500, sizes["padded"]))
    assert hashlib.sha256(np.packbits(members).tobytes()).hexdigest()[:16] == digest


@pytest.mark.statistical
@pytest.mark.parametrize("sizes", [LISTED, AS_BITS])
def test_subsets_meet_a_set_and_hold_values_as_often_as_stated(sizes: dict[str, int]) -> None:
    """Clopper-Pearson, false alarm 1e-6 a rate: meeting subsets, one own value, another; 100,000 devices, and twins."""
    devices, epsilon = 100_000, Fraction(1)
    held = subset_releases(subset_channel(epsilon, **sizes), same_set(devices, sizes["padded"]))
    counts = [int(told.sum()) for told in (held[:, 1:6].any(axis=1), held[:, 1], held[:, 0])]

    def fits(claimed: Fraction) -> bool:
        channel = subset_channel(claimed, **sizes)
        rates = [1 - channel.misses / COIN, *map(float, channel.rates)]
        return all(rate_fits(count, devices, rate) for count, rate in zip(counts, rates, strict=True))

    assert fits(epsilon)
    assert not fits(epsilon + Fraction(1, 8))
    assert not fits(epsilon - Fraction(1, 8))


@pytest.mark.few(1)
@pytest.mark.statistical
@pytest.mark.parametrize("sizes", [(9, 3, 2), (9, 3, 4), (7, 1, 3), (70, 68, 2)])
def test_subsets_are_uniform_among_those_that_meet_and_those_that_avoid(sizes: tuple[int, int, int]) -> None:
    """Pearson's test, false alarm 1e-6 a class; the twin names an own value first and forgets what that doubles."""
    values, padded, chosen = sizes
    channel = subset_channel(Fraction(2), values=values, padded=padded, subset_size=chosen)
    own = set(range(1, 1 + padded))
    found: dict[tuple[int, ...], int] = dict.fromkeys(itertools.combinations(range(values), chosen), 0)
    for row in subset_releases(channel, same_set(250_000, padded)):
        found[tuple(np.flatnonzero(row).tolist())] += 1
    for meets in (True, False):
        counts = {subset: count for subset, count in found.items() if own.isdisjoint(subset) != meets}
        if len(counts) > 1:
            assert chi_square_fits(list(counts.values()), np.ones(len(counts)))
    met = {subset: count for subset, count in found.items() if not own.isdisjoint(subset)}
    if padded > 1:
        assert not chi_square_fits(list(met.values()), [len(own.intersection(subset)) for subset in met])


@pytest.mark.parametrize("share", [1, 6, 96, 128, 200, 255])
def test_a_subset_starts_with_the_values_whose_digits_are_below_the_share(share: int) -> None:
    """A fair 1 stands for the digit 0; words of digits are counted from the last digit on, trial by trial."""
    key, words, trial = (np.uint64(7), np.uint64(11)), 3, 2
    barred = np.array([1, 0, 1 << 63], np.uint64)
    members, fair = np.full(words, 0xFF, np.uint64), np.empty(words, np.uint64)
    _start(*key, trial, share, barred, members, fair)
    numbers = np.zeros(64 * words, np.int64)
    for digit in range(8):
        draw_words(*key, np.uint64((1 << 40) + (8 * trial + digit) * words), np.uint64(1), fair)
        numbers |= (1 - np.unpackbits(fair.astype(">u8").view(np.uint8)).astype(np.int64)) << digit
    free = 1 - np.unpackbits(barred.astype(">u8").view(np.uint8))
    assert np.unpackbits(members.astype(">u8").view(np.uint8)).tolist() == ((numbers < share) & free).tolist()


@pytest.mark.statistical
def test_a_subset_avoids_a_devices_values_wherever_they_stand() -> None:
    """False alarm 1e-6; the twin: a rate of meeting that is off by .07."""
    devices = 4000
    channel = subset_channel(Fraction(1), values=400, padded=3, subset_size=100)
    released = subset_releases(channel, np.tile(np.array([5, 70, 390], same_set(1, 1).dtype), (devices, 1)))
    met = int(released[:, [5, 70, 390]].any(axis=1).sum())
    rate = 1 - channel.misses / COIN
    assert rate_fits(met, devices, rate)
    assert not rate_fits(met, devices, rate + 0.07)


def test_without_noise_a_subset_always_meets_the_set() -> None:
    held = subset_releases(subset_channel(None, **LISTED), same_set(3000, 5))
    assert held[:, 1:6].any(axis=1).all()
