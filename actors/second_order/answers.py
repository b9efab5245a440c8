"""The one model and the one answer of every private device, booked with their keeper before anybody sees it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actors.ledger import Keeper, LedgerClient
from coordinator.protocol.budget import Epsilon, PrivacyParameter, require_epsilon
from coordinator.protocol.checked import MOST_DEVICES, require_bytes, require_whole
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.second_order_mechanisms import check_mechanism


@dataclass(frozen=True, slots=True)
class Answer:
    """A device's answer: its payload, and the query and the model that it answers."""

    device: int
    query_id: bytes  # Digests of the question and of the model, 16 bytes each
    model: bytes
    mechanism: str  # A name of `coordinator.protocol.second_order_mechanisms.second_order_public_halves`
    epsilon: Epsilon  # In nats; None where the mechanism has none
    guarantee: str  # The promise that the device was given, in words
    payload: bytes  # The bytes of the release

    def __post_init__(self) -> None:
        """Refuse an answer that no device gives."""
        require_whole("device", self.device, 0, MOST_DEVICES)
        require_bytes("query id", self.query_id, 16)
        require_bytes("digest of a model", self.model, 16)
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if (type(self.mechanism), type(self.guarantee), type(self.payload)) != (str, str, bytes):
            raise InputError("an answer has a mechanism and a guarantee in words, and a payload of bytes")
        check_mechanism(self.mechanism, self.epsilon)

    def line(self) -> str:
        """Return the answer as a line."""
        epsilon = None if self.epsilon is None else str(self.epsilon)
        about = self.device, self.query_id.hex(), self.model.hex(), self.mechanism, epsilon, self.guarantee
        return json.dumps([*about, base64.b64encode(self.payload).decode()])


@dataclass(frozen=True, slots=True)
class Pin:
    """Devices ``first`` to ``stop - 1`` will answer about no other model."""

    model: bytes
    first: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse a promise that no device makes."""
        require_bytes("digest of a model", self.model, 16)
        require_whole("first device", self.first, 0, MOST_DEVICES)
        require_whole("end of devices", self.stop, self.first, MOST_DEVICES)

    def line(self) -> str:
        """Return the promise as a line."""
        return json.dumps({"model": self.model.hex(), "first": self.first, "stop": self.stop})


class Answers:
    """Models and answers of devices ``first`` to ``stop - 1``: a copy of what their keeper has."""

    def __init__(self, first: int, stop: int, keeper: LedgerClient | None = None) -> None:
        self._first, self._stop = first, stop
        self._by_device: dict[int, Answer] = {}
        self._pinned: dict[int, bytes] = {}
        self._keeper: LedgerClient = Keeper() if keeper is None else keeper
        self._position = 0

    def get(self, device: int) -> Answer | None:
        """Return what a device has answered, or None."""
        return self._by_device.get(device)

    def model(self, device: int) -> bytes | None:
        """Return the digest of the model that a device answered, or will answer; None before any was announced."""
        answered = self._by_device.get(device)
        return self._pinned.get(device) if answered is None else answered.model

    def look(self) -> None:
        """Take in what was booked elsewhere."""
        self._take(*self._keeper.read(self._first, self._stop, self._position))

    def keep(self, records: Sequence[Answer] | Sequence[Pin]) -> bool:
        """Book answers, or promises; return whether they are booked, so that they may be sent.

        They are not where others have booked something about these devices meanwhile, which is taken in instead.
        """
        position, new_lines = self._keeper.book(
            self._first, self._stop, self._position, [record.line() for record in records]
        )
        self._take(position, new_lines)
        if not new_lines:
            self._hold(records)
        return not new_lines

    def _take(self, position: int, lines: Iterable[str]) -> None:
        self._hold([_read(line) for line in lines])
        self._position = position

    def _hold(self, records: Iterable[Answer | Pin]) -> None:
        for record in records:
            if isinstance(record, Pin):
                devices = range(max(record.first, self._first), min(record.stop, self._stop))
                self._pinned |= dict.fromkeys(devices, record.model)
            elif (
                self._first <= record.device < self._stop
                and self._by_device.setdefault(record.device, record) != record
            ):
                raise LedgerError(
                    f"private device {record.device} answered in two ways, as its ledger tells; what it said is not "
                    "known: put the ledger's files back as they were, or start in a new folder"
                )


def _read(line: str) -> Answer | Pin:
    """Return the answer, or the promise, that a line of the book holds."""
    try:
        content = json.loads(line)
        if type(content) is dict:
            return Pin(**{**content, "model": bytes.fromhex(content["model"])})
        device, query_id, model, mechanism, epsilon, guarantee, payload = content
        parameter = None if epsilon is None else PrivacyParameter(epsilon)
        report = base64.b64decode(payload, validate=True)
        return Answer(device, bytes.fromhex(query_id), bytes.fromhex(model), mechanism, parameter, guarantee, report)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LedgerError(
            f"a ledger's line is no answer: {line[:80]!r}; what devices said is not known: put the file back as it "
            "was, or start in a new folder"
        ) from None
