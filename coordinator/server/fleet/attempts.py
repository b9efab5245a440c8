"""How often a lost call is repeated, and how long to wait before each repetition; without Ray and without a clock."""

from __future__ import annotations

from coordinator.protocol.errors import LostError
from coordinator.protocol.losses import reason, remedy

MOST_ATTEMPTS = 8
"""How often a block may be lost, or a round begun, before the run gives up."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
"""Shortest and longest pause before another attempt [seconds]; the pause doubles each time."""


def pause_after(attempt: int) -> float:
    """Return the seconds to wait after a failed attempt; attempts are numbered from 0."""
    return min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)


def require_less(attempts: int, most: int, what: str, error: Exception) -> None:
    """Raise an error after ``most`` failed attempts.

    Parameters
    ----------
    attempts, most : int
        How many attempts failed, and how many may fail.
    what : str
        What failed, for the error.
    error : Exception
        Why the last one failed.

    Raises
    ------
    LostError
        If there were enough.
    """
    if attempts >= most:
        raise LostError(f"{what}, {most} times ({reason(error)}); {remedy(error)}, then resume") from None
