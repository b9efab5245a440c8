"""Sums that cohorts of public users return in an EM iteration; they are merged in the cohorts' order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from coordinator.protocol.arrays import Floats, Floats2, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FirstOrder:
    """Sums from which the items' means follow, and the number of users.

    Attributes
    ----------
    counts : ndarray of int64, shape (m,)
        Ratings of every item.
    sums : ndarray of float64, shape (m,)
        Their sums.
    users : int
        Public users.
    """

    counts: Ints
    sums: Floats
    users: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """Sums of an E-step.

    Attributes
    ----------
    error : float
        ``sum_i |y_i - V_phi u_i|^2`` over observed ratings.
    penalty : float
        ``sum_i w_i |u_i|^2``, w = 1 or, with the weighted trace norm, ``d_i / mean degree``.
    tastes : ndarray of float64, shape (r, r)
        ``sum_i u_i u_i^T``.
    weighted_tastes : ndarray of float64, shape (r, r)
        ``sum_i w_i u_i u_i^T``.
    """

    error: float
    penalty: float
    tastes: Floats2
    weighted_tastes: Floats2


S = TypeVar("S", FirstOrder, Expected)


def merged(parts: Sequence[S]) -> S:
    """Add statistics up in the given order, so that every layout gives the same bits."""
    total = parts[0]
    for part in parts[1:]:
        sums = {field.name: getattr(total, field.name) + getattr(part, field.name) for field in fields(part)}
        total = replace(total, **sums)
    return total


def added(parts: Sequence[Floats2]) -> Floats2:
    """Add arrays up in the given order."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
