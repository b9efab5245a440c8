"""Bits packed into bytes, most significant first."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Bits


def pack(bits: Bits) -> bytes:
    """Pack bits, most significant first, padded with 0 to whole bytes."""
    return np.packbits(bits.ravel()).tobytes()


def unpack(packed: bytes, count: int) -> Bits:
    """Return the first ``count`` bits of ``packed`` as uint8."""
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count)
