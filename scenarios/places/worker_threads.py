"""Functions that run in threads, and stop when their results are no longer needed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")


class AbandonedError(Exception):
    """The result of this call is no longer needed."""


_own = threading.local()


def stop_if_abandoned() -> None:
    """End a call of `InProcess.each` if its result is no longer needed, as after Ctrl-C; long loops call this."""
    stop: threading.Event | None = getattr(_own, "stop", None)
    if stop is not None and stop.is_set():
        raise AbandonedError


def work(
    function: Callable[[A], R],
    todo: queue.SimpleQueue[tuple[int, A]],
    done: queue.SimpleQueue[tuple[int, R | None, BaseException | None]],
    stop: threading.Event,
) -> None:
    """Call ``function`` on argument after argument until none is left or ``stop`` is set; errors are results."""
    _own.stop = stop
    while not stop.is_set():
        try:
            place, argument = todo.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((place, function(argument), None))
        except BaseException as error:  # raised again in the thread that waits for results
            done.put((place, None, error))
