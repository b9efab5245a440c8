"""The most memory that this process and those that it started held at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

EVERY = 0.2
"""Seconds between two looks."""


@dataclass(slots=True)
class Peak:
    """The largest sum so far [MB]."""

    megabytes: float = 0.0


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Watch memory meanwhile: resident of this process, and what its children hold beside what they share."""
    peak, stop = Peak(), threading.Event()

    def look() -> None:
        peak.megabytes = max(peak.megabytes, _held() / 1e6)

    def watch() -> None:
        while not stop.wait(EVERY):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    look()
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()
        look()


def _held() -> int:
    own = psutil.Process()
    total = int(own.memory_info().rss)
    for child in own.children(recursive=True):
        with suppress(psutil.Error):
            info = child.memory_info()
            total += max(0, int(info.rss) - int(getattr(info, "shared", 0)))
    return total
