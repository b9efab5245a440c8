"""What devices have spent: repeats are free, nothing beyond the budget is answered, and nothing is ever refunded.

A block of devices shares one ledger of device ranges. Neighbours that answered the same queries form one range, so that
a million devices with the same history cost one row. Sums are exact rationals. A ledger is only a copy: the keeper's
book is what counts, and charges are booked there before anything is answered.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock
from typing import TypeAlias

import numpy as np

from actors.keeper import Charge, Keeper, LedgerClient, UnreachableError, read_charge
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Indices
from coordinator.protocol.ballots import Service
from coordinator.protocol.budget import Epsilon, add, require_epsilon, within
from coordinator.protocol.checked import require_block
from coordinator.protocol.messages import Query
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.trust import require_agreement

Costly: TypeAlias = Query | SecondOrderQuery | Service | Charge  # Something that a device can be charged for


@dataclass(frozen=True, slots=True)
class DeviceRange:
    """Devices ``first`` to ``stop - 1``, the queries they have answered and what these cost together."""

    first: int
    stop: int
    answered: frozenset[bytes] = frozenset()
    spent: Epsilon = Fraction(0)
    periods: frozenset[int] = frozenset()  # Of time, about which they have answered

    def charged(self, charge: Charge) -> DeviceRange:
        """Return this range after it is charged."""
        periods = self.periods | {charge.period} if charge.period else self.periods
        return replace(
            self, answered=self.answered | {charge.id}, spent=add(self.spent, charge.epsilon), periods=periods
        )


class Ledger:
    """The privacy ledger of devices ``first`` to ``stop - 1``. ``budget`` in nats."""

    def __init__(
        self,
        first: int,
        stop: int,
        budget: Epsilon,
        keeper: LedgerClient | None = None,
        agreement: Agreement | None = None,
    ) -> None:
        # Several threads and processes may charge blocks of a cohort at once. Each reads what the others have booked
        # before it decides, so nothing has to be read when a ledger is made.
        self.budget = require_epsilon(budget, "budget")
        self.first, self.stop = first, stop
        self._answers = None if agreement is None else agreement.answers  # That a device gives at most
        self._agreement = b"" if agreement is None else agreement.digest
        self._in_order = agreement is not None and agreement.counter > 0  # Whether no earlier period may follow
        self._ranges = [DeviceRange(first, stop)]
        self._lock = Lock()
        self._keeper: LedgerClient = keeper or Keeper()
        self._position = 0

    def charge(self, query: Costly, first: int, stop: int) -> list[tuple[int, int]]:
        """Charge ``query`` to devices ``first`` to ``stop - 1``, before they answer."""
        try:
            return self.book(query, first, stop)
        except UnreachableError:
            with self._lock:
                charge = self._charge_of(query, first, stop)
                _, charges, refusals = self._charged(charge, self.budget)
            return sorted(charges + refusals)

    def book(self, query: Costly, first: int, stop: int) -> list[tuple[int, int]]:
        """Charge as `charge` does, but raise an error instead of refusing where the keeper does not answer."""
        require_block(first, stop, self.first, self.stop)
        charge = self._charge_of(query, first, stop)
        with self._lock:
            return self._charge(charge)

    def _charge_of(self, query: Costly, first: int, stop: int) -> Charge:
        period = query.period if isinstance(query, Query) else 0
        return Charge(query.id, query.epsilon, first, stop, self._agreement, period)

    def _charge(self, charge: Charge) -> list[tuple[int, int]]:
        """Book a charge; return the ranges of devices that refuse it."""
        # Compare and book: the keeper writes the lines only if nobody has booked anything about these devices since
        # this ledger read its book last. Otherwise it writes nothing and returns what others booked; the ledger takes
        # that in and decides again, because a device may have spent its budget, or answered this query, meanwhile.
        while True:
            ranges, charges, refusals = self._charged(charge, self.budget)
            if not charges and not refusals:  # all of them have booked it, and repeat what they answered
                return []
            lines = [replace(charge, first=first, stop=stop).line() for first, stop in charges]
            position, new_lines = self._keeper.book(self.first, self.stop, self._position, lines)
            self._take(position, new_lines)
            if not new_lines:
                self._ranges = ranges
                return refusals

    def _take(self, position: int, lines: Iterable[str]) -> None:
        """Take in what others have booked; a charge may also be about devices of other ledgers."""
        ranges = self._ranges
        for charge in map(read_charge, lines):
            about = f"the ledger of devices {charge.first} to {charge.stop - 1} was begun"
            require_agreement(about, charge.agreement, self._agreement)
            first, stop = max(self.first, charge.first), min(self.stop, charge.stop)
            if first < stop:
                ranges, _, _ = self._charged(replace(charge, first=first, stop=stop), None, ranges)
        self._ranges, self._position = ranges, position

    def look(self) -> None:
        """Take in what was booked elsewhere, so that sums are up to date."""
        with self._lock:
            self._take(*self._keeper.read(self.first, self.stop, self._position))

    def _charged(
        self, charge: Charge, budget: Epsilon, before: list[DeviceRange] | None = None
    ) -> tuple[list[DeviceRange], list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the ranges of devices after a charge, those that are charged, and those that refuse."""
        ranges: list[DeviceRange] = []
        charges: list[tuple[int, int]] = []
        refusals: list[tuple[int, int]] = []
        for block in _split(self._ranges if before is None else before, charge.first, charge.stop):
            inside = charge.first <= block.first and block.stop <= charge.stop
            is_new = inside and charge.id not in block.answered
            full = before is None and self._answers is not None and len(block.answered) >= self._answers
            # A plan has one question for a device in a period
            full |= before is None and any(
                period == charge.period or (self._in_order and period > charge.period) for period in block.periods
            )
            if is_new and (full or not within(add(block.spent, charge.epsilon), budget)):
                refusals.append((block.first, block.stop))
                is_new = False
            elif is_new:
                charges.append((block.first, block.stop))
            _append(ranges, block.charged(charge) if is_new else block)
        return ranges, charges, refusals

    def spending(self) -> list[tuple[int, int, Epsilon]]:
        """Return what devices have spent: ``(first, stop, spent)`` of neighbours that spent the same [nats]."""
        self.look()
        alike = itertools.groupby(self._ranges, lambda block: block.spent)
        return [(blocks[0].first, blocks[-1].stop, spent) for spent, group in alike if (blocks := list(group))]

    def holds(self, query: Costly, devices: Indices) -> bool:
        """Return whether all ``devices`` (ascending) were charged for ``query``, here or elsewhere."""
        query_id = query.id
        if not self._holds(query_id, devices):
            self.look()
        return self._holds(query_id, devices)

    def _holds(self, query_id: bytes, devices: Indices) -> bool:
        with self._lock:
            gaps = [block for block in self._ranges if query_id not in block.answered]
        cuts = np.array([(block.first, block.stop) for block in gaps], np.int64).reshape(-1, 2)
        return bool(np.array_equal(np.searchsorted(devices, cuts[:, 0]), np.searchsorted(devices, cuts[:, 1])))

    def blocks_without(self, query: Costly, first: int, stop: int) -> list[DeviceRange]:
        """Return ranges of devices ``first`` to ``stop - 1`` that were not charged for ``query``, as is known here."""
        with self._lock:
            blocks = _split(self._ranges, first, stop)
        return [part for part in blocks if first <= part.first < part.stop <= stop and query.id not in part.answered]

    def spent(self, device: int) -> Epsilon:
        """Return what ``device`` has spent so far [nats]; None if it has answered without noise."""
        self.look()
        return next(block.spent for block in self._ranges if block.first <= device < block.stop)


def _split(ranges: list[DeviceRange], first: int, stop: int) -> list[DeviceRange]:
    """Return ranges of devices, cut at ``first`` and at ``stop``."""
    parts: list[DeviceRange] = []
    for block in ranges:
        cuts = [cut for cut in (first, stop) if block.first < cut < block.stop]
        ends = [block.first, *dict.fromkeys(cuts), block.stop]
        parts += [replace(block, first=a, stop=b) for a, b in itertools.pairwise(ends)]
    return parts


def _append(ranges: list[DeviceRange], block: DeviceRange) -> None:
    if ranges and ranges[-1].answered == block.answered:
        ranges[-1] = replace(ranges[-1], stop=block.stop)
    else:
        ranges.append(block)
