"""Frequency oracles beside MaxSense and sign sensing: users a second on one core, of devices and server together.

``python -m benchmarks.oracles [--json FILE]``. Devices draw their ratings, choose an item, randomize and pack; the
server unpacks and counts. No Ray and no messages; the best of some runs, of which parts take turns.
"""

import time
from collections.abc import Callable
from typing import Annotated

import typer

from actors.device import Cohort
from benchmarks.reference import JsonFile, write_figures
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Query
from coordinator.server.mechanisms import aggregate, server_halves
from coordinator.server.mechanisms.oracles import FrequencyHalf
from coordinator.server.rounds.state import ServerState
from coordinator.server.server_half import GROUPS
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate, settled

SECRET = derive(0, "devices")


def parts_of(design: str, items: int, rated: int, users: int, epsilon: str) -> dict[str, Callable[[], object]]:
    """Return what devices and what the server do in one round, as functions to be timed; of groups it is the last."""
    population = settled(populate(Scenario(design=design, items=items, rated=rated, users=users, epsilon=epsilon)))
    scenario, ask = population.scenario, RunSpec(population.scenario).policy.next_query(ServerState(devices=users))
    assert ask is not None  # the first round
    query: Query = ask.query
    if scenario.policy == GROUPS:
        query = RunSpec(scenario).design.query(round_number=2, public_seed=query.public_seed, epsilon=scenario.epsilon)
    release = Cohort(population.ratings, SECRET, 0, users, None).answer(query, 0, users)
    return {
        "devices": lambda: Cohort(population.ratings, SECRET, 0, users, None).answer(query, 0, users),
        "server": lambda: aggregate(query, release),
    }


def measure(items: int, rated: int, users: int, epsilon: str, best_of: int) -> dict[str, dict[str, float]]:
    """Return nanoseconds a user of both sides, and users a second, of oracles, pairs, MaxSense and sign sensing."""
    halves = server_halves().items()
    names = ["maxsense", "sign", *(name for name, half in halves if isinstance(half, FrequencyHalf) or name == "pairs")]
    parts = {
        (name, side): part for name in names for side, part in parts_of(name, items, rated, users, epsilon).items()
    }
    took = dict.fromkeys(parts, float("inf"))
    for part in parts.values():
        part()  # compile
    for _ in range(best_of):
        for place, part in parts.items():
            begin = time.process_time()
            part()
            took[place] = min(took[place], time.process_time() - begin)
    figures = {}
    for name in names:
        sides = {side: took[name, side] / users * 1e9 for side in ("devices", "server")}
        figures[name] = {**sides, "users_a_second": 1e9 / sum(sides.values())}
    return figures


def main(
    users: Annotated[int, typer.Option(help="Devices.")] = 1 << 16,
    epsilon: Annotated[str, typer.Option(help="Privacy parameter.")] = "1",
    best_of: Annotated[int, typer.Option(help="Runs, of which the best counts.")] = 7,
    json_file: JsonFile = None,
) -> None:
    """Print what a user costs, and users a second."""
    tables = {}
    for items, rated in ((1000, 30), (3706, 165)):
        tables[f"N = {items:,}, w = {rated}"] = figures = measure(items, rated, users, epsilon, best_of)
        print(
            f"\nN = {items:,}, w = {rated}, epsilon {epsilon}: ns a user of devices and of the server, users a second"
        )
        for name, one in figures.items():
            print(f"{name:12} {one['devices']:7.0f} {one['server']:7.0f} {one['users_a_second']:12,.0f}")
    write_figures(json_file, tables)


if __name__ == "__main__":
    typer.run(main)
