"""The reference kernel: random numbers and additions as a MaxSense round has them, and nothing else.

Speed is relative to it, because its processor time rises and falls with the machine's as the round's does. It is
no bound: its draws become vector code and its additions do not, and a round draws two places from one word. What is
compared takes turns with it, pass by pass, for a second or more each, and the best pass counts.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numba import uint64

from coordinator.protocol.arrays import Counts
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw

PASSES, SECOND = 5, 1.0  # Passes of everything that is compared, and the least processor time of one [s]
Took = dict[str, float]  # Seconds a device, by what was measured: the best of some passes


@compiled
def reference_kernel(first: int, stop: int, items: int, rated: int, sensed: int, counts: Counts) -> np.uint64:
    """Draw ``rated`` words for a device's ratings; draw one word and add one for each sensed item.

    Sets may have repeated items and are all of one size, keys are weak, and nothing is released.
    """
    mixed = uint64(0)
    for device in range(first, stop):
        stream = draw(uint64(device), uint64(0))
        for lane in range(rated):
            mixed ^= draw(stream, uint64(lane))
        for lane in range(sensed):
            word = draw(stream, uint64(rated + lane)) >> uint64(32)
            counts[(word * uint64(items)) >> uint64(32)] += 1
    return mixed


def reference(users: int, items: int, rated: int) -> None:
    """Run the reference kernel over devices whose sets have the round's mean size."""
    reference_kernel(0, users, items, rated, round(items / rated), np.zeros(items, np.uint32))


def repeated(work: Callable[[int], object], users: int) -> Took:
    """Return the seconds a user of work in this thread, which is repeated for a second at least."""
    users = min(users, 1 << 17)
    begin, clock, done = time.thread_time(), time.perf_counter(), 0
    while time.thread_time() - begin < SECOND:
        work(users)
        done += users
    return {"processor": (time.thread_time() - begin) / done, "clock": (time.perf_counter() - clock) / done}


def in_turns(ways: dict[str, Callable[[], Took]], passes: int = PASSES) -> dict[str, Took]:
    """Return the best pass of each way; ways take turns, so that a drift of the machine's speed meets all of them."""
    took = [{name: way() for name, way in ways.items()} for _ in range(passes)]
    return {name: {what: min(turn[name][what] for turn in took) for what in took[0][name]} for name in ways}


JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")]


def write_figures(file: Path | None, figures: object) -> None:
    """Write figures as JSON to a file, if there is one."""
    if file:
        file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
