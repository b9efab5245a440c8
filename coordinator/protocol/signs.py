"""Public signs: fair signs for every item of a pool, regenerated from public coins on both sides, 64 to a word.

A query brings one sign vector or several. Device u's sign in vector a of the item at place j of the pool is bit
``j mod 64`` of lane ``a * sign_words(pool) + j // 64`` of its public stream: 1 for +1, 0 for -1.

A query may bring centres: a rating then counts ``UNIT`` for a like and ``-UNIT`` for a dislike, less its item's centre.

A device's answer is a signed vector: the bit of its sign first, then the vector's number, highest bit first.
"""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Bits2, Bools, Ints

MOST_VECTORS = 64
UNIT = 32
"""Steps of a centre between nothing expected and a sure like."""


def sign_words(pool: int) -> int:
    """Return how many 64-bit words the signs of ``pool`` items fill in one vector."""
    return -(-pool // 64)


def answer_bits(vectors: int) -> int:
    """Return how many bits name a signed vector of ``vectors``, a power of two."""
    return vectors.bit_length()


def to_bits(positive: Bools, vector: Ints, vectors: int) -> Bits2:
    """Return answers as bits, uint8, shape (devices, answer bits); see `from_bits`."""
    shifts = np.arange(answer_bits(vectors) - 1)[::-1]
    numbers = (vector[:, None] >> shifts) & 1
    return np.concatenate([positive[:, None], numbers], axis=1).astype(np.uint8)


def from_bits(bits: Bits2) -> tuple[Bools, Ints]:
    """Return the sign and the vector's number of every answer."""
    shifts = np.arange(bits.shape[1] - 1)[::-1]
    return bits[:, 0].astype(np.bool_), (bits[:, 1:].astype(np.int64) << shifts).sum(axis=1)
