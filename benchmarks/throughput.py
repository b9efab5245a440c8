"""What a device of the main job costs in processor time, on Ray and in process, beside a reference kernel and NumPy.

``python -m benchmarks.throughput`` prints a table for each of `SHAPES`, or one for ``--items`` and ``--rated``, and
writes the figures with ``--json FILE``. All ways take turns, pass by pass, so that a drift of the machine's speed meets
all of them, and the best pass of each counts. Processor time is that of all processes, Ray's own and the driver's among
them; of a run it is that of its round, from the first question until all answers are added up. What starting and ending
take is reported by itself. In process one thread does both sides' work; on Ray each side has its processes, which send
messages.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psutil
import typer
from numba import uint64

from benchmarks.pages import table
from benchmarks.watching import Watched, watch
from coordinator.protocol.arrays import Counts, Indices2, Ints
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw
from scenarios.backends.ray_instance import on_ray
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Backend, NoStore
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import run

# Speed is relative to a reference kernel, because its processor time rises and falls with the machine's as the round's
# does. It is no bound: its draws become vector code and its additions do not, and a round draws two places from one
# word.
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


# The rival: MaxSense with numpy alone, sparse, as one would write it in an afternoon for a study of one's own.
BLOCK = 1 << 9  # Users at a time; the fastest of 2^8 to 2^13 at N = 1,000 and at 10,000


def numpy_maxsense(users: int, items: int, rated: int, *, epsilon: float = 1.0, seed: int = 0) -> tuple[Ints, Ints]:
    """Return how many users sensed each item, and how many of those told 1.

    Nine of ten users like an item of even number, one of ten another one.
    The law is the round's: ``rated`` different items a user, every item sensed with probability 1 / ``rated``.
    """
    coins, like = np.random.default_rng(seed), np.where(np.arange(items) % 2, 0.1, 0.9)
    sensed, scores = np.zeros(items, np.int64), np.zeros(items, np.int64)
    liked, cells, p = np.zeros(BLOCK * items, np.bool_), BLOCK * items, 1 / rated
    row = np.arange(BLOCK)[:, None] * items
    for first in range(0, users, BLOCK):
        count = min(BLOCK, users - first)
        subset = _subsets(count, items, rated, coins)
        likes = (row[:count] + subset)[coins.random(subset.shape, np.float32) < like[subset]]
        liked[likes] = True
        gaps = coins.geometric(p, int(cells * p + 10 * math.sqrt(cells * p)) + 10)
        places = np.cumsum(gaps) - 1  # of the sensed (user, item) in one long row
        places = places[: np.searchsorted(places, count * items)]
        user, item = np.divmod(places, items)
        bits = np.zeros(count, np.bool_)
        bits[user[liked[places]]] = True
        bits ^= coins.random(count) < 1 / (1 + math.exp(epsilon))
        sensed += np.bincount(item, minlength=items)
        scores += np.bincount(item[bits[user]], minlength=items)
        liked[likes] = False
    return sensed, scores


def _subsets(count: int, items: int, rated: int, coins: np.random.Generator) -> Indices2:
    """Return uniform subsets, one a row: rows with a repeated item are drawn again, whole."""
    subsets = coins.integers(items, size=(count, rated), dtype=np.int32)
    again = np.arange(count)
    while again.size:
        ordered = np.sort(subsets[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        subsets[again] = coins.integers(items, size=(again.size, rated), dtype=np.int32)
    return subsets


SHAPES = ((1_000, 30), (10_000, 100))  # Items and rated items of the tables in docs/reference/benchmarks.md
WAYS = ("reference", "numpy", "inprocess", "ray")


class Marks(NoStore):
    """Stores no round, but looks at the processor time at the first question and when the round is over."""

    def __init__(self, seen: Watched) -> None:
        self._seen, self.marks = seen, list[float]()

    def keep(self, record: Any) -> None:  # noqa: ARG002 (it is forgotten)
        """Look when a round is over."""
        self._look()

    def __iter__(self) -> Iterator[Any]:
        """Look before the first round."""
        self._look()
        return super().__iter__()

    def _look(self) -> None:
        self._seen.look()
        self.marks.append(self._seen.processor)


def ran(scenario: Scenario, session: Backend, devices_per_actor: int | None) -> Took:
    """Return the seconds a device of a run's round, those of its start and end, and its peak memory."""
    with watch(children=session.name == "ray") as seen:
        marks, begin = Marks(seen), time.perf_counter()
        seen.look()
        before = seen.processor
        done = run(scenario, session, devices_per_actor=devices_per_actor, rounds=marks)
        whole, users = time.perf_counter() - begin, done.outcome.state.devices
        seen.look()
    first, last = marks.marks[0], marks.marks[-1]
    return {
        "processor": (last - first) / users,
        "clock": done.costs.seconds / users,
        "start_processor": seen.processor - before - (last - first),
        "start": whole - done.costs.seconds,
        "devices_per_actor": done.job.layout.devices_per_actor,
        "proportional_mb": seen.proportional / 2**20,
        "resident_mb": seen.resident / 2**20,
    }


