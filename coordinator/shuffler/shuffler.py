"""A shuffler of one round: it takes devices' releases, and hands on their reports in ascending order.

Of a multiset an ascending order is as good as a random one, and the same on every layout, so that the digest of a run
does not depend on who answered first. Reports of a round have one length, since a query says how many bits an answer
has, and whether a report is the pair of a question that the device drew and its answer. In a deployment reports are
sealed for the server; here the shuffler could read them, and only compares them.
"""

import numpy as np

from coordinator.protocol.arrays import Bits2, Ints, Words, Words2
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import public_halves
from coordinator.protocol.messages import QUESTION_BYTES, Query, Release
from coordinator.protocol.randomizers import by_address
from coordinator.protocol.trust import ShuffledRound, Shuffling

PIECE = 1 << 16  # Reports, a multiple of 8, whose bits are unpacked at the same time


class HandedRounds:
    """Whose reports a shuffler has handed on: of two rounds of one query the difference would show some devices."""

    def __init__(self) -> None:
        self._devices = dict[bytes, list[Ints]]()  # Ascending addresses of those that reported, by query id

    def note(self, query: Query, devices: Ints) -> None:
        """Note a round that is about to be handed on; refuse it if it shares some of its devices with another one."""
        handed = self._devices.setdefault(query.id, [])
        if any(np.array_equal(devices, others) for others in handed):
            return  # asked again, as after a crash: the same reports
        if any(np.intersect1d(devices, others, assume_unique=True).size for others in handed):
            raise InputError(
                f"{query} was handed on with other devices before: the difference would show some of them; ask a new "
                "query"
            )
        handed.append(devices)


class Shuffler:
    """Collects the releases of one round, in any order, and closes it once.

    ``handed`` has the rounds that were closed before, if there were any.
    """

    def __init__(self, query: Query, terms: Shuffling, handed: HandedRounds | None = None) -> None:
        if (half := public_halves().get(query.design)) and half.addressed(query):
            raise InputError(by_address(query.design))  # as a policy of one's own may ask
        self._query, self._terms = query, Shuffling.arrived(terms)
        self._reports = list[Bits2]()
        self._questions = list[Words]()
        self._senders = list[Ints]()
        self._handed = HandedRounds() if handed is None else handed
        self._devices = self._refused = 0

    def take(self, release: Release) -> None:
        """Take a block's release: the reports of devices that answered, without anything that names them."""
        release = Release.arrived(release)
        release.require(self._query)
        if release.pairs is not None:
            raise InputError(f"{self._query} has public pairs of items, which name the devices; ask without a shuffler")
        mask = release.answered_mask()
        if (words := release.words()) is not None:
            self._questions.append(words[mask])
        self._senders.append(release.first + np.flatnonzero(mask))
        self._devices += release.count
        self._refused += release.refused
        for first in range(0, release.count, PIECE):
            inside = mask[first : first + PIECE]
            start = first * release.width // 8
            stop = -(-(first + inside.size) * release.width // 8)
            bits = np.unpackbits(np.frombuffer(release.bits[start:stop], np.uint8), count=inside.size * release.width)
            self._reports.append(np.packbits(bits.reshape(inside.size, release.width)[inside], axis=1))

    def close(self) -> ShuffledRound:
        """Return the round, whose reports are withheld if there are too few and the terms say so."""
        answered = sum(map(len, self._reports))
        short = answered < self._terms.least(self._devices) and self._terms.withhold
        if not short and answered:
            self._handed.note(self._query, np.sort(np.concatenate(self._senders)))
        return ShuffledRound(
            query_id=self._query.id,
            devices=self._devices,
            refused=self._refused,
            answered=answered,
            release=None if short else self._release(answered),
        )

    def _release(self, answered: int) -> Release:
        width = self._query.bits
        rows = np.concatenate(self._reports) if self._reports else np.zeros((0, -(-width // 8)), np.uint8)
        questions: bytes | None = None
        if self._query.own_questions:  # a report is the pair, so that the question is its first bytes
            words = np.concatenate([*self._questions, np.empty(0, np.uint64)]).astype(">u8")
            rows = np.concatenate([words.view(np.uint8).reshape(answered, QUESTION_BYTES), rows], axis=1)
        rows = ascending(rows)
        if self._query.own_questions:
            head = np.ascontiguousarray(rows[:, :QUESTION_BYTES]).view(">u8").ravel()
            questions, rows = head.astype("<u8").tobytes(), rows[:, QUESTION_BYTES:]
        packed = [
            np.packbits(np.unpackbits(rows[first : first + PIECE], axis=1, count=width)).tobytes()
            for first in range(0, answered, PIECE)
        ]
        return Release(
            query_id=self._query.id,
            first=0,
            count=answered,
            width=width,
            bits=b"".join(packed),
            questions=questions,
        )


def ascending(rows: Bits2) -> Bits2:
    """Return rows of bytes in ascending order, shape (reports, bytes)."""
    words = -(-rows.shape[1] // 8)
    padded = np.zeros((len(rows), 8 * words), np.uint8)
    padded[:, : rows.shape[1]] = rows
    columns: Words2 = padded.view(">u8").astype(np.uint64)
    ordered: Bits2 = rows[np.lexsort(columns.T[::-1])]
    return ordered
