"""Where a device's time goes: the parts of a one-bit round on one core, in nanoseconds of processor time a device.

``python -m benchmarks.profile [--json FILE]``. It measures the kernels of both sides without Ray and without messages.
`benchmarks.throughput` measures the same job through Ray; the difference is processes, messages and waiting.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import numpy as np
import typer

from actors.block_model import BlockModel, mark_subset, next_stamp, room_for
from actors.device import Cohort
from actors.ratings import BlockRatings
from actors.seeds import ratings_streams
from benchmarks.reference import JsonFile, in_turns, reference, repeated, write_figures
from coordinator.protocol.arrays import Words
from coordinator.protocol.coins import as_words, derive, round_key
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.public_draws import sense
from coordinator.protocol.sensing import SensingTable, sensing_of
from coordinator.server.mechanisms import aggregate
from coordinator.server.rounds.state import ServerState
from scenarios.backends.in_process import answer
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate, settled


@compiled
def only_sense(key: Words, table: SensingTable, count: int) -> int:
    """Make the sensing sets of so many devices and do nothing with them; each side does that once."""
    members, streams, total = np.empty(table.room, np.uint32), device_streams(key, 0, count), 0
    for k in range(count):
        total += sense(streams[k], table, members)
    return total


@compiled
def only_rate(model: BlockModel, master: Words, count: int) -> int:
    """Draw which items so many devices rated and do nothing with them."""
    room, stamp = room_for(model.items), 0
    streams = ratings_streams(master, 0, count)
    for k in range(count):
        stamp = next_stamp(room.marks, stamp)
        mark_subset(streams[k], model.items, model.rated, room, stamp)
    return stamp


@compiled
def only_hash(key: Words, master: Words, count: int) -> int:
    """Make the private and the public stream of so many devices and do nothing with them."""
    return int(ratings_streams(master, 0, count)[-1] ^ device_streams(key, 0, count)[-1])


def profile(items: int, rated: int, users: int) -> dict[str, float]:
    """Return nanoseconds a device of each part."""
    population = settled(populate(Scenario(items=items, rated=rated, users=users)))
    ask = RunSpec(population.scenario).policy.next_query(ServerState(devices=users))
    assert ask is not None  # the first round
    assert isinstance(population.ratings, BlockRatings)
    query, secret, ratings = ask.query, derive(0, "devices"), population.ratings
    key, table = round_key(query.public_seed, query.round), sensing_of(query)
    release = Cohort(ratings, secret, 0, users, None).answer(query, 0, users)
    parts: dict[str, Callable[[int], object]] = {
        "device: rate, sense, flip, pack": lambda _: Cohort(ratings, secret, 0, users, None).answer(query, 0, users),
        "  of it: which items are rated": lambda _: only_rate(ratings.model(), as_words(secret), users),
        "  of it: the sensing set": lambda _: only_sense(key, table, users),
        "  of it: hashing both streams": lambda _: only_hash(key, as_words(secret), users),
        "server: sense again, add up": lambda _: aggregate(query, release),
        "both in one process: sense once": lambda _: answer(
            query, ratings, secret, Cohort(ratings, secret, 0, users, None), 0, users
        ),
        "reference kernel": lambda _: reference(users, items, rated),
    }
    for part in parts.values():
        part(0)  # compile
    best = in_turns({name: partial(repeated, part, users) for name, part in parts.items()})
    return {name: took["processor"] * 1e9 for name, took in best.items()}


def main(
    users: Annotated[int, typer.Option(help="Devices of a block, at most 2^17.")] = 1 << 17,
    json_file: JsonFile = None,
) -> None:
    """Print what the parts of a one-bit round cost a device."""
    shapes = {"N = 1,000, w = 30": (1000, 30), "N = 10,000, w = 100": (10_000, 100)}
    profiles = {name: profile(items, rated, users) for name, (items, rated) in shapes.items()}
    for name, parts in profiles.items():
        print(f"\n{name}, ns a device")
        for part, value in parts.items():
            print(f"{part:34} {value:6.0f}")
    write_figures(json_file, profiles)


if __name__ == "__main__":
    typer.run(main)
