"""What devices have spent: repeats are free, nothing beyond the budget is answered; and the keeper of the book of all.

Devices are its clients: a ledger, or a private device's answers, holds a `LedgerClient`, and books with it before
anything is answered.

A block of devices shares one ledger of device ranges. Neighbours that answered the same queries form one range, so that
a million devices with the same history cost one row. Sums are exact rationals. A ledger is only a copy: the keeper's
book is what counts, and charges are booked there before anything is answered.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np

from actors.log import Log, LogKind
from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon, PrivacyParameter, add, as_float, require_epsilon, within
from coordinator.protocol.checked import MOST_DEVICES, require_block, require_whole
from coordinator.protocol.errors import BudgetError, InputError, LedgerError


@dataclass(frozen=True, slots=True)
class Charge:
    """Devices ``first`` to ``stop - 1`` were charged ``epsilon`` for the query ``id``."""

    id: bytes
    epsilon: Epsilon
    first: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse an impossible charge."""
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if type(self.id) is not bytes or not self.id:
            raise InputError("what is charged has no id; give a digest")
        require_whole("first device", self.first, 0, MOST_DEVICES)
        require_whole("end of devices", self.stop, self.first, MOST_DEVICES)

    def line(self) -> str:
        """Return the charge as a line of the book."""
        return json.dumps([self.id.hex(), None if self.epsilon is None else str(self.epsilon), self.first, self.stop])


def read_charge(line: str) -> Charge:
    """Return the charge that a line of the book holds."""
    try:
        query_id, epsilon, first, stop = json.loads(line)
        return Charge(bytes.fromhex(query_id), None if epsilon is None else PrivacyParameter(epsilon), first, stop)
    except (ValueError, TypeError, RecursionError):
        raise LedgerError(
            f"a ledger's line is no charge: {line[:80]!r}; what devices spent is not known: put the file back as it "
            "was, or start in a new folder"
        ) from None


LEDGER = LogKind(
    noun="ledger",
    suffix=".ledger",
    remedy="what devices spent is not known: put the file back as it was, or start in a new folder",
    error=LedgerError,
)
_ABOUT = re.compile(r"\[(\d{1,13}), (\d{1,13}), ([\[{].*)\]")
"""A line of the log: the first device, the one after the last, and what is booked about them."""


class UnreachableError(LedgerError):
    """The keeper does not answer, so devices have to refuse."""


