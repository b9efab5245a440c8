"""How the main job scales on Ray: with devices, cohort size, one-device actors, cores; each row is its own process.

``python -m benchmarks.scaling [--part devices]``. Every row is a `benchmarks.throughput` of Ray and of
the reference kernel in a new process, so that peak memory is that run's alone.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from benchmarks.pages import table

COLUMNS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "devices": ("devices", lambda row: f"{row['users']:,}"),
    "cohort": ("a cohort", lambda row: f"{row['ray']['devices_per_actor']:,}"),
    "cores": ("cores", lambda row: f"{row['cores'] or 'all'}"),
    "start": ("start, s", lambda row: f"{row['ray']['start']:.1f}"),
    "processor": ("processor, ns a device", lambda row: f"{row['ray']['processor'] * 1e9:,.0f}"),
    "ratio": ("times the reference kernel", lambda row: f"{row['ray']['to_reference']:.2f}"),
    "speed": ("devices a second by the clock", lambda row: f"{1 / row['ray']['clock']:,.0f}"),
    "proportional": ("memory, MB", lambda row: f"{row['ray']['proportional_mb']:,.0f}"),
    "resident": ("resident, MB", lambda row: f"{row['ray']['resident_mb']:,.0f}"),
}
"""Columns of the table: head, and what stands in a row."""


def child(**options: int) -> dict[str, Any]:
    """Return the figures of one run of `benchmarks.throughput`."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "benchmarks.throughput", "--way", "reference", "--way", "ray"]
        command += ["--json", str(target)]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command[1:])} ended with {ended.returncode}: {ended.stderr.strip()[-2000:]}")
        figures: list[dict[str, Any]] = json.loads(target.read_text(encoding="utf-8"))
        return figures[0]


def parts(users: int) -> dict[str, list[dict[str, int]]]:
    """Return the options of each part's runs: more and more devices, smaller cohorts, one device an actor, cores."""
    many = min(users, 10**7)
    return {
        "devices": [{"users": count, "workers": 2} for count in (10**5, 10**6, 10**7, 10**8) if count <= users],
        # At most 64 processes stand behind the cohorts
        "cohorts": [{"users": many, "workers": 2, "devices_per_actor": many // by} for by in (2, 20, 200, 2000)],
        "single": [{"users": count, "workers": 2, "devices_per_actor": 1} for count in (10, 50) if count <= users],
        "cores": [{"users": many, "workers": count, "cores": count} for count in (1, 2, 1, 2, 1, 2)],
    }


def main(
    part: Annotated[
        list[str] | None, typer.Option(help="One of devices, cohorts, single, cores; repeat it. Default: all.")
    ] = None,
    users: Annotated[int, typer.Option(help="Devices of the largest run.")] = 100_000_000,
    items: Annotated[int, typer.Option(help="Items N.")] = 1000,
    rated: Annotated[int, typer.Option(help="Rated items w.")] = 30,
) -> None:
    """Measure how the main job scales."""
    memory = round(psutil.virtual_memory().total / 2**30)
    print(f"N = {items:,}, w = {rated}; {len(os.sched_getaffinity(0))} cores, {memory} GiB")
    for name, runs in parts(users).items():
        if name in (part or [name]):
            rows = [child(items=items, rated=rated, **options) for options in runs]
            cells = [[shown(row) for _, shown in COLUMNS.values()] for row in rows]
            print(f"\n{name}\n{table([head for head, _ in COLUMNS.values()], cells)}", flush=True)


if __name__ == "__main__":
    typer.run(main)
