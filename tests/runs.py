"""Small scenarios, runs in this process, and rating files: what the tests of the experimenter's side share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from scenarios.config import Scenario
from scenarios.experiment import Run, run, silent
from scenarios.session import InProcess, Progress

Rating = tuple[int, int, float]
"""User, item, rating."""


def small(**changes: Any) -> Scenario:
    """A block model that runs in milliseconds."""
    return Scenario.model_validate({"items": 40, "rated": 5, "users": 3001, **changes})


def of_file(path: Path, **changes: Any) -> Scenario:
    """A file of ratings."""
    return Scenario.model_validate({"ratings": path, **changes})


def here(
    scenario: Scenario, *, workers: int = 1, devices_per_actor: int | None = None, progress: Progress = silent
) -> Run:
    """A run in this process."""
    return run(scenario, InProcess(workers), devices_per_actor=devices_per_actor, progress=progress)


def planted_ratings(*, users: int, items: int, each: int, seed: int = 0) -> list[Rating]:
    """Ratings of users who like (4 or 5) the first half of the items, but for one in ten, and dislike (1 to 3) the rest."""
    world = np.random.default_rng(seed)
    rows = [
        (user, int(item), float(world.choice([4, 5] if (item < items // 2) == (world.random() < 0.9) else [1, 2, 3])))
        for user in range(users)
        for item in world.choice(items, size=each, replace=False)
    ]
    return [rows[place] for place in world.permutation(len(rows))]


def write_movielens(path: Path, rows: Iterable[Rating]) -> Path:
    """Write MovieLens' ``ratings.csv``; users and items are numbered from 1, as there."""
    lines = [f"{user + 1},{item + 1},{rating},964982703\n" for user, item, rating in rows]
    path.write_text("userId,movieId,rating,timestamp\n" + "".join(lines), encoding="utf-8")
    return path


def holds_within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true before the time is up: for what other processes do, never for speed."""
    end = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return held


def below(process: psutil.Process) -> dict[psutil.Process, str]:
    """All processes that stem from ``process`` and live, with their command lines."""
    found: dict[psutil.Process, str] = {}
    for child in process.children(recursive=True):
        try:
            found[child] = " ".join(child.cmdline())
        except psutil.Error:
            continue
    return found


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; a process id that was given anew does not count, nor does a zombie."""
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
