"""The keeper of the devices' book: a small service that alone knows for certain what devices have spent and promised.

Devices are its clients: a ledger, or a private device's answers, holds a `LedgerClient`, and books with it before
anything is answered.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np

from actors.database import Chain, Database, FileKind
from coordinator.protocol.budget import Epsilon, PrivacyParameter, add, as_float, require_epsilon, within
from coordinator.protocol.checked import MOST_DEVICES, require_block, require_whole
from coordinator.protocol.errors import InputError, LedgerError, LostError


@dataclass(frozen=True, slots=True)
class Charge:
    """Devices ``first`` to ``stop - 1`` were charged ``epsilon`` for the query ``id``."""

    id: bytes
    epsilon: Epsilon
    first: int
    stop: int
    agreement: bytes = b""  # Digest of what was agreed, if anything was
    period: int = 0  # Of time, which it is about; 0 where time does not count

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if type(self.id) is not bytes or not self.id:
            raise InputError("what is charged has no id; give a digest")
        require_block(self.first, self.stop, 0, MOST_DEVICES)
        require_whole("period", self.period, 0, MOST_DEVICES)

    def line(self) -> str:
        """Return the charge as a line of the book."""
        epsilon, agreement = None if self.epsilon is None else str(self.epsilon), [self.agreement.hex()]
        more = [*agreement, self.period] if self.period else agreement if self.agreement else []
        return json.dumps([self.id.hex(), epsilon, self.first, self.stop, *more])


def read_charge(line: str) -> Charge:
    """Return the charge that a line of the book holds."""
    try:
        query_id, epsilon, first, stop, *more = json.loads(line)
        exact = None if epsilon is None else PrivacyParameter(epsilon)
        agreement = bytes.fromhex(more[0]) if more else b""
        return Charge(bytes.fromhex(query_id), exact, first, stop, agreement, *more[1:])
    except (ValueError, TypeError, RecursionError):
        raise LedgerError(f"a ledger's line is no charge: {line[:80]!r}; {LEDGER.remedy}") from None


LEDGER = FileKind(
    name="ledger.db",
    noun="ledger",
    remedy="what devices spent is not known: put the file back as it was, or start in a new folder",
    error=LedgerError,
)
_CHARGES = "charges"
_COLUMNS = "first INTEGER NOT NULL, stop INTEGER NOT NULL, entry TEXT NOT NULL"
_PAGE = 10_000  # Entries that are read at a time


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


class Book:
    """An ordered list of lines about devices, in memory and in a table; it does not interpret them."""

    def __init__(self, chain: Chain | None) -> None:
        self.lines: list[str] = []
        self._chain, bounds = chain, list[tuple[int, int]]()
        if chain is not None:
            for first, stop, line in chain:
                if not (type(first) is type(stop) is int and 0 <= first <= stop <= MOST_DEVICES and _is_line(line)):
                    raise chain.damaged(len(bounds))
                bounds.append((first, stop))
                self.lines.append(line)
        self._bounds = np.empty((2, len(bounds) + 64), np.int64)
        self._bounds[:, : len(bounds)] = np.array(bounds, np.int64).reshape(-1, 2).T

    def new(self, first: int, stop: int, position: int) -> list[str]:
        """Return the entries after ``position`` about devices ``first`` to ``stop - 1``."""
        firsts, stops = self._bounds[:, position : len(self.lines)]
        return [self.lines[position + index] for index in np.flatnonzero((firsts < stop) & (stops > first))]

    def add(self, first: int, stop: int, lines: Sequence[str]) -> None:
        """Add entries once they are on the disk; an `OSError` says why they are not."""
        if self._chain is not None:
            self._chain.append(((first, stop, line) for line in lines), len(self.lines))
        self._hold(first, stop, lines)

    def _hold(self, first: int, stop: int, lines: Sequence[str]) -> None:
        count = len(self.lines)
        while count + len(lines) > self._bounds.shape[1]:
            self._bounds = np.concatenate([self._bounds, np.empty_like(self._bounds)], axis=1)
        self._bounds[:, count : count + len(lines)] = [[first], [stop]]
        self.lines += lines


class Keeper:
    """The books about devices in one file, or in memory: what they were charged, and what each intermediary opened."""

    def __init__(self, folder: Path | None = None) -> None:
        # Several threads may call at once. Only one process at a time may use a folder.
        self._lock = Lock()
        self._folder = None if folder is None else folder.absolute()
        self._file = None if self._folder is None else Database(self._folder, LEDGER, owner_of(self._folder))
        self._books: dict[str, Book] = {}
        self._closed = False
        try:
            self._book_of("")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes use the folder; from here on nothing is booked."""
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()

    def read(self, first: int, stop: int, since: int = 0, opener: str = "") -> tuple[int, list[str]]:
        """Return the number of entries, and the new ones about devices ``first`` to ``stop - 1``."""
        return self.book(first, stop, since, (), opener)

    def book(
        self, first: int, stop: int, position: int, lines: Sequence[str], opener: str = ""
    ) -> tuple[int, list[str]]:
        """Book lines about devices ``first`` to ``stop - 1``, unless the book has new entries about them."""
        # ``position`` is the number of entries that the caller has read. Return the number of all entries, and the new
        # ones about these devices; if there are any, nothing was booked. The book is that of charges, or an opener's.
        require_block(first, stop, 0, MOST_DEVICES)
        require_whole("entries that are known", position, 0, MOST_DEVICES)
        if not all(map(_is_line, lines)):
            raise InputError("a line of a book is a list or an object of JSON in printable ASCII")
        with self._lock:
            book = self._book_of(opener)
            if position > len(book.lines):
                counts = f"the keeper's book has {len(book.lines)} entries, devices knew {position}"
                raise LedgerError(f"{counts}; {LEDGER.remedy}")
            new_lines = book.new(first, stop, position)
            if lines and not new_lines:
                if self._closed:
                    raise LedgerError(f"ledger in {self._folder} is closed; start the run again")
                try:
                    book.add(first, stop, lines)
                except OSError as error:
                    raise LedgerError(
                        f"ledger in {self._folder} cannot be written ({error.strerror}); devices do not answer what "
                        "they cannot book"
                    ) from None
            return len(book.lines), new_lines

    def _book_of(self, opener: str) -> Book:
        """Return a book, which is read and checked for the first call."""
        if opener not in self._books:
            table = f"openings of {require_opener(opener)}" if opener else _CHARGES
            self._books[opener] = Book(None if self._file is None else Chain(self._file, table, _COLUMNS, page=_PAGE))
        return self._books[opener]


