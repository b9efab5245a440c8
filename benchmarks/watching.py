"""What a run takes from the machine: processor time and peak memory of all its processes, sampled while it lasts."""

import ctypes
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil

EVERY, OFTEN, SHARE = 0.5, 0.1, 0.02
"""Least seconds between two samples, of one's own run and of a command's, and the largest share of time for samples."""
_BE_SUBREAPER = 36
_RAYS = ("gcs_server", "raylet", "dashboard.py", "DashboardAgent", "RuntimeEnvAgent", "log_monitor", "monitor.py")


class Watched:
    """What was seen so far of this process, and of its children if so wished, but for some.

    Sizes are the largest sums [bytes]: in resident ones pages that processes share count once for each, in
    proportional ones once in all.
    """

    def __init__(self, *, own: bool = True, children: bool = True, but: Collection[psutil.Process] = ()) -> None:
        self.resident = self.proportional = 0
        self._root, self._itself, self._children, self._but = psutil.Process(), own, children, but
        self._took, self._kinds = dict[psutil.Process, float](), dict[psutil.Process, str]()
        self._sampling, self._looking = 0.0, threading.Lock()

    @property
    def processor(self) -> float:
        """Processor time of all processes, ended ones among them, at the last sample [s], without that of sampling."""
        return sum(self._took.values()) - (self._sampling if self._itself else 0.0)

    @property
    def by_kind(self) -> Counter[str]:
        """Processor time by what processes are [s]."""
        times: Counter[str] = Counter()
        for process, spent in self._took.items():
            times[self._kinds.get(process, "driver")] += spent  # type: ignore[assignment] # a counter of seconds
        return times

    def look(self, *, memory: bool = False) -> float:
        """Take one sample of processor time, and of memory if that is wished; return how long it took [s]."""
        with self._looking:
            begin, resident, proportional = time.thread_time(), 0, 0
            below = self._root.children(recursive=True) if self._children else []
            for process in [
                *([self._root] if self._itself else []),
                *(child for child in below if child not in self._but),
            ]:
                try:
                    took = process.cpu_times()
                    self._took[process] = took.user + took.system
                    if kind := _kind(" ".join(process.cmdline())):
                        self._kinds[process] = kind
                    if memory:
                        usage = process.memory_full_info()
                        resident, proportional = resident + usage.rss, proportional + usage.pss
                except psutil.Error:
                    continue
            self.resident, self.proportional = max(self.resident, resident), max(self.proportional, proportional)
            spent = time.thread_time() - begin
            self._sampling += spent
            return spent


def _kind(line: str) -> str | None:
    """Return what a process of Ray is by its command line, which workers change: `ray::DeviceHost.ask` is an actor."""
    if "scenarios.job" in line:
        return "job"
    if ray_name := next((name for name in _RAYS if name in line.partition(" --")[0]), None):
        return ray_name
    return line.partition(".")[0].removeprefix("ray::").strip() if line.startswith("ray::") else None


@contextmanager
def watch(*, children: bool = True) -> Iterator[Watched]:
    """Watch this process, and its children if so wished, until the block ends.

    What a process does between its last sample and its end is not seen: look once more before work ends.
    """
    seen, done = Watched(children=children), threading.Event()

    def sample() -> None:
        pause = EVERY
        while not done.wait(pause):
            pause = max(EVERY, seen.look(memory=True) / SHARE)

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def took(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, memory: bool = False
) -> tuple[float, Watched]:
    """Run a command; return the seconds by the clock, and what its processes took, without those there before it."""
    ctypes.CDLL(None).prctl(_BE_SUBREAPER, 1, 0, 0, 0)  # so that orphans become children of this process, and are seen
    seen = Watched(own=False, but=psutil.Process().children(recursive=True))  # of the last command, and about to end
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(max(OFTEN, seen.look(memory=memory) / SHARE))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - begin, seen
