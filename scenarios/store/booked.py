"""Checking that all answers that a folder keeps are booked in the devices' book."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from actors.charges import read_entry
from actors.keeper import Books
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import InputError
from coordinator.server.rounds.query_rounds import ANEW


class Answered(NamedTuple):
    """A stored round: so many of devices ``first`` to ``stop - 1`` answered something that is charged."""

    what: str
    """Words for the round, for the error."""
    id: bytes
    first: int
    stop: int
    devices: int


def require_booked(kept: Iterable[Answered], keeper: Books) -> None:
    """Refuse to resume if charges for stored answers are missing from the book.

    Parameters
    ----------
    kept : iterable of Answered
        The stored rounds.
    keeper : Books
        The devices' keeper.

    Raises
    ------
    InputError
        If an answer is not booked, so that it is unknown what devices have spent.
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
