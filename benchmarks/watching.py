"""What a run takes from the machine: processor time and peak memory of all its processes, sampled while it lasts."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

EVERY, SHARE = 0.5, 0.02
"""Least seconds between two samples, and the largest share of time for samples, which take it from the run."""


class Watched:
    """What was seen so far.

    Sizes are the largest sums [bytes]: in resident ones pages that processes share count once for each, in
    proportional ones once in all.
    """

    def __init__(self, *, children: bool = True) -> None:
        self.resident = self.proportional = 0
        self._children = children
        self._root, self._took = psutil.Process(), dict[psutil.Process, float]()
        self._own, self._looking = 0.0, threading.Lock()

    @property
    def processor(self) -> float:
        """Processor time of all processes, ended ones among them, at the last sample [s], without that of sampling."""
        return sum(self._took.values()) - self._own

    def look(self, *, memory: bool = False) -> None:
        """Take one sample of processor time, and of memory if that is wished."""
        with self._looking:
            begin, resident, proportional = time.thread_time(), 0, 0
            for process in [self._root, *(self._root.children(recursive=True) if self._children else ())]:
                try:
                    took = process.cpu_times()
                    self._took[process] = took.user + took.system
                    if memory:
                        usage = process.memory_full_info()
                        resident, proportional = resident + usage.rss, proportional + usage.pss
                except psutil.Error:
                    continue
            self.resident, self.proportional = max(self.resident, resident), max(self.proportional, proportional)
            self._own += time.thread_time() - begin


@contextmanager
def watch(*, children: bool = True) -> Iterator[Watched]:
    """Watch this process, and its children if so wished, until the block ends.

    What a process does between its last sample and its end is not seen: look once more before work ends.
    """
    seen, done = Watched(children=children), threading.Event()

    def sample() -> None:
        pause = EVERY
        while not done.wait(pause):
            begin = time.perf_counter()
            seen.look(memory=True)
            pause = max(EVERY, (time.perf_counter() - begin) / SHARE)

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()
