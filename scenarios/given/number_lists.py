"""Lists and rows of numbers as a user writes them, ``"0.9,0.1;0.2,0.8"`` or as Python has them, as checked fields."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from scenarios.given.values import brief


def _numbers(value: Any) -> Any:
    """Read ``"0.9,0.1"`` as a tuple of numbers; leave anything else to the checks."""
    if not isinstance(value, str):
        return value
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise ValueError(f"{brief(value)} is no list of numbers; write it like 0.9,0.1") from None


def _matrix(value: Any) -> Any:
    """Read ``"0.9,0.1;0.2,0.8"`` as rows; a single list of numbers is one row."""
    if isinstance(value, str):
        return tuple(_numbers(row) for row in value.split(";"))
    if isinstance(value, (list, tuple)) and all(isinstance(part, (int, float)) for part in value):
        return (tuple(value),)
    return value


Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Row = Annotated[tuple[Probability, ...], BeforeValidator(_numbers)]
Matrix = Annotated[tuple[tuple[Probability, ...], ...], BeforeValidator(_matrix)]


def check_shares(name: str, shares: tuple[float, ...] | None, expected: int) -> None:
    """Refuse shares that are not as many as expected, or do not sum to 1."""
    if shares is None:
        return
    if len(shares) != expected:
        raise ValueError(f"{name} has {len(shares)} numbers, like has {expected}; give as many")
    if not math.isclose(sum(shares), 1, rel_tol=0, abs_tol=1e-9):
        raise ValueError(f"{name} sum to {sum(shares):g}; they must sum to 1")
