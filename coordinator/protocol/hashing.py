"""Compiled hashes under every coin: SipHash-2-4 for keys, SplitMix64's finalizer for the stream behind a key.

SipHash (Aumasson and Bernstein, 2012) is a keyed pseudorandom function: outputs under an unknown key look random
even where inputs are counters. The finalizer (Steele, Lea and Flood, 2014) is not: a stream is used only behind a
key that SipHash made. Words are unsigned 64-bit integers and wrap around.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.compiled import inlined

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)


@inlined
def draw(stream: np.uint64, lane: np.uint64) -> np.uint64:
    """Return the 64-bit word of ``lane`` in ``stream``: a counter-based draw, in any order, at no state."""
    word = stream + (uint64(lane) + uint64(1)) * GOLDEN
    word = (word ^ (word >> uint64(30))) * _A
    word = (word ^ (word >> uint64(27))) * _B
    return word ^ (word >> uint64(31))


@inlined
def _rotate(word: np.uint64, by: int) -> np.uint64:
    return (word << uint64(by)) | (word >> uint64(64 - by))


@inlined
def _round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 = v0 + v1
    v2 = v2 + v3
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32)
    v0 = v0 + v3
    v2 = v2 + v1
    v3 = _rotate(v3, 21) ^ v0
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@inlined
def _start(key0: np.uint64, key1: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    return (
        uint64(0x736F6D6570736575) ^ key0,
        uint64(0x646F72616E646F6D) ^ key1,
        uint64(0x6C7967656E657261) ^ key0,
        uint64(0x7465646279746573) ^ key1,
    )


@inlined
def _absorb(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, word: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v3 = v3 ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@inlined
def _finish(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, length: int) -> np.uint64:
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, uint64(length) << uint64(56))
    v2 = v2 ^ uint64(0xFF)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@inlined
def siphash1(key0: np.uint64, key1: np.uint64, word: np.uint64) -> np.uint64:
    """Return SipHash-2-4 of one 64-bit word (8 bytes, little-endian) under the 128-bit key ``(key0, key1)``."""
    v0, v1, v2, v3 = _start(key0, key1)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
    return _finish(v0, v1, v2, v3, 8)


@inlined
def siphash4(
    key0: np.uint64, key1: np.uint64, first: np.uint64, second: np.uint64, third: np.uint64, fourth: np.uint64
) -> np.uint64:
    """Return SipHash-2-4 of four 64-bit words (32 bytes) under the 128-bit key ``(key0, key1)``."""
    v0, v1, v2, v3 = _start(key0, key1)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, first)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, second)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, third)
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, fourth)
    return _finish(v0, v1, v2, v3, 32)
