"""Queries of anchor sensing, and the oracle's coins of turned signs."""

import numpy as np
import reference
import worlds

from coordinator.protocol.messages import Query
from coordinator.server.anchor.anchor_queries import AnchorSensing


def pair_query(pool: list[int], *, items: int, centres: list[int] | None = None) -> Query:
    held = None if centres is None else np.array(centres, np.int32)
    design = AnchorSensing(items=items, rated=2)
    return design.query(
        round_number=2, public_seed=worlds.PUBLIC, epsilon=None, pool=np.array(pool, np.int32), centres=held
    )


def turned_query(classes: int, items: int, levels: int, draw: np.random.Generator) -> Query:
    arrays = {
        "prior": draw.integers(-2, 3, classes),
        "lean": draw.integers(-1, 2, classes),
        "guess": draw.integers(-3, 4, (2 * classes, items)),
        "counts": draw.integers(-3, 4, (2 * classes, items)),
        "sensed": draw.integers(0, levels + 1, items),
    }
    return Query(
        design="anchor",
        items=items,
        round=5,
        public_seed=worlds.PUBLIC,
        epsilon=None,
        parameters={"levels": float(levels)},
        arrays={name: value.astype(np.int32) for name, value in arrays.items()},
    )


def oracle_coins(query: Query, device: int, item: int) -> tuple[int, bool]:
    levels, stream = int(query.parameters["levels"]), worlds.public_stream(query, device)
    bits = levels.bit_length() - 1
    lanes = [reference.draw(stream, (item // 64) * (bits + 1) + k) >> item % 64 & 1 for k in range(bits + 1)]
    number = int("0" + "".join(map(str, lanes[1:])), 2)
    return 2 * lanes[0] - 1, number < int(query.arrays["sensed"][item])
