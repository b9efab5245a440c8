"""One run on one to eight simulated nodes of this machine: what more nodes cost the coordinator, and cost in all.

``python -m benchmarks.nodes`` starts clusters of Ray nodes on this machine, with a worker each, and makes the same run
on each. More nodes do not make it faster, because they share the machine's cores: the row says what each process of a
kind took of the processor during the run.
"""

from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from ray.cluster_utils import Cluster

from benchmarks.reference import JsonFile, write_figures
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.ray_instance import on_ray
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import run

KINDS = {
    "ray::Coordinator": "coordinator",
    "ray::Aggregator": "aggregators",
    "ray::DeviceHost": "devices",
    "raylet": "raylets",
    "gcs_server": "gcs",
}
"""Kinds of processes by the beginning of their command's name."""


def took() -> dict[str, float]:
    """Return the processor time of this process's children so far, by kind [s]."""
    seconds = defaultdict[str, float](float)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            name = Path(process.cmdline()[0].split()[0]).name
            times = process.cpu_times()
            kind = next((kind for begin, kind in KINDS.items() if name.startswith(begin)), "others")
            seconds[kind] += times.user + times.system
    return seconds


def measure(nodes: int, scenario: Scenario) -> dict[str, Any]:
    """Return what a run takes on so many nodes."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        began, ended = dict[str, float](), dict[str, float]()

        def look(tally: RunProgress) -> None:
            times = began if tally.count < (scenario.users or 0) else ended
            if not times:
                times.update(took())

        with on_ray(address=cluster.address, workers=nodes) as session:
            done = run(scenario, session, progress=look)
        spent = {kind: ended.get(kind, 0.0) - began.get(kind, 0.0) for kind in (*KINDS.values(), "others")}
        return {"nodes": nodes, "seconds": done.costs.seconds, "digest": done.outcome.releases_sha256, **spent}
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call] # Ray gives it no types


def main(
    users: Annotated[int, typer.Option(help="Devices.")] = 20_000_000,
    items: Annotated[int, typer.Option(help="Items N.")] = 1000,
    rated: Annotated[int, typer.Option(help="Rated items w.")] = 30,
    most: Annotated[int, typer.Option(help="Nodes of the largest cluster: 1, 2, 4 and so on up to here.")] = 8,
    json_file: JsonFile = None,
) -> None:
    """Make one run on more and more nodes."""
    rows, nodes = list[dict[str, Any]](), 1
    while nodes <= most:
        rows.append(measure(nodes, Scenario(items=items, rated=rated, users=users)))
        shown = (f"{name} {value:.2f}" for name, value in rows[-1].items() if isinstance(value, float))
        print(f"{nodes} nodes: {', '.join(shown)}, digest {rows[-1]['digest'][:8]}", flush=True)
        nodes *= 2
    if len({row["digest"] for row in rows}) > 1:
        raise SystemExit("digests differ")
    write_figures(json_file, rows)


if __name__ == "__main__":
    typer.run(main)
