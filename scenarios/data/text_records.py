"""Text in records: quotes by RFC 4180, lines by their numbers, and a stream that a parser of columns can rely on."""

import io
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from coordinator.protocol.arrays import Bools, Ints
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.limits import size_of
from scenarios.data.formats import DOTS, SPACES, RatingFormat
from scenarios.data.packed_files import DataFile

BLOCK = 1 << 24  # Bytes that are read at a time
LONGEST = 1 << 20  # Bytes of a record in quotes; a longer one has a quote that nothing closes
NO_UTF8 = "\ufdd0"  # Stands for bytes that are no UTF-8; no text may hold it, by Unicode's own rules
TORN = b"\x1d"  # Stands for a record whose quotes are wrong, which a parser finds too short
SEPARATOR = "\x1f"  # Stands for two colons, of which parsers know only one
_NEWLINE, _QUOTE = 10, 34
_WRONG, _OPEN = -1, -2  # Why a record has no end


@borrowing
def _quoted_end(data: NDArray[np.uint8], at: int, stop: int) -> int:
    """Return where a value in quotes ends whose first character is at a place; `_WRONG` if not before a stop."""
    while at < stop:
        if data[at] != _QUOTE:
            at += 1
        elif at + 1 < data.size and data[at + 1] == _QUOTE:
            at += 2
        else:
            return at + 1
    return _WRONG


@borrowing
def _record_end(data: NDArray[np.uint8], start: int, delimiter: int, longest: int, last: bool) -> int:
    """Return where a record ends; `_WRONG` if its quotes are wrong, `_OPEN` if the data does not hold its end."""
    at, stop = start, min(data.size, start + longest)
    while True:
        if at < data.size and data[at] == _QUOTE:
            at = _quoted_end(data, at + 1, stop)
            if at == _WRONG:
                return _WRONG if last or stop < data.size else _OPEN
        else:
            while at < data.size and data[at] != delimiter and data[at] != _NEWLINE:
                at += 1
        if at >= data.size:
            return data.size if last else _OPEN
        if data[at] == _NEWLINE:
            return at + 1
        if data[at] != delimiter:
            return _WRONG
        at += 1


@compiled
def split_records(data: NDArray[np.uint8], delimiter: int, longest: int, last: bool) -> tuple[Ints, Bools, int]:
    """Return where records begin, which of them have wrong quotes, and where the last whole one ends.

    By RFC 4180 a quote opens a value at its beginning, two of them are one, and what follows the closing one is a
    delimiter or the end of the record. A record with wrong quotes is its first line, so that one quote that nothing
    closes takes no other line with it.
    """
    starts = np.empty(np.sum(data == _NEWLINE) + 1, np.int64)
    wrong = np.zeros(starts.size, np.bool_)
    count, start = 0, 0
    while start < data.size:
        end = _record_end(data, start, delimiter, longest, last)
        if end == _OPEN:
            break
        if end == _WRONG:
            wrong[count] = True
            end = start
            while end < data.size and data[end] != _NEWLINE:
                end += 1
            end = min(end + 1, data.size)
        starts[count] = start
        count += 1
        start = end
    return starts[:count], wrong[:count], start


class Records(io.RawIOBase):
    """The records of a file below its names, read in bytes, and what was wrong or strange about their quotes."""

    def __init__(self, file: DataFile, form: RatingFormat) -> None:
        self._opened, self._form, self._name, self._rest = file.open(), form, file.name, memoryview(b"")
        self._line = form.above  # Lines before the block that is read next
        self._parts = self._blocks()
        self.torn = list[str]()  # How records begin whose quotes are wrong
        self.over_lines = 0  # Values that go over several lines
        self.first_over_lines = (0, 0)  # The first line and the last of the first record with one

    def readable(self) -> bool:
        """Return that this can be read."""
        return True

    def tell(self) -> int:
        """Return how much of the file was read."""
        return self._opened.tell()

    def read(self, size: int | None = -1) -> bytes:
        """Return at most this many bytes; all remaining ones for a negative number."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(BLOCK), b""))
        parts, missing = list[bytes](), size
        while missing:
            if not self._rest:
                self._rest = memoryview(next(self._parts, b""))
                if not self._rest:
                    break
            parts.append(bytes(self._rest[:missing]))
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._opened.close()
        super().close()

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole records; records with wrong quotes are replaced by another text."""
        for block, starts, wrong in whole_records(self._opened, self._form, self._name):
            yield block if starts is None else self._mend(block, starts, wrong)
            self._line += block.count(b"\n")

    def _mend(self, block: bytes, starts: Ints, wrong: Bools) -> bytes:
        newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
        ends = np.append(starts[1:], len(block))
        first = np.searchsorted(newlines, starts)  # lines of the block before each record
        extra = np.searchsorted(newlines, ends - 1) - first
        if (several := np.flatnonzero((extra > 0) & ~wrong)).size:
            if not self.over_lines:
                line = self._line + int(first[several[0]]) + 1
                self.first_over_lines = line, line + int(extra[several[0]])
            self.over_lines += several.size
        if not wrong.any():
            return block
        parts, position = list[bytes](), 0
        for record in np.flatnonzero(wrong).tolist():
            parts += [block[position : starts[record]], TORN, b"\n"]
            position = int(ends[record])
            self.torn.append(text_of(block[starts[record] : position][:240]))
        return b"".join([*parts, block[position:]])


