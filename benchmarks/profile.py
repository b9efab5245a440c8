"""Where a device's time goes: the parts of a one-bit round on one core, in nanoseconds of processor time a device.

``python -m benchmarks.profile [--json FILE]``. It measures the kernels of both sides without Ray and without messages.
`benchmarks.throughput` measures the same job through Ray; the difference is processes, messages and waiting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from actors.block_model import BlockModelRatings, mark_subset, next_stamp
from actors.device import Cohort
from actors.ratings import BlockRatings
from actors.seeds import ratings_streams
from benchmarks.floor import floor_kernel
from coordinator.protocol.arrays import Words
from coordinator.protocol.coins import as_words, derive, round_key
from coordinator.protocol.compiled import compiled
from coordinator.protocol.sensing import SensingTable, sensing_table
from coordinator.protocol.sensing_sets import CHUNK, sense
from coordinator.protocol.streams import device_streams
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.state import ServerState
from scenarios.data.block_world import settled
from scenarios.data.populations import populate
from scenarios.given.config import Scenario
from scenarios.given.policies import policy_of
from scenarios.places.shared_sets import answer

BEST_OF = 15


@compiled
def only_sense(items: int, key: Words, table: SensingTable, count: int) -> int:
    """Make the sensing sets of so many devices and do nothing with them; each side does that once."""
    words, members = np.empty(CHUNK, np.uint64), np.empty(items + 1, np.uint32)
    streams, found = device_streams(key, 0, count), 0
    for k in range(count):
        found += sense(streams[k], items, table, words, members)
    return found


@compiled
def only_rate(model: BlockModelRatings, master: Words, count: int) -> int:
    """Draw which items so many devices rated and do nothing with them."""
    marks, stamp, buffer = np.zeros(model.items + 1, np.uint8), 0, np.empty(model.rated + 2, np.uint32)
    streams = ratings_streams(master, 0, count)
    for k in range(count):
        stamp = next_stamp(marks, stamp)
        mark_subset(streams[k], model.items, model.rated, marks, stamp, buffer)
    return stamp


def profile(items: int, rated: int, users: int) -> dict[str, float]:
    """Return nanoseconds a device of each part."""
    population = settled(populate(Scenario(items=items, rated=rated, users=users)))
    ask = policy_of(population.scenario).next_query(ServerState(devices=users))
    assert ask is not None  # the first round
    assert isinstance(population.ratings, BlockRatings)
    query, secret, ratings = ask.query, derive(0, "devices"), population.ratings
    key, table = round_key(query.public_seed, query.round), sensing_table(query.parameters["sensing"])
    counts, sensed = np.zeros(items, np.uint32), round(items * query.parameters["sensing"])
    release = Cohort(ratings, secret, 0, users, None).answer(query, 0, users)
    parts: dict[str, Callable[[], object]] = {
        "device: rate, sense, flip, pack": lambda: Cohort(ratings, secret, 0, users, None).answer(query, 0, users),
        "  of it: which items are rated": lambda: only_rate(ratings.model(), as_words(secret), users),
        "  of it: the sensing set": lambda: only_sense(items, key, table, users),
        "server: sense again, add up": lambda: aggregate(query, release),
        "both in one process: sense once": lambda: answer(
            query, ratings, secret, Cohort(ratings, secret, 0, users, None), 0, users
        ),
        "floor kernel": lambda: floor_kernel(0, users, items, rated, sensed, counts),
    }
    return {name: seconds / users * 1e9 for name, seconds in _best(parts).items()}


def _best(parts: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least processor time of each part; parts take turns, so that the machine's drift affects all."""
    took: dict[str, list[float]] = {name: [] for name in parts}
    for part in parts.values():
        part()  # compile
    for _ in range(BEST_OF):
        for name, part in parts.items():
            begin = time.process_time()
            part()
            took[name].append(time.process_time() - begin)
    return {name: min(times) for name, times in took.items()}


def main(
    users: Annotated[int, typer.Option(help="Devices.")] = 1 << 17,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
) -> None:
    """Print what the parts of a one-bit round cost a device."""
    shapes = {"N = 1,000, w = 30": (1000, 30), "N = 10,000, w = 100": (10_000, 100)}
    told = {name: profile(items, rated, users) for name, (items, rated) in shapes.items()}
    for name, parts in told.items():
        print(f"\n{name}, ns a device")
        for part, value in parts.items():
            print(f"{part:34} {value:6.0f}")
    if json_file:
        json_file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
