"""PMD on one device and one core: K candidates by greedy swaps with completion, beside recomputing the objective.

``python -m benchmarks.pmd`` prints JSON. The rival of a swap at O(1) recomputes the objective from all m items at every
attempt; it is timed on a few items and multiplied.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from actors.second_order.cohort import Consent, PrivateCohort
from actors.second_order.mechanisms.paper import running_sums
from benchmarks.reference import JsonFile
from coordinator.protocol.arrays import Bits2, Floats, Floats2
from coordinator.protocol.compiled import compiled
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import SecondOrderQuery

SCALE = tuple(float(level) / 2 for level in range(1, 11))


@compiled
def naive_swaps(values: Floats2, residual: Floats, order: Bits2, norms: Floats, products: Floats, items: int) -> float:
    """One sweep over all pairs at the first ``items`` items, the objective from scratch at every attempt."""
    best = np.inf
    for item in range(items):
        for p in range(order.shape[1]):
            for q in range(p):
                order[item, p], order[item, q] = order[item, q], order[item, p]
                running_sums(values, residual, order, norms, products)
                objective = (norms * norms - 2.0 * products * products).sum()
                if objective < best:
                    best = objective
                else:
                    order[item, p], order[item, q] = order[item, q], order[item, p]
    return best


def world(items: int, rank: int, devices: int, rated: int) -> tuple[ItemFeatures, PrivateCohort]:
    """Random features, and devices with random ratings."""
    draws = np.random.default_rng(0)
    model = ItemFeatures(
        mean=draws.normal(3.4, 0.4, items),
        vectors=draws.normal(0, 0.1, (items, rank)),
        kappa=2.0,
        lowest=SCALE[0],
        highest=SCALE[-1],
        scale=SCALE,
        common_h=0.4,
    )
    rated_items = np.sort(np.stack([draws.choice(items, rated, replace=False) for _ in range(devices)]), axis=1)
    starts = np.arange(devices + 1, dtype=np.int64) * rated
    values = draws.choice(SCALE, rated_items.size)
    ratings = Rows(starts=starts, items=rated_items.ravel().astype(np.int32), values=values, count=items)
    consent = Consent(mechanisms=frozenset({"pmd", "pmc"}), epsilon=None)
    cohort = PrivateCohort(ratings, bytes(16), 0, ratings.users, consent=consent)
    cohort.pin(model.digest, 0, devices)
    return model, cohort


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """Return the time of a call by the clock, and its processor time, which other programs affect less."""
    start, used = time.perf_counter(), time.thread_time()
    function()
    return time.perf_counter() - start, time.thread_time() - used


def measure(*, items: int, rank: int, devices: int, rated: int) -> dict[str, Any]:
    """Return seconds a device for PMD and, beside it, for PMC; and what recomputed objectives would take."""
    figures: dict[str, Any] = {"items": items, "candidates": len(SCALE), "rank": rank, "devices": devices}
    for mechanism in ("pmd", "pmc"):
        model, cohort = world(items, rank, devices + 1, rated)
        query = SecondOrderQuery(model=model.digest, mechanism=mechanism)
        cohort.answer(query, model, devices, devices + 1)  # compiles
        took = [seconds(partial(cohort.answer, query, model, k, k + 1)) for k in range(devices)]
        clock, processor = np.median(np.array(took), axis=0)
        figures[f"{mechanism}_seconds_a_device"] = float(clock)
        figures[f"{mechanism}_processor_seconds_a_device"] = float(processor)
    values = np.ascontiguousarray(np.array(SCALE)[None, :] - model.mean[:, None])
    order = np.tile(np.arange(len(SCALE), dtype=np.uint8), (items, 1))
    sums, residual = np.empty((2, len(SCALE))), np.full(items, 0.1)
    naive_swaps(values, residual, order, sums[0], sums[1], 1)
    _, naive = seconds(partial(naive_swaps, values, residual, order, sums[0], sums[1], 2))
    naive *= items / 2
    ratio = naive / figures["pmd_processor_seconds_a_device"]
    return figures | {"naive_processor_seconds_a_device": naive, "times_naive": ratio}


def main(
    items: Annotated[int, typer.Option(help="Items m.")] = 10_677,
    rank: Annotated[int, typer.Option(help="Columns of V.")] = 10,
    devices: Annotated[int, typer.Option(help="Devices, one after the other.")] = 50,
    rated: Annotated[int, typer.Option(help="Ratings of a device.")] = 150,
    json_file: JsonFile = None,
) -> None:
    """Time what a private device does, on one core."""
    text = json.dumps(measure(items=items, rank=rank, devices=devices, rated=rated), indent=2)
    print(text)
    if json_file:
        json_file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