def measure(
    scenario: Scenario, workers: int, devices_per_actor: int | None, *, passes: int, ways: list[str]
) -> dict[str, Any]:
    """Return the best pass of each way; see `WAYS`."""
    users, items, rated = (int(number or 0) for number in (scenario.users, scenario.items, scenario.rated))
    with on_ray(address=None, workers=workers) as cluster:
        calls: dict[str, Callable[[], Took]] = {
            "reference": lambda: repeated(lambda many: reference(many, items, rated), users),
            "numpy": lambda: repeated(lambda many: numpy_maxsense(many, items, rated), users),
            "inprocess": lambda: ran(scenario, InProcess(1), devices_per_actor),
            "ray": lambda: ran(scenario, cluster, devices_per_actor),
        }
        best = in_turns({way: calls[way] for way in ways}, passes)
    for figures in best.values():
        figures["to_reference"] = figures["processor"] / best.get("reference", figures)["processor"]
    return {"users": users, "items": items, "rated": rated, "workers": workers, "passes": passes, **best}


def in_words(figures: dict[str, Any]) -> str:
    """Return the figures as a Markdown table, and how many times longer the NumPy script takes."""
    head = "", "processor, ns a device", "times the reference kernel", "devices a second by the clock", "memory, MB"
    rows = []
    for way in (name for name in WAYS if name in figures):
        figures_of_way = figures[way]
        memory = f"{figures_of_way['proportional_mb']:,.0f}" if "proportional_mb" in figures_of_way else ""
        rows.append(
            [
                way,
                f"{figures_of_way['processor'] * 1e9:,.0f}",
                f"{figures_of_way['to_reference']:.2f}",
                f"{1 / figures_of_way['clock']:,.0f}",
                memory,
            ]
        )
    ways = [name for name in ("inprocess", "ray") if {name, "numpy"} <= figures.keys()]
    times = ", ".join(f"{name} {figures['numpy']['processor'] / figures[name]['processor']:.1f}" for name in ways)
    return table(head, rows) + (f"\n\ntimes the NumPy script's processor time: {times}" if ways else "")


def main(
    users: Annotated[int, typer.Option(help="Devices.")] = 10_000_000,
    items: Annotated[int | None, typer.Option(help="Items N; default: both tables.")] = None,
    rated: Annotated[int | None, typer.Option(help="Rated items w, with --items.")] = None,
    workers: Annotated[int, typer.Option(help="Blocks at the same time, on Ray.")] = os.cpu_count() or 1,
    devices_per_actor: Annotated[
        int | None, typer.Option(help="Devices of a cohort; default: one cohort a worker.")
    ] = None,
    passes: Annotated[int, typer.Option(help="Passes of each way, in turns.")] = PASSES,
    way: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(WAYS)}; repeat it. Default: all.")] = None,
    cores: Annotated[int | None, typer.Option(help="Pin all processes to so many cores.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
) -> None:
    """Measure what a device of the main job costs."""
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    if (items is None) != (rated is None):
        raise typer.BadParameter("give --items and --rated, or neither")
    shapes = SHAPES if items is None or rated is None else ((items, rated),)
    tables = []
    for n, w in shapes:
        busy = psutil.getloadavg()[0]
        scenario = Scenario(items=n, rated=w, users=users)
        figures = measure(scenario, workers, devices_per_actor, passes=passes, ways=way or [*WAYS])
        tables.append(figures | {"cores": cores, "load": [busy, psutil.getloadavg()[0]]})
        load = " to ".join(f"{average:.1f}" for average in tables[-1]["load"])
        print(f"N = {n:,}, w = {w}, {users:,} devices, best of {passes}; load {load}")
        print(f"{in_words(figures)}\n")
    if json_file:
        json_file.write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
