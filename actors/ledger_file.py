"""A ledger on disk: what a device is charged is written, and safe, before it answers.

Each cohort appends to a file of its own; whoever embodies a device later reads all files of the folder. A last line
that a crash tore off was never answered: it is left out.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actors.durable import make_folder, sync_folder
from coordinator.protocol.budget import Epsilon, PrivacyParameter, require_epsilon
from coordinator.protocol.checked import MOST_DEVICES, require_whole
from coordinator.protocol.errors import InputError, LedgerError

SUFFIX = ".ledger"


@dataclass(frozen=True, slots=True)
class Entry:
    """Devices ``first`` to ``stop - 1`` were charged ``epsilon`` for the query ``id``.

    Raises
    ------
    InputError
        If ``epsilon`` is no privacy parameter, ``id`` is no digest, or the devices are none.
    """

    id: bytes
    epsilon: Epsilon
    first: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse what nobody can be charged."""
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if type(self.id) is not bytes or not self.id:
            raise InputError("what is charged has no id; give a digest")
        require_whole("first device", self.first, 0, MOST_DEVICES)
        require_whole("end of devices", self.stop, self.first, MOST_DEVICES)

    def line(self) -> bytes:
        """Return the entry as a line, with a checksum in front."""
        told = json.dumps([self.id.hex(), None if self.epsilon is None else str(self.epsilon), self.first, self.stop])
        return f"{zlib.crc32(told.encode()):08x} {told}\n".encode()


class LedgerFile:
    """The file that one cohort's ledger is written to.

    Parameters
    ----------
    folder : Path
        Shared by all cohorts; made if need be.
    first : int
        The cohort's first device; names the file.

    Raises
    ------
    LedgerError
        If the folder cannot be made.
    """

    def __init__(self, folder: Path, first: int) -> None:
        self._path = folder / f"{first:012d}{SUFFIX}"
        try:
            make_folder(folder)
        except OSError as error:
            raise LedgerError(f"ledger folder {folder} cannot be made ({error.strerror})") from None

    def append(self, entries: list[Entry]) -> None:
        """Write entries and wait until the disk holds them.

        Raises
        ------
        LedgerError
            If they cannot be written: then nothing may be answered.
        """
        try:
            with self._path.open("ab") as file:
                is_new = not file.tell()
                if not is_new and not _ends_whole(self._path):
                    file.truncate(self._path.read_bytes().rfind(b"\n") + 1)
                file.write(b"".join(entry.line() for entry in entries))
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_folder(self._path.parent)
        except OSError as error:
            raise LedgerError(
                f"ledger {self._path} cannot be written ({error.strerror}); devices do not answer what they cannot book"
            ) from None


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_entries(folder: Path, first: int, stop: int) -> Iterator[Entry]:
    """Yield what devices ``first`` to ``stop - 1`` were charged, from all files of a folder.

    Raises
    ------
    LedgerError
        If a line other than a file's last, or one that was torn, is damaged.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):
            entry = _read(line)
            if entry is None:
                if line:
                    raise LedgerError(f"ledger {path} is damaged on line {number}; what devices spent is not known")
                continue
            low, high = max(first, entry.first), min(stop, entry.stop)
            if low < high:
                yield Entry(entry.id, entry.epsilon, low, high)


def _read(line: bytes) -> Entry | None:
    """Return a line's entry, or None where the line is empty, torn or damaged."""
    check, _, told = line.partition(b" ")
    if not told.endswith(b"]") or check != f"{zlib.crc32(told):08x}".encode():
        return None
    try:
        query_id, epsilon, first, stop = json.loads(told)
        return Entry(bytes.fromhex(query_id), None if epsilon is None else PrivacyParameter(epsilon), first, stop)
    except (ValueError, TypeError):
        return None
