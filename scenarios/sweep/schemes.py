"""The schemes that an adaptive sweep compares, by name: those that mechanisms declare."""

from __future__ import annotations

from coordinator.server.mechanisms import found
from coordinator.server.server_half import Scheme

_DECLARED = sorted(((one, half.name) for half in found().values() for one in half.schemes), key=lambda it: it[0].order)
SCHEMES: dict[str, Scheme] = {one.name: one for one, _ in _DECLARED}
"""In the order of the table."""
DESIGNS: dict[str, str] = {one.name: design for one, design in _DECLARED}
"""Which mechanism each of them is of."""
BASE = "adaptive-sign"
"""The scheme that the others are divided by."""