def require_opener(opener: object) -> str:
    """Return the name of an intermediary, after which its table is named."""
    if type(opener) is not str or not re.fullmatch("[a-z ]{1,40}", opener):
        raise InputError(f"opener is {str(opener)[:40]!r}; give a name of small letters")
    return opener


def _is_line(line: object) -> bool:
    return type(line) is str and line.isascii() and line.isprintable() and line[:1] in ("[", "{")


def owner_of(folder: Path) -> str:
    """Return the run and the seed that a folder of ledgers belongs to, which its path names."""
    return "/".join(folder.parts[-2:])


Spent = tuple[int, int, Epsilon]
"""First device, the one after the last, and the budget that each of them has spent [nats]."""


def spent_by(keeper: LedgerClient, devices: int) -> list[Spent]:
    """Return what devices 0 to ``devices - 1`` have spent, by stretches ``(first, stop, spent)`` [nats]."""
    return spent_ranges(map(read_charge, _booked(keeper, devices)), devices)


def spent_ranges(entries: Iterable[Charge], devices: int) -> list[Spent]:
    """Return what charges add up to, by stretches that spent alike; a query that was booked twice counts once."""
    ends = [
        (at, step, charge) for charge in entries for at, step in ((charge.first, 1), (min(charge.stop, devices), -1))
    ]
    ends.sort(key=lambda end: end[0])
    ranges: list[Spent] = []
    open_, paid, free, reached = Counter[bytes](), Fraction(0), 0, 0
    for at, step, charge in [*ends, (devices, 0, None)]:
        if at > reached:
            spent = None if free else paid
            if ranges and ranges[-1][2] == spent:
                ranges[-1] = (ranges[-1][0], at, spent)
            else:
                ranges.append((reached, at, spent))
            reached = at
        if charge is None:
            continue
        before, open_[charge.id] = open_[charge.id], open_[charge.id] + step
        if bool(before) != bool(open_[charge.id]):
            paid, free = paid + step * (charge.epsilon or 0), free + (step if charge.epsilon is None else 0)
    return ranges


