"""Public candidates of one private device: unit vectors that both sides draw from the query's id and its address.

A coordinate is a Gaussian as a whole number of 2^-20, from one word of a public stream and a table, so that every
processor has the same one. A vector over its length is uniform on the sphere, up to a millionth, the table's error.
"""

import numpy as np
from numba import int64, uint64
from scipy import special

from coordinator.protocol.arrays import Floats, Ints, Words
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled, inlined
from coordinator.protocol.hashing import draw, siphash1

UNIT = 1 << 20  # A Gaussian coordinate is a whole number of parts; so many parts are 1
_CELLS = 8  # bits: cells between a probability and half of it
_LEAST = 1023 << _CELLS  # of 1.0, as its bits stand in a float64


def _levels() -> Ints:
    """Return the Gaussian's upper quantiles at 2^-64 times every cell's start, in parts of `UNIT`, falling."""
    octaves, cells = np.divmod(np.arange((63 << _CELLS) + 1), 1 << _CELLS)
    tails = np.ldexp(1 + cells / (1 << _CELLS), octaves - 64)
    levels: Ints = np.rint(-special.ndtri(tails) * UNIT).astype(np.int64)
    return levels


LEVELS = _levels()
"""A test holds every one against the edge of its rounding, so that no processor rounds it another way."""


@inlined
def gaussian(word: np.uint64, levels: Ints) -> int:
    """Return a Gaussian number in parts of `UNIT`, never 0: the inverse of its law, linear within a cell.

    The low 63 bits are the tail's probability, its cell the exponent and first bits of that number as a float64.
    """
    bits = np.float64((word >> uint64(1)) | uint64(1)).view(np.int64)
    cell = (bits >> int64(52 - _CELLS)) - int64(_LEAST)
    part = (bits >> int64(20 - _CELLS)) & int64((1 << 32) - 1)
    size = (levels[cell] - ((levels[cell] - levels[cell + 1]) * part >> int64(32))) | int64(1)
    return int(size if word & uint64(1) else -size)


def candidates_key(query_id: bytes) -> Words:
    """Return the two words that key the public candidates of one query."""
    return as_words(derive(query_id, "candidates"))


@compiled
def _coordinates(key: Words, device: int, vector: int, levels: Ints, numbers: Ints) -> None:
    stream = siphash1(key[0], key[1], uint64(device))
    for a in range(numbers.size):
        numbers[a] = gaussian(draw(stream, uint64(vector * numbers.size + a)), levels)


def candidate(query_id: bytes, device: int, vector: int, dimension: int) -> Floats:
    """Return one of a device's public candidates, a vector of length 1, float64, shape (dimension,)."""
    numbers = np.empty(dimension, np.int64)
    _coordinates(candidates_key(query_id), device, vector, LEVELS, numbers)
    direction: Floats = numbers / np.sqrt(float(np.square(numbers).sum()))
    return direction
