"""Repeating calls after a process or a node died, with growing pauses and a limit. Devices repeat their answers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import ray

from coordinator.protocol import losses
from coordinator.protocol.errors import BlindrecError, LostError
from coordinator.server.fleet.attempts import MOST_ATTEMPTS, pause_after, require_less

LOST = losses.errors(ray.exceptions, losses.LOST)
"""Ray's errors after a process, a node or an object was lost."""
ENDS = losses.errors(ray.exceptions, losses.ENDS)
"""Ray's errors of which another attempt makes no end."""
T = TypeVar("T")


def pause(attempt: int, what: str, error: Exception) -> None:
    """Wait before another attempt, longer each time.

    Parameters
    ----------
    attempt : int
        Number of the failed attempt, from 0.
    what : str
        What failed, for the error.
    error : Exception
        Why.

    Raises
    ------
    LostError
        If there were too many.
    """
    require_less(attempt + 1, MOST_ATTEMPTS, what, error)
    time.sleep(pause_after(attempt))


def got(answer: Any, *, within: float | None = None) -> Any:
    """Return the object behind a reference, or a list of them; raise our own errors without Ray's wrapper.

    Parameters
    ----------
    answer : reference or list of references
    within : float, optional
        Seconds after which Ray's ``GetTimeoutError`` is raised.
    """
    try:
        return ray.get(answer) if within is None else ray.get(answer, timeout=within)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BlindrecError):
            raise error.cause from None
        raise


@contextmanager
def in_a_line(kinds: tuple[type[Exception], ...] = (*LOST, *ENDS)) -> Iterator[None]:
    """Let Ray's errors of these kinds end the block as an error of ours; those that `losses` calls faults stay.

    Raises
    ------
    LostError
        In their place.
    """
    try:
        yield
    except kinds as error:
        raise LostError(f"Ray gave up ({losses.reason(error)}); {losses.remedy(error)}, then resume") from None


def again(attempt: Callable[[], T], what: str) -> T:
    """Return the result of an attempt, repeated if a process died meanwhile. Making it twice must do no harm.

    Raises
    ------
    LostError
        If too many fail.
    """
    for number in itertools.count():
        try:
            return attempt()
        except LOST as error:
            pause(number, what, error)
    raise AssertionError  # counting does not end
