"""Shuffler and two servers: what a shuffler hands on, and the record of whose answers were opened.

Two openings of one query that differ by one device reveal its answer. A round that is repeated is therefore opened for
the same devices again, whoever answers now, or not at all; this holds for each of two servers as well.
"""

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from coordinator.protocol import checked
from coordinator.protocol.arrays import Bools
from coordinator.protocol.checked import MOST_DEVICES, Checked
from coordinator.protocol.errors import AgreementError, InputError, LedgerError, LostError
from coordinator.protocol.messages import AGREEMENT_BYTES, ID_BYTES, Query, Release, pack, unpack

OPENER = "the shuffler"  # Its name in the book of what was opened


def opener_of(side: str) -> str:
    """Return the name of one of two servers in the book of what was opened."""
    return f"the server of {side}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledRound(Checked):
    """What a shuffler hands on of a round: the reports in ascending order, which says nothing of who sent them."""

    query_id: bytes  # Which query the reports answer
    devices: int  # Devices that were asked, those that refused, and those that reported; all are public
    refused: int
    answered: int
    # The reports of those that answered, as one block from address 0 on; None where the round is withheld
    release: Release | None = field(repr=False)

    def check(self) -> None:
        """Refuse a round whose parts do not fit each other; see `Checked.check`."""
        checked.require_bytes("query id", self.query_id, ID_BYTES)
        checked.require_whole("asked devices", self.devices, 0, MOST_DEVICES)
        checked.require_whole("refusing devices", self.refused, 0, self.devices)
        checked.require_whole("answering devices", self.answered, 0, self.devices - self.refused)
        if self.release is None:
            return
        release = Release.valid(self.release)
        if release.query_id != self.query_id or (release.first, release.count) != (0, self.answered):
            raise InputError(
                f"a shuffled round of {self.answered} reports holds {release.count} from address {release.first} on; "
                "hand on all of them, from address 0"
            )
        if release.answered is not None or release.refused or release.pairs is not None:
            raise InputError("a shuffled round says who answered, or about which items; take that off the reports")

    def require(self, query: Query, devices: int) -> None:
        """Raise InputError if this is no round of ``query`` with this many devices."""
        if self.query_id != query.id or self.devices != devices:
            raise InputError(
                f"{self.devices} devices answered query id {self.query_id.hex()[:8]}; {devices} got {query}"
            )
        if self.release is not None:
            self.release.require(query)


class OpeningBook(Protocol):
    """An ordered list of lines about devices; only a writer who has read all of it can append."""

    def book(self, first: int, stop: int, position: int, lines: Sequence[str], opener: str) -> tuple[int, list[str]]:
        """Book an opener's lines unless it has others after ``position``; return their number, and the new ones."""
        ...


class BookActor:
    """A book behind an actor, whose answers ``result_of`` waits for."""

    def __init__(self, actor: Any, result_of: Callable[[Any], Any]) -> None:
        self._actor, self._result_of = actor, result_of

    def book(
        self, first: int, stop: int, position: int, lines: Sequence[str], opener: str = ""
    ) -> tuple[int, list[str]]:
        """Book lines; see `OpeningBook.book`. Where an answer was lost the next call returns the line."""
        position, new = self._result_of(self._actor.book.remote(first, stop, position, lines, opener))
        return position, new


class OpeningError(LostError):
    """Devices of a round that was opened before are out of reach; the round is not opened for others."""


class Opening(NamedTuple):
    """The devices whose answers were opened: those that the mask marks from ``first`` on."""

    first: int
    mask: Bools
    period: int = 0  # Of time, which the query is about; 0 where time does not count

    def overlaps(self, other: "Opening") -> bool:
        """Return whether both name some device."""
        first, stop = max(self.first, other.first), min(self.first + self.mask.size, other.first + other.mask.size)
        if first >= stop:
            return False
        mine, others = (opening.mask[first - opening.first : stop - opening.first] for opening in (self, other))
        return bool((mine & others).any())

    def same_devices(self, other: "Opening") -> bool:
        """Return whether both are of one round and name the same devices."""
        return self.first == other.first and np.array_equal(self.mask, other.mask)