def whole_records(opened: BinaryIO, form: RatingFormat, name: str) -> Iterator[tuple[bytes, Ints | None, Bools]]:
    """Yield blocks of whole records, with where each begins and whether its quotes are wrong; None for no quotes."""
    rest, nothing = b"", np.zeros(0, np.bool_)
    for part, last in _lines_of(opened, form, name):
        block = rest + part
        rest = b""
        if form.quoted and b'"' in block:
            data = np.frombuffer(block, np.uint8)
            starts, wrong, end = split_records(data, ord(form.delimiter), LONGEST, last)
            block, rest = block[:end], block[end:]
            if block:
                yield block, starts, wrong
        elif block:
            yield block, None, nothing


def _lines_of(opened: BinaryIO, form: RatingFormat, name: str) -> Iterator[tuple[bytes, bool]]:
    """Yield the text below the names in whole lines, in UTF-8 and with one kind of line ends, and whether it ends."""
    rest, above, begins = b"", form.above, True
    while True:
        part = opened.read(BLOCK)
        last = len(part) == 0
        if begins:
            part, begins = part.removeprefix(b"\xef\xbb\xbf"), False
        if part.endswith(b"\r"):
            part += opened.read(1)
        if b"\r" in part:
            part = part.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        block = rest + part
        end = len(block) if last else block.rfind(b"\n") + 1
        block, rest = block[:end], block[end:]
        if len(rest) > BLOCK // 2:
            raise InputError(f"a line of {name} is longer than {size_of(BLOCK // 2)}: give a table of ratings")
        while above and block:
            block = block.partition(b"\n")[2]
            above -= 1
        if block or last:
            yield _normal(block, form), last
        if last:
            return


def _normal(block: bytes, form: RatingFormat) -> bytes:
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            if form.latin:
                block = block.decode("latin-1").encode()
            else:
                block = re.sub("[\udc80-\udcff]+", NO_UTF8, block.decode(errors="surrogateescape")).encode()
    if form.delimiter == DOTS:
        return block.replace(DOTS.encode(), SEPARATOR.encode())
    if form.delimiter == SPACES:
        return re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t]+", b" ", block))
    return block


def text_of(raw: bytes) -> str:
    """Return the first line of what stands in a block."""
    text = raw.decode(errors="replace").split("\n", 1)[0]
    return text.replace(SEPARATOR, DOTS).replace(NO_UTF8, "\ufffd")


def line_numbers(file: DataFile, form: RatingFormat, records: Sequence[int]) -> dict[int, int]:
    """Return on which line of a file, from 1, records begin, which are numbered from 1 without empty lines."""
    numbers, seen, line = dict[int, int](), 0, form.above
    request = np.unique(np.asarray(records, np.int64))
    with file.open() as opened:
        for block, records_at, _ in whole_records(opened, form, file.name):
            newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
            places = np.concatenate([[0], newlines + 1]) if records_at is None else records_at
            starts = places[np.frombuffer(block + b"\n", np.uint8)[places] != _NEWLINE]  # empty lines are no records
            here = request[(request > seen) & (request <= seen + starts.size)]
            lines = line + np.searchsorted(newlines, starts[here - seen - 1]) + 1
            numbers |= dict(zip(here.tolist(), lines.tolist(), strict=True))
            seen, line = seen + starts.size, line + newlines.size
            if len(numbers) == request.size:
                break
    return numbers
