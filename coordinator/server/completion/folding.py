"""Folding second-order releases: every device counts once, and rows are decoded when they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.mechanisms import half_of

KEPT_BYTES = 2**28
"""Largest total size of decoded rows that are kept in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    query: SecondOrderQuery
    features: ItemFeatures
    releases: tuple[SecondOrderRelease, ...]


class ReleaseBook:
    """The server's book of releases.

    ``duplicates``: Releases that arrived again and were not counted.
    """

    def __init__(self, items: int, *, rescale: bool = True, clip: bool = False) -> None:
        self._items, self._rescale, self._clip = items, rescale, clip
        self._batches: list[_Batch] = []
        self._devices: set[int] = set()
        self._row_blocks: list[Floats2] = []
        self._gram: Floats2 = np.empty((0, 0))
        self.duplicates = 0

    @property
    def devices(self) -> int:
        """Devices whose release is counted."""
        return len(self._devices)

    def absorb(self, query: SecondOrderQuery, features: ItemFeatures, releases: Iterable[SecondOrderRelease]) -> None:
        """Add releases of one batch, in the order of their devices; a device's second release is not counted."""
        new: dict[int, SecondOrderRelease] = {}
        for release in releases:
            SecondOrderRelease.arrived(release).require(query, features)
            if release.device in self._devices or release.device in new:
                self.duplicates += 1
            else:
                new[release.device] = release
        ordered = tuple(new[device] for device in sorted(new))
        self._devices |= new.keys()
        batch = _Batch(query=query, features=half_of(query.mechanism).reading_features(features), releases=ordered)
        if 8 * self._items * self.devices <= KEPT_BYTES:
            self._row_blocks.append(np.concatenate([*self._decoded(batch), np.empty((0, self._items))]))
        self._batches.append(batch)

    def blocks(self) -> Iterator[Floats2]:
        """Yield all rows z, some at a time, float64, shape (some, m), in the order of batches and devices."""
        if len(self._row_blocks) == len(self._batches):
            yield from (rows for rows in self._row_blocks if rows.size)
            return
        for batch in self._batches:
            yield from self._decoded(batch)

    def gram(self) -> Floats2:
        """Return all rows' inner products, float64, shape (rows, rows); those of earlier batches are kept."""
        gram, blocks = (
            self._gram,
            list(self.blocks()),
        )  # read once, because trials in several threads may share the book
        done = len(gram)
        rows = np.concatenate([*blocks, np.empty((0, self._items))])
        if done < len(rows):
            whole = np.empty((len(rows), len(rows)))
            whole[:done, :done] = gram
            whole[done:] = rows[done:] @ rows.T
            whole[:done, done:] = whole[done:, :done].T
            self._gram = gram = whole
        return gram

    def rows(self) -> int:
        """Return how many rows `blocks` yields."""
        return sum(half_of(batch.query.mechanism).rows(batch.features, batch.releases) for batch in self._batches)

    def _decoded(self, batch: _Batch) -> Iterator[Floats2]:
        half = half_of(batch.query.mechanism)
        blocks = half.blocks(batch.query, batch.features, batch.releases, rescale=self._rescale)
        return (_clipped(rows, batch.features) for rows in blocks) if self._clip else blocks


def _clipped(rows: Floats2, features: ItemFeatures) -> Floats2:
    """Return rows of which none is longer than a vector of signs of the public size."""
    longest = features.common_h * np.sqrt(features.items)
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    clipped: Floats2 = rows * np.minimum(1.0, longest / np.maximum(lengths, np.finfo(np.float64).tiny))
    return clipped
