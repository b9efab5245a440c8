"""Bits that are written packed lie where packing byte by byte puts them, and silent devices' bits are wiped."""

from __future__ import annotations

import numpy as np
import pytest

from actors.packed_releases import as_bytes, put_number, put_row, room_for, wipe
from coordinator.protocol.arrays import Bits2


def some_bits(devices: int, width: int) -> Bits2:
    return np.random.default_rng([devices, width]).integers(0, 2, (devices, width), np.uint8)


@pytest.mark.parametrize("width", [1, 7, 8, 63, 64, 65, 100, 128, 129, 300])
def test_rows_of_words_are_packed_as_bits_are(width: int) -> None:
    bits = some_bits(37, width)
    padded = np.zeros((37, -(-width // 64) * 64), np.uint8)
    padded[:, :width] = bits
    rows = np.packbits(padded, axis=1).view(">u8").astype(np.uint64)
    words = room_for(37, width)
    for device, row in enumerate(rows):
        put_row(words, device * width, width, row)
    assert as_bytes(words, 37, width).tobytes() == np.packbits(bits).tobytes()


@pytest.mark.parametrize("bits", [1, 3, 12, 31, 63])
def test_numbers_are_packed_highest_bit_first(bits: int) -> None:
    told = some_bits(50, bits)
    words = room_for(50, bits)
    for place, row in enumerate(told.tolist()):
        put_number(words, place * bits, bits, int("".join(map(str, row)), 2))
    assert as_bytes(words, 50, bits).tobytes() == np.packbits(told).tobytes()


@pytest.mark.parametrize("width", [1, 3, 8, 13, 64, 101])
def test_silent_devices_release_zeros_and_others_what_they_did(width: int) -> None:
    bits, answered = some_bits(41, width), np.random.default_rng(width).integers(0, 2, 41, np.uint8)
    packed = np.packbits(bits)
    wipe(packed, width, answered)
    assert packed.tobytes() == np.packbits(bits * answered[:, None]).tobytes()
