"""Seeds and keys of public coins, the same on both sides; and the grid of numbers that key coins, or decide."""

import hashlib
import json
import math
from collections.abc import Mapping

import numpy as np

from coordinator.protocol.arrays import Floats, Words
from coordinator.protocol.errors import InputError

SEED_BYTES = 16


def digest_of(content: Mapping[str, object]) -> bytes:
    """Return the sixteen bytes by which a message is known: a digest of its canonical content."""
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=SEED_BYTES).digest()


def derive(parent: bytes | int, purpose: str) -> bytes:
    """Derive a 16-byte seed from ``parent``, one way: the child reveals nothing about its parent or its siblings.

    >>> derive(0, "public").hex() == derive(0, "devices").hex()
    False
    """
    key = parent if isinstance(parent, bytes) else str(parent).encode()
    return hashlib.blake2b(purpose.encode(), key=key, digest_size=SEED_BYTES).digest()


def as_words(seed: bytes) -> Words:
    """Return the sixteen bytes of ``seed`` as two little-endian 64-bit words, a SipHash key."""
    return np.frombuffer(seed, dtype="<u8").astype(np.uint64)


def round_key(public_seed: bytes, round_number: int) -> Words:
    """Return the two words that key every public coin of one round."""
    return as_words(derive(public_seed, f"round {round_number}"))


# Numerical libraries add up in another order on another processor, which changes the last bits of what they return. So
# numbers go onto a grid much coarser than that. Two processors then get different numbers only where one of them lies
# on the other side of the middle between two points of the grid: with probability difference over step.
BITS = 20  # Significant bits of a number that is announced, or that something is chosen by


def step_of(largest: float, bits: int) -> float:
    """Return the grid's step for numbers up to ``largest`` in size: a power of two, ``2^-bits`` of the one above it."""
    if not math.isfinite(largest):
        raise InputError(f"{largest} has no place on a grid; use ratings of a smaller range, or more regularisation")
    return math.ldexp(1.0, math.frexp(largest)[1] - bits)


def on_grid(values: Floats, bits: int = BITS) -> Floats:
    """Round numbers to multiples of one step, which follows from the largest of them.

    >>> on_grid(np.array([0.7, -0.3, 0.01]), 4)
    array([ 0.6875, -0.3125,  0.    ])
    """
    step = step_of(float(np.abs(values).max(initial=0.0)), bits)
    return np.rint(values / step) * step + 0.0  # no negative zero


def significant(value: float, bits: int = BITS) -> float:
    """Round one finite number to so many significant bits.

    >>> significant(0.7, 4), significant(0.0, 4)
    (0.6875, 0.0)
    """
    step = step_of(abs(value), bits)
    return round(value / step) * step


def round_up(number: float, bits: int = 8) -> int:
    """Return the smallest whole number of so many significant bits that is not below ``number``, at least 1.

    >>> round_up(3.2), round_up(1001.0), round_up(1e6)
    (4, 1004, 1003520)
    """
    step = max(1, int(step_of(number, bits))) if number > 1 else 1
    return max(1, math.ceil(number / step) * step)
