"""A query that devices have booked: which of them answer it, and how their bits become a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from actors.packed import wipe
from coordinator.protocol.arrays import Bits, Bits2, Bools, Indices2
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.packing import pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """A query of a block of devices, checked and charged; nothing has left them yet.

    Attributes
    ----------
    query : Query
        What they were asked.
    first, stop : int
        The devices, ``first`` to ``stop - 1``.
    refused : sequence of (int, int)
        Stretches ``[first, stop)`` of devices that refuse, because their budget is too small or the keeper does not
        answer.
    present : ndarray of uint8, or None
        1 for devices that answer in time, 0 for those that drop out or are late; None if all answer.
    """

    query: Query
    first: int
    stop: int
    refused: Sequence[tuple[int, int]]
    present: Bits | None

    def answering(self, able: Bools | None = None) -> Bits | None:
        """Return 1 for each device that answers, or None if all do; ``able`` says which ones can answer at all."""
        if not self.refused and able is None and self.present is None:
            return None
        mask = np.ones(self.stop - self.first, np.uint8) if able is None else able.astype(np.uint8)
        if self.present is not None:
            mask &= self.present
        for start, end in self.refused:
            mask[start - self.first : end - self.first] = 0
        return mask

    def release(self, bits: Bits2 | Bits, able: Bools | None = None, pairs: Indices2 | None = None) -> Release:
        """Return the release, which is everything that leaves the devices.

        Parameters
        ----------
        bits : ndarray of uint8, shape (devices, bits), or (bytes,)
            Randomized bits, a byte each or packed, device by device; the bits of devices that do not answer are set to
            0.
        able : ndarray of bool, optional
            Which devices can answer.
        pairs : ndarray of int32, shape (devices, 2), optional
            Public pairs that the bits are about.
        """
        answered, packed = self.answering(able), np.packbits(bits) if bits.ndim == 2 else bits
        if answered is not None:
            wipe(packed, self.query.bits, answered)
        return Release(
            query_id=self.query.id,
            first=self.first,
            count=self.stop - self.first,
            width=self.query.bits,
            bits=packed.tobytes(),
            answered=None if answered is None else pack(answered),
            refused=sum(end - start for start, end in self.refused),
            pairs=None if pairs is None else pairs.astype("<i4").tobytes(),
        )
