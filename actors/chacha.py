"""ChaCha8, compiled: many words at once under a device's key for one query, for releases of thousands of bits.

ChaCha (Bernstein, 2008) is a keyed pseudorandom function as SipHash is, but of 512 bits a call, and made of 32-bit
steps that a processor takes for eight or sixteen blocks together: a word costs a quarter of SipHash's. Eight rounds are
what Go's `math/rand/v2` has, too; the attacks that are published reach seven, and nobody could carry them out. The key
has 128 bits, arranged as the author does for such keys.
"""

from __future__ import annotations

import numpy as np
from numba import uint32, uint64

from coordinator.protocol.arrays import Words32
from coordinator.protocol.compiled import compiled, inlined

BLOCKS = 16
"""Blocks that are computed together. Coins depend on this order of words, so it must not change."""
ROWS, WORDS = 16, BLOCKS // 2
"""Rows of words that one call gives, and words of 64 bits in each."""
_NAME = tuple(np.frombuffer(b"expand 16-byte k", "<u4"))

_Four = tuple[np.uint32, np.uint32, np.uint32, np.uint32]
_State = tuple[_Four, _Four, _Four, _Four]
"""Four rows of four words of 32 bits."""


@inlined
def _rotated(word: np.uint32, by: int) -> np.uint32:
    return uint32((word << uint32(by)) | (word >> uint32(32 - by)))


@inlined
def _quarter(a: np.uint32, b: np.uint32, c: np.uint32, d: np.uint32) -> _Four:
    a = uint32(a + b)
    d = _rotated(uint32(d ^ a), 16)
    c = uint32(c + d)
    b = _rotated(uint32(b ^ c), 12)
    a = uint32(a + b)
    d = _rotated(uint32(d ^ a), 8)
    c = uint32(c + d)
    b = _rotated(uint32(b ^ c), 7)
    return a, b, c, d


@inlined
def _two_rounds(state: _State) -> _State:
    """Return the state after a round of columns and one of diagonals."""
    (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3) = state
    a0, b0, c0, d0 = _quarter(a0, b0, c0, d0)
    a1, b1, c1, d1 = _quarter(a1, b1, c1, d1)
    a2, b2, c2, d2 = _quarter(a2, b2, c2, d2)
    a3, b3, c3, d3 = _quarter(a3, b3, c3, d3)
    a0, b1, c2, d3 = _quarter(a0, b1, c2, d3)
    a1, b2, c3, d0 = _quarter(a1, b2, c3, d0)
    a2, b3, c0, d1 = _quarter(a2, b3, c0, d1)
    a3, b0, c1, d2 = _quarter(a3, b0, c1, d2)
    return (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3)


@inlined
def _put(words: Words32, row: int, k: int, mixed: _Four, begun: _Four) -> None:
    words[row, k], words[row + 1, k] = mixed[0] + begun[0], mixed[1] + begun[1]
    words[row + 2, k], words[row + 3, k] = mixed[2] + begun[2], mixed[3] + begun[3]


@inlined
def _write(low: np.uint64, high: np.uint64, counter: np.uint64, words: Words32, k: int) -> None:
    """Write one block to column ``k``."""
    zero = uint32(0)
    key = (uint32(low), uint32(low >> uint64(32)), uint32(high), uint32(high >> uint64(32)))
    place = (uint32(counter), uint32(counter >> uint64(32)), zero, zero)
    state = (_NAME, key, key, place)
    mixed = _two_rounds(_two_rounds(_two_rounds(_two_rounds(state))))
    _put(words, 0, k, mixed[0], _NAME)
    _put(words, 4, k, mixed[1], key)
    _put(words, 8, k, mixed[2], key)
    _put(words, 12, k, mixed[3], place)


@compiled
def draw_blocks(low: np.uint64, high: np.uint64, first: int, words: Words32) -> None:
    """Write the blocks of counters ``first`` to ``first + BLOCKS - 1`` under the key ``(low, high)``.

    Parameters
    ----------
    low, high : uint64
        The key's 16 bytes, little-endian.
    first : int
        Counter of the first block.
    words : ndarray of uint32, shape (16, BLOCKS)
        Where they go: word ``i`` of block ``k`` to row ``i``, column ``k``. Row i as uint64 holds `WORDS` words, of
        the blocks 2 j (lower half) and 2 j + 1 (upper half).
    """
    for k in range(BLOCKS):
        _write(low, high, uint64(first) + uint64(k), words, k)


@compiled
def draw_block(low: np.uint64, high: np.uint64, counter: np.uint64, words: Words32) -> None:
    """Write the block of one counter under the key ``(low, high)`` to ``words``, uint32, shape (16, 1)."""
    _write(low, high, counter, words, 0)
