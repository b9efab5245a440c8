"""Agreement: three readings of what it means that a device agrees about two items (spec section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from actors.block_model import LIKED, UNRATED
from coordinator.protocol.arrays import Bits, Bools

Agree: TypeAlias = Callable[[Bits, Bits], Bools]
"""(opinions of one item, opinions of the other) to whether the device agrees."""


def rated_equal(one: Bits, other: Bits) -> Bools:
    """Return whether both items are rated, and alike (Banerjee et al., Appendix B)."""
    same: Bools = (one == other) & (one != UNRATED)
    return same


def equal(one: Bits, other: Bits) -> Bools:
    """Return whether both are liked, or neither; unrated counts as not liked (Figure 1 to the letter)."""
    same: Bools = (one == LIKED) == (other == LIKED)
    return same


def positive(one: Bits, other: Bits) -> Bools:
    """Return whether both are liked (the authors' slides)."""
    both: Bools = (one == LIKED) & (other == LIKED)
    return both


AGREEMENTS: dict[str, Agree] = {"rated-equal": rated_equal, "equal": equal, "positive": positive}
