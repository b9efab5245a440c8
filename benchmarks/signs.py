"""Sign sensing on the server's side, one core, against its floor and against one addition an item, in one run.

``python -m benchmarks.signs`` times the bit-sliced sum of signs. Its floor only draws the words that hold the signs;
the rival draws the same words and makes one addition for each item and device. The floor runs before and after.
"""

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from numba import uint64

from benchmarks.reference import JsonFile, write_figures
from coordinator.protocol.arrays import Ints, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import device_streams, draw
from coordinator.protocol.messages import Query
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.statistics.signs import count_agreements


@compiled
def draw_words(streams: Words, words: Words) -> None:
    """Draw every device's sign words and keep nothing but their parity."""
    for k in range(streams.size):
        stream = streams[k]
        for w in range(words.size):
            words[w] ^= draw(stream, uint64(w))


@compiled
def add_one_by_one(streams: Words, counts: Ints) -> None:
    """Draw every device's sign words and add each sign to its item's count."""
    for k in range(streams.size):
        stream = streams[k]
        for item in range(counts.size):
            counts[item] += int((draw(stream, uint64(item >> 6)) >> uint64(item & 63)) & uint64(1))


def seconds(function: Callable[[], object]) -> float:
    """Return what a call takes, after one that compiles."""
    function()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(*, users: int, items: int, rival_users: int) -> dict[str, Any]:
    """Return devices a second of the bit-sliced sum, of its floor and of the rival, and the ratios."""
    design = SignSensing(items=items, rated=1)
    query: Query = design.query(round_number=0, public_seed=bytes(16), epsilon=None)
    streams = device_streams(round_key(query.public_seed, 0), 0, users)
    bits, all_of_them = np.random.default_rng(0).integers(0, 2, (users, 1)).astype(np.uint8), np.ones(users, np.bool_)
    words, counts = np.zeros(-(-items // 64), np.uint64), np.zeros(items, np.int64)
    before = seconds(lambda: draw_words(streams, words))
    sliced = seconds(lambda: count_agreements(query, streams, bits, all_of_them))
    after = seconds(lambda: draw_words(streams, words))
    rival = seconds(lambda: add_one_by_one(streams[:rival_users], counts)) * users / rival_users
    floor = (before + after) / 2
    return {
        "users": users,
        "items": items,
        "devices_per_second": users / sliced,
        "floor_devices_per_second": users / floor,
        "rival_devices_per_second": users / rival,
        "ratio_to_floor": sliced / floor,
        "times_the_rival": rival / sliced,
    }


def main(
    users: Annotated[int, typer.Option(help="Devices of one block.")] = 1 << 17,
    items: Annotated[int, typer.Option(help="Items N, all of them in the pool.")] = 10_000,
    rival_users: Annotated[int, typer.Option(help="Devices of the rival, which is slow.")] = 1 << 11,
    json_file: JsonFile = None,
) -> None:
    """Time the server's sum of signs on one core."""
    figures = measure(users=users, items=items, rival_users=rival_users)
    for name, value in figures.items():
        print(f"{name:26} {value if isinstance(value, int) else format(value, ',.3f')}")
    write_figures(json_file, figures)


if __name__ == "__main__":
    typer.run(main)
