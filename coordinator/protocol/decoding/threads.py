"""Running numerical libraries on one thread, so that sums have one order and labels do not depend on the machine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

from coordinator.protocol.arrays import Floats2

if TYPE_CHECKING:
    from sklearn.cluster import KMeans


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:  # noqa: ARG001 (a key)
    """Find the thread pools of the libraries that are loaded by now, once for each number of modules."""
    return ThreadpoolController()


_LOCK = threading.Lock()
_LIMITS: list[Any] = []  # Of all contexts that overlap: the first that leaves must not end what others rely on
_inside = 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Let numerical libraries that are loaded by now use one thread, until the last of overlapping contexts ends."""
    global _inside  # noqa: PLW0603 (how many threads a library has is the process's)
    with _LOCK:
        _LIMITS.append(_controller(len(sys.modules)).limit(limits=1))
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            while _LIMITS and not _inside:
                _LIMITS.pop().restore_original_limits()


def load_k_means() -> None:
    """Load the library of `k_means`, which takes a second, so that this is over before a clock runs."""
    import_module("sklearn.cluster")


def k_means(points: Floats2, clusters: int, *, starts: int) -> KMeans:
    """Return k-means of points, shape (N, D), fitted on one thread until nothing moves any more."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 (takes a second; only where something is clustered)

    # more threads would gain nothing with so few points, and would wait for each other on a busy machine
    with one_thread():
        return KMeans(clusters, n_init=starts, tol=0, max_iter=500, random_state=0).fit(points)
