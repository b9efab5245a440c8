"""How much sooner a study of a file ends in threads, one for each CPU, than in one: where units hold the lock, later.

``python -m benchmarks.threads FILE [--like-from 4] [--turns 1]``. Results do not depend on it. Processor time that
grows with the threads is what they spend on waiting for each other; kernels are compiled in a turn that does not count.
"""

import os
import statistics
import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.watching import Watched, took

STUDIES = "compare", "risk", "years"


def main(
    file: Annotated[Path, typer.Argument(help="Ratings.")],
    like_from: Annotated[float, typer.Option(help="As the commands take it.")] = 4.0,
    turns: Annotated[int, typer.Option(help="Runs of each command, in turns, after one that does not count.")] = 1,
) -> None:
    """Measure all commands in turns; print the medians, and their ratio."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # where it is set, every process compiles all modules anew
    workers = 1, os.cpu_count() or 1
    runs: dict[tuple[str, int], list[tuple[float, Watched]]] = {
        (study, count): [] for study in STUDIES for count in workers
    }
    for turn in range(turns + 1):
        for (study, count), seen in runs.items():
            flags = ["--like-from", str(like_from), "--backend", "inprocess", "--workers", str(count)]
            measured = took([sys.executable, "-m", "blindrec", study, str(file), *flags])
            if turn:
                seen.append(measured)
    for study in STUDIES:
        clocks = [statistics.median(clock for clock, _ in runs[study, count]) for count in workers]
        spent = [statistics.median(seen.processor for _, seen in runs[study, count]) for count in workers]
        print(
            f"{study}: {clocks[0]:.0f} s in one thread ({spent[0]:.0f} s of processor time), {clocks[1]:.0f} s in "
            f"{workers[1]} ({spent[1]:.0f} s), {clocks[0] / clocks[1]:.2f} times as fast"
        )
    print(f"{os.cpu_count()} CPUs, of which others used {os.getloadavg()[0]:.1f} in the last minute")


if __name__ == "__main__":
    typer.run(main)
