"""The digest of a run: SHA-256 over everything that devices released, independent of the layout."""

from __future__ import annotations

import hashlib
import itertools
import pickle
from collections.abc import Sequence

import numpy as np

from coordinator.protocol.messages import Release, pack, unpack


def _tell(told: hashlib._Hash, blocks: Sequence[tuple[int, bytes]]) -> None:
    """Add the packed bits of all blocks, (count, packed) each, to a digest, without padding between them."""
    if any(count % 8 for count, _ in blocks[:-1]):
        told.update(pack(np.concatenate([unpack(packed, count) for count, packed in blocks])))
        return
    for _, packed in blocks:
        told.update(packed)


def digest(releases: Sequence[Release]) -> bytes:
    """Return the SHA-256 of all releases of one round.

    It digests the mask of devices that answered, then the bits, both in the order of devices, packed across blocks and
    padded once; then the public pairs that the bits are about, if releases carry them.

    Parameters
    ----------
    releases : sequence of Release
        In any order; together they cover a stretch of devices without gap or overlap.

    Raises
    ------
    ValueError
        If a device is missing or occurs twice, or the releases answer different queries.
    """
    ordered = sorted(releases, key=lambda release: release.first)
    for left, right in itertools.pairwise(ordered):
        if left.first + left.count != right.first or left.query_id != right.query_id:
            raise ValueError(f"release from device {right.first} does not follow the one from {left.first}")
    full = b"\xff"
    masks = [
        (one.count, one.answered or full * (one.count // 8) + pack(np.ones(one.count % 8, np.uint8))) for one in ordered
    ]
    told = hashlib.sha256()
    _tell(told, masks)
    _tell(told, [(one.count * one.width, one.bits) for one in ordered])
    for one in ordered:
        told.update(one.pairs or b"")
    return told.digest()


def chain(digests: Sequence[bytes]) -> str:
    """Return the digest of a run in hexadecimal: of one round its own, of several the SHA-256 of theirs in order."""
    return (digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()).hex()


def size_of(releases: Sequence[Release]) -> int:
    """Return how many bytes releases take as messages, one a block."""
    return sum(len(pickle.dumps(release, protocol=5)) for release in releases)
