"""The public halves of two-tier mechanisms, a module each: what a private device can be asked for, and its promise.

A mechanism is one name in three rooms: here, in `actors.second_order.mechanisms` (what a device says) and in
`coordinator.server.completion.mechanisms` (what the server makes of it). Nothing else names one.
"""

from __future__ import annotations

import functools

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import by_name, declared
from coordinator.protocol.second_order_public import SecondOrderPublic


@functools.cache
def second_order_public_halves() -> dict[str, SecondOrderPublic]:
    """Return every mechanism's public half by its name, in the order in which mechanisms are listed."""
    halves = declared(__name__, __path__, "PUBLIC", SecondOrderPublic)
    return by_name(sorted(halves, key=lambda half: (half.order, half.name)), lambda half: (half.name,))


def half_of(name: str) -> SecondOrderPublic:
    """Return a mechanism's public half."""
    if (half := second_order_public_halves().get(name)) is None:
        raise InputError(f"mechanism is {name!r}; choose one of {', '.join(second_order_public_halves())}")
    return half


def check_mechanism(name: str, epsilon: Epsilon) -> None:
    """Refuse a mechanism that there is not, and an epsilon that it does not take or cannot express."""
    half = half_of(name)
    if half.takes_epsilon != (epsilon is not None):
        remedy = "give a finite one above 0" if half.takes_epsilon else "it has none, leave it out"
        raise InputError(f"epsilon is {as_float(epsilon):g} for {name}; {remedy}")
    if epsilon is not None and not half.smallest <= epsilon <= half.largest:
        raise InputError(
            f"epsilon is {as_float(epsilon):g}; the coins of {name} can express {float(half.smallest):g} to "
            f"{half.largest}, give one of these"
        )
