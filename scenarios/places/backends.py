"""Backends, where a run may happen: in this process or on Ray, as objects and by their names on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from coordinator.protocol.errors import InputError
from scenarios.places.in_process import InProcess
from scenarios.places.session import Session, check_workers


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
        Whether Ray's metrics tell how far runs have come, to whoever scrapes them.

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


Backend = InProcess | Ray


def check_backend(backend: str, workers: int | None) -> None:
    """Refuse an unknown backend or a number of workers below 1."""
    if backend not in ("ray", "inprocess"):
        raise InputError(f"backend is {backend!r}; choose ray or inprocess")
    check_workers(workers)


@contextmanager
def opened(backend: Backend) -> Iterator[Session]:
    """Make a backend ready to run jobs; everything that is started for it ends with the ``with`` block.

    Raises
    ------
    InputError
        If it cannot be used.
    """
    if isinstance(backend, InProcess):
        yield backend
    elif isinstance(backend, Ray):
        from scenarios.places.cluster import on_ray  # noqa: PLC0415 (importing Ray takes a second that others need not wait)

        with on_ray(address=backend.address, workers=backend.workers, metrics=backend.metrics) as session:
            yield session
    else:
        raise InputError(f"backend is {backend!r}; give blindrec.InProcess() or blindrec.Ray()")


@contextmanager
def open_session(backend: str, *, address: str | None, workers: int | None, metrics: bool = False) -> Iterator[Session]:
    """Open a backend by its name.

    Raises
    ------
    InputError
        If there is no such backend, or its settings contradict each other.
    """
    check_backend(backend, workers)
    if backend == "inprocess" and address:
        raise InputError(f"address is {address}, but --backend inprocess uses no Ray; leave one of them out")
    if backend == "inprocess" and metrics:
        raise InputError("--metrics are Ray's, but --backend inprocess uses no Ray; leave one of them out")
    with opened(InProcess(workers) if backend == "inprocess" else Ray(address, workers, metrics)) as session:
        yield session
