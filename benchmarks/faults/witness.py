"""The conditions that must hold in every history, checked with every answer that leaves a device, and at the end."""

import json
from collections.abc import Hashable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import Violation
from coordinator.protocol.arrays import Bools


class Witness:
    """Checks every answer that leaves a device, every stored round, and the disk; it knows all right answers.

    Devices are charged once for a question, and no more than their budget. A family defines what may leave devices
    (`leaves`), what may be stored (`keeps`) and how runs end (`ends`). All of them raise a `Violation`.
    """

    def __init__(self, disk: Disk, budget: Fraction | None) -> None:
        self._disk, self._budget = disk, budget
        self._spent: dict[int, Fraction] = {}
        self.books: list[Path] = []
        self.booked: set[Hashable] = set()
        self.said: set[Hashable] = set()
        self.excused: dict[bytes, set[int]] = {}
        self._read: dict[Path, list[str]] = {}
        self._version = -1

    @property
    def cut_off(self) -> int:
        """How often devices could not reach their keeper; each question counts once."""
        return sum(map(len, self.excused.values()))

    def cannot_book(self, question: Any, first: int, stop: int) -> None:
        """Note devices that could not reach their keeper when they were asked."""
        self.excused.setdefault(self.key(question), set()).update(range(first, stop))

    def key(self, question: Any) -> bytes:
        """Return the name under which devices that could not book a question are noted."""
        query_id: bytes = question.id
        return query_id

    def leaves(self, question: Any, public: tuple[Any, ...], first: int, stop: int, answer: Any) -> None:
        """Check what leaves devices ``first`` to ``stop - 1``."""
        raise NotImplementedError

    def round_over(self, query: Any, answered: Bools, handed: Sequence[Any]) -> None:
        """Note whose answers to a query count, and what the server got of them."""

    def opens(self, opener: str, query: Any, mask: Bools) -> None:
        """Check whose answers to a query somebody between devices and server opens."""

    def publishes(self, query: Any, published: Any) -> None:
        """Check what one of two servers publishes of a query."""

    def keeps(self, record: Any) -> None:
        """Check what the server stores of a round, which must follow from the releases."""
        raise NotImplementedError

    def ends(self, outcome: Any, rounds: list[Any]) -> None:
        """Check how the run ended, and what it stored."""
        raise NotImplementedError

    def must_be_booked(self, said: set[Any], question: Any) -> None:
        """Refuse an answer that leaves devices and is not on the disk."""
        self.said |= said
        if not said <= self.booked:
            self.read_books()
        if missing := said - self.booked:
            devices = sorted(entry[0] for entry in missing)
            raise Violation(f"devices {devices} answered {question}, and that is not booked on the disk")

    def nothing_forgotten(self) -> None:
        """Check after a crash that everything that was answered is booked on the disk."""
        self.read_books()
        if forgotten := self.said - self.booked:
            raise Violation(f"{len(forgotten)} answers are booked no more")

    def read_books(self) -> None:
        """Read the books on the disk; if they have only grown, read the new lines."""
        if self._version == self._disk.version:
            return
        self._version = self._disk.version
        entries = {folder: self._disk.charges(folder) for folder in self.books}
        if any(entries[folder][: len(read)] != read for folder, read in self._read.items()):
            for store in (self._read, self.booked, self._spent):
                store.clear()
        for folder, lines in entries.items():
            for line in lines[len(self._read.get(folder, [])) :]:
                self._charge(*json.loads(line))
        self._read = entries

    def _charge(self, query_id: str, epsilon: str, first: int, stop: int, *_: Any) -> None:
        """Take in a charge; see `actors.keeper.Charge`."""
        for device in range(first, stop):
            if (device, query_id) in self.booked:
                raise Violation(f"device {device} was charged twice for {query_id[:8]}")
            self.booked.add((device, query_id))
            self._spent[device] = self._spent.get(device, Fraction(0)) + Fraction(epsilon)
            if self._budget is not None and self._spent[device] > self._budget:
                raise Violation(f"device {device} spent {self._spent[device]} of {self._budget}")
