"""Hashes under every coin: published vectors, and the oracle for the rest."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol.coins import as_words, derive, device_streams, round_key
from coordinator.protocol.hashing import draw, siphash1, siphash4

KEY = bytes(range(16))
PUBLISHED = {
    0: 0x726FDB47DD0E0E31,
    7: 0xAB0200F58B01D137,
    8: 0x93F5F5799A932462,
    15: 0xA129CA6149BE45E5,
    16: 0x3F2ACC7F57C29BDB,
    32: 0x7127512F72F27CCE,
    63: 0x958A324CEB064572,
}
"""SipHash-2-4 of the bytes 0, 1, ... under the key 00 to 0f, by length: the authors' test vectors."""
WORDS = st.integers(0, reference.WORD)


def typed(*words: int) -> list[np.uint64]:
    return [np.uint64(word) for word in words]


@pytest.mark.parametrize("length", PUBLISHED)
def test_the_oracle_knows_the_published_vectors(length: int) -> None:
    assert reference.siphash(reference.as_key(KEY), bytes(range(length))) == PUBLISHED[length]


def test_one_and_four_words_are_the_published_vectors() -> None:
    key = as_words(KEY)
    words = np.frombuffer(bytes(range(32)), "<u8")
    assert int(siphash1(key[0], key[1], words[0])) == PUBLISHED[8]
    assert int(siphash4(key[0], key[1], *words)) == PUBLISHED[32]


@settings(max_examples=100, deadline=None)
@given(WORDS, WORDS, st.tuples(WORDS, WORDS, WORDS, WORDS))
def test_any_words_hash_as_the_oracle_says(low: int, high: int, words: tuple[int, int, int, int]) -> None:
    first, second, third, fourth = typed(*words)
    key0, key1 = typed(low, high)
    assert int(siphash1(key0, key1, first)) == reference.siphash_words((low, high), words[0])
    assert int(siphash4(key0, key1, first, second, third, fourth)) == reference.siphash_words((low, high), *words)


def test_draws_are_splitmix64() -> None:
    """The first outputs for the seed 1234567, as published with the generator."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(draw(*typed(1234567, lane))) for lane in range(4)] == published
    assert [reference.draw(1234567, lane) for lane in range(4)] == published


@settings(max_examples=100, deadline=None)
@given(WORDS, WORDS)
def test_any_lane_of_any_stream_is_the_oracles(stream: int, lane: int) -> None:
    assert int(draw(*typed(stream, lane))) == reference.draw(stream, lane)


@pytest.mark.parametrize("first", [0, 1, 2**31, 2**32 - 1, 2**50])
def test_public_streams_are_keyed_by_seed_round_and_device(first: int) -> None:
    for round_number in (0, 1, 10):
        key = round_key(derive(3, "public"), round_number)
        oracle = reference.as_key(reference.derive(reference.derive(3, "public"), f"round {round_number}"))
        assert key.tolist() == list(oracle)
        streams = device_streams(key, first, 3)
        assert streams.tolist() == [reference.siphash_words(oracle, first + k) for k in range(3)]
