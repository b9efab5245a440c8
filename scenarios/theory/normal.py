"""The standard normal law's density; `scipy.special` has the rest, without the half second of scipy.stats."""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Floats

ROOT = math.sqrt(2 * math.pi)


def density(values: Floats) -> Floats:
    """Return the density at values of any shape."""
    return np.asarray(np.exp(-(values**2) / 2) / ROOT)


def log_density(values: Floats) -> Floats:
    """Return the density's logarithm, which is finite in the tails too."""
    return np.asarray(-(values**2) / 2 - math.log(ROOT))
