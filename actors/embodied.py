"""What every kind of devices has in common, for whoever embodies them."""

from __future__ import annotations

from typing import Any, Protocol

from actors.keeper import Books
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query


class Embodied:
    """Devices ``first`` to ``stop - 1`` of one kind in one place; each acts as if it were alone.

    Attributes
    ----------
    first, stop : int
        The devices.
    """

    first: int
    stop: int

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Any:
        """Answer a question for devices ``first`` to ``stop - 1``: all that ever leaves them.

        Parameters
        ----------
        question : object
            A message; what is none that these devices know is refused.
        first, stop : int
            Devices of this cohort.
        *public : object
            What goes with the question, such as a model.
        """
        raise NotImplementedError

    def spent(self, device: int) -> Any:
        """Return what a device has booked for good: what it spent, or what it answered.

        Raises
        ------
        InputError
            If these devices book nothing.
        """
        raise InputError(f"{type(self).__name__} books nothing of device {device}")

    def rehearse(self, question: Query) -> None:
        """Compile what a question will need; nothing is answered, charged or let out.

        Raises
        ------
        InputError
            If it cannot be answered.
        """
        raise InputError(f"{type(self).__name__} rehearses no {type(question).__name__}; ask it")

    def see(self, question: Any, _first: int, _stop: int) -> Any:
        """Return what the experimenter alone may see of devices.

        Raises
        ------
        InputError
            If these devices show nothing of the kind.
        """
        raise InputError(f"{type(self).__name__} shows nothing of a {type(question).__name__}")


class Kind(Protocol):
    """A kind of devices, and what all of them agreed to."""

    def cohort(self, holdings: Any, secret: bytes, first: int, stop: int, keeper: Books | None) -> Embodied:
        """Return devices ``first`` to ``stop - 1``.

        Parameters
        ----------
        holdings : object
            What all devices of the population hold; a cohort touches its own only.
        secret : bytes
            The population's sixteen-byte master secret.
        first, stop : int
            The devices.
        keeper : Books or None
            Where they book before they answer; None for one in memory, of their own.
        """
        ...
