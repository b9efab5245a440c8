"""Parcels: a job's result is sent in its log, which is the only channel that every Ray cluster has.

The result is compressed and cut into lines, each with its number, their count and the digest of the whole, so that
lines of others in between do no harm and a loss is noticed. A line is the mark, then ``digest number/count base64``.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib

from coordinator.protocol.errors import BlindrecError
from scenarios.given.files import MOST_RECORD

MARK = "@blindrec-result:"
WIDTH = 12_000
"""Characters of content in a line; a job's log is followed in pieces of some 20,000."""
_LINE = re.compile(re.escape(MARK) + r" ([0-9a-f]{64}) (\d+)/(\d+) ([A-Za-z0-9+/=]*)$")


class DamagedError(BlindrecError):
    """A result did not arrive completely."""


def packed(content: bytes) -> list[str]:
    """Return the lines that carry ``content``, without their ends.

    >>> lines = packed(b"some result")
    >>> parcel = Parcel()
    >>> [parcel.take(line) for line in ("a line of others", *lines)]
    ['a line of others', '']
    >>> parcel.content()
    b'some result'
    """
    digest = hashlib.sha256(content).hexdigest()
    text = base64.b64encode(zlib.compress(content, 9)).decode()
    count = -(-len(text) // WIDTH)
    return [
        f"{MARK} {digest} {number + 1}/{count} {text[number * WIDTH : (number + 1) * WIDTH]}" for number in range(count)
    ]


class Parcel:
    """Gathers the lines of a result; the last result of a log counts."""

    def __init__(self) -> None:
        self._digest = ""
        self._count = 0
        self._parts: dict[int, str] = {}

    def take(self, line: str) -> str:
        """Keep the part of the result in ``line``, and return the rest of the line."""
        found = _LINE.search(line)
        if not found:
            return line
        digest, number, count, text = found.groups()
        if digest != self._digest:
            self._digest, self._count, self._parts = digest, int(count), {}
        self._parts[int(number)] = text
        return line[: found.start()]

    @property
    def any(self) -> bool:
        """Whether any of a result has come."""
        return bool(self._digest)

    @property
    def complete(self) -> bool:
        """Whether all parts of a result have come."""
        return self.any and len(self._parts) == self._count

    def content(self) -> bytes | None:
        """Return the result, or None where the log holds none.

        Raises
        ------
        DamagedError
            If a part is missing or was changed.
        """
        if not self._digest:
            return None
        missing = [number for number in range(1, self._count + 1) if number not in self._parts]
        if missing:
            raise DamagedError(f"the job's result lacks {len(missing)} of {self._count} parts in its log")
        try:
            text = "".join(self._parts[number] for number in range(1, self._count + 1))
            content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), MOST_RECORD)
        except (ValueError, zlib.error) as error:
            raise DamagedError(f"the job's result is damaged in its log ({error})") from None
        if hashlib.sha256(content).hexdigest() != self._digest:
            raise DamagedError("the job's result is damaged in its log (its digest is another one)")
        return content
