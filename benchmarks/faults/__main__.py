"""Many histories: ``python -m benchmarks.faults --histories N [--first K] [--family F] [--history H]``.

Each history is a whole run in this process, disturbed by one seeded scheduler and checked all along. If a history goes
wrong, its number is printed, which replays it exactly, and the exit code is 1.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

import pandas as pd
import typer
from rich.console import Console
from rich.progress import track

from benchmarks.faults.history import FAMILIES, HistoryResult, numbers_of, play
from benchmarks.faults.scheduler import KINDS


def table(histories: Iterable[HistoryResult]) -> str:
    """Return, for each family, how many histories had each kind of fault, how often, and how the runs continued."""
    results = list(histories)
    had = pd.DataFrame([result.fired for result in results], columns=[*KINDS]).fillna(0).astype(int)
    families = pd.CategoricalIndex([result.family for result in results], [*FAMILIES])
    frame = had.gt(0).groupby(families, observed=False).sum().T.assign(times=had.sum())
    frame.loc["all"] = [*families.value_counts()[[*FAMILIES]], len(results)]
    resumed = Counter(result.attempts - 1 for result in results)
    none, cut_off = sum(not result.fired for result in results), sum(result.cut_off > 0 for result in results)
    return (
        f"{frame.to_string()}\n{none} histories had none; in {cut_off} devices could not reach their keeper\n"
        f"times resumed: {', '.join(f'{times} in {count}' for times, count in sorted(resumed.items()))}"
    )


def replayed(number: int) -> HistoryResult:
    """Play one history and print what happened in it."""
    result = play(number)
    print("\n".join(result.trace))
    print(f"history {number}: {result.wrong or 'all that must hold held'}")
    return result


def played(numbers: Iterable[int]) -> list[HistoryResult]:
    """Play many histories; Ctrl-C ends this, and the histories played so far count."""
    results: list[HistoryResult] = []
    try:
        for number in track(list(numbers), "histories", console=Console(stderr=True)):
            results.append(result := play(number))
            if result.wrong:
                print(f"history {number}: {result.wrong}\n  python -m benchmarks.faults --history {number}", flush=True)
            result.trace.clear()
    except KeyboardInterrupt:
        print(f"interrupted after {len(results)} histories")
    return results


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
    results = played(numbers_of(first, histories, family))
    wrong = [result.number for result in results if result.wrong]
    print(table(results))
    print(f"{len(results) - len(wrong)} of {len(results)} histories held, {time.perf_counter() - begin:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
