"""Peak memory of a run: all its processes together, sampled while it lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

EVERY, SHARE = 0.5, 0.02
"""Least seconds between two samples, and the largest share of time for samples, which take time from the run."""


class Peak:
    """Largest sums seen so far [bytes].

    Attributes
    ----------
    resident : int
        Sum of resident sizes: pages that processes share count once for each.
    proportional : int
        Sum of proportional sizes: a shared page counts once in all.
    """

    def __init__(self) -> None:
        self.resident = self.proportional = 0

    def look(self, root: psutil.Process) -> None:
        """Take one sample of ``root`` and all that it started."""
        resident = proportional = 0
        for process in [root, *root.children(recursive=True)]:
            try:
                memory = process.memory_full_info()
            except psutil.Error:
                continue
            resident += memory.rss
            proportional += memory.pss
        self.resident = max(self.resident, resident)
        self.proportional = max(self.proportional, proportional)


@contextmanager
def watch() -> Iterator[Peak]:
    """Watch this process and its children until the block ends.

    Yields
    ------
    Peak
    """
    peak, done, root = Peak(), threading.Event(), psutil.Process()

    def sample() -> None:
        pause = EVERY
        while not done.wait(pause):
            begin = time.perf_counter()
            peak.look(root)
            pause = max(EVERY, (time.perf_counter() - begin) / SHARE)

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()
