"""ChaCha8 is what its author and others made of it, block for block."""

from __future__ import annotations

import numpy as np
import pytest

from actors.packed_releases import BLOCKS, draw_blocks
from coordinator.protocol.arrays import Words32

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
