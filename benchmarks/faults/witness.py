"""What must hold in every history, looked at with every answer that leaves a device, and at the end."""

from __future__ import annotations

import json
from collections.abc import Hashable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import Violation


class Witness:
    """Sees every answer that leaves a device, what is kept, and the disk; knows what devices must say.

    What a family adds: how a line of a book is read (`line`), what may leave (`leaves`), what may be kept (`keeps`) and
    how runs end (`ends`). All of them raise a `Violation`.

    Parameters
    ----------
    disk : Disk
        Of the run.

    Attributes
    ----------
    books : list of Path
        Folders of the ledgers.
    booked : set
        What the disk holds of them, as it would outlive a power cut.
    said : set
        What left devices; all of it must be in ``booked``.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.books: list[Path] = []
        self.booked: set[Hashable] = set()
        self.said: set[Hashable] = set()
        self.excused: dict[bytes, set[int]] = {}
        self._read: dict[Path, bytes] = {}

    @property
    def cut_off(self) -> int:
        """How often devices could not reach their keeper, each question once."""
        return sum(map(len, self.excused.values()))

    def cannot_book(self, question: Any, first: int, stop: int) -> None:
        """Note devices that could not reach their keeper when they were asked."""
        self.excused.setdefault(self.key(question), set()).update(range(first, stop))

    def key(self, question: Any) -> bytes:
        """Return what devices that could not book a question are noted by."""
        told: bytes = question.id
        return told

    def leaves(self, question: Any, public: tuple[Any, ...], first: int, stop: int, answer: Any) -> None:
        """Look at what leaves devices ``first`` to ``stop - 1``."""
        raise NotImplementedError

    def round_over(self, query: Any, releases: list[Any]) -> None:
        """Note the answers to a query that count."""

    def keeps(self, over: Any) -> None:
        """Look at what the server tells of a round: that follows from what was released."""
        raise NotImplementedError

    def ends(self, outcome: Any, kept: list[Any]) -> None:
        """Look at how the run ended, and at what it kept."""
        raise NotImplementedError

    def line(self, told: Any) -> None:
        """Take in what a line of a book tells, and refuse what must not be booked."""
        raise NotImplementedError

    def forget_book(self) -> None:
        """Begin to read the books anew."""
        self.booked.clear()

    def must_be_booked(self, said: set[Any], question: Any) -> None:
        """Refuse what leaves devices and is not on the disk."""
        self.said |= said
        if not said <= self.booked:
            self.read_books()
        if missing := said - self.booked:
            devices = sorted(one[0] for one in missing)
            raise Violation(f"devices {devices} answered {question}, and that is not booked on the disk")

    def nothing_forgotten(self) -> None:
        """Look at the disk after a crash: what was answered is booked."""
        self.read_books()
        if forgotten := self.said - self.booked:
            raise Violation(f"{len(forgotten)} answers are booked no more")

    def read_books(self) -> None:
        """Read what the disk holds of the books; where they have only grown, what is new."""
        files = {
            folder / name: content for folder in self.books for name, content in self._disk.lasting(folder).items()
        }
        if not all(files.get(path, b"").startswith(read) for path, read in self._read.items()):
            self._read.clear()
            self.forget_book()
        for path, content in sorted(files.items()):
            self._read[path] = self._read_on(content, self._read.get(path, b""))

    def _read_on(self, content: bytes, read: bytes) -> bytes:
        """Take in what a file tells after what was read of it; return what is read now. Its head tells nothing."""
        *whole, tail = content[len(read) :].split(b"\n")
        for one in filter(None, whole[0 if read else 1 :]):
            self.line(_told(one))
        if tail and (whole or read):
            with suppress(ValueError):  # whole, and only its end is missing: that counts
                self.line(_told(tail))
                return content
        return content[: len(content) - len(tail)]


def _told(line: bytes) -> Any:
    """Return what a line of a log tells besides its digest and its devices."""
    return json.loads(line.partition(b" ")[2])[2]


class Charging(Witness):
    """Sees that devices are charged once for a question, and no more than their budget; see `Witness`."""

    def __init__(self, disk: Disk, budget: Fraction | None) -> None:
        super().__init__(disk)
        self._budget = budget
        self._spent: dict[int, Fraction] = {}

    def forget_book(self) -> None:
        """Begin to read the books anew."""
        super().forget_book()
        self._spent.clear()

    def line(self, told: Any) -> None:
        """Take in a charge; see `actors.charges.Entry`."""
        query_id, epsilon, first, stop = told
        for device in range(first, stop):
            if (device, query_id) in self.booked:
                raise Violation(f"device {device} was charged twice for {query_id[:8]}")
            self.booked.add((device, query_id))
            self._spent[device] = self._spent.get(device, Fraction(0)) + Fraction(epsilon)
            if self._budget is not None and self._spent[device] > self._budget:
                raise Violation(f"device {device} spent {self._spent[device]} of {self._budget}")
