"""Backends of runs, in this process or on Ray, as objects and by their names on the command line."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator.protocol.errors import InputError
from scenarios.backends.session import NAMED, A, Backend, BackendJob, O, Progress, R, T, check_workers, end_with

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
        from scenarios.backends.in_process import run_in_threads  # noqa: PLC0415 (`--help` need not wait for it)

        return run_in_threads(job, self.workers, progress)

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Generator[tuple[int, R], None, None]:
        """Yield results as they are completed; see `Backend.each`, and `stop_if_abandoned` for long functions."""
        if self.workers == 1:
            for number, argument in enumerate(arguments):
                yield number, function(argument)
            return
        stop = threading.Event()

        def call(number: int, argument: A) -> tuple[int, R]:
            end_with(stop)
            return number, function(argument)

        interval = sys.getswitchinterval()
        with ThreadPoolExecutor(self.workers) as threads:
            try:
                sys.setswitchinterval(SWITCH)
                for result in as_completed([threads.submit(call, *numbered) for numbered in enumerate(arguments)]):
                    yield result.result()
            finally:
                sys.setswitchinterval(interval)
                stop.set()
                threads.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Ray:
    """Ray: a local instance that is started and ended with each run, or an instance that is joined.

    Parameters
    ----------
    address : str, optional
        ``host:port`` of a running head; default: inside a Ray job its own cluster, else a new local instance.
    workers : int, optional
        Blocks of devices at the same time; default: as many as a run gains from, at most one for each CPU.
    metrics : bool
        Whether Ray's metrics show how far runs have come, to whoever scrapes them.

    Raises
    ------
    InputError
        If there is no worker.
    """

    address: str | None = None
    workers: int | None = None
    metrics: bool = False

    def __post_init__(self) -> None:
        check_workers(self.workers)


BackendChoice = InProcess | Ray


AUTO = "auto"  # The backend of a command that names none
FEW_CPUS = 4  # Up to so many, units that share what they read and learn run in threads of one process
SWITCH = 5e-4
"""After how long a thread that comes back from compiled code may ask for the interpreter [s]; with Python's own 5 ms
two threads that compare trust models waited for each other a fifth of their time, and so they do half as long."""
LONG = 10.0
"""Predicted work above which a local Ray is started [s of one processor]; starting and ending one takes as long."""


def check_backend(backend: str, workers: int | None) -> None:
    """Refuse an unknown backend or a number of workers below 1."""
    if backend not in (AUTO, "ray", "inprocess"):
        raise InputError(f"backend is {backend!r}; choose auto, ray or inprocess")
    check_workers(workers)


def choose(
    backend: str,
    *,
    address: str | None = None,
    metrics: bool = False,
    work: Callable[[], float] = lambda: 0.0,
    sharing: bool = False,
) -> tuple[str, str]:
    """Return the name of a command's backend, and the reason in a few words; no answer depends on the backend."""
    if backend != AUTO:
        return backend, NAMED
    if address:
        return "ray", "an address is given"
    if os.environ.get("RAY_ADDRESS"):
        return "ray", "RAY_ADDRESS names a cluster"
    if metrics:
        return "ray", "only Ray has what is asked for"
    if sharing and (os.cpu_count() or 1) <= FEW_CPUS:
        return "inprocess", "its parts share what they read"
    seconds = work()
    prediction = f"about {seconds:,.0f} s of work predicted" if seconds >= 1 else "less than 1 s of work predicted"
    return ("ray", f"{prediction}, more than {LONG:g}") if seconds > LONG else ("inprocess", prediction)


@contextmanager
def opened(backend: BackendChoice) -> Iterator[Backend]:
    """Make a backend ready to run jobs; everything that is started for it ends with the ``with`` block."""
    if isinstance(backend, InProcess):
        yield backend
    elif isinstance(backend, Ray):
        if not (backend.address or os.environ.get("RAY_ADDRESS")):  # read by Ray when it is imported: no hook for uv
            os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        from scenarios.backends.ray_instance import on_ray  # noqa: PLC0415 (importing Ray takes a second)

        with on_ray(address=backend.address, workers=backend.workers, metrics=backend.metrics) as session:
            yield session
    else:
        raise InputError(f"backend is {backend!r}; give blindrec.InProcess() or blindrec.Ray()")


@contextmanager
def open_session(backend: str, *, address: str | None, workers: int | None, **how: Any) -> Iterator[Backend]:
    """Open a backend by its name, or the one that suits; ``how`` is as in `choose`."""
    check_backend(backend, workers)
    if backend == "inprocess" and (address or how.get("metrics")):
        others = f"address is {address}" if address else "--metrics are Ray's"
        raise InputError(f"{others}, but --backend inprocess uses no Ray; leave one of them out")
    name, reason = choose(backend, address=address, **how)
    with opened(
        InProcess(workers) if name == "inprocess" else Ray(address, workers, how.get("metrics", False))
    ) as session:
        session.reason = reason
        yield session
