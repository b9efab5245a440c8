"""What both servers do: fetch shares with their own permit, say who gave them, and publish a sum with their own noise.

A server's noise follows from its secret, the query and who is in the sum, so that a retry or a resumed run publishes
the same sum again, and never the same devices under fresh noise. Whose shares it opened it notes in a book before
anybody sees the sum, so that a process in the place of one that died opens those of no others.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from coordinator.protocol import shares
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bits, Counts
from coordinator.protocol.checked import MOST_DEVICES, require_bytes, require_whole
from coordinator.protocol.coins import derive
from coordinator.protocol.counters import carried_noise
from coordinator.protocol.custom import CustomMechanism, admit
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.messages import Query, pack, unpack
from coordinator.protocol.shared_vector import DEVIATION, SharedVector
from coordinator.protocol.trust import OpeningBook, Openings, opener_of, require_again

S = TypeVar("S", shares.WordShare, shares.SeedShare)
BLOCK_WORDS = 1 << 21  # Words of devices whose shares are in memory together: 8 MB


class ShareRoute(Protocol):
    """The way on which a server's shares come from devices."""

    def shares(self, permit: bytes, query: Query, first: int, stop: int) -> Iterator[Any]:
        """Yield the shares of devices ``first`` to ``stop - 1`` for the holder of a permit, in order of devices."""


