"""How much of a large test runs: a part by default, all of it in ``make test-thorough``."""

import os
from collections.abc import Sequence
from typing import TypeVar

V = TypeVar("V")
THOROUGH = os.environ.get("BLINDREC_THOROUGH") == "1"
FEWEST = 6  # Examples of a property, by default


def examples(most: int) -> int:
    """Return how many examples of a property are drawn: an eighth of the most by default."""
    return most if THOROUGH else min(most, max(FEWEST, most // 8))


def size(most: int, default: int) -> int:
    """Return how large a test is that has a size."""
    return most if THOROUGH else default


def sample(cases: Sequence[V], default: int) -> list[V]:
    """Return all cases, or so many of them by default, evenly spread from the first."""
    return list(cases) if THOROUGH else list(cases)[:: -(-len(cases) // default)]
