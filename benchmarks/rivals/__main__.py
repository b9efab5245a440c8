"""``python -m benchmarks.rivals``: side by side with Flower, pure-ldp and OpenDP, one after the other.

The part ``bit`` is one bit a device, the part ``oracles`` frequency oracles and whether all of them release alike.
"""

import json
import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.rivals import oracles, ours
from benchmarks.rivals.environments import default_folder, environment, outside
from benchmarks.rivals.figures import Figures, assembled, table
from benchmarks.rivals.inside.one_bit import OneBit
from coordinator.protocol.errors import BlindrecError

NODES = 200  # Flower's nodes: 100 to 200 were fastest, a thousand half as fast


class Part(StrEnum):
    """What the command runs."""

    BIT = "bit"
    ORACLES = "oracles"


def announce(text: str) -> None:
    """Say on standard error what happens now."""
    typer.echo(text, err=True)


def compare(
    job: OneBit, devices: list[int], *, clients: int, users: int, passes: int, workers: int, folder: Path
) -> Figures:
    """Make the environments, then run blindrec, Flower, pure-ldp and blindrec again, nothing at the same time."""
    scenarios = [ours.scenario_of(job, number) for number in devices]
    pythons = {}
    for name in ("flower", "hadamard"):
        announce(f"environment of {name}")
        pythons[name] = environment(name, folder)
    options = {name: value for name, value in asdict(job).items() if name != "like"}
    options |= {"passes": passes, "workers": workers}
    announce("blindrec")
    before = ours.measure(scenarios, workers)
    announce("Flower")
    flower = outside("Flower", pythons["flower"], "flower_job", options | {"clients": clients, "nodes": NODES})
    announce("pure-ldp")
    hadamard = outside("pure-ldp", pythons["hadamard"], "hadamard_users", options | {"users": users})
    announce("blindrec again")
    return assembled(job, workers, before, ours.measure(scenarios, workers), flower, hadamard)


def beside_oracles(job: oracles.Job, folder: Path) -> dict[str, Any]:
    """Make the environments, then run frequency oracles of blindrec, pure-ldp and OpenDP."""
    pythons = {}
    for name, directory in (("pure-ldp", "hadamard"), ("OpenDP", "opendp")):
        announce(f"environment of {name}")
        pythons[name] = environment(directory, folder)
    return oracles.compare(
        job, lambda name, script, options: outside(name, pythons[name], script, dict(options)), announce
    )


def main(
    part: Annotated[list[Part] | None, typer.Option(help="What to run; both.")] = None,
    devices: Annotated[list[int] | None, typer.Option(min=1, help="Devices of blindrec; 1e6 and 1e7.")] = None,
    clients: Annotated[int, typer.Option(min=1, help="Flower's clients, a pass.")] = 2_000,
    users: Annotated[int, typer.Option(min=1, help="pure-ldp's users, a pass.")] = 500_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of a pass of a rival's oracle.")] = 5.0,
    passes: Annotated[int, typer.Option(min=1, help="Passes of each rival; the best one counts.")] = 3,
    items: Annotated[int, typer.Option(min=2, help="Items N.")] = 1_000,
    rated: Annotated[int, typer.Option(min=1, help="Rated items w.")] = 30,
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of the bit [nats].")] = 1.0,
    workers: Annotated[int, typer.Option(min=1, help="Processors for each.")] = os.cpu_count() or 1,
    environments: Annotated[Path | None, typer.Option(help="Folder of the rivals' environments.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
) -> None:
    """Time one bit a device beside Flower's simulation engine and pure-ldp, and frequency oracles beside theirs."""
    job = OneBit(items=items, rated=rated, epsilon=epsilon)
    oracle_job = oracles.Job(items=items, rated=rated, epsilon=epsilon, seconds=seconds, passes=passes)
    sizes = sorted(devices or [1_000_000, 10_000_000])
    folder, parts, figures = environments or default_folder(), part or [*Part], dict[str, Any]()
    try:
        if Part.BIT in parts:
            figures = compare(job, sizes, clients=clients, users=users, passes=passes, workers=workers, folder=folder)
            print(table(figures))
        if Part.ORACLES in parts:
            figures = figures | {"oracles": beside_oracles(oracle_job, folder)}
            print(oracles.table(figures["oracles"]))
    except BlindrecError as error:
        announce(f"blindrec: {error}")
        raise typer.Exit(2) from None
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