def pieces(first: int, stop: int, width: int) -> list[tuple[int, int]]:
    """Cut devices ``first`` to ``stop - 1`` into blocks whose words are in memory together."""
    size = max(1, BLOCK_WORDS // width)
    return [(start, min(start + size, stop)) for start in range(first, stop, size)]


@dataclass(frozen=True, slots=True)
class ShareSum:
    """The sum of one query's shares, before any noise."""

    roll: shares.ShareRoll  # Whose they are
    total: Counts  # Modulo 2**32
    transcript: bytes  # SHA-256 of the shares and of the roll


class ShareServer(ABC, Generic[S]):
    """One of the two servers; ``secret`` and ``permit`` are its own, and nobody else has them."""

    side: ClassVar[str]

    def __init__(
        self,
        secret: bytes,
        permit: bytes,
        route: ShareRoute,
        agreement: Agreement | None = None,
        book: OpeningBook | None = None,
        custom: CustomMechanism | None = None,
    ) -> None:
        admit(custom)
        # It opens no sum that the agreement does not cover; without one, as in audits, it opens what its query says.
        agreement = None if agreement is None else Agreement.arrived(agreement)
        self._secret, self._permit, self._route, self._agreement = secret, permit, route, agreement
        self._latest: ShareSum | None = None
        self._openings = (agreement.openings if agreement else Openings)(opener_of(self.side), book)

    @abstractmethod
    def arrived(self, share: object) -> S:
        """Return a share that devices sent, checked."""

    @abstractmethod
    def add(self, share: S, heard: Bits, total: Counts) -> None:
        """Add a block's shares to a sum, modulo 2**32."""

    @abstractmethod
    def rehearse(self, width: int) -> None:
        """Compile what shares of so many words need."""

    def warm_up(self, query: Query) -> None:
        """Compile what a query needs; nothing is fetched."""
        self.rehearse(self._require(query).width(query))

    def collect(self, query: Query, first: int, stop: int, among: bytes | None = None) -> shares.ShareRoll:
        """Fetch the shares of devices ``first`` to ``stop - 1`` and add them up; return whose are in the sum."""
        # Asked again, by a retry or a curious server, devices repeat their shares and spend nothing. Those outside of a
        # mask of packed bits are left out. Where a sum of the round was opened it is one of the same devices again.
        self._latest = self._collected(query, first, stop, among)
        return self._latest.roll

    def publish(self, query: Query, other: shares.ShareRoll) -> shares.PublishedSum:
        """Publish the sum of a query's shares with this server's noise, if the other server holds those of the same."""
        # A RollError says that devices were out of reach meanwhile, collect again; a WithheldError that too few
        # answered for their noise to suffice; an InputError that another sum with some of these devices was published.
        mechanism, other = self._require(query), shares.ShareRoll.arrived(other)
        latest = self._latest
        if latest is None or (latest.roll.query_id, latest.roll.first, latest.roll.count) != (
            query.id,
            other.first,
            other.count,
        ):  # this process took the place of one that died
            latest = self._collected(query, other.first, other.first + other.count, other.answered)
            self._latest = latest
        roll = latest.roll
        if not roll.same_devices(other):
            raise shares.RollError(
                f"two servers hold shares of {roll.devices:,} and {other.devices:,} devices to {query}, which are not "
                "the same; neither opens its sum, resume to ask again"
            )
        mechanism.require_enough(query, roll.devices)
        self._openings.note(query, roll.first, roll.mask())
        return shares.PublishedSum(
            side=self.side,
            roll=roll,
            width=latest.total.size,
            sum_bytes=shares.as_bytes_of_words(latest.total + self._noise(mechanism, query, roll)),
            transcript=latest.transcript,
        )

    def _noise(self, mechanism: SharedVector, query: Query, roll: shares.ShareRoll) -> Counts:
        """Return this server's noise, modulo 2**32; it follows from its secret, the query and the roll alone."""
        width, seed = mechanism.width(query), self._seed(query.id, roll.first, roll.count, roll.answered)
        if self._agreement is not None and self._agreement.counter:
            # What was opened is in the book, also of a process that died
            seeds: list[bytes] = [
                self._seed(query_id, opening.first, opening.mask.size, pack(opening.mask.astype(np.uint8)))
                for query_id, opening in self._openings.openings_before(query)
            ]
            noise = carried_noise([*seeds, seed], query.parameters[DEVIATION], width)
        elif (law := mechanism.server_noise(query)) is None:
            return np.zeros(width, np.uint32)
        else:
            noise = law.draw(seed, 0, width)
        return (noise % shares.MODULUS).astype(np.uint32)

    def _seed(self, query_id: bytes, first: int, count: int, answered: bytes) -> bytes:
        """Return what keys the noise of one sum: the query, and who is in the sum."""
        # With other devices in the sum the noise is another one: the difference of two sums never shows a device bare.
        who = hashlib.sha256(answered).hexdigest()
        return derive(self._secret, f"noise of query {query_id.hex()} of {first} to {count}, {who}")

    def _require(self, query: Query) -> SharedVector:
        """Return the public half of a query that devices answer in shares, under noise as was agreed."""
        mechanism = check_question(query)
        if not isinstance(mechanism, SharedVector):
            raise InputError(f"{query} is not answered in shares; two servers add up designs that are sums")
        if self._agreement is not None:
            self._agreement.require_noise(query)
        return mechanism

    def _collected(self, query: Query, first: int, stop: int, among: bytes | None) -> ShareSum:
        mechanism = self._require(query)
        require_whole("first device", first, 0, MOST_DEVICES)
        require_whole("end of the devices", stop, first, MOST_DEVICES)
        width, opened = mechanism.width(query), self._openings.mask(query, first, stop - first)
        choice: Bits | None = None
        if opened is not None:
            choice = opened.astype(np.uint8)
        elif among is not None:
            choice = unpack(require_bytes("mask of the devices", among, -(-(stop - first) // 8)), stop - first)
        total, hasher, refused = np.zeros(width, np.uint32), hashlib.sha256(), 0
        masks: list[Bits] = []
        at = first
        for message in self._route.shares(self._permit, query, first, stop):
            share = self.arrived(message)
            if (share.query_id, share.first, share.width) != (query.id, at, width) or at + share.count > stop:
                raise InputError(f"devices from {at} on sent what is no share of {query}; start their process anew")
            heard, content = _part(share, None if choice is None else choice[at - first : at - first + share.count])
            self.add(share, heard, total)
            hasher.update(content)
            masks.append(heard)
            refused, at = refused + share.refused, at + share.count
        if at != stop:
            raise InputError(f"devices {at} to {stop - 1} sent no share of {query}; start their process anew")
        answering = np.concatenate([*masks, np.zeros(0, np.uint8)])
        if opened is not None:
            require_again(query, opened, answering.astype(np.bool_))
        answered = pack(answering)
        hasher.update(answered)
        roll = shares.ShareRoll(query_id=query.id, first=first, count=stop - first, answered=answered, refused=refused)
        return ShareSum(roll, total, hasher.digest())


def _part(share: shares.WordShare | shares.SeedShare, choice: Bits | None) -> tuple[Bits, bytes]:
    """Return which devices of a block are in a sum, and what a transcript has of them: the others said nothing."""
    heard = share.heard()
    if choice is None or not (heard & ~choice & 1).any():
        return heard, share.content
    heard &= choice
    rows = np.frombuffer(share.content, np.uint8).reshape(share.count, -1) * heard[:, None]
    return heard, rows.tobytes()


class LocalShares:
    """Shares of devices in this process, fetched some blocks ahead where there are threads."""

    def __init__(self, fetch: Callable[..., Any], bounds: Iterable[tuple[int, int]], ahead: Any = None) -> None:
        # ``fetch`` is called with permit, query and the ends of a block; ``ahead`` runs calls ahead, in order
        self._fetch, self._bounds, self._ahead = fetch, list(bounds), ahead or map

    def shares(self, permit: bytes, query: Query, first: int, stop: int) -> Iterator[Any]:
        """Yield shares; see `ShareRoute.shares`."""
        blocks = blocks_of(self._bounds, query, first, stop)
        yield from self._ahead(lambda block: self._fetch(permit, query, block[1], block[2]), blocks)


def blocks_of(bounds: Iterable[tuple[int, int]], query: Query, first: int, stop: int) -> list[tuple[int, int, int]]:
    """Return the blocks of devices ``first`` to ``stop - 1``: the place of their cohort, and their ends."""
    mechanism = check_question(query)
    width = mechanism.width(query) if isinstance(mechanism, SharedVector) else query.items
    return [
        (number, *ends)
        for number, (start, end) in enumerate(bounds)
        for ends in pieces(max(start, first), min(end, stop), width)
    ]
