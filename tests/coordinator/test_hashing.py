"""Hashes under every coin: published vectors, and the oracle for the rest."""

import hashlib

import numpy as np
import pytest
import reference
from scipy import special

from coordinator.protocol.coins import as_words, derive, round_key
from coordinator.protocol.hashing import device_streams, draw
from coordinator.protocol.public_draws import UNIT, gaussian_levels

KEY = bytes(range(16))
PUBLISHED = {8: 0x93F5F5799A932462, 16: 0x3F2ACC7F57C29BDB, 32: 0x7127512F72F27CCE}
"""SipHash-2-4 of the bytes 0, 1, ... under the key 00 to 0f, by length: the authors' test vectors."""
LEVELS = gaussian_levels()


@pytest.mark.parametrize("length", PUBLISHED)
def test_the_oracle_knows_the_published_vectors(length: int) -> None:
    assert reference.siphash(reference.as_key(KEY), bytes(range(length))) == PUBLISHED[length]


def test_the_public_stream_of_a_device_is_a_published_vector() -> None:
    """The device with the index 0x0706050403020100, under the authors' key."""
    device = int.from_bytes(bytes(range(8)), "little")
    assert device_streams(as_words(KEY), device, 1).tolist() == [PUBLISHED[8]]


def test_draws_are_splitmix64() -> None:
    """The first outputs for the seed 1234567, as published with the generator."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(draw(np.uint64(1234567), np.uint64(lane))) for lane in range(4)] == published
    assert [reference.draw(1234567, lane) for lane in range(4)] == published


@pytest.mark.parametrize("first", [0, 1, 2**31, 2**32 - 1, 2**50])
def test_public_streams_are_keyed_by_seed_round_and_device(first: int) -> None:
    for round_number in (0, 1, 10):
        key = round_key(derive(3, "public"), round_number)
        oracle = reference.as_key(reference.derive(reference.derive(3, "public"), f"round {round_number}"))
        assert key.tolist() == list(oracle)
        streams = device_streams(key, first, 3)
        assert streams.tolist() == [reference.siphash_words(oracle, first + k) for k in range(3)]


def test_no_processor_rounds_a_level_another_way() -> None:
    """Quantiles are right to some 1e-15 of themselves; none lies within a hundred million times that of an edge."""
    octaves, cells = np.divmod(np.arange(LEVELS.size), 256)
    exact = -special.ndtri(np.ldexp(1 + cells / 256, octaves - 64)) * UNIT
    assert np.abs(exact - LEVELS).max() < 0.5 - 1e-6
    assert (np.diff(LEVELS) < 0).all()
    assert LEVELS[-1] == 0
    digest = hashlib.blake2b(LEVELS.astype("<i8").tobytes(), digest_size=16).hexdigest()
    assert digest == "009a2c16e58ecc0f686a961922cf1cfc"
