"""Running numerical libraries on one thread, so that sums have one order and labels do not depend on the machine."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

from coordinator.protocol.arrays import Floats, Floats2

if TYPE_CHECKING:
    from sklearn.cluster import KMeans


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:  # noqa: ARG001 (a key)
    """Find the thread pools of the libraries that are loaded by now, once for each number of modules."""
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which the numerical libraries that are loaded by now use one thread."""
    limit: AbstractContextManager[object] = _controller(len(sys.modules)).limit(limits=1)
    return limit


def load_k_means() -> None:
    """Load the library of `k_means`, which takes a second, so that this is over before a clock runs."""
    import_module("sklearn.cluster")


def k_means(
    points: Floats2, clusters: int, *, starts: int, centres: Floats2 | None = None, weights: Floats | None = None
) -> KMeans:
    """Return k-means of points, shape (N, D), fitted on one thread until nothing moves any more."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 (takes a second; only where something is clustered)

    # more threads would gain nothing with so few points, and would wait for each other on a busy machine
    with one_thread():
        start = "k-means++" if centres is None else centres
        k = KMeans(clusters, init=start, n_init=starts, tol=0, max_iter=500, random_state=0)
        return k.fit(points, sample_weight=weights)
