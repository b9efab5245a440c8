"""``python -m benchmarks.rivals``: one bit a device, side by side with Flower and pure-ldp, one after the other."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.rivals import ours
from benchmarks.rivals.environments import default_folder, environment, outside
from benchmarks.rivals.figures import Figures, assembled, table
from benchmarks.rivals.inside.one_bit import OneBit
from coordinator.protocol.errors import BlindrecError

NODES = 200
"""Flower's nodes: 100 to 200 were fastest, a thousand half as fast."""


def told(text: str) -> None:
    """Say on standard error what happens now."""
    typer.echo(text, err=True)


def compare(
    job: OneBit, devices: list[int], *, clients: int, users: int, passes: int, workers: int, folder: Path
) -> Figures:
    """Make the environments, then run blindrec, Flower, pure-ldp and blindrec again, nothing at the same time."""
    scenarios = [ours.scenario_of(job, number) for number in devices]
    pythons = {}
    for name in ("flower", "hadamard"):
        told(f"environment of {name}")
        pythons[name] = environment(name, folder)
    asked = {name: value for name, value in asdict(job).items() if name != "like"}
    asked |= {"passes": passes, "workers": workers}
    told("blindrec")
    before = ours.measure(scenarios, workers)
    told("Flower")
    flower = outside("Flower", pythons["flower"], "flower_job", asked | {"clients": clients, "nodes": NODES})
    told("pure-ldp")
    hadamard = outside("pure-ldp", pythons["hadamard"], "hadamard_users", asked | {"users": users})
    told("blindrec again")
    return assembled(job, workers, before, ours.measure(scenarios, workers), flower, hadamard)


def main(
    devices: Annotated[list[int] | None, typer.Option(min=1, help="Devices of blindrec; 1e6 and 1e7.")] = None,
    clients: Annotated[int, typer.Option(min=1, help="Flower's clients, a pass.")] = 2_000,
    users: Annotated[int, typer.Option(min=1, help="pure-ldp's users, a pass.")] = 500_000,
    passes: Annotated[int, typer.Option(min=1, help="Passes of each rival; the best one counts.")] = 3,
    items: Annotated[int, typer.Option(min=2, help="Items N.")] = 1_000,
    rated: Annotated[int, typer.Option(min=1, help="Rated items w.")] = 30,
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of the bit [nats].")] = 1.0,
    workers: Annotated[int, typer.Option(min=1, help="Processors for each.")] = os.cpu_count() or 1,
    environments: Annotated[Path | None, typer.Option(help="Folder of the rivals' environments.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
) -> None:
    """Time one bit a device with blindrec, Flower's simulation engine and pure-ldp's Hadamard response."""
    job = OneBit(items=items, rated=rated, epsilon=epsilon)
    sizes = sorted(devices or [1_000_000, 10_000_000])
    folder = environments or default_folder()
    try:
        figures = compare(job, sizes, clients=clients, users=users, passes=passes, workers=workers, folder=folder)
    except BlindrecError as error:
        told(f"blindrec: {error}")
        raise typer.Exit(2) from None
    print(table(figures))
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
