"""Whether all that a folder keeps of devices' answers is booked in their keeper's book."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from actors.charges import read_entry
from actors.keeper import Books
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import InputError
from coordinator.server.rounds.query_rounds import ANEW


class Answered(NamedTuple):
    """What a run keeps of devices ``first`` to ``stop - 1``: so many of them answered something that is charged."""

    what: str
    """What that was, for the error."""
    id: bytes
    first: int
    stop: int
    devices: int


def require_booked(kept: Iterable[Answered], keeper: Books) -> None:
    """Refuse to go on after answers whose charges are not all in the book.

    Parameters
    ----------
    kept : iterable of Answered
        What was kept.
    keeper : Books
        What was booked.

    Raises
    ------
    InputError
        If devices answered what their book does not tell: what they have spent is not known then.
    """
    entries: dict[bytes, list[tuple[int, int]]] = {}
    for entry in map(read_entry, keeper.read(0, MOST_DEVICES)[1]):
        entries.setdefault(entry.id, []).append((entry.first, entry.stop))
    for one in kept:
        if (found := _covered(entries.get(one.id, []), one.first, one.stop)) < one.devices:
            raise InputError(
                f"{one.what} was answered by {one.devices} devices, their ledger tells of {found}; a part of "
                f"it is missing, what devices spent is not known: put its files back as they were, or {ANEW}"
            )


def _covered(stretches: list[tuple[int, int]], first: int, stop: int) -> int:
    """Return how many devices from ``first`` to ``stop - 1`` lie in any of the stretches."""
    count = 0
    for low, high in sorted(stretches):
        first, end = max(first, low), min(stop, high)
        if first < end:
            count, first = count + end - first, end
    return count
