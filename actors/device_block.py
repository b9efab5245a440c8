"""A block of devices of one kind in one process, as hosts hold it."""

from collections.abc import Callable
from typing import Any, TypeAlias

from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query


class DeviceBlock:
    """Devices ``first`` to ``stop - 1`` of one kind in one process; each acts as if it were alone."""

    first: int  # First device
    stop: int  # One more than the last device

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Any:
        """Answer a question for devices ``first`` to ``stop - 1``; nothing but these answers ever leaves them."""
        raise NotImplementedError

    def share(self, side: str, question: Any, first: int, stop: int) -> Any:
        """Return devices' shares for one of two servers, where devices give any."""
        raise InputError(f"{type(self).__name__} gives no shares of a {type(question).__name__}; ask it")

    def rehearse(self, question: Query) -> None:
        """Compile what a question will need; nothing is answered or charged."""
        raise InputError(f"{type(self).__name__} rehearses no {type(question).__name__}; ask it")

    def inspect(self, question: Any, _first: int, _stop: int) -> Any:
        """Return what only the experimenter may see of devices."""
        raise InputError(f"{type(self).__name__} shows nothing of a {type(question).__name__}")


DeviceKind: TypeAlias = Callable[..., DeviceBlock]
"""A kind of devices with what all of them agreed to, such as ``partial(Cohort, budget=budget)``.

It is called with the holdings and the master secret of all devices, the first device of a block, the one after its
last, and ``keeper``.
"""
