"""Throughput of the main job through Ray against the floor kernel, in one run.

``python -m benchmarks.throughput`` prints a table and, with ``--json FILE``, writes the figures. The floor runs before
and after the job and its mean counts, so that a drift of the machine's speed shows and cancels.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.floor import floor_seconds
from benchmarks.memory import watch
from scenarios.given.config import Scenario
from scenarios.places.cluster import on_ray
from scenarios.run.experiment import run


def measure(
    *, users: int, items: int, rated: int, workers: int, devices_per_actor: int | None = None
) -> dict[str, Any]:
    """Return seconds without start-up, devices a second, the floor's devices a second, their ratio, and peak memory."""
    sensed = round(items / rated)

    def floor() -> float:
        return floor_seconds(users=users, items=items, rated=rated, sensed=sensed, threads=workers)

    before = floor()
    begin = time.perf_counter()
    with watch() as peak, on_ray(address=None, workers=workers) as session:
        scenario = Scenario(items=items, rated=rated, users=users)
        done = run(scenario, session, devices_per_actor=devices_per_actor)
        ran, whole = done.ran, time.perf_counter() - begin
    after = floor()
    bare = (before + after) / 2
    return {
        "users": users,
        "items": items,
        "rated": rated,
        "workers": workers,
        "devices_per_actor": done.devices_per_actor,
        "start_seconds": whole - ran.seconds,
        "seconds": ran.seconds,
        "devices_per_second": users / ran.seconds,
        "floor_seconds": [before, after],
        "floor_devices_per_second": users / bare,
        "ratio_to_floor": ran.seconds / bare,
        "peak_resident_mb": peak.resident / 2**20,
        "peak_proportional_mb": peak.proportional / 2**20,
    }


def main(
    users: Annotated[int, typer.Option(help="Devices.")] = 10_000_000,
    items: Annotated[int, typer.Option(help="Items N.")] = 10_000,
    rated: Annotated[int, typer.Option(help="Rated items w.")] = 100,
    workers: Annotated[int, typer.Option(help="Blocks at the same time; threads of the floor.")] = os.cpu_count() or 1,
    devices_per_actor: Annotated[
        int | None, typer.Option(help="Devices of a cohort; default: one cohort a worker.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
) -> None:
    """Time the main job through Ray, both sides simulated, against the floor kernel."""
    figures = measure(users=users, items=items, rated=rated, workers=workers, devices_per_actor=devices_per_actor)
    for name, value in figures.items():
        print(f"{name:26} {value if isinstance(value, (int, list)) else format(value, ',.3f')}")
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
