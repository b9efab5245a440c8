"""What all kinds of devices have in common, as seen by the processes that they run in."""

from __future__ import annotations

from typing import Any, Protocol

from actors.keeper import LedgerClient
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query


class DeviceBlock:
    """Devices ``first`` to ``stop - 1`` of one kind in one place; each acts as if it were alone."""

    first: int  # First device
    stop: int  # One more than the last device

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Any:
        """Answer a question for devices ``first`` to ``stop - 1``; nothing but these answers ever leaves them."""
        raise NotImplementedError

    def spent(self, device: int) -> Any:
        """Return what the book says of a device: what it has spent, or what it has answered."""
        raise InputError(f"{type(self).__name__} books nothing of device {device}")

    def rehearse(self, question: Query) -> None:
        """Compile what a question will need; nothing is answered or charged."""
        raise InputError(f"{type(self).__name__} rehearses no {type(question).__name__}; ask it")

    def inspect(self, question: Any, _first: int, _stop: int) -> Any:
        """Return what only the experimenter may see of devices."""
        raise InputError(f"{type(self).__name__} shows nothing of a {type(question).__name__}")


class DeviceKind(Protocol):
    """A kind of devices, and what all of them agreed to."""

    def cohort(self, holdings: Any, secret: bytes, first: int, stop: int, keeper: LedgerClient | None) -> DeviceBlock:
        """Return devices ``first`` to ``stop - 1``."""
        ...
