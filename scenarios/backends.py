"""Backends by name, as the command line opens them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from coordinator.protocol.errors import InputError
from scenarios.session import InProcess, Session


def check_backend(backend: str, workers: int | None) -> None:
    """Refuse a backend that there is not, or no worker."""
    if backend not in ("ray", "inprocess"):
        raise InputError(f"backend is {backend!r}; choose ray or inprocess")
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; it must be at least 1")


@contextmanager
def open_session(backend: str, *, address: str | None, workers: int | None) -> Iterator[Session]:
    """Open the backend that a name asks for.

    Raises
    ------
    InputError
        If there is no such backend, or its settings contradict each other.
    """
    check_backend(backend, workers)
    if backend == "inprocess":
        if address:
            raise InputError(f"address is {address}, but --backend inprocess uses no Ray; leave one of them out")
        yield InProcess(workers or os.cpu_count() or 1)
    else:
        from scenarios.cluster import on_ray  # noqa: PLC0415 (importing Ray takes a second that others need not wait)

        with on_ray(address=address, workers=workers) as session:
            yield session
