"""Private devices of the two-tier model: a public model comes in, one release a device goes out, once and for all."""

import base64
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.device_block import DeviceBlock
from actors.keeper import Keeper, LedgerClient, UnreachableError
from actors.second_order.mechanisms import device_part_of
from actors.seeds import Coins
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.budget import Epsilon, PrivacyParameter, as_float, require_epsilon, within
from coordinator.protocol.checked import LARGEST, MOST_DEVICES, require_block, require_bytes, require_whole
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import ConsentError, InputError, LedgerError
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import Announcement, SecondOrderQuery, SecondOrderRelease
from coordinator.protocol.second_order_mechanisms import check_mechanism, public_part_of, second_order_public_halves


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
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
        require_block(self.first, self.stop, 0, MOST_DEVICES)

    def line(self) -> str:
        """Return the promise as a line."""
        return json.dumps({"model": self.model.hex(), "first": self.first, "stop": self.stop})


class Answers:
    """Models and answers of devices ``first`` to ``stop - 1``: a copy of what their keeper has."""

    def __init__(self, first: int, stop: int, keeper: LedgerClient | None = None) -> None:
        self._first, self._stop = first, stop
        self._by_device: dict[int, DeviceAnswer] = {}
        self._pinned: dict[int, bytes] = {}
        self._keeper: LedgerClient = Keeper() if keeper is None else keeper
        self._position = 0

    def get(self, device: int) -> DeviceAnswer | None:
        """Return what a device has answered, or None."""
        return self._by_device.get(device)

    def model(self, device: int) -> bytes | None:
        """Return the digest of the model that a device answered, or will answer; None before any was announced."""
        answered = self._by_device.get(device)
        return self._pinned.get(device) if answered is None else answered.model

    def look(self) -> None:
        """Take in what was booked elsewhere."""
        self._take(*self._keeper.read(self._first, self._stop, self._position))

    def keep(self, records: Sequence[DeviceAnswer] | Sequence[Pin]) -> bool:
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

    def _hold(self, records: Iterable[DeviceAnswer | Pin]) -> None:
        for record in records:
            if isinstance(record, Pin):
                devices = range(max(record.first, self._first), min(record.stop, self._stop))
                self._pinned |= dict.fromkeys(devices, record.model)
            elif (
                self._first <= record.device < self._stop
                and self._by_device.setdefault(record.device, record) != record
            ):
                raise LedgerError(
                    f"private device {record.device} answered in two ways, as its ledger says; what it said is not "
                    "known: put the ledger's files back as they were, or start in a new folder"
                )


