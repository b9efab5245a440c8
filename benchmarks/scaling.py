"""How the main job scales on Ray: with devices, cohort size, one-device actors, cores; each row is its own process.

``python -m benchmarks.scaling [--part devices] [--json FILE]``. Every row is a `benchmarks.throughput` of Ray and of
the reference kernel in a new process, so that peak memory is that run's alone.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from benchmarks.reference import JsonFile, write_figures

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


def by_devices(users: int, items: int, rated: int) -> list[dict[str, Any]]:
    """Return runs of more and more devices, up to ``users``."""
    counts = [one for one in (10**5, 10**6, 10**7, 10**8) if one <= users]
    return [child(users=one, items=items, rated=rated, workers=2) for one in counts]


def by_cohorts(users: int, items: int, rated: int) -> list[dict[str, Any]]:
    """Return runs whose actors embody fewer and fewer devices; at most 64 processes stand behind them."""
    users = min(users, 10**7)
    sizes = [users // 2, users // 20, users // 200, users // 2000]
    return [child(users=users, items=items, rated=rated, workers=2, devices_per_actor=size) for size in sizes]


def by_single_devices(users: int, items: int, rated: int) -> list[dict[str, Any]]:
    """Return runs whose actors embody one device each."""
    return [
        child(users=one, items=items, rated=rated, workers=2, devices_per_actor=1) for one in (10, 50) if one <= users
    ]


def by_cores(users: int, items: int, rated: int) -> list[dict[str, Any]]:
    """Return pairs of runs that are pinned to one core, all processes, and to two."""
    users = min(users, 10**7)
    return [child(users=users, items=items, rated=rated, workers=one, cores=one) for one in (1, 2, 1, 2, 1, 2)]


PARTS: dict[str, Callable[[int, int, int], list[dict[str, Any]]]] = {
    "devices": by_devices,
    "cohorts": by_cohorts,
    "single": by_single_devices,
    "cores": by_cores,
}


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as a Markdown table."""
    lines = [" | ".join(head for head, _ in COLUMNS.values()), " | ".join("---" for _ in COLUMNS)]
    lines += [" | ".join(shown(row) for _, shown in COLUMNS.values()) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def machine() -> dict[str, Any]:
    """Return the date and the machine's shape."""
    memory = round(psutil.virtual_memory().total / 2**30)
    return {"date": datetime.now(UTC).date().isoformat(), "cores": len(os.sched_getaffinity(0)), "memory_gib": memory}


def main(
    part: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(PARTS)}; repeat it. Default: all.")] = None,
    users: Annotated[int, typer.Option(help="Devices of the largest run.")] = 100_000_000,
    items: Annotated[int, typer.Option(help="Items N.")] = 1000,
    rated: Annotated[int, typer.Option(help="Rated items w.")] = 30,
    json_file: JsonFile = None,
) -> None:
    """Measure how the main job scales."""
    figures: dict[str, Any] = {"machine": machine(), "items": items, "rated": rated}
    print(json.dumps(figures))
    for name in part or PARTS:
        rows = PARTS[name](users, items, rated)
        figures[name] = rows
        print(f"\n{name}\n{table(rows)}", flush=True)
    write_figures(json_file, figures)


if __name__ == "__main__":
    typer.run(main)
