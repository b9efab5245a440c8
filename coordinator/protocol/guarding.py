"""Calling a class that somebody else wrote: what it raises, or that it does not end, becomes one line that names it."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from typing import Any

from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.own import Mechanism, MechanismError


class _Call(threading.Thread):
    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        super().__init__(daemon=True)
        self._function, self._arguments = function, arguments
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._function(*self._arguments)
        except BaseException as error:
            self.error = error


def where(mechanism: Mechanism, method: str, round_number: int) -> str:
    """Return a class, its method and the round, as errors name them."""
    return f"mechanism {type(mechanism).__name__}, method {method}, round {round_number}"


def guarded(
    mechanism: Mechanism,
    method: str,
    round_number: int,
    *arguments: Any,
    private: bool = False,
    function: Callable[..., Any] | None = None,
) -> Any:
    """Return what a method of one's own class returns.

    Parameters
    ----------
    mechanism : Mechanism
        Whose.
    method : str
        Name of the method.
    round_number : int
        For the error.
    *arguments
        Of the method.
    private : bool
        Whether it sees ratings: then an error's text, which may show some, is not passed on.
    function : callable, optional
        What is called, where it is no method of the class itself, but of what the class returned.

    Raises
    ------
    MechanismError
        If it raises anything, or takes longer than the class says that it may.
    """
    call = _Call(function or getattr(mechanism, method), arguments)
    call.start()
    call.join(mechanism.seconds)
    named = where(mechanism, method, round_number)
    if call.is_alive():
        raise MechanismError(
            f"{named}: it did not end within {mechanism.seconds:g} s; make it faster, or set the class's seconds "
            "higher; its thread goes on until its process ends, which on Ray is now"
        )
    if call.error is None:
        return call.result
    raise MechanismError(f"{named}: {_at(call.error) if private else _in_a_line(call.error)}") from None


def _at(error: BaseException) -> str:
    """Return an error's kind and its line; neither its text nor its values, which may be ratings."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        inside = trace.tb_frame.f_code.co_filename
        line = trace.tb_lineno if inside != __file__ and "site-packages" not in inside else line
        trace = trace.tb_next
    return f"it raised {_plain(type(error))} in line {line}; its text stays on the device, it may show ratings"


def _plain(kind: type[BaseException]) -> str:
    """Return the name of an exception of Python's own; of no other one, since a class may name it after a rating."""
    return next((name for name, known in vars(builtins).items() if known is kind), "an error of its own")


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, BlindrecError):
        return str(error)
    return " ".join(f"it raised {type(error).__name__}: {error}".split())
