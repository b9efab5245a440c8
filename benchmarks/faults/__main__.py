"""Many histories: ``python -m benchmarks.faults --histories N [--first K] [--family F] [--history H]``.

Each history is a whole run in this process, disturbed by one seeded scheduler and checked all along. If a history goes
wrong, its number is printed, which replays it exactly, and the exit code is 1.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.faults.families import FAMILIES, numbers_of
from benchmarks.faults.history import Told, play
from benchmarks.faults.scheduler import KINDS


def table(histories: Iterable[Told]) -> list[str]:
    """Return, for each family, how many histories had each kind of fault, how often, and how the runs continued."""
    told = list(histories)
    of = {name: [one for one in told if one.family == name] for name in FAMILIES}
    happened = sum((one.fired for one in told), Counter[str]())
    lines = [f"| fault | {' | '.join(of)} | times |", "|---" * (len(of) + 2) + "|"]
    for kind in KINDS:
        had = (str(sum(kind in one.fired for one in some)) for some in of.values())
        lines.append(f"| {kind} | {' | '.join(had)} | {happened[kind]} |")
    lines.append(f"| all | {' | '.join(str(len(some)) for some in of.values())} | |")
    resumed = Counter(one.attempts - 1 for one in told)
    none, cut_off = sum(not one.fired for one in told), sum(one.cut_off > 0 for one in told)
    lines.append(f"{none} histories had none; in {cut_off} devices could not reach their keeper")
    lines.append("times resumed: " + ", ".join(f"{times} in {count}" for times, count in sorted(resumed.items())))
    return lines


def replayed(number: int) -> Told:
    """Play one history and print what happened in it."""
    told = play(number)
    print("\n".join(told.trace))
    print(f"history {number}: {told.wrong or 'all that must hold held'}")
    return told


def played(numbers: Iterable[int]) -> list[Told]:
    """Play many histories; Ctrl-C ends this, and the histories played so far count."""
    told: list[Told] = []
    try:
        for number in track(list(numbers), "histories", console=Console(stderr=True)):
            told.append(one := play(number))
            if one.wrong:
                print(f"history {number}: {one.wrong}\n  python -m benchmarks.faults --history {number}", flush=True)
            one.trace.clear()
    except KeyboardInterrupt:
        print(f"interrupted after {len(told)} histories")
    return told


def main(
    histories: Annotated[int, typer.Option(help="How many are played.", min=1)] = 1000,
    first: Annotated[int, typer.Option(help="Number of the first.", min=0)] = 0,
    family: Annotated[Literal["run", "online", "two-tier"] | None, typer.Option(help="Default: all in turn.")] = None,
    history: Annotated[int | None, typer.Option(help="Play this one only, and print what happens.", min=0)] = None,
) -> None:
    """Play histories; the exit code is 1 if one goes wrong."""
    if history is not None:
        sys.exit(bool(replayed(history).wrong))
    begin = time.perf_counter()
    told = played(numbers_of(first, histories, family))
    wrong = [one.number for one in told if one.wrong]
    print("\n".join(table(told)))
    print(f"{len(told) - len(wrong)} of {len(told)} histories held, {time.perf_counter() - begin:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
