"""How often something that was lost is tried again, and how long one waits before: no Ray, no clock."""

from __future__ import annotations

from coordinator.protocol.errors import LostError

MOST_ATTEMPTS = 8
"""How often a block may be lost, or a round begun, before the run gives up."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
"""Seconds before another attempt; the pause doubles each time."""


def pause_after(attempt: int) -> float:
    """Return the seconds to wait after an attempt that failed; the first is 0."""
    return min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)


def require_less(attempts: int, most: int, what: str, error: Exception) -> None:
    """Refuse to go on after ``most`` attempts.

    Parameters
    ----------
    attempts, most : int
        How many failed, and how many may.
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
        why = " ".join(str(error).split())[-200:]
        raise LostError(f"{what}, {most} times ({type(error).__name__}: {why}); add a node, then resume") from None
