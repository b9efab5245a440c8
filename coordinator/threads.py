"""One thread for numerical libraries, so that sums run in one order and labels do not depend on the machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    """Find the loaded libraries' thread pools, once: looking takes milliseconds."""
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which numerical libraries use one thread."""
    limit: AbstractContextManager[object] = _controller().limit(limits=1)
    return limit
