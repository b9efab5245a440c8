"""Hashes under every coin: published vectors, and the oracle for the rest."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.protocol.coins import as_words, derive, round_key
from coordinator.protocol.hashing import device_streams, draw

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


def test_the_public_stream_of_a_device_is_a_published_vector() -> None:
    """The device with the index 0x0706050403020100, under the authors' key."""
    device = int.from_bytes(bytes(range(8)), "little")
    assert device_streams(as_words(KEY), device, 1).tolist() == [PUBLISHED[8]]


@settings(max_examples=examples(100))
@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**62))
def test_streams_of_any_key_and_device_are_the_oracles(key: bytes, device: int) -> None:
    expected = [reference.siphash_words(reference.as_key(key), device + k) for k in range(3)]
    assert device_streams(as_words(key), device, 3).tolist() == expected


def test_draws_are_splitmix64() -> None:
    """The first outputs for the seed 1234567, as published with the generator."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(draw(*typed(1234567, lane))) for lane in range(4)] == published
    assert [reference.draw(1234567, lane) for lane in range(4)] == published


@settings(max_examples=examples(100))
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
