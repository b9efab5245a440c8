"""The digest of a run: SHA-256 over everything that devices released, independent of the layout."""

from __future__ import annotations

import hashlib
import itertools
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coordinator.protocol.messages import QUESTION_BYTES, Release, pack, unpack

DIGEST = 32  # Bytes of a digest
LEAF, LEAF_BITS = 1 << 19, 1 << 24  # Most devices, and most of their bits, that are digested together


def leaf_of(width: int) -> int:
    """Return how many devices are digested together if each releases ``width`` bits; a multiple of 8."""
    return min(LEAF, max(LEAF_BITS // width // 8 * 8, 8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The digests of a release that has been added up, which stand for its bits."""

    query_id: bytes  # Which query it answers
    first: int  # The devices and their bits, as for `coordinator.protocol.messages.Release`
    count: int
    width: int
    leaves: bytes  # SHA-256 of every whole leaf of these devices, one after the other
    size: int  # Bytes of the release as a message
    transcripts: tuple[str, ...] = ()  # SHA-256 of what each of two servers got, where a release is their sum


def seal(release: Release | Sealed) -> Release | Sealed:
    """Return the digests of a release that holds whole leaves; a smaller release is returned as it is."""
    leaf = leaf_of(release.width)
    if isinstance(release, Sealed):
        return release
    # a leaf holds the devices from a multiple of `leaf_of` to the next one, whoever carries them
    if release.first // leaf == (release.first + max(release.count, 1) - 1) // leaf and release.count < leaf:
        return release
    if release.first % leaf or release.count % leaf:
        raise ValueError(f"{release.count} devices from {release.first} on are no whole leaves of {leaf}")
    whole = _masked(release)
    leaves = [_leaf([_part(whole, start, leaf)]) for start in range(0, release.count, leaf)]
    return Sealed(
        query_id=release.query_id,
        first=release.first,
        count=release.count,
        width=release.width,
        leaves=b"".join(leaves),
        size=size_of([release]),
    )


class _Answers(NamedTuple):
    """What devices of one leaf let out: packed masks and bits, public pairs, and questions of their own."""

    devices: int
    width: int
    mask: bytes
    bits: bytes
    pairs: bytes
    questions: bytes


def _masked(release: Release) -> _Answers:
    full, count = b"\xff", release.count
    mask = release.answered or full * (count // 8) + pack(np.ones(count % 8, np.uint8))
    return _Answers(count, release.width, mask, release.bits, release.pairs or b"", release.questions or b"")


def _part(answers: _Answers, start: int, count: int) -> _Answers:
    """Return ``count`` devices, a multiple of 8 as ``start`` is."""
    mask, bits, pairs, questions = (
        content[start * width // 8 : (start + count) * width // 8]
        for content, width in (
            (answers.mask, 1),
            (answers.bits, answers.width),
            (answers.pairs, 64),
            (answers.questions, 8 * QUESTION_BYTES),
        )
    )
    return _Answers(count, answers.width, mask, bits, pairs, questions)


def _leaf(parts: Sequence[_Answers]) -> bytes:
    """Return the SHA-256 of the masks, the bits, the pairs and the questions of consecutive devices."""
    hasher = hashlib.sha256()
    _tell(hasher, [(answers.devices, answers.mask) for answers in parts])
    _tell(hasher, [(answers.devices * answers.width, answers.bits) for answers in parts])
    for answers in parts:
        hasher.update(answers.pairs)
    for answers in parts:
        hasher.update(answers.questions)
    return hasher.digest()


def _tell(hasher: hashlib._Hash, blocks: Sequence[tuple[int, bytes]]) -> None:
    """Add the packed bits of all blocks, (count, packed) each, to a digest, without padding between them."""
    if any(count % 8 for count, _ in blocks[:-1]):
        hasher.update(pack(np.concatenate([unpack(packed, count) for count, packed in blocks])))
        return
    for _, packed in blocks:
        hasher.update(packed)


def digest(releases: Sequence[Release | Sealed]) -> bytes:
    """Return the digest of all releases of one round."""
    # Devices are digested by leaves; see `seal`. The digest of a leaf is the SHA-256 of the mask of devices that
    # answered, then of the bits, both in the order of devices, packed across blocks and padded once; then of the public
    # pairs that the bits are about, and of the questions that devices drew, if releases carry them. The digest of a
    # round is that of its only leaf, or the SHA-256 of its leaves' digests in order.
    ordered = sorted(map(seal, releases), key=lambda release: release.first)
    for left, right in itertools.pairwise(ordered):
        if left.first + left.count != right.first or left.query_id != right.query_id:
            raise ValueError(f"release from device {right.first} does not follow the one from {left.first}")
    leaves = list[bytes]()
    for _, parts in itertools.groupby(ordered, key=lambda release: release.first // leaf_of(release.width)):
        here = list(parts)
        leaves += [release.leaves for release in here if isinstance(release, Sealed)]
        if raw := [_masked(release) for release in here if isinstance(release, Release)]:
            leaves.append(_leaf(raw))
    whole = b"".join(leaves)
    return whole if len(whole) == DIGEST else hashlib.sha256(whole).digest()


def chain(digests: Sequence[bytes]) -> str:
    """Return the digest of a run in hexadecimal: of one round its own, of several the SHA-256 of theirs in order."""
    return (digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()).hex()


def transcripts_of(releases: Sequence[Release | Sealed]) -> tuple[str, ...]:
    """Return the digests of what each of two servers got of a round; none where nobody has shares."""
    return tuple(leaf for release in releases if isinstance(release, Sealed) for leaf in release.transcripts)


def size_of(releases: Sequence[Release | Sealed]) -> int:
    """Return how many bytes releases take as messages, one a block."""
    return sum(
        release.size if isinstance(release, Sealed) else len(pickle.dumps(release, protocol=5)) for release in releases
    )
