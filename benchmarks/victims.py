"""Finding the processes of a run by their tasks, for tests and `benchmarks.kills`, which kill them."""

from collections.abc import Iterable
from typing import Final

import psutil

ACTORS: Final = {
    "worker": "ray::Aggregator",
    "devices": "ray::DeviceHost",
    "public": "ray::PublicHost",
    "coordinator": "ray::Coordinator",
    "shuffler": "ray::ShufflerHost",
    "words": "ray::WordServer",
    "seeds": "ray::SeedServer",
}
"""Names of actors' processes by kind; while a method runs, its name is appended."""


def below(process: psutil.Process) -> dict[psutil.Process, str]:
    """Return all processes that stem from ``process`` and live, with their command lines."""
    processes: dict[psutil.Process, str] = {}
    for child in process.children(recursive=True):
        try:
            processes[child] = " ".join(child.cmdline())
        except psutil.Error:
            continue
    return processes


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run, without zombies and without other processes that got the same id."""
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def actors_below(process: psutil.Process, *kinds: str) -> list[psutil.Process]:
    """Return the processes of a run's actors, of some kinds or all, that stem from ``process``, by their numbers."""
    names = tuple(ACTORS[kind] for kind in kinds or ACTORS)
    processes = [process for process, line in below(process).items() if line.startswith(names)]
    return sorted(processes, key=lambda process: process.pid)