class LedgerClient(Protocol):
    """What a ledger talks to: a `Keeper` in this process, or an `actors.host.HostedKeeper` before one elsewhere."""

    def read(self, first: int, stop: int, since: int = 0) -> tuple[int, list[str]]:
        """Return the number of entries, and those after ``since`` about devices ``first`` to ``stop - 1``."""
        ...

    def book(self, first: int, stop: int, position: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        """Book lines about devices unless something was booked about them after ``position``; see `Keeper.book`."""
        ...


class Keeper:
    """An ordered list of entries. Each is a line about some devices, whose meaning the keeper does not know.

    Several threads may call at once. Only one process at a time may use a folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._lock = Lock()
        self._lines: list[str] = []
        self._bounds = np.empty((2, 64), np.int64)
        self._log: Log | None = None
        self._failed: LedgerError | None = None
        if folder is not None:
            self._folder = folder = folder.absolute()
            self._log = Log(folder, LEDGER, owner_of(folder))
            self._log.settle()
            for first, stop, line in self._log.read(_parsed):
                self._hold(first, stop, [line])

    def read(self, first: int, stop: int, since: int = 0) -> tuple[int, list[str]]:
        """Return the number of entries, and the new ones about devices ``first`` to ``stop - 1``."""
        return self.book(first, stop, since, ())

    def book(self, first: int, stop: int, position: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        """Book lines about devices ``first`` to ``stop - 1``, unless the book has new entries about them.

        ``position`` is the number of entries that the caller has read. Return the number of all entries, and the new
        ones about these devices; if there are any, nothing was booked.
        """
        require_whole("first device", first, 0, MOST_DEVICES)
        require_whole("end of devices", stop, first, MOST_DEVICES)
        require_whole("entries that are known", position, 0, MOST_DEVICES)
        entries = [f"[{first}, {stop}, {_require_line(line)}]" for line in lines]
        with self._lock:
            if position > len(self._lines):
                raise LedgerError(
                    f"the keeper's book has {len(self._lines)} entries, devices knew {position}; what devices spent is "
                    "not known: put its files back as they were, or start in a new folder"
                )
            new_lines = self._since(first, stop, position)
            if lines and not new_lines:
                self._write(entries)
                self._hold(first, stop, lines)
            return len(self._lines), new_lines

    def _since(self, first: int, stop: int, position: int) -> list[str]:
        firsts, stops = self._bounds[:, position : len(self._lines)]
        return [self._lines[position + place] for place in np.flatnonzero((firsts < stop) & (stops > first))]

    def _write(self, entries: list[str]) -> None:
        """Write lines to the disk. After a failure its contents are unknown, so this process books nothing more."""
        if self._failed is not None:
            raise self._failed
        if self._log is None:
            return
        try:
            self._log.append(entries)
        except OSError as error:
            self._failed = LedgerError(
                f"ledger in {self._folder} cannot be written ({error.strerror}); devices do not answer what they "
                "cannot book"
            )
            raise self._failed from None

    def _hold(self, first: int, stop: int, lines: Sequence[str]) -> None:
        count = len(self._lines)
        while count + len(lines) > self._bounds.shape[1]:
            self._bounds = np.concatenate([self._bounds, np.empty_like(self._bounds)], axis=1)
        self._bounds[:, count : count + len(lines)] = [[first], [stop]]
        self._lines += lines


def _require_line(line: str) -> str:
    if type(line) is not str or not line.isascii() or not line.isprintable() or line[:1] not in ("[", "{"):
        raise InputError("a line of a book is a list or an object of JSON in printable ASCII")
    return line


def owner_of(folder: Path) -> str:
    """Return the run and the seed that a folder of ledgers belongs to, which its path names."""
    return "/".join(folder.parts[-2:])


def read_book(folder: Path) -> Iterator[tuple[int, int, str]]:
    """Yield the entries of a folder in order: the first device, the one after the last, and the line about them."""
    return Log(folder, LEDGER, owner_of(folder)).read(_parsed)


def _parsed(line: bytes) -> tuple[int, int, str]:
    text = line.decode("ascii")
    json.loads(text)
    if not (match := _ABOUT.fullmatch(text)) or int(match[1]) > int(match[2]):
        raise ValueError("this is about no devices")
    return int(match[1]), int(match[2]), match[3]


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
class DeviceRange:
    """Devices ``first`` to ``stop - 1``, the queries they have answered and what these cost together."""

    first: int
    stop: int
    answered: frozenset[bytes] = frozenset()
    spent: Epsilon = Fraction(0)

    def charged(self, charge: Charge) -> DeviceRange:
        """Return this range after it is charged."""
        return replace(self, answered=self.answered | {charge.id}, spent=add(self.spent, charge.epsilon))

    def same_history(self, other: DeviceRange) -> bool:
        """Return whether both have answered the same queries."""
        return self.answered == other.answered


class Ledger:
    """The privacy ledger of devices ``first`` to ``stop - 1``.

    ``budget`` in nats.

    Several threads and processes may charge blocks of a cohort at once. Each reads what the others have booked before
    it decides, so nothing has to be read when a ledger is made.
    """

    def __init__(self, first: int, stop: int, budget: Epsilon, keeper: LedgerClient | None = None) -> None:
        self.budget = require_epsilon(budget, "budget")
        self.first, self.stop = first, stop
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
                _, charges, refusals = self._charged(Charge(query.id, query.epsilon, first, stop), self.budget)
            return sorted(charges + refusals)

    def book(self, query: Costly, first: int, stop: int) -> list[tuple[int, int]]:
        """Charge as `charge` does, but raise an error instead of refusing where the keeper does not answer."""
        require_block(first, stop, self.first, self.stop)
        charge = Charge(query.id, query.epsilon, first, stop)
        with self._lock:
            return self._charge(charge)

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
            if is_new and not within(add(block.spent, charge.epsilon), budget):
                refusals.append((block.first, block.stop))
                is_new = False
            elif is_new:
                charges.append((block.first, block.stop))
            _append(ranges, block.charged(charge) if is_new else block)
        return ranges, charges, refusals

    def spending(self) -> list[tuple[int, int, Epsilon]]:
        """Return what devices have spent: ``(first, stop, spent)`` of neighbours that spent the same [nats]."""
        self.look()
        sums: list[tuple[int, int, Epsilon]] = []
        for block in self._ranges:
            if sums and sums[-1][2] == block.spent:
                sums[-1] = (sums[-1][0], block.stop, block.spent)
            else:
                sums.append((block.first, block.stop, block.spent))
        return sums

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

    def spent(self, device: int) -> Epsilon:
        """Return what ``device`` has spent so far [nats]; None if it has answered without noise."""
        self.look()
        return self._range_of(device).spent

    def refusal(self, query: Costly, device: int) -> BudgetError:
        """Return the error that says why ``device`` refuses ``query``: what it costs, and what is spent and left."""
        spent, budget = as_float(self.spent(device)), as_float(self.budget)
        return BudgetError(
            f"budget spent: {query} costs {as_float(query.epsilon):g} nats, device {device} has {budget - spent:g} of "
            f"{budget:g} left ({spent:g} spent); lower epsilon per round or the number of rounds"
        )

    def _range_of(self, device: int) -> DeviceRange:
        return next(block for block in self._ranges if block.first <= device < block.stop)


def _split(ranges: list[DeviceRange], first: int, stop: int) -> list[DeviceRange]:
    """Return ranges of devices, cut at ``first`` and at ``stop``."""
    parts: list[DeviceRange] = []
    for block in ranges:
        cuts = [cut for cut in (first, stop) if block.first < cut < block.stop]
        ends = [block.first, *dict.fromkeys(cuts), block.stop]
        parts += [replace(block, first=a, stop=b) for a, b in itertools.pairwise(ends)]
    return parts


def _append(ranges: list[DeviceRange], block: DeviceRange) -> None:
    if ranges and ranges[-1].same_history(block):
        ranges[-1] = replace(ranges[-1], stop=block.stop)
    else:
        ranges.append(block)
