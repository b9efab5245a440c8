"""What a device refuses to be asked, before anything is charged: a server may send anything."""

from __future__ import annotations

import numpy as np

from actors.ratings import Ratings
from actors.sketches import SKETCHES, Sketch
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.partition import partition_size
from coordinator.protocol.sensing import sensing_table
from coordinator.protocol.signs import MOST_VECTORS, UNIT, answer_bits


def check(query: Query, ratings: Ratings) -> None:
    """Refuse a query that devices cannot answer as it stands.

    Raises
    ------
    InputError
        If the design is unknown, its catalogue, pool, questions or parameters are not what devices know, or epsilon
        is not above 0 or cannot be expressed.
    """
    if (sketch := SKETCHES.get(query.design)) is None:
        raise InputError(f"design {query.design!r} is unknown to devices; they know {', '.join(SKETCHES)}")
    if query.items != ratings.items:
        raise InputError(f"{query} asks about {query.items} items, the devices' catalogue has {ratings.items}")
    if sketch.names_rated and not ratings.rated_public:
        raise InputError(f"{query} would have devices name items that they rated; which those are is private here")
    if query.items < 2 and query.design.startswith("pairwise"):
        raise InputError(f"{query} asks about pairs, the catalogue has {query.items} item")
    if query.parameters.keys() != sketch.parameters:
        raise InputError(f"{query} has parameters {sorted(query.parameters)}, not {sorted(sketch.parameters)}")
    _check_numbers(query)
    most = _questions(query, sketch)
    if not most.start <= query.questions < most.stop:
        told = f"1 to {most.stop - 1}" if len(most) > 1 else str(most.start)
        raise InputError(f"{query} asks {query.questions} questions, the design has {told}")
    _check_pool(query, sketch)
    _check_signs(query)
    _check_epsilon(query, sketch)


def _check_numbers(query: Query) -> None:
    given = query.parameters
    if "sensing" in given:
        sensing_table(given["sensing"])
    for name in ("set_size", "most"):
        if name in given and not (1 <= given[name] <= query.items and float(given[name]).is_integer()):
            raise InputError(f"{query} has {name} {given[name]:g}; give a whole number, 1 to {query.items}")
    if "share" in given and not 0 < given["share"] <= 1:
        raise InputError(f"{query} has share {given['share']:g}; it must lie in (0, 1]")


def _questions(query: Query, sketch: Sketch) -> range:
    """Return the numbers of questions that a query may ask."""
    if sketch.questions is not None:
        return range(sketch.questions, sketch.questions + 1)
    if "set_size" in query.parameters:
        return range(1, partition_size(query.items, int(query.parameters["set_size"])) + 1)
    return range(2 * query.items, 2 * query.items + 1)


def _check_pool(query: Query, sketch: Sketch) -> None:
    if sketch.pooled is not None and (query.pool is not None) != sketch.pooled:
        raise InputError(f"{query} names {'no' if sketch.pooled else 'a'} pool of items, which the design cannot use")
    if query.pool is None:
        return
    pool = np.asarray(query.pool)
    if pool.dtype != np.int32 or pool.ndim != 1:
        raise InputError(f"{query} has a pool that is no list of 32-bit item numbers")
    inside = pool.size and pool[0] >= 0 and pool[-1] < query.items
    if not inside or (pool[1:] <= pool[:-1]).any():
        raise InputError(f"{query} has a pool that is empty, unsorted or outside 0 to {query.items - 1}")


def _check_signs(query: Query) -> None:
    """Refuse sign vectors and bits of an answer that do not fit each other."""
    if "vectors" not in query.parameters:
        vectors = 1
    else:
        given, kept = query.parameters["vectors"], query.parameters["kept"]
        if given not in {1 << power for power in range(MOST_VECTORS.bit_length())}:
            raise InputError(f"{query} has {given:g} sign vectors; give a power of two, 1 to {MOST_VECTORS}")
        if not (1 <= kept <= given and float(kept).is_integer()):
            raise InputError(f"{query} keeps {kept:g} signed vectors; give a whole number, 1 to {given:g}")
        vectors = int(given)
    _check_centres(query)
    if query.answer_bits != answer_bits(vectors):
        raise InputError(f"{query} wants {query.answer_bits} bits an answer, it has {answer_bits(vectors)}")


def _check_centres(query: Query) -> None:
    """Refuse centres that do not fit the pool, or the design."""
    if query.centres is None:
        return
    centres = np.asarray(query.centres)
    if "vectors" not in query.parameters or query.pool is None:
        raise InputError(f"{query} brings centres, which the design cannot use")
    if (
        centres.dtype != np.int32
        or centres.shape != query.pool.shape
        or (centres < -UNIT).any()
        or (centres > UNIT).any()
    ):
        raise InputError(f"{query} has centres that are not one 32-bit number an item, -{UNIT} to {UNIT}")


def _check_epsilon(query: Query, sketch: Sketch) -> None:
    if query.epsilon is not None and query.epsilon <= 0:
        raise InputError(f"{query} has an epsilon that is not above 0; a free answer would still tell something")
    if query.epsilon is not None and not sketch.private:
        raise InputError(f"{query} promises an epsilon, but the design is not private; ask it with epsilon inf")
    bit_channel(query.epsilon_per_question)