BUDGET, ANSWERS, UNREACHABLE = "budget", "answers", "ledger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Devices that refused a query, and why."""

    # `BUDGET`; `ANSWERS` where they had given as many as were agreed; `UNREACHABLE` where their keeper did not reply
    reason: str
    devices: int
    cost: Epsilon  # What they were asked for, what they had spent before, and their budget [nats]
    spent: Epsilon
    budget: Epsilon

    def __str__(self) -> str:
        if self.reason == UNREACHABLE:
            return f"{self.devices:,} could not book the answer: their ledger's keeper did not reply; resume the run"
        if self.reason == ANSWERS:
            return f"{self.devices:,} had given as many answers as were agreed; ask others, or agree on more"
        cost, spent, budget = map(as_float, (self.cost, self.spent, self.budget))
        return (
            f"{self.devices:,} beyond their budget: asked for {cost:g} nats, {budget - spent:g} of {budget:g} left "
            f"({spent:g} spent); lower epsilon per round or the number of rounds"
        )


def refusals_of(
    keeper: LedgerClient,
    devices: int,
    budget: Epsilon,
    rounds: Sequence[tuple[bytes, Epsilon, int, int, int]],
    answers: int | None = None,
) -> list[Refusal]:
    """Return why devices refused in rounds ``(query id, epsilon, first, stop, refusals)``: by the book, not charged."""
    refusals: list[Refusal] = []
    charges = [read_charge(line) for line in _booked(keeper, devices)] if any(refused for *_, refused in rounds) else []
    for number, (query_id, cost, first, stop, refused) in enumerate(rounds):
        if not refused:
            continue
        earlier, explained = {earlier_round[0] for earlier_round in rounds[:number]}, 0
        for low, high, spent in spent_ranges((charge for charge in charges if charge.id in earlier), devices):
            start, end = max(low, first), min(high, stop)
            count = max(0, end - start)
            for charge in charges:  # of one query each device is charged once
                if charge.id == query_id:
                    count -= max(0, min(charge.stop, end) - max(charge.first, start))
            earlier_answers = len(
                {charge.id for charge in charges if charge.id in earlier and charge.first <= start < charge.stop}
            )
            full = answers is not None and earlier_answers >= answers
            if count and (full or not within(add(spent, cost), budget)):
                reason = BUDGET if not within(add(spent, cost), budget) else ANSWERS
                refusals.append(Refusal(reason=reason, devices=count, cost=cost, spent=spent, budget=budget))
                explained += count
        if refused > explained:
            count = refused - explained
            refusals.append(Refusal(reason=UNREACHABLE, devices=count, cost=cost, spent=None, budget=budget))
    return refusals


def once_a_reason(refusals: Sequence[Refusal]) -> list[str]:
    """Return a line for each reason: how many refused, and what most of them were asked for, had spent and had left."""
    lines = []
    for reason in dict.fromkeys(refusal.reason for refusal in refusals):
        same = [refusal for refusal in refusals if refusal.reason == reason]
        most = max(same, key=lambda refusal: refusal.devices)
        lines.append(str(replace(most, devices=sum(refusal.devices for refusal in same))))
    return lines


def require_there(keeper: LedgerClient) -> None:
    """Stop if the keeper is gone, because all devices would refuse."""
    _booked(keeper, 0)


def _booked(keeper: LedgerClient, devices: int) -> list[str]:
    try:
        return keeper.read(0, devices)[1]
    except UnreachableError:
        raise LostError(
            "the process that keeps what devices have spent was lost, so that they refuse to answer; start the run "
            "again"
        ) from None