class Openings:
    """What one opener has opened; without a book the record ends with this process."""

    def __init__(
        self,
        opener: str,
        book: OpeningBook | None = None,
        *,
        agreement: bytes = b"",
        answers: int | None = None,
        users: int = MOST_DEVICES,
        in_order: bool = False,
    ) -> None:
        # Every line names the agreement by its digest. At most ``answers`` of each device are opened, and every line is
        # about devices below ``users``. With ``in_order`` one opening a period is noted, and none of an earlier period.
        self._in_order = in_order
        self._opener, self._book, self._position = opener, book, 0
        self._agreement, self._answers, self._users = agreement, answers, users
        self._openings = dict[bytes, list[Opening]]()  # By query id
        self._counts = np.zeros(0, np.int32)  # Answers of each device that were opened, where these are limited

    def mask(self, query: Query, first: int, count: int) -> Bools | None:
        """Return whose answers were opened when these devices were asked before; None if nobody's were."""
        self._read()
        openings = self._openings.get(query.id, [])
        return next(
            (opening.mask for opening in openings if (opening.first, opening.mask.size) == (first, count)), None
        )

    def note(self, query: Query, first: int, mask: Bools) -> None:
        """Record an opening before anybody sees it; refuse one that differs from an earlier one by some devices."""
        new = Opening(first, mask, query.period)
        line = opening_line(query.id, new, self._agreement)
        while mask.any():
            openings = self._openings.get(query.id, [])
            if any(new.same_devices(opening) for opening in openings):
                return
            if any((opening.first, opening.mask.size) == (first, mask.size) for opening in openings):
                raise OpeningError(f"{query} was opened by another process of {self._opener} meanwhile; resume")
            if any(new.overlaps(opening) for opening in openings):
                raise InputError(
                    f"{query} was opened with other devices before: the difference would show some of them; ask a new "
                    "query"
                )
            if query.period and self._opened_in(query, new):
                raise AgreementError(
                    f"{query} is about devices of which {self._opener} opened an answer about period {query.period} "
                    "before, as many as were agreed; ask others"
                )
            if self._in_order and (later := max(self._periods, default=0)) >= query.period:
                raise AgreementError(
                    f"{query} is about period {query.period}, but {self._opener} opened a sum of period {later}, whose "
                    "noise goes on in later ones alone; ask about a later period"
                )
            counts = self._counts[first : first + mask.size]
            if self._answers is not None and counts[mask[: counts.size]].max(initial=0) >= self._answers:
                raise AgreementError(
                    f"{query} is about devices of which {self._opener} opened {self._answers} answers before, as many "
                    "as were agreed; ask others"
                )
            if not self._read(line):
                self._hold(query.id, new)

    def openings_before(self, query: Query) -> list[tuple[bytes, Opening]]:
        """Return the query ids and openings of periods before that of a query, in order of periods."""
        self._read()
        every = [(query_id, opening) for query_id, openings in self._openings.items() for opening in openings]
        return sorted((part for part in every if part[1].period < query.period), key=lambda part: part[1].period)

    @property
    def _periods(self) -> set[int]:
        return {opening.period for openings in self._openings.values() for opening in openings}

    def _opened_in(self, query: Query, new: Opening) -> bool:
        """Return whether another query of the period was opened of some of the devices."""
        others = (openings for query_id, openings in self._openings.items() if query_id != query.id)
        return any(
            opening.period == new.period and new.overlaps(opening) for openings in others for opening in openings
        )

    def _hold(self, query_id: bytes, opening: Opening) -> None:
        """Record an opening, and count each device's opened answers."""
        self._openings.setdefault(query_id, []).append(opening)
        stop = opening.first + opening.mask.size
        if self._answers is None:
            return
        if (missing := stop - self._counts.size) > 0:
            self._counts = np.pad(self._counts, (0, max(missing, self._counts.size)))
        self._counts[opening.first : stop] += opening.mask

    def _read(self, *lines: str) -> bool:
        """Book lines, unless others have added new ones; then read these and return True."""
        if self._book is None:
            return False
        self._position, new = self._book.book(0, MOST_DEVICES, self._position, lines, self._opener)
        for line in new:
            query_id, opening, agreement = read_opening(line, self._users)
            require_agreement(f"the book of {self._opener} was begun", agreement, self._agreement)
            self._hold(query_id, opening)
        return bool(new)


def opening_line(query_id: bytes, opening: Opening, agreement: bytes) -> str:
    """Return an opening as a line of the book."""
    answered = base64.b64encode(zlib.compress(pack(opening.mask.astype(np.uint8)))).decode()
    period = [opening.period] if opening.period else []
    return json.dumps([query_id.hex(), opening.first, opening.mask.size, answered, agreement.hex(), *period])


def read_opening(line: str, users: int) -> tuple[bytes, Opening, bytes]:
    """Return the query id, opening and agreement of a line in an opener's book."""
    try:
        query_id, first, count, answered, agreement, *periods = json.loads(line)
        (period,) = periods or [0]
        checked.require_whole("period", period, 0, MOST_DEVICES)
        checked.require_whole("first device", first, 0, users)
        checked.require_whole("devices", count, 1, users - first)
        size = -(-count // 8)
        packed = zlib.decompressobj().decompress(base64.b64decode(answered, validate=True), size + 1)
        mask = unpack(checked.require_bytes("mask", packed, size), count).astype(np.bool_)
        identity = checked.require_bytes("query id", bytes.fromhex(query_id), ID_BYTES)
        digest = bytes.fromhex(agreement)
        if digest:
            checked.require_bytes("digest of the agreement", digest, AGREEMENT_BYTES)
    except (ValueError, TypeError, RecursionError, zlib.error):
        raise LedgerError(
            f"a line of the book of openings is no opening of {users:,} devices: {line[:80]!r}; whose answers were "
            "opened is not known: put the file back as it was, or start in a new folder"
        ) from None
    return identity, Opening(first, mask, period), digest


def require_agreement(began: str, digest: bytes, agreed: bytes) -> None:
    """Refuse what was asked or begun under another agreement; ``began`` says what."""
    if digest != agreed:
        other, here = (content.hex()[:8] or "none" for content in (digest, agreed))
        raise AgreementError(
            f"{began} under agreement {other}; agreed here was {here}: ask under it, or start in a new folder"
        )


def require_again(query: Query, opened: Bools, answering: Bools) -> None:
    """Refuse to reopen a round if a device opened before no longer answers."""
    if missing := int((opened & ~answering).sum()):
        raise OpeningError(
            f"{missing:,} of {int(opened.sum()):,} devices whose answers to {query} were opened before are out of "
            "reach; others in their place would show some of them, resume to ask again"
        )
