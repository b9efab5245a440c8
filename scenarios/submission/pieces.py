"""A folder in pieces: packed into one stream, cut, sent in a job's log, put together again and verified.

Each piece is a parcel (`scenarios.submission.parcel`) with a digest of its own; the last one tells how many there are
and the digest of all of them, so that a loss is noticed, and no more than a piece is held in memory.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from coordinator.protocol.errors import InputError
from scenarios.store.files import left_over
from scenarios.submission.parcel import DamagedError, Parcel, packed

PIECE = 2 * 2**20
"""Bytes of a piece."""
_END = b"blindrec-end "


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What all pieces are together: how many, how many files and bytes of content, and the digest of the stream."""

    pieces: int
    files: int
    size: int
    sha256: str


class _Cut:
    """A file that hands on what is written to it in pieces."""

    def __init__(self, hand_on: Callable[[bytes], None]) -> None:
        self._hand_on, self._held = hand_on, bytearray()

    def write(self, content: bytes) -> int:
        """Write content."""
        self._held += content
        while len(self._held) >= PIECE:
            self._hand_on(bytes(self._held[:PIECE]))
            del self._held[:PIECE]
        return len(content)

    def close(self) -> None:
        """Hand on the rest."""
        if self._held:
            self._hand_on(bytes(self._held))


def send(folder: Path, say: Callable[[str], object]) -> Sum:
    """Send all files of a folder; links and half-written files are left out.

    Parameters
    ----------
    folder : Path
    say : callable
        Takes each line, without its end.
    """
    digest, pieces, files, size = hashlib.sha256(), 0, 0, 0

    def hand_on(piece: bytes) -> None:
        nonlocal pieces
        pieces += 1
        digest.update(piece)
        for line in packed(pieces.to_bytes(8, "big") + piece):  # numbered, so that no two are alike
            say(line)

    cut = _Cut(hand_on)
    with tarfile.open(mode="w|", fileobj=cut) as stream:  # type: ignore[call-overload] # it writes, which is all that is asked
        for path in _files(folder):
            stream.add(path, path.relative_to(folder).as_posix(), recursive=False)
            files, size = files + 1, size + path.stat().st_size
    cut.close()
    told = Sum(pieces=pieces, files=files, size=size, sha256=digest.hexdigest())
    for line in packed(_END + json.dumps(asdict(told)).encode()):
        say(line)
    return told


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not left_over(path):
            yield path


class Pieces:
    """Puts pieces together as their lines arrive.

    Parameters
    ----------
    stream : binary file
        What the pieces are written to.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._digest, self._count = stream, hashlib.sha256(), 0
        self._parcel = Parcel()
        self.sum: Sum | None = None

    def take(self, line: str) -> str:
        """Take a line, and return what else it holds.

        Raises
        ------
        DamagedError
            If a piece is missing or was changed.
        """
        rest = self._parcel.take(line)
        if self._parcel.complete:
            self._add(self._parcel.content() or b"")
            self._parcel = Parcel()
        return rest

    def _add(self, content: bytes) -> None:
        if content.startswith(_END):
            self.sum = Sum(**json.loads(content.removeprefix(_END)))
            return
        self._count += 1
        if int.from_bytes(content[:8], "big") != self._count:
            raise DamagedError(f"piece {self._count} of the folder is missing in the job's log")
        self._digest.update(content[8:])
        self._stream.write(content[8:])

    def check(self) -> Sum:
        """Return what has arrived.

        Raises
        ------
        DamagedError
            If it is not all of it.
        """
        if self.sum is None:
            raise DamagedError(f"the folder did not arrive completely; {self._count} pieces of it came")
        if (self.sum.pieces, self.sum.sha256) != (self._count, self._digest.hexdigest()):
            raise DamagedError("the folder did not arrive as it was sent (its digest is another one)")
        return self.sum


def unpack(stream: IO[bytes], folder: Path) -> None:
    """Write the files of a stream into a folder, and nothing outside of it.

    Raises
    ------
    InputError
        If the stream names anything but files within the folder.
    """
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream, mode="r:") as held:
            held.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise InputError(f"the folder cannot be unpacked ({error})") from None
