"""From the command to the first round: a small run against bare Ray, in pairs.

``python -m benchmarks.start_up [--pairs 3]``. Bare Ray is `ray.init()` with two empty actors, as Ray
starts by itself. Processor time is that of all processes, and counts on a busy machine; the clock does on an idle one.
"""

import os
import statistics
import sys
from collections import Counter
from typing import Annotated

import typer

from benchmarks.watching import took

BARE = """
import ray
ray.init()
actors = [ray.remote(num_cpus=0)(type("Empty", (), {"name": lambda self: 0})).remote() for _ in range(2)]
ray.get([actor.name.remote() for actor in actors])
ray.shutdown()
"""
COMMANDS = {
    "bare Ray": ["-c", BARE],
    "run --users 1000": ["-m", "blindrec", "run", "--users", "1000"],
    "run --users 1000 on Ray": ["-m", "blindrec", "run", "--users", "1000", "--backend", "ray"],
    "demo": ["-m", "blindrec", "demo", "--backend", "ray"],
    "--help": ["-m", "blindrec", "--help"],
}


def main(
    pairs: Annotated[int, typer.Option(help="Runs of each command, in turns.")] = 3,
) -> None:
    """Measure all commands in turns, after one run of each that compiles what is missing; print the medians."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Where it is set, every process compiles all modules anew; Python by itself does not, and benchmarks do not
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in COMMANDS}
    for turn in range(pairs + 1):
        for name, command in COMMANDS.items():
            clock, seen = took([sys.executable, *command])
            if turn:
                runs[name].append({"clock": clock, "processor": seen.processor, **seen.by_kind})
    for name, each in runs.items():
        every = {part for run in each for part in run}
        medians = Counter({part: statistics.median(run.get(part, 0.0) for run in each) for part in every})
        clock, processor = medians.pop("clock"), medians.pop("processor")
        parts = ", ".join(f"{part} {spent:.2f}" for part, spent in medians.most_common())
        print(f"{name}: {clock:.1f} s by the clock, {processor:.2f} s of processor time ({parts})")
    print(f"{os.cpu_count()} CPUs, of which others used {os.getloadavg()[0]:.1f} in the last minute")


if __name__ == "__main__":
    typer.run(main)
