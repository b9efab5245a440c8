"""A charge to devices, written as a line of their keeper's book."""

from __future__ import annotations

import json
from dataclasses import dataclass

from coordinator.protocol.budget import Epsilon, PrivacyParameter, require_epsilon
from coordinator.protocol.checked import MOST_DEVICES, require_whole
from coordinator.protocol.errors import InputError, LedgerError


@dataclass(frozen=True, slots=True)
class Entry:
    """Devices ``first`` to ``stop - 1`` were charged ``epsilon`` for the query ``id``.

    Raises
    ------
    InputError
        If ``epsilon`` is no privacy parameter, ``id`` is no digest, or ``first`` and ``stop`` name no devices.
    """

    id: bytes
    epsilon: Epsilon
    first: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse an impossible charge."""
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if type(self.id) is not bytes or not self.id:
            raise InputError("what is charged has no id; give a digest")
        require_whole("first device", self.first, 0, MOST_DEVICES)
        require_whole("end of devices", self.stop, self.first, MOST_DEVICES)

    def line(self) -> str:
        """Return the entry as a line."""
        return json.dumps([self.id.hex(), None if self.epsilon is None else str(self.epsilon), self.first, self.stop])


def read_entry(line: str) -> Entry:
    """Return the entry that a line holds.

    Raises
    ------
    LedgerError
        If the line holds no entry, so that it is unknown what devices spent.
    """
    try:
        query_id, epsilon, first, stop = json.loads(line)
        return Entry(bytes.fromhex(query_id), None if epsilon is None else PrivacyParameter(epsilon), first, stop)
    except (ValueError, TypeError, RecursionError):
        raise LedgerError(
            f"a ledger's line is no charge: {line[:80]!r}; what devices spent is not known: put the file back as it "
            "was, or start in a new folder"
        ) from None
