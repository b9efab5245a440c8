"""Whom to kill: the processes of a run by what they do. Tests and `benchmarks.kills` find them here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import psutil

ACTORS: Final = {
    "worker": "ray::Aggregator",
    "devices": "ray::DeviceHost",
    "public": "ray::PublicHost",
    "coordinator": "ray::Coordinator",
}
"""How the process of an actor is called, by kind; methods at work are named after it."""


def below(process: psutil.Process) -> dict[psutil.Process, str]:
    """Return all processes that stem from ``process`` and live, with their command lines."""
    found: dict[psutil.Process, str] = {}
    for child in process.children(recursive=True):
        try:
            found[child] = " ".join(child.cmdline())
        except psutil.Error:
            continue
    return found


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run; a process id that was given anew does not count, nor does a zombie."""
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def actors_below(process: psutil.Process, *kinds: str) -> list[psutil.Process]:
    """Return the processes of a run's actors that stem from ``process``, by their numbers.

    Parameters
    ----------
    process : psutil.Process
    *kinds : str
        Some of `ACTORS`; none: all of them.
    """
    names = tuple(ACTORS[kind] for kind in kinds or ACTORS)
    found = [one for one, line in below(process).items() if line.startswith(names)]
    return sorted(found, key=lambda one: one.pid)
