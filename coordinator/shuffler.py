"""A shuffler of one round: it takes devices' releases, and hands on their reports in ascending order.

Of a multiset an ascending order is as good as a random one, and the same on every layout, so that the digest of a run
does not depend on who answered first. Reports of a round have one length, since a query says how many bits an answer
has, and whether a report is the pair of a question that the device drew and its answer. In a deployment reports are
sealed for the server; here the shuffler could read them, and only compares them.
"""

import numpy as np

from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bits2, Bools, Ints, Words, Words2
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import by_query
from coordinator.protocol.messages import QUESTION_BYTES, Query, Release
from coordinator.protocol.randomizers import by_address
from coordinator.protocol.trust import OPENER, Openings, ShuffledRound, require_again

PIECE = 1 << 16  # Reports, a multiple of 8, whose bits are unpacked at the same time


class Shuffler:
    """Collects the releases of one round, in any order, and closes it once."""

    def __init__(self, query: Query, agreement: Agreement, openings: Openings | None = None) -> None:
        # Of two rounds of one query the difference would show some devices: where ``openings`` says that the reports of
        # some were handed on before, they are handed on again, and no others.
        if (mechanism := by_query().get(query.design)) and mechanism.addressed(query):
            raise InputError(by_address(query.design))  # as a policy of one's own may ask
        self._query, self._agreement = query, Agreement.arrived(agreement)
        self._agreement.require_covered(query)
        self._reports = list[Bits2]()
        self._questions = list[Words]()
        self._senders = list[Ints]()
        self._openings = openings or self._agreement.openings(OPENER)
        self._first, self._stop = MOST_DEVICES, 0
        self._devices = self._refused = 0

    def take(self, release: Release) -> None:
        """Take a block's release: the reports of devices that answered, without anything that names them."""
        release = Release.arrived(release)
        release.require(self._query)
        if release.pairs is not None:
            raise InputError(f"{self._query} has public pairs of items, which name the devices; ask without a shuffler")
        mask = release.answered_mask()
        if (questions := release.words()) is not None:
            self._questions.append(questions[mask])
        self._senders.append(release.first + np.flatnonzero(mask))
        self._first = min(self._first, release.first)
        self._stop = max(self._stop, release.first + release.count)
        self._devices += release.count
        self._refused += release.refused
        for first in range(0, release.count, PIECE):
            inside = mask[first : first + PIECE]
            start = first * release.width // 8
            stop = -(-(first + inside.size) * release.width // 8)
            bits = np.unpackbits(np.frombuffer(release.bits[start:stop], np.uint8), count=inside.size * release.width)
            self._reports.append(np.packbits(bits.reshape(inside.size, release.width)[inside], axis=1))

    def close(self) -> ShuffledRound:
        """Return the round, whose reports are withheld if there are too few and the agreement says so."""
        self._agreement.require_amplified(self._query, self._devices)
        first, senders = min(self._first, self._stop), np.concatenate([*self._senders, np.empty(0, np.int64)])
        mask = np.zeros(self._stop - first, np.bool_)
        mask[senders - first] = True
        if (before := self._openings.mask(self._query, first, mask.size)) is not None:
            require_again(self._query, before, mask)
            mask = before
        answered = int(mask.sum())
        short = answered < self._agreement.reports(self._devices, self._query)
        if not self._agreement.withhold:  # who refuses hides nobody, and a server chooses who has spent its budget
            short = not self._agreement.keeps(self._query, self._agreement.planned(self._devices - self._refused))
        if not short:
            self._openings.note(self._query, first, mask)
        return ShuffledRound(
            query_id=self._query.id,
            devices=self._devices,
            refused=self._refused,
            answered=answered,
            release=None if short else self._release(answered, mask[senders - first]),
        )

    def _release(self, answered: int, counts: Bools) -> Release:
        """Return the reports that count, of all in the order in which they came."""
        width = self._query.bits
        rows = np.concatenate([*self._reports, np.zeros((0, -(-width // 8)), np.uint8)])
        rows = rows if counts.all() else rows[counts]
        questions: bytes | None = None
        if self._query.own_questions:  # a report is the pair, so that the question is its first bytes
            question_words = np.concatenate([*self._questions, np.empty(0, np.uint64)])[counts].astype(">u8")
            rows = np.concatenate([question_words.view(np.uint8).reshape(answered, QUESTION_BYTES), rows], axis=1)
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
    row_words = -(-rows.shape[1] // 8)
    padded = np.zeros((len(rows), 8 * row_words), np.uint8)
    padded[:, : rows.shape[1]] = rows
    columns: Words2 = padded.view(">u8").astype(np.uint64)
    return rows[np.lexsort(columns.T[::-1])]
