"""Seeds and the keys of public coins, the same on both sides; `streams` draws the coins."""

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from coordinator.protocol.arrays import Words

SEED_BYTES = 16


def digest_of(content: Mapping[str, object]) -> bytes:
    """Return the sixteen bytes by which a message is known: a digest of its canonical content."""
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=SEED_BYTES).digest()


def derive(parent: bytes | int, purpose: str) -> bytes:
    """Derive a 16-byte seed from ``parent``, one way: the child reveals nothing about its parent or its siblings.

    Examples
    --------
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
