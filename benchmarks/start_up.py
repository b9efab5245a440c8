"""From the command to the first round: a small run against bare Ray, in pairs.

``python -m benchmarks.start_up [--pairs 3] [--json FILE]``. Bare Ray is `ray.init()` with two empty actors, as Ray
starts by itself. Processor time is that of all processes, and counts on a busy machine; the clock does on an idle one.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import psutil
import typer

BARE = """
import ray
ray.init()
actors = [ray.remote(num_cpus=0)(type("Empty", (), {"name": lambda self: 0})).remote() for _ in range(2)]
ray.get([actor.name.remote() for actor in actors])
ray.shutdown()
"""
COMMANDS = {
    "bare Ray": [sys.executable, "-c", BARE],
    "run --users 1000": [sys.executable, "-m", "blindrec", "run", "--users", "1000"],
    "run --users 1000 on Ray": [sys.executable, "-m", "blindrec", "run", "--users", "1000", "--backend", "ray"],
    "demo": [sys.executable, "-m", "blindrec", "demo", "--backend", "ray"],
    "--help": [sys.executable, "-m", "blindrec", "--help"],
}
UNCACHED = "PYTHONDONTWRITEBYTECODE"
"""Where this is set, every process compiles all modules anew; Python by itself does not, and benchmarks do not."""
EVERY = 0.1  # Seconds between two looks; of a process that ends, at most this much is missed
_BE_SUBREAPER = 36
_RAYS = ("gcs_server", "raylet", "dashboard.py", "DashboardAgent", "RuntimeEnvAgent", "log_monitor", "monitor.py")

_JOBS = ("scenarios.job", "bare.py")

Process = tuple[int, float]  # Its number, and when it began


def took(
    command: Sequence[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Run a command; return the seconds by the clock, and of processor time in all and by kind of process.

    Processes that were there before it do not count.
    """
    ctypes.CDLL(None).prctl(_BE_SUBREAPER, 1, 0, 0, 0)  # so that orphans become children of this process, and are seen
    before = set(psutil.Process().children(recursive=True))  # of the last command, and about to end
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    kinds, seconds = dict[Process, str](), dict[Process, float]()
    while process.poll() is None:
        _look(process.pid, before, kinds, seconds)
        time.sleep(EVERY)
    clock = time.perf_counter() - begin
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    times: Counter[str] = Counter()
    for one, spent in seconds.items():
        times[kinds[one]] += spent  # type: ignore[assignment] # a counter of seconds
    return {"clock": clock, "processor": sum(seconds.values()), **times}


def _look(driver: int, before: set[psutil.Process], kinds: dict[Process, str], seconds: dict[Process, float]) -> None:
    for one in set(psutil.Process().children(recursive=True)) - before:
        try:
            key, spent = (one.pid, one.create_time()), one.cpu_times()
            kinds[key] = "driver" if one.pid == driver else _kind(" ".join(one.cmdline())) or kinds.get(key, "other")
            seconds[key] = max(spent.user + spent.system, seconds.get(key, 0.0))
        except psutil.Error:
            continue


def _kind(line: str) -> str | None:
    """Return what a process is by its command line, which Ray's workers change: `ray::DeviceHost.ask` is an actor."""
    if any(script in line for script in _JOBS):
        return "job"
    if ray_name := next((name for name in _RAYS if name in line.partition(" --")[0]), None):
        return ray_name
    return (
        line.partition(".")[0].removeprefix("ray::").strip()
        if line.startswith("ray::") and "IDLE" not in line
        else None
    )


def main(
    pairs: Annotated[int, typer.Option(help="Runs of each command, in turns.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for every run.")] = None,
) -> None:
    """Measure all commands in turns, after one run of each that compiles what is missing."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop(UNCACHED, None)
    in_turns({name: partial(took, command) for name, command in COMMANDS.items()}, pairs, json_file)


def in_turns(commands: Mapping[str, Callable[[], dict[str, float]]], pairs: int, json_file: Path | None) -> None:
    """Run each command once, then all in turns; print the medians, and write every run to a file if there is one."""
    for run in commands.values():
        run()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for _ in range(pairs):
        for name, run in commands.items():
            runs[name].append(run())
    for name, each in runs.items():
        clock, processor = (statistics.median(one[column] for one in each) for column in ("clock", "processor"))
        parts = Counter({part: statistics.median(one.get(part, 0.0) for one in each) for one in each for part in one})
        times = ", ".join(
            f"{part} {spent:.2f}" for part, spent in parts.most_common() if part not in ("clock", "processor")
        )
        print(f"{name}: {clock:.1f} s by the clock, {processor:.2f} s of processor time ({times})")
    print(f"{os.cpu_count()} CPUs, of which others used {os.getloadavg()[0]:.1f} in the last minute")
    if json_file:
        json_file.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    typer.run(main)
