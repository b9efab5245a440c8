"""What devices have spent: repeats are free, nothing beyond the budget is answered, and nothing is ever refunded.

A block of devices shares one ledger of stretches. Neighbours that answered the same queries form one stretch, so that a
million devices with the same history cost one row. Sums are exact rationals. A ledger is only a copy: the keeper's book
is what counts, and charges are booked there before anything is answered.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock
from typing import Protocol

import numpy as np

from actors.keeper import Books, Entry, Keeper, UnreachableError, read_entry
from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon, add, as_float, require_epsilon, within
from coordinator.protocol.checked import require_block
from coordinator.protocol.errors import BudgetError


class Costly(Protocol):
    """Something that a device can be charged for: a query, or a client's service."""

    @property
    def id(self) -> bytes:
        """Digest of its whole content."""
        ...

    @property
    def epsilon(self) -> Epsilon:
        """What it costs [nats]; None without limit."""
        ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """Devices ``first`` to ``stop - 1``, the queries they have answered and what these cost together."""

    first: int
    stop: int
    answered: frozenset[bytes] = frozenset()
    spent: Epsilon = Fraction(0)

    def charged(self, entry: Entry) -> Stretch:
        """Return this stretch after it is charged."""
        return replace(self, answered=self.answered | {entry.id}, spent=add(self.spent, entry.epsilon))

    def same_history(self, other: Stretch) -> bool:
        """Return whether both have answered the same queries."""
        return self.answered == other.answered


class Ledger:
    """The privacy ledger of devices ``first`` to ``stop - 1``.

    ``budget`` in nats.

    Several threads and processes may charge blocks of a cohort at once. Each reads what the others have booked before
    it decides, so nothing has to be read when a ledger is made.
    """

    def __init__(self, first: int, stop: int, budget: Epsilon, keeper: Books | None = None) -> None:
        self.budget = require_epsilon(budget, "budget")
        self.first, self.stop = first, stop
        self._stretches = [Stretch(first, stop)]
        self._lock = Lock()
        self._keeper: Books = keeper or Keeper()
        self._known = 0

    def charge(self, query: Costly, first: int, stop: int) -> list[tuple[int, int]]:
        """Charge ``query`` to devices ``first`` to ``stop - 1``, before they answer."""
        try:
            return self.book(query, first, stop)
        except UnreachableError:
            with self._lock:
                _, booked, refused = self._charged(Entry(query.id, query.epsilon, first, stop), self.budget)
            return sorted(booked + refused)

    def book(self, query: Costly, first: int, stop: int) -> list[tuple[int, int]]:
        """Charge as `charge` does, but raise an error instead of refusing where the keeper does not answer."""
        require_block(first, stop, self.first, self.stop)
        entry = Entry(query.id, query.epsilon, first, stop)
        with self._lock:
            return self._charge(entry)

    def _charge(self, entry: Entry) -> list[tuple[int, int]]:
        """Book a charge. If others have booked something about these devices, take that in and decide again."""
        while True:
            kept, booked, refused = self._charged(entry, self.budget)
            if not booked and not refused:  # all of them have booked it, and repeat what they answered
                return []
            lines = [replace(entry, first=low, stop=high).line() for low, high in booked]
            known, others = self._keeper.book(self.first, self.stop, self._known, lines)
            self._take(known, others)
            if not others:
                self._stretches = kept
                return refused

    def _take(self, known: int, lines: Iterable[str]) -> None:
        """Take in what others have booked; an entry may also be about devices of other ledgers."""
        stretches = self._stretches
        for entry in map(read_entry, lines):
            low, high = max(self.first, entry.first), min(self.stop, entry.stop)
            if low < high:
                stretches, _, _ = self._charged(replace(entry, first=low, stop=high), None, stretches)
        self._stretches, self._known = stretches, known

    def look(self) -> None:
        """Take in what was booked elsewhere, so that sums are up to date."""
        with self._lock:
            self._take(*self._keeper.read(self.first, self.stop, self._known))

    def _charged(
        self, entry: Entry, budget: Epsilon, before: list[Stretch] | None = None
    ) -> tuple[list[Stretch], list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the stretches after a charge, which of them are charged, and which refuse."""
        kept: list[Stretch] = []
        booked: list[tuple[int, int]] = []
        refused: list[tuple[int, int]] = []
        for stretch in _split(self._stretches if before is None else before, entry.first, entry.stop):
            inside = entry.first <= stretch.first and stretch.stop <= entry.stop
            asked = inside and entry.id not in stretch.answered
            if asked and not within(add(stretch.spent, entry.epsilon), budget):
                refused.append((stretch.first, stretch.stop))
                asked = False
            elif asked:
                booked.append((stretch.first, stretch.stop))
            _append(kept, stretch.charged(entry) if asked else stretch)
        return kept, booked, refused

    def stretches(self) -> list[tuple[int, int, Epsilon]]:
        """Return what devices have spent: ``(first, stop, spent)`` of stretches that spent alike [nats]."""
        self.look()
        found: list[tuple[int, int, Epsilon]] = []
        for stretch in self._stretches:
            if found and found[-1][2] == stretch.spent:
                found[-1] = (found[-1][0], stretch.stop, stretch.spent)
            else:
                found.append((stretch.first, stretch.stop, stretch.spent))
        return found

    def holds(self, query: Costly, devices: Indices) -> bool:
        """Return whether all ``devices`` (ascending) were charged for ``query``, here or elsewhere."""
        query_id = query.id
        if not self._holds(query_id, devices):
            self.look()
        return self._holds(query_id, devices)

    def _holds(self, query_id: bytes, devices: Indices) -> bool:
        with self._lock:
            others = [stretch for stretch in self._stretches if query_id not in stretch.answered]
        cuts = np.array([(stretch.first, stretch.stop) for stretch in others], np.int64).reshape(-1, 2)
        return bool(np.array_equal(np.searchsorted(devices, cuts[:, 0]), np.searchsorted(devices, cuts[:, 1])))

    def spent(self, device: int) -> Epsilon:
        """Return what ``device`` has spent so far [nats]; None if it has answered without noise."""
        self.look()
        return self._stretch(device).spent

    def refusal(self, query: Costly, device: int) -> BudgetError:
        """Return the error that tells why ``device`` refuses ``query``: spent, asked and left."""
        spent, budget = as_float(self.spent(device)), as_float(self.budget)
        return BudgetError(
            f"budget spent: {query} costs {as_float(query.epsilon):g} nats, device {device} has {budget - spent:g} of "
            f"{budget:g} left ({spent:g} spent); lower epsilon per round or the number of rounds"
        )

    def _stretch(self, device: int) -> Stretch:
        return next(stretch for stretch in self._stretches if stretch.first <= device < stretch.stop)


def _split(stretches: list[Stretch], first: int, stop: int) -> list[Stretch]:
    """Return stretches, cut at ``first`` and at ``stop``."""
    pieces: list[Stretch] = []
    for stretch in stretches:
        cuts = [cut for cut in (first, stop) if stretch.first < cut < stretch.stop]
        ends = [stretch.first, *dict.fromkeys(cuts), stretch.stop]
        pieces += [replace(stretch, first=a, stop=b) for a, b in itertools.pairwise(ends)]
    return pieces


def _append(kept: list[Stretch], stretch: Stretch) -> None:
    if kept and kept[-1].same_history(stretch):
        kept[-1] = replace(kept[-1], stop=stretch.stop)
    else:
        kept.append(stretch)
