"""A run without Ray: the same devices and the same server as elsewhere, in threads of this process."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from scenarios.backends.session import NAMED, A, BackendJob, O, Progress, R, T, check_workers, work

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

    def choose_workers(self, plan: ServerSpec[Any, Any], answers: int) -> int:  # noqa: ARG002 (threads start at once)
        """Return the number of threads; see `scenarios.backends.session.Backend.choose_workers`."""
        return self.workers

    def run(self, job: BackendJob[R, O, T], progress: Progress) -> T:
        """Run a job; see `scenarios.backends.session.Backend.run`."""
        from scenarios.backends.local_fleet import run_in_threads  # noqa: PLC0415 (`--help` need not wait for what runs load)

        return run_in_threads(job, self.workers, progress)

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
