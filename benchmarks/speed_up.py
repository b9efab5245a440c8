"""Two workers against one: the main job on one core and on two, in turn, in one Ray instance.

``python -m benchmarks.speed_up [--pairs 3] [--json FILE]``. One worker means that all processes of the run, Ray's own
and the driver too, are pinned to one core. The floor kernel, which waits for nobody and shares nothing, runs on one
thread and on two between them: what it gains is what the machine's two cores can give.
"""

from __future__ import annotations

import json
import os
import statistics
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from benchmarks.floor import floor_seconds
from scenarios.given.config import Scenario
from scenarios.places.cluster import on_ray
from scenarios.places.on_ray import OnRay
from scenarios.run.experiment import run

CORES = 2


def pin(cores: list[int]) -> None:
    """Pin all threads of this process and of its children to some cores; later children inherit this."""
    me = psutil.Process()
    for _ in range(2):  # twice, because processes may have been started meanwhile
        for process in [me, *me.children(recursive=True)]:
            with suppress(ProcessLookupError, psutil.NoSuchProcess):
                for thread in process.threads():
                    with suppress(ProcessLookupError):
                        os.sched_setaffinity(thread.id, cores)


def timed(users: int, items: int, rated: int, cores: list[int]) -> dict[str, float]:
    """Return the seconds of the job, and of the floor kernel before it, on so many cores with a worker each."""
    pin(cores)
    floor = floor_seconds(users=users, items=items, rated=rated, sensed=round(items / rated), threads=len(cores))
    done = run(Scenario(items=items, rated=rated, users=users), OnRay(len(cores)))
    return {"seconds": done.ran.seconds, "floor_seconds": floor}


def measure(*, users: int, items: int, rated: int, pairs: int) -> list[dict[str, Any]]:
    """Return pairs of a run with one worker and one with two, and how much faster the second was."""
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    found = []
    with on_ray(address=None, workers=CORES):
        timed(max(1, users // 100), items, rated, cores)  # compiles, and starts all there is
        for _ in range(pairs):
            one, two = (timed(users, items, rated, cores[:many]) for many in (1, CORES))
            speed_up, floors = (one[name] / two[name] for name in ("seconds", "floor_seconds"))
            found.append({"one": one, "two": two, "speed_up": speed_up, "speed_up_of_floor": floors})
            told = "one worker {:6.2f} s, two {:6.2f} s: {:.2f} times as fast; the floor kernel {:.2f} times"
            print(told.format(one["seconds"], two["seconds"], speed_up, floors), flush=True)
    return found


def summary(pairs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the speed-up of the best pair, of the median one, and of the best times; and the floor's of these."""

    def of_best(name: str) -> float:
        one, two = (min(pair[which][name] for pair in pairs) for which in ("one", "two"))
        return float(one / two)

    return {
        "best": max(pair["speed_up"] for pair in pairs),
        "median": statistics.median(pair["speed_up"] for pair in pairs),
        "of_best_times": of_best("seconds"),
        "median_of_floor": statistics.median(pair["speed_up_of_floor"] for pair in pairs),
        "of_best_times_of_floor": of_best("floor_seconds"),
    }


def main(
    users: Annotated[int, typer.Option(help="Devices.")] = 10_000_000,
    items: Annotated[int, typer.Option(help="Items N.")] = 1000,
    rated: Annotated[int, typer.Option(help="Rated items w.")] = 30,
    pairs: Annotated[int, typer.Option(help="Runs on one core and on two, in turn.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
) -> None:
    """Measure how much faster two workers are than one."""
    found = measure(users=users, items=items, rated=rated, pairs=pairs)
    told = summary(found)
    print("speed-up: best {best:.2f}, median {median:.2f}, of the best times {of_best_times:.2f}".format(**told))
    print("the floor's: median {median_of_floor:.2f}, of the best times {of_best_times_of_floor:.2f}".format(**told))
    if json_file:
        json_file.write_text(json.dumps({"pairs": found, **told}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
