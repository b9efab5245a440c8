"""What devices have spent, as the experimenter reads it in their keeper's book, and whether that book is whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from actors.charges import Entry, read_entry
from actors.keeper import Books, UnreachableError
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import InputError, LostError
from coordinator.server.rounds.query_rounds import ANEW

Spent = tuple[int, int, Epsilon]
"""First device, the one after the last, and what each of them has spent [nats]."""


def spent_by(keeper: Books, devices: int) -> list[Spent]:
    """Return what devices 0 to ``devices - 1`` have spent, by stretches ``(first, stop, spent)`` [nats].

    Raises
    ------
    LostError
        If the keeper is lost.
    """
    return sums(map(read_entry, _booked(keeper, devices)), devices)


def sums(entries: Iterable[Entry], devices: int) -> list[Spent]:
    """Return what charges add up to, by stretches that spent alike; a query that was booked twice counts once."""
    ends = [(at, step, one) for one in entries for at, step in ((one.first, 1), (min(one.stop, devices), -1))]
    ends.sort(key=lambda end: end[0])
    found: list[Spent] = []
    open_, paid, free, reached = Counter[bytes](), Fraction(0), 0, 0
    for at, step, one in [*ends, (devices, 0, None)]:
        if at > reached:
            spent = None if free else paid
            if found and found[-1][2] == spent:
                found[-1] = (found[-1][0], at, spent)
            else:
                found.append((reached, at, spent))
            reached = at
        if one is None:
            continue
        before, open_[one.id] = open_[one.id], open_[one.id] + step
        if bool(before) != bool(open_[one.id]):
            paid, free = paid + step * (one.epsilon or 0), free + (step if one.epsilon is None else 0)
    return found


def require_there(keeper: Books) -> None:
    """Refuse to go on without the keeper: all devices would refuse.

    Raises
    ------
    LostError
    """
    _booked(keeper, 0)


def _booked(keeper: Books, devices: int) -> list[str]:
    try:
        return keeper.read(0, devices)[1]
    except UnreachableError:
        raise LostError(
            "the process that keeps what devices have spent was lost, so that they refuse to answer; start the run "
            "again"
        ) from None


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
