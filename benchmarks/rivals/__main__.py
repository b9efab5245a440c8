"""``python -m benchmarks.rivals``: frequency oracles beside pure-ldp's and OpenDP's, and whether all release alike."""

import json
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.rivals import oracles
from benchmarks.rivals.environments import default_folder, environment, outside


def announce(text: str) -> None:
    """Say on standard error what happens now."""
    typer.echo(text, err=True)


def main(
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of a pass of a rival's oracle.")] = 5.0,
    passes: Annotated[int, typer.Option(min=1, help="Passes of each rival; the best one counts.")] = 3,
    items: Annotated[int, typer.Option(min=2, help="Items N.")] = 1_000,
    rated: Annotated[int, typer.Option(min=1, help="Rated items w.")] = 30,
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of a report [nats].")] = 1.0,
    environments: Annotated[Path | None, typer.Option(help="Folder of the rivals' environments.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
) -> None:
    """Time frequency oracles of blindrec, pure-ldp and OpenDP, and hold their reports against each other."""
    job = oracles.Job(items=items, rated=rated, epsilon=epsilon, seconds=seconds, passes=passes)
    announce("environments of pure-ldp and OpenDP")
    folder = environments or default_folder()
    pythons = {"pure-ldp": environment("hadamard", folder), "OpenDP": environment("opendp", folder)}
    figures = oracles.compare(job, lambda name, script, options: outside(pythons[name], script, options), announce)
    print(oracles.table(figures))
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
