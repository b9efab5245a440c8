"""Public candidates: the same whole numbers on every processor, and a law that is the Gaussian's up to a millionth."""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np
import pytest
import reference
from scipy import special

from coordinator.protocol.candidates import LEVELS, UNIT, candidate, candidates_key

QUERY = bytes(range(16))


def gaussian(word: int) -> int:
    """The documented number behind a word, in Python's whole numbers."""
    tail = float((word >> 1) | 1)  # of 2**64; its float64 has the exponent and the bits that choose a cell
    bits: int = struct.unpack("<q", struct.pack("<d", tail))[0]
    cell, part = (bits >> 44) - (1023 << 8), bits >> 12 & 0xFFFFFFFF
    low, high = int(LEVELS[cell + 1]), int(LEVELS[cell])
    size = (high - ((high - low) * part >> 32)) | 1
    return size if word & 1 else -size


def test_a_candidate_is_the_oracles() -> None:
    key = reference.as_key(reference.derive(QUERY, "candidates"))
    assert candidates_key(QUERY).tolist() == list(key)
    for device, vector, dimension in ((0, 0, 1), (3, 5, 7), (2**40, 8191, 55)):
        stream = reference.siphash_words(key, device)
        numbers = [gaussian(reference.draw(stream, vector * dimension + a)) for a in range(dimension)]
        length = math.sqrt(sum(number**2 for number in numbers))
        told = candidate(QUERY, device, vector, dimension)
        assert told.tolist() == [number / length for number in numbers]


def test_no_processor_rounds_a_level_another_way() -> None:
    """Quantiles are right to some 1e-15 of themselves; none lies within a hundred million times that of an edge."""
    octaves, cells = np.divmod(np.arange(LEVELS.size), 256)
    exact = -special.ndtri(np.ldexp(1 + cells / 256, octaves - 64)) * UNIT
    assert np.abs(exact - LEVELS).max() < 0.5 - 1e-6
    assert (np.diff(LEVELS) < 0).all()
    assert LEVELS[-1] == 0
    digest = hashlib.blake2b(LEVELS.astype("<i8").tobytes(), digest_size=16).hexdigest()
    assert digest == "009a2c16e58ecc0f686a961922cf1cfc"


def test_the_tables_law_is_the_gaussians_up_to_a_millionth() -> None:
    """Moments of what is uniform between neighbouring levels, and the largest error of the inverse."""
    octaves, cells = np.divmod(np.arange(LEVELS.size - 1), 256)
    mass = np.ldexp(2.0, octaves - 64) / 256
    high, low = LEVELS[:-1] / UNIT, LEVELS[1:] / UNIT
    assert mass.sum() == pytest.approx(1, abs=1e-15)
    assert (mass * (high + low) / 2).sum() == pytest.approx(math.sqrt(2 / math.pi), abs=1e-6)
    assert (mass * (high**2 + high * low + low**2) / 3).sum() == pytest.approx(1, abs=1e-6)
    between = -special.ndtri(np.ldexp(1 + (cells + 0.5) / 256, octaves - 64))
    assert np.abs((high + low) / 2 - between).max() < 3e-6


def test_neither_device_nor_query_nor_number_shares_a_candidate() -> None:
    told = [
        candidate(QUERY, 1, 0, 4),
        candidate(QUERY, 2, 0, 4),
        candidate(QUERY, 1, 1, 4),
        candidate(bytes(16), 1, 0, 4),
    ]
    assert len({tuple(one) for one in told}) == 4
