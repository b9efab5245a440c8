"""The one model and the one answer of every private device, booked with their keeper before anybody sees it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actors.keeper import Books, Keeper
from coordinator.protocol.budget import Epsilon, PrivacyParameter, require_epsilon
from coordinator.protocol.checked import MOST_DEVICES, require_bytes, require_whole
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.second_order_mechanisms import check_mechanism


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device said, to which question, about which model."""

    device: int
    query_id: bytes  # Digests of the question and of the model, 16 bytes each
    model: bytes
    mechanism: str  # A name of `coordinator.protocol.second_order_mechanisms.second_order_public_halves`
    epsilon: Epsilon  # In nats; None where the mechanism has none
    guarantee: str  # What the device was promised, in words
    payload: bytes  # What it said

    def __post_init__(self) -> None:
        """Refuse what no device answers."""
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
        """Refuse what no device promises."""
        require_bytes("digest of a model", self.model, 16)
        require_whole("first device", self.first, 0, MOST_DEVICES)
        require_whole("end of devices", self.stop, self.first, MOST_DEVICES)

    def line(self) -> str:
        """Return the promise as a line."""
        return json.dumps({"model": self.model.hex(), "first": self.first, "stop": self.stop})


class Answers:
    """Models and answers of devices ``first`` to ``stop - 1``: a copy of what their keeper has."""

    def __init__(self, first: int, stop: int, keeper: Books | None = None) -> None:
        self._first, self._stop = first, stop
        self._held: dict[int, Answer] = {}
        self._pinned: dict[int, bytes] = {}
        self._keeper: Books = Keeper() if keeper is None else keeper
        self._known = 0

    def get(self, device: int) -> Answer | None:
        """Return what a device has answered, or None."""
        return self._held.get(device)

    def model(self, device: int) -> bytes | None:
        """Return the digest of the model that a device answered, or will answer; None before it was told of any."""
        answered = self._held.get(device)
        return self._pinned.get(device) if answered is None else answered.model

    def look(self) -> None:
        """Take in what was booked elsewhere."""
        self._take(*self._keeper.read(self._first, self._stop, self._known))

    def keep(self, booked: Sequence[Answer] | Sequence[Pin]) -> bool:
        """Keep answers, or promises, for good: they may be sent then."""
        known, others = self._keeper.book(self._first, self._stop, self._known, [one.line() for one in booked])
        self._take(known, others)
        if not others:
            self._hold(booked)
        return not others

    def _take(self, known: int, lines: Iterable[str]) -> None:
        self._hold([_read(line) for line in lines])
        self._known = known

    def _hold(self, booked: Iterable[Answer | Pin]) -> None:
        for one in booked:
            if isinstance(one, Pin):
                devices = range(max(one.first, self._first), min(one.stop, self._stop))
                self._pinned |= dict.fromkeys(devices, one.model)
            elif self._first <= one.device < self._stop and self._held.setdefault(one.device, one) != one:
                raise LedgerError(
                    f"private device {one.device} answered in two ways, as its ledger tells; what it said is not "
                    "known: put the ledger's files back as they were, or start in a new folder"
                )


def _read(line: str) -> Answer | Pin:
    """Return what a line tells."""
    try:
        told = json.loads(line)
        if type(told) is dict:
            return Pin(**{**told, "model": bytes.fromhex(told["model"])})
        device, query_id, model, mechanism, epsilon, guarantee, payload = told
        known = None if epsilon is None else PrivacyParameter(epsilon)
        said = base64.b64decode(payload, validate=True)
        return Answer(device, bytes.fromhex(query_id), bytes.fromhex(model), mechanism, known, guarantee, said)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LedgerError(
            f"a ledger's line is no answer: {line[:80]!r}; what devices said is not known: put the file back as it "
            "was, or start in a new folder"
        ) from None
