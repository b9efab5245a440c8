"""The one answer of every private device, kept: in memory, and in a folder before anybody sees it.

A folder holds logs (`actors.log`), a line an answer. A last line that a crash tore off was never sent, and is left
out; anything else that is damaged is an error, since devices must not answer again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.durable import make_folder
from actors.keeper import owner_of
from actors.log import Log, damaged, read_log
from coordinator.protocol.budget import Epsilon, PrivacyParameter, require_epsilon
from coordinator.protocol.checked import MOST_DEVICES, require_bytes, require_whole
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.second_order_mechanisms import check_mechanism

SUFFIX = ".answers"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device said, to which question, about which model.

    Attributes
    ----------
    device : int
    query_id, model : bytes
        Digests of the question and of the model, 16 bytes each.
    mechanism : str
        A name of `coordinator.protocol.second_order_mechanisms.found`.
    epsilon : PrivacyParameter or None
        In nats; None where the mechanism has none.
    guarantee : str
        What the device was promised, in words.
    payload : bytes
        What it said.

    Raises
    ------
    InputError
        If it is no answer of any device to any question.
    """

    device: int
    query_id: bytes
    model: bytes
    mechanism: str
    epsilon: Epsilon
    guarantee: str
    payload: bytes

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


class Answers:
    """Answers of devices ``first`` to ``stop - 1``.

    Parameters
    ----------
    first, stop : int
        The devices.
    folder : Path or None
        Where answers are kept beyond this process, whatever cohorts wrote them; None for memory only. Its last two
        names tell whom the answers belong to, as with ledgers: those of another folder are refused.

    Raises
    ------
    LedgerError
        If the folder cannot be used, or what it keeps is damaged or not its own.
    """

    def __init__(self, first: int, stop: int, folder: Path | None) -> None:
        self._held: dict[int, Answer] = {}
        self._log: Log | None = None
        if folder is None:
            return
        self._folder = folder = folder.absolute()
        try:
            make_folder(folder)
            self._held = {one.device: one for one in read_answers(folder) if first <= one.device < stop}
        except OSError as error:
            raise LedgerError(f"folder {folder} cannot keep answers ({error.strerror}); name another one") from None
        self._log = Log(folder, f"{first:012d}", SUFFIX, owner_of(folder))

    def get(self, device: int) -> Answer | None:
        """Return what a device has answered, or None."""
        return self._held.get(device)

    def keep(self, answers: Sequence[Answer]) -> None:
        """Keep answers for good; when this returns, they may be sent.

        Raises
        ------
        LedgerError
            If they cannot be written: then none of them may be sent.
        """
        if self._log is not None:
            try:
                self._log.append([one.line() for one in answers])
            except OSError as error:
                raise LedgerError(
                    f"answers cannot be kept in {self._folder} ({error.strerror}); devices send none: make room there"
                ) from None
        self._held |= {one.device: one for one in answers}


def read_answers(folder: Path) -> Iterator[Answer]:
    """Yield what devices answered, from all files of a folder.

    Raises
    ------
    LedgerError
        If a file belongs elsewhere, a line other than a torn last one is damaged, or a device answered in two ways.
    """
    found: dict[int, Answer] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        for number, told in enumerate(read_log(path, owner_of(folder)), start=2):
            if (answer := _read(told)) is None or found.setdefault(answer.device, answer) != answer:
                raise damaged(path, number)
            yield answer


def _read(told: bytes) -> Answer | None:
    """Return a line's answer, or None where it holds none."""
    try:
        device, query_id, model, mechanism, epsilon, guarantee, payload = json.loads(told)
        known = None if epsilon is None else PrivacyParameter(epsilon)
        said = base64.b64decode(payload, validate=True)
        return Answer(device, bytes.fromhex(query_id), bytes.fromhex(model), mechanism, known, guarantee, said)
    except (ValueError, TypeError, RecursionError):
        return None
