"""``python -m benchmarks.rivals``: frequency oracles beside pure-ldp's and OpenDP's, and whether all release alike."""

from typing import Annotated

import typer

from benchmarks.rivals import oracles
from benchmarks.rivals.environments import environment, outside


def main(
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of a pass of a rival's oracle.")] = 5.0,
    passes: Annotated[int, typer.Option(min=1, help="Passes of each rival; the best one counts.")] = 3,
    items: Annotated[int, typer.Option(min=2, help="Items N.")] = 1_000,
    rated: Annotated[int, typer.Option(min=1, help="Rated items w.")] = 30,
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of a report [nats].")] = 1.0,
) -> None:
    """Time frequency oracles of blindrec, pure-ldp and OpenDP, and hold their reports against each other."""
    job = oracles.Job(items=items, rated=rated, epsilon=epsilon, seconds=seconds, passes=passes)
    pythons = {"pure-ldp": environment("hadamard"), "OpenDP": environment("opendp")}
    frame = oracles.compare(job, lambda name, script, options: outside(pythons[name], script, options))
    print(oracles.table(job, frame))


if __name__ == "__main__":
    typer.run(main)
