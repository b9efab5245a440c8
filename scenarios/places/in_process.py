"""A run without Ray: the same devices and the same server as elsewhere, in threads of this process."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from scenarios.places.session import NAMED, O, Progress, R, T, Work, check_workers
from scenarios.places.worker_threads import A, work

if TYPE_CHECKING:
    from coordinator.server.rounds.conductor import ServerSpec


class InProcess:
    """Cohorts in ``workers`` threads of this process, without Ray. For tests, debugging and small runs.

    Parameters
    ----------
    workers : int, optional
        Number of threads; default: one for each CPU.

    Raises
    ------
    InputError
        If there is no worker.
    """

    name = "inprocess"
    reason = NAMED

    def __init__(self, workers: int | None = None) -> None:
        check_workers(workers)
        self.workers = workers or os.cpu_count() or 1

    def __repr__(self) -> str:
        return f"InProcess(workers={self.workers})"

    def enough(self, plan: ServerSpec[Any, Any], answers: int) -> int:  # noqa: ARG002 (threads start at once)
        """Return the number of threads; see `scenarios.places.session.Session.enough`."""
        return self.workers

    def conduct(self, job: Work[R, O, T], progress: Progress) -> T:
        """Conduct a run; see `scenarios.places.session.Session.conduct`."""
        from scenarios.places.local_fleet import conducted  # noqa: PLC0415 (a run elsewhere needs no devices here)

        return conducted(job, self.workers, progress)

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Generator[tuple[int, R], None, None]:
        """Yield results as they are completed; see `Session.each`, and `stop_if_abandoned` for long functions."""
        if self.workers == 1:
            for place, argument in enumerate(arguments):
                yield place, function(argument)
            return
        todo: queue.SimpleQueue[tuple[int, A]] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, R | None, BaseException | None]] = queue.SimpleQueue()
        stop = threading.Event()
        for numbered in enumerate(arguments):
            todo.put(numbered)
        count = min(self.workers, len(arguments))
        threads = [threading.Thread(target=work, args=(function, todo, done, stop), daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            for _ in arguments:
                place, result, error = done.get()
                if error is not None:
                    raise error
                yield place, result  # type: ignore[misc] # a result where there is no error
        finally:
            stop.set()
            for thread in threads:
                thread.join()
