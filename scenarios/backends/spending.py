"""The budget that devices have spent, as the experimenter reads it in their ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from actors.keeper import Charge, LedgerClient, UnreachableError, read_charge
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import LostError

Spent = tuple[int, int, Epsilon]
"""First device, the one after the last, and the budget that each of them has spent [nats]."""


def spent_by(keeper: LedgerClient, devices: int) -> list[Spent]:
    """Return what devices 0 to ``devices - 1`` have spent, by stretches ``(first, stop, spent)`` [nats]."""
    return sums(map(read_charge, _booked(keeper, devices)), devices)


def sums(entries: Iterable[Charge], devices: int) -> list[Spent]:
    """Return what charges add up to, by stretches that spent alike; a query that was booked twice counts once."""
    ends = [(at, step, one) for one in entries for at, step in ((one.first, 1), (min(one.stop, devices), -1))]
    ends.sort(key=lambda end: end[0])
    ranges: list[Spent] = []
    open_, paid, free, reached = Counter[bytes](), Fraction(0), 0, 0
    for at, step, one in [*ends, (devices, 0, None)]:
        if at > reached:
            spent = None if free else paid
            if ranges and ranges[-1][2] == spent:
                ranges[-1] = (ranges[-1][0], at, spent)
            else:
                ranges.append((reached, at, spent))
            reached = at
        if one is None:
            continue
        before, open_[one.id] = open_[one.id], open_[one.id] + step
        if bool(before) != bool(open_[one.id]):
            paid, free = paid + step * (one.epsilon or 0), free + (step if one.epsilon is None else 0)
    return ranges


def require_there(keeper: LedgerClient) -> None:
    """Refuse to go on without the keeper: all devices would refuse."""
    _booked(keeper, 0)


def _booked(keeper: LedgerClient, devices: int) -> list[str]:
    try:
        return keeper.read(0, devices)[1]
    except UnreachableError:
        raise LostError(
            "the process that keeps what devices have spent was lost, so that they refuse to answer; start the run "
            "again"
        ) from None
