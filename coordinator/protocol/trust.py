"""Who stands between devices and server: a shuffler's terms, what it hands on, and whose answers it has opened.

Two openings of one query that differ by a device lay it bare, so that a round that is asked again, whoever answers now,
is opened of the same devices again, or not at all; the same holds of each of two servers.
"""

import base64
import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from coordinator.protocol import checked
from coordinator.protocol.arrays import Bools
from coordinator.protocol.checked import MOST_DEVICES, Checked
from coordinator.protocol.errors import InputError, LostError
from coordinator.protocol.messages import ID_BYTES, Query, Release, pack, unpack

LOCAL, SHUFFLED, TWO_SERVERS = "local", "shuffled", "two-servers"
"""Trust models of a run: nobody is trusted; a shuffler hides who sent what; one of two servers keeps its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffling(Checked):
    """How many reports a shuffler needs in every round, and what it does where there are fewer."""

    # Reports that a round needs, so that the devices' local epsilon keeps the central one that they were promised
    reports: int
    # Whether a round with fewer reports stays with the shuffler, so that nobody learns from it; else it is handed on,
    # and its central epsilon is larger
    withhold: bool = True
    # Share of the asked devices whose reports it needs, where rounds are promised each by their own size
    share: float = 0.0

    def least(self, devices: int) -> int:
        """Return how many reports a round needs that so many devices were asked."""
        return max(self.reports, math.floor(devices * self.share))

    def check(self) -> None:
        """Refuse terms without a whole number of reports; see `Checked.check`."""
        checked.require_real("share of the reports", self.share, 0.0)
        checked.require_whole("reports of a round", self.reports, 1, MOST_DEVICES)
        if type(self.withhold) is not bool:
            raise InputError(f"withhold is {self.withhold!r}; say True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoServers(Checked):
    """What two servers that add up shares agree to before anything is asked."""

    delta: float  # The largest chance that a promise about published sums fails, which neither goes beyond

    def check(self) -> None:
        """Refuse a delta that is no chance; see `Checked.check`."""
        checked.require_real("delta", self.delta, 0.0, 1.0)


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
        """Raise InputError if this is no round of ``query`` that so many devices were asked."""
        if self.query_id != query.id or self.devices != devices:
            raise InputError(
                f"{self.devices} devices answered query id {self.query_id.hex()[:8]}; {devices} got {query}"
            )
        if self.release is not None:
            self.release.require(query)


class OpeningBook(Protocol):
    """An ordered list of lines about devices, which nobody can write past a line that he has not read."""

    def book(self, first: int, stop: int, position: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        """Book lines unless something was booked after ``position``; return the number of entries, and the new ones."""
        ...


class BookActor:
    """A book behind an actor, whose answers ``result_of`` waits for."""

    def __init__(self, actor: Any, result_of: Callable[[Any], Any]) -> None:
        self._actor, self._result_of = actor, result_of

    def book(self, first: int, stop: int, position: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        """Book lines; see `OpeningBook.book`. Where an answer was lost the next call returns the line."""
        position, new = self._result_of(self._actor.book.remote(first, stop, position, lines))
        return position, new


class OpeningError(LostError):
    """Devices of a round that was opened before are out of reach, and it is not opened of others."""


class Opening(NamedTuple):
    """Whose answers were opened: of devices from ``first`` on those of a mask."""

    first: int
    mask: Bools

    def overlaps(self, other: "Opening") -> bool:
        """Return whether both name some device."""
        first, stop = max(self.first, other.first), min(self.first + self.mask.size, other.first + other.mask.size)
        if first >= stop:
            return False
        mine, others = (one.mask[first - one.first : stop - one.first] for one in (self, other))
        return bool((mine & others).any())

    def same_devices(self, other: "Opening") -> bool:
        """Return whether both are of one round and name the same devices."""
        return self.first == other.first and np.array_equal(self.mask, other.mask)


class Openings:
    """What one opener, by its name, has opened; without a book it is known as long as this process lives."""

    def __init__(self, opener: str, book: OpeningBook | None = None) -> None:
        self._opener, self._book, self._position = opener, book, 0
        self._openings = dict[bytes, list[Opening]]()  # By query id

    def mask(self, query: Query, first: int, count: int) -> Bools | None:
        """Return whose answers were opened where these devices were asked before; None if nobody's were."""
        self._read()
        openings = self._openings.get(query.id, [])
        return next((one.mask for one in openings if (one.first, one.mask.size) == (first, count)), None)

    def note(self, query: Query, first: int, mask: Bools) -> None:
        """Note what is about to be opened, before anybody sees it; refuse what differs by some of its devices."""
        new = Opening(first, mask)
        answered = base64.b64encode(zlib.compress(pack(mask.astype(np.uint8)))).decode()
        line = json.dumps([self._opener, query.id.hex(), first, mask.size, answered])
        while mask.any():
            openings = self._openings.setdefault(query.id, [])
            if any(new.same_devices(one) for one in openings):
                return
            if any((one.first, one.mask.size) == (first, mask.size) for one in openings):
                raise OpeningError(f"{query} was opened by another process of {self._opener} meanwhile; resume")
            if any(new.overlaps(one) for one in openings):
                raise InputError(
                    f"{query} was opened with other devices before: the difference would show some of them; ask a new "
                    "query"
                )
            if not self._read(line):
                openings.append(new)

    def _read(self, *lines: str) -> bool:
        """Book lines unless there are new ones, which are taken in; return whether there were."""
        if self._book is None:
            return False
        self._position, new = self._book.book(0, MOST_DEVICES, self._position, lines)
        for opener, query_id, first, count, answered in map(json.loads, new):
            if opener == self._opener:
                mask = unpack(zlib.decompress(base64.b64decode(answered)), count).astype(np.bool_)
                self._openings.setdefault(bytes.fromhex(query_id), []).append(Opening(first, mask))
        return bool(new)


def require_again(query: Query, opened: Bools, answering: Bools) -> None:
    """Refuse to open a round anew of which some devices that were opened before do not answer now."""
    if missing := int((opened & ~answering).sum()):
        raise OpeningError(
            f"{missing:,} of {int(opened.sum()):,} devices whose answers to {query} were opened before are out of "
            "reach; others in their place would show some of them, resume to ask again"
        )
