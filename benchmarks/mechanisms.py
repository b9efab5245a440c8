"""What every mechanism costs a device on one core, in microseconds of processor time, for each side.

``python -m benchmarks.mechanisms [NAME ...] [--items N] [--rated W] [--epsilon E] [--json FILE]``. Devices draw their
ratings, sketch, randomize and pack; the server adds a release up. Digests, decoding and messages are not counted.
"""

import time
from collections.abc import Callable
from typing import Annotated

import typer

from actors.device import Cohort
from benchmarks.reference import JsonFile, write_figures
from coordinator.protocol.coins import derive
from coordinator.server.decoding.threads import one_thread
from coordinator.server.mechanisms import aggregate, server_halves
from coordinator.server.rounds.state import ServerState
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate, settled

PASSES, PUBLIC = 7, "pairwise of rated items"


def cost(name: str, items: int, rated: int, epsilon: str, users: int) -> tuple[float, float]:
    """Return microseconds a device of the devices' side and of the server's, the best of several passes."""
    design = {"design": "pairwise", "rated_items": "public"} if name == PUBLIC else {"design": name}
    private = name == PUBLIC or server_halves()[name].private
    values = {**design, "items": items, "rated": rated, "users": users, "epsilon": epsilon if private else "inf"}
    population = settled(populate(Scenario.model_validate(values)))
    ask = RunSpec(population.scenario).policy.next_query(ServerState(devices=users))
    assert ask is not None  # the first round
    query = ask.query

    def fresh_cohort() -> Cohort:
        return Cohort(population.ratings, derive(0, "devices"), 0, users, None)

    release = fresh_cohort().answer(query, 0, users)
    with one_thread():
        device = _best(lambda: fresh_cohort().answer(query, 0, users), users)
        return device, _best(lambda: aggregate(query, release), users)


def _best(part: Callable[[], object], users: int) -> float:
    """Return the least processor time of a part, in microseconds a device; it is compiled first."""
    part()
    took = []
    for _ in range(PASSES):
        begin = time.process_time()
        part()
        took.append(time.process_time() - begin)
    return min(took) / users * 1e6


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Mechanisms [all].")] = None,
    items: Annotated[int, typer.Option(help="Items N.")] = 1000,
    rated: Annotated[int, typer.Option(help="Items w that a device rated.")] = 30,
    epsilon: Annotated[str, typer.Option(help="Privacy parameter of private mechanisms.")] = "1",
    users: Annotated[int, typer.Option(help="Devices of a pass.")] = 1 << 16,
    json_file: JsonFile = None,
) -> None:
    """Print what each mechanism costs a device."""
    figures = {}
    print(f"N = {items:,}, w = {rated}, epsilon {epsilon}: microseconds a device\n{'':24} device  server")
    for name in names or [*server_halves(), PUBLIC]:
        device, server = figures[name] = cost(name, items, rated, epsilon, users)
        print(f"{name:24} {device:6.2f} {server:7.2f}", flush=True)
    write_figures(json_file, figures)


if __name__ == "__main__":
    typer.run(main)
