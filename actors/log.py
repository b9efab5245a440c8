"""A log: lines that are on the disk before anybody acts on them, bound to whom they belong and to all lines before.

A log is written by one process only, which makes the file with its first lines; a later process makes another one. So
a line that a crash tore off is always the last one, and nothing is ever cut off or written over.

What is damaged or taken out before the last line is noticed, and so is a last line that was changed. A file that ends
early, after any line or within one, looks as a crash leaves it: what was cut off there cannot be noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from actors.durable import add, sync_folder
from coordinator.protocol.errors import LedgerError

FORMAT = 4
"""Changes when a line of a log means something else; the rounds and the mark of a run have a format of their own."""
_DIGEST = 8
_BEGUN = re.compile(rb"[0-9a-f]{0,15}|[0-9a-f]{16}(?: (?:[\[{][ -~]*)?)?")
"""How every line begins, wherever it is torn: its digest, then JSON in ASCII."""


class Log:
    """A log that this process writes.

    Parameters
    ----------
    folder : Path
        Where its file will be.
    name : str
        How the file's name begins.
    suffix : str
        How it ends.
    owner : str
        Whom the lines belong to, which the file's head tells.
    """

    def __init__(self, folder: Path, name: str, suffix: str, owner: str) -> None:
        self._folder, self._name, self._suffix, self._owner = folder, name, suffix, owner
        self._path: Path | None = None
        self._before = b""

    def append(self, lines: Sequence[str]) -> None:
        """Write lines and wait until the disk holds them.

        Parameters
        ----------
        lines : list of str
            Each a list or an object of JSON, as `json.dumps` writes it: no beginning of one is a whole value.

        Raises
        ------
        OSError
            If they cannot be written. What came to the disk all the same stays there; the next lines go to a new file.
        """
        before, told, path = self._before, list(lines), self._path
        if path is None:
            before, told = b"", [_head(self._owner), *lines]
        content = bytearray()
        for one in told:
            before = _digest(before, one.encode())
            content += f"{before.hex()} {one}\n".encode()
        self._path = None
        place = path or self._folder / f"{self._name}-{os.urandom(4).hex()}{self._suffix}"
        add(place, bytes(content), new=path is None)
        if path is None:
            sync_folder(self._folder)
        self._path, self._before = place, before


def read_log(path: Path, owner: str) -> Iterator[bytes]:
    """Yield the lines of a log without its head; a last one that was torn is left out, one that lacks its end is not.

    Raises
    ------
    LedgerError
        If it belongs to somebody else, has another format, or a line is damaged, missing before others or not in its
        place.
    """
    before = b""
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        check, _, told = line.partition(b" ")
        before = _digest(before, told)
        if check != before.hex().encode():
            if number == len(lines) and _torn(line):
                return
            raise damaged(path, number)
        if number > 1:
            yield told
        elif told != _head(owner).encode():
            raise LedgerError(
                f"ledger {path} says that it is {told.decode(errors='replace')[:200]}, its folder is that of {owner}, "
                f"format {FORMAT}; move it to where it belongs, or start in a new folder"
            )


def damaged(path: Path, number: int) -> LedgerError:
    """Return the error that names a line which cannot be right."""
    return LedgerError(
        f"ledger {path} is damaged on line {number}, or of another version of blindrec; what devices spent is not "
        "known: put the file back as it was, or start in a new folder"
    )


def _torn(tail: bytes) -> bool:
    """Return whether what has no end can be the beginning of a line: it begins as one, and its JSON is not all there.

    A line that is all there but does not fit its digest was booked whole, and changed since.
    """
    if not _BEGUN.fullmatch(tail):
        return False
    try:
        json.JSONDecoder().raw_decode(tail.decode("ascii").partition(" ")[2])
    except ValueError:
        return True
    except RecursionError:  # of brackets only, which is no line of ours
        return False
    return False


def _head(owner: str) -> str:
    return json.dumps({"format": FORMAT, "owner": owner})


def _digest(before: bytes, told: bytes) -> bytes:
    return hashlib.blake2b(before + told, digest_size=_DIGEST).digest()
