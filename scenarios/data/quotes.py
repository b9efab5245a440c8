"""Where records of text begin whose values may stand in quotes; compiled."""

import numpy as np
from numpy.typing import NDArray

from coordinator.protocol.arrays import Bools, Ints
from coordinator.protocol.compiled import borrowing, compiled

_NEWLINE, _QUOTE = 10, 34


_WRONG, _OPEN = -1, -2


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
