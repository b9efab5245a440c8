"""A few points that stand for a normal law in some dimensions."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from coordinator.protocol.arrays import Floats, Ints, Ints2

BITS = 30
_POLYNOMIALS = (1, 3, 7, 11, 13, 19, 25, 37)
_FIRST = ((1,), (1,), (1, 3), (1, 3, 1), (1, 1, 1), (1, 1, 3, 3), (1, 3, 5, 13), (1, 1, 5, 5, 17))
"""Primitive polynomials over bits and first direction numbers, a dimension each."""


@lru_cache(maxsize=64)
def normal_points(width: int, many: int, seed: int) -> Floats:
    """Return points that stand for a normal law in so many dimensions, shape (many, width).

    They are Sobol's, scrambled, bit for bit those of `scipy.stats.qmc.Sobol`, which takes half a second to load and
    is asked for more than 8 dimensions only.
    """
    if width > len(_FIRST):
        from scipy.stats.qmc import Sobol  # noqa: PLC0415 (takes half a second)

        return np.asarray(ndtri(Sobol(width, rng=seed).random(many)))
    generator = np.random.default_rng(seed).spawn(1)[0]
    shifts = generator.integers(2, size=(width, BITS), dtype=np.uint32)[:, ::-1]
    mixed = np.tril(generator.integers(2, size=(width, BITS, BITS), dtype=np.uint32), -1) + np.eye(BITS, dtype=int)
    order = np.arange(many)
    taken = _bits(order ^ (order >> 1))[:, ::-1]  # point k is the sum of the directions in k's Gray code
    points = [
        (taken @ (_directions(place) @ mix.T) + shift) % 2 @ 0.5 ** np.arange(1, BITS + 1)
        for place, (mix, shift) in enumerate(zip(mixed, shifts, strict=True))
    ]
    return np.asarray(ndtri(np.stack(points, axis=1)))


def _directions(place: int) -> Ints2:
    """Return a dimension's directions, a row of bits each, the highest bit first."""
    polynomial, numbers = _POLYNOMIALS[place], list(_FIRST[place])
    degree = polynomial.bit_length() - 1
    while len(numbers) < BITS:
        new = numbers[-degree] if degree else 1
        for back in range(1, degree + 1):
            if polynomial >> (degree - back) & 1:
                new ^= numbers[-back] << back
        numbers.append(new)
    return _bits(np.array(numbers) << np.arange(BITS)[::-1])


def _bits(numbers: Ints) -> Ints2:
    return numbers[:, None] >> np.arange(BITS)[::-1] & 1
