"""Epsilon as an exact number, and how budgets add up: m shares of epsilon / m are epsilon, not almost."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from coordinator.protocol.errors import InputError

LARGEST_EXPONENT = 1000
"""Powers of ten beyond this are no privacy parameters."""
Epsilon: TypeAlias = Fraction | None
"""A privacy parameter in nats, exact; None means infinite: no noise, and no privacy."""


def parse_epsilon(value: object, name: str = "epsilon") -> Epsilon:
    """Read a privacy parameter.

    Parameters
    ----------
    value : str, int, float or Fraction
        A number above 0, a ratio such as ``"1/3"``, or infinity (``"inf"``). A float is read as the decimal it prints.
    name : str
        What to call it in an error.

    Returns
    -------
    Fraction or None
        The exact value in nats; None for infinity.

    Raises
    ------
    InputError
        If the value is no number, NaN, or not above 0.

    Examples
    --------
    >>> parse_epsilon("0.1") * 10
    Fraction(1, 1)
    >>> parse_epsilon("inf") is None
    True
    """
    text = str(value).strip()
    try:
        exact = _read(text)
    except (ArithmeticError, ValueError):
        raise InputError(f"{name} is {text}; give a number above 0, or inf for no noise") from None
    if exact is not None and exact <= 0:
        raise InputError(f"{name} is {text}; it must be above 0 (inf means no noise)")
    return exact


def _read(text: str) -> Epsilon:
    """Read a number exactly; one whose digits would fill the memory is an OverflowError."""
    if "/" in text:
        return Fraction(text)
    number = Decimal(text)
    if number.is_infinite() and number > 0:
        return None
    if number.is_finite() and abs(number.adjusted()) > LARGEST_EXPONENT:
        raise OverflowError(text)
    return Fraction(number)


def as_float(epsilon: Epsilon) -> float:
    """Return epsilon as a float in nats, infinity where there is no noise or no float is large enough."""
    try:
        return math.inf if epsilon is None else float(epsilon)
    except OverflowError:
        return math.inf


def as_json(epsilon: Epsilon) -> float | str:
    """Return epsilon as results show it: a number, or the string ``"inf"``."""
    value = as_float(epsilon)
    return "inf" if math.isinf(value) else value


def add(spent: Epsilon, cost: Epsilon) -> Epsilon:
    """Return the sum of two privacy losses (sequential composition); infinite if either is."""
    return None if spent is None or cost is None else spent + cost


def within(total: Epsilon, budget: Epsilon) -> bool:
    """Return whether ``total`` is at most ``budget``."""
    return budget is None or (total is not None and total <= budget)
