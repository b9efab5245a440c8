"""What a device of the main job costs in processor time, on Ray and in process, beside a reference kernel and NumPy.

``python -m benchmarks.throughput`` prints a table for each of `SHAPES`, or one for ``--items`` and ``--rated``, and
writes the figures with ``--json FILE``. All ways take turns, pass by pass, so that a drift of the machine's speed meets
all of them, and the best pass of each counts. Processor time is that of all processes, Ray's own and the driver's among
them; of a run it is that of its round, from the first question until all answers are added up. What starting and ending
take is reported by itself. In process one thread does both sides' work; on Ray each side has its processes, which send
messages.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import psutil
import typer

from benchmarks.numpy_maxsense import numpy_maxsense
from benchmarks.pages import table
from benchmarks.reference import PASSES, JsonFile, Took, in_turns, reference, repeated, write_figures
from benchmarks.watching import Watched, watch
from scenarios.backends.ray_instance import on_ray
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Backend, NoStore
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import run

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
    json_file: JsonFile = None,
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
    write_figures(json_file, tables)


if __name__ == "__main__":
    typer.run(main)