def _read(line: str) -> DeviceAnswer | Pin:
    """Return the answer, or the promise, that a line of the book holds."""
    try:
        content = json.loads(line)
        if type(content) is dict:
            return Pin(**{**content, "model": bytes.fromhex(content["model"])})
        device, query_id, model, mechanism, epsilon, guarantee, payload = content
        parameter = None if epsilon is None else PrivacyParameter(epsilon)
        report = base64.b64decode(payload, validate=True)
        return DeviceAnswer(
            device, bytes.fromhex(query_id), bytes.fromhex(model), mechanism, parameter, guarantee, report
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LedgerError(
            f"a ledger's line is no answer: {line[:80]!r}; what devices said is not known: put the file back as it "
            "was, or start in a new folder"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Mechanisms that devices agree to answer through, and the largest epsilon that they agree to."""

    mechanisms: frozenset[str]  # Some of `coordinator.protocol.second_order_mechanisms.second_order_public_halves`
    # Largest epsilon of those that have one [nats], as the mechanism counts it: of a bit, of a coordinate, or of a
    # release, see `SecondOrderPublic.epsilon_of`; None: any
    epsilon: Epsilon
    own_h: bool = False  # Whether a device may release its own h in full precision, which is not private

    def __post_init__(self) -> None:
        """Refuse a mechanism that does not exist and an epsilon that is not one."""
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if unknown := self.mechanisms - second_order_public_halves().keys():
            raise InputError(f"mechanism is {min(unknown)!r}; choose some of {', '.join(second_order_public_halves())}")

    def require(self, query: SecondOrderQuery) -> None:
        """Refuse a query that this consent does not cover."""
        if query.mechanism not in self.mechanisms:
            agreed = ", ".join(sorted(self.mechanisms)) or "nothing"
            raise ConsentError(f"private devices agreed to {agreed}; they refuse {query.mechanism}")
        if public_part_of(query.mechanism).takes_epsilon and not within(query.epsilon, self.epsilon):
            raise ConsentError(
                f"private devices agreed to epsilon {as_float(self.epsilon):g} at most; they refuse "
                f"{query.mechanism} at {as_float(query.epsilon):g}"
            )
        if query.own_h and not self.own_h:
            raise ConsentError("private devices agreed to the public h only; they refuse to release their own (own_h)")


BLOCK = 1 << 19
"""Most completed ratings, or numbers of moments, in memory at a time, over the devices that answer together."""


class PrivateCohort(DeviceBlock):
    """A block of private devices; each answers as if it were alone.

    A device answers one query about one model, whose digest was announced before; until then it answers no query. Its
    answer is booked before it is sent. If the same query comes again, the device sends the same answer; it refuses
    every other one, whoever asks. While the keeper does not answer, it sends nothing that is not booked.
    """

    def __init__(
        self, rows: Rows, secret: bytes, first: int, stop: int, *, consent: Consent, keeper: LedgerClient | None = None
    ) -> None:
        self._consent = consent
        self._ratings, self._master = rows.block(first, stop), as_words(secret)
        self.first, self.stop = first, stop
        self.answers = Answers(first, stop, keeper)
        self._announced = deque[Pin]()

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> list[SecondOrderRelease] | None:
        """Take an announced model's digest, or answer a query about that model; see `pin` and `answer`."""
        if type(question) is Announcement:
            self.pin(Announcement.arrived(question).model, first, stop)
            return None
        if len(public) != 1:
            raise InputError(f"{len(public)} models come with a query; send the one that it names")
        return self.answer(question, public[0], first, stop)

    def pin(self, model: bytes, first: int, stop: int) -> None:
        """Take the digest of the one model that devices ``first`` to ``stop - 1`` will answer; it is public."""
        require_bytes("digest of a model", model, 16)
        require_block(first, stop, self.first, self.stop)
        self._announced.append(Pin(model, first, stop))
        with suppress(UnreachableError):  # the model is then booked when a query comes, or they do not answer it
            self._take_announced()

    def _take_announced(self) -> None:
        """Book the models that were announced."""
        while self._announced:
            pin = self._announced[0]
            devices = range(pin.first, pin.stop)
            try:
                for device in devices:
                    self._agree(device, pin.model)
            except InputError:
                self._announced.popleft()
                raise
            if all(self.answers.model(device) for device in devices) or self.answers.keep([pin]):
                self._announced.popleft()

    def answer(self, query: SecondOrderQuery, model: ItemFeatures, first: int, stop: int) -> list[SecondOrderRelease]:
        """Answer for devices ``first`` to ``stop - 1``, or repeat what they answered."""
        require_block(first, stop, self.first, self.stop)
        query, model = SecondOrderQuery.arrived(query), ItemFeatures.arrived(model)
        self._consent.require(query)
        query.require(model)
        if model.items != self._ratings.count:
            raise InputError(
                f"the model has {model.items} items; private devices rate a catalogue of {self._ratings.count}, "
                "announce a model of that one"
            )
        with suppress(UnreachableError):  # those who have not booked an answer refuse
            self._take_announced()
            if not all(self.answers.model(device) for device in range(first, stop)):
                self.answers.look()
            while not self._book_answers(query, model, first, stop):
                continue  # others have booked something about these devices meanwhile
        answers = map(self.answers.get, range(first, stop))
        return [self._release(answer) for answer in answers if answer and answer.query_id == query.id]

    def _book_answers(self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int) -> bool:
        """Compare and book: let silent devices answer; return False if they have to decide again."""
        # The keeper writes answers only if nobody has booked anything about these devices since this process read its
        # book last. Where somebody has, such as the process of another host that was taken for dead, `Answers.keep`
        # writes nothing, takes in what was booked, and returns False. The caller then starts from the beginning: a
        # device may have taken another model, or answered, in which case it repeats that answer. This ends, because
        # every False takes in a line more, and a device books one model and one answer at most.
        for device in range(first, stop):
            self._admit(device, query)
        blocks = list(self._silent(first, stop, public_part_of(query.mechanism).numbers(features)))
        return all(self.answers.keep(self._answer_block(query, features, start, end)) for start, end in blocks)

    def _agree(self, device: int, model: bytes) -> None:
        """Refuse a model other than the one that the device took, or answered."""
        current = self.answers.model(device)
        if current is not None and current != model:
            did = "took" if self.answers.get(device) is None else "answered"
            raise InputError(
                f"private device {device} {did} model {current.hex()[:8]}; it refuses model {model.hex()[:8]}, a "
                "device accepts one model only"
            )

    def _admit(self, device: int, query: SecondOrderQuery) -> None:
        """Refuse a query that the device must not answer."""
        self._agree(device, query.model)
        answered = self.answers.get(device)
        if answered is not None and answered.query_id != query.id:
            raise InputError(
                f"private device {device} has answered query {answered.query_id.hex()[:8]} ({answered.mechanism}); it "
                f"answers once, and refuses query {query.id.hex()[:8]} ({query.mechanism})"
            )

    def _silent(self, first: int, stop: int, width: int) -> Iterator[tuple[int, int]]:
        """Yield blocks of neighbours that took a model and have not answered; each works on ``width`` numbers."""
        start, most = first, max(1, BLOCK // width)
        while start < stop:
            end = start
            while end < stop and end - start < most and self.answers.model(end) and not self.answers.get(end):
                end += 1
            if end > start:
                yield start, end
            start = max(end, start + 1)

    def _answer_block(
        self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int
    ) -> list[DeviceAnswer]:
        ratings = self._ratings.block(first - self.first, stop - self.first)
        coins = Coins(self._master, first, stop - first, query.words)
        vectors = self._vectors(features, ratings, coins)
        payloads = device_part_of(query.mechanism).payloads(vectors, query, features, coins)
        guarantee = public_part_of(query.mechanism).promised(query)
        about = query.id, query.model, query.mechanism, query.epsilon, guarantee
        return [DeviceAnswer(first + k, *about, payload) for k, payload in enumerate(payloads)]

    def _vectors(self, features: ItemFeatures, ratings: Rows, coins: Coins) -> Floats2:  # noqa: ARG002 (liars look at them)
        """Return devices' completed vectors less the items' means, float64, shape (devices, m), numbers and not huge.

        Where completion has no result they are 0.
        """
        vectors = residuals(features, ratings)
        # A model can be made so that completion overflows where a device rated some item. A mechanism promises
        # something for vectors of numbers only, and a refusal would reveal what was rated.
        np.clip(vectors, -LARGEST, LARGEST, out=vectors)
        vectors[np.isnan(vectors)] = 0.0
        return vectors

    def _release(self, answer: DeviceAnswer) -> SecondOrderRelease:
        return SecondOrderRelease(
            query_id=answer.query_id, device=answer.device, mechanism=answer.mechanism, payload=answer.payload
        )


DEVICES_A_COHORT = 5  # Devices of one cohort: fewer than a batch has, so that all workers have something to do
