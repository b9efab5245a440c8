"""Epsilon as an exact number, and how budgets add up: m shares of epsilon / m are epsilon, not almost."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from coordinator.protocol.errors import InputError

LARGEST_EXPONENT = 1000  # Powers of ten beyond this are no privacy parameters
MOST_BITS = 1 << 13  # A numerator or denominator with more bits than this belongs to no privacy parameter
REPLACE, ADD_REMOVE = "replace", "add-remove"
"""Neighbours: one person's ratings are replaced by any others, or one person is added or removed."""
Epsilon: TypeAlias = Fraction | None
"""A privacy parameter in nats, exact; None means infinite: no noise, and no privacy."""
DELTA = 1e-6  # The largest delta of a guarantee where nobody gives one
DELTA_IN_WORDS = f"{DELTA:g}, at most 1 / (10 people)"


def default_delta(people: int | None) -> float:
    """Return the default delta of a guarantee for this many people: the more people, the smaller.

    >>> default_delta(None), default_delta(100_000), default_delta(4_000_000)
    (1e-06, 1e-06, 2.5e-08)
    """
    # At a delta of 1 / people, all that somebody holds could be published.
    return DELTA if people is None else min(DELTA, 1 / (10 * people))


class PrivacyParameter(Fraction):
    """A privacy parameter in nats that is exact and above 0: there is none that is 0, negative or a rounded number.

    Messages, ledgers and what is read from ledgers' files hold it, or None, which says that there is no privacy.
    Unpickling goes through this constructor. What arithmetic makes of it is a plain fraction again.

    >>> PrivacyParameter("1/3") * 3
    Fraction(1, 1)
    """

    __slots__ = ()

    def __new__(cls, numerator: int | str | Fraction, denominator: int | None = None) -> PrivacyParameter:
        """Refuse what is no privacy parameter."""
        if type(numerator) not in {int, str, Fraction, PrivacyParameter} or type(denominator) not in {int, type(None)}:
            raise InputError(f"epsilon is a {type(numerator).__name__}, which is not exact; give a fraction above 0")
        try:
            parameter: PrivacyParameter = super().__new__(cls, numerator, denominator)  # type: ignore[arg-type] # a text is fine, too
        except (ArithmeticError, ValueError):
            raise InputError("epsilon is no fraction; give a number above 0") from None
        _require_positive(parameter, "epsilon")
        return parameter


def require_epsilon(value: object, name: str = "epsilon") -> PrivacyParameter | None:
    """Return a privacy parameter as the one type that holds no invalid value; None stays None: no privacy."""
    # Everything that is given, sent or read back as a privacy parameter is checked here: messages where they are built
    # and where they arrive, charges of a ledger, its budget, and the entries of its file.
    if value is None:
        return None
    # Nothing else is exact, and no other class is believed: what it says may change from one look to the next.
    if not isinstance(value, Fraction) or type(value) not in {Fraction, PrivacyParameter}:
        description = f"{value}, a float" if type(value) is float else f"a {type(value).__name__}"
        raise InputError(f"{name} is {description}; give a fraction above 0, or None for no privacy")
    _require_positive(value, name)
    return value if isinstance(value, PrivacyParameter) else PrivacyParameter(value)


def _require_positive(value: Fraction, name: str) -> None:
    """Refuse a fraction that is not above 0, that is too long to be printed, or whose parts were not reduced."""
    above, below = (getattr(value, part, None) for part in ("numerator", "denominator"))
    if type(above) is not int or type(below) is not int or below <= 0:
        raise InputError(f"{name} holds no numerator and denominator; give a fraction above 0")
    if max(above.bit_length(), below.bit_length()) > MOST_BITS:
        raise InputError(f"{name} has a numerator or denominator of more than {MOST_BITS} bits; give a shorter number")
    if above <= 0:
        text = str(above) if below == 1 else f"{above}/{below}"
        raise InputError(f"{name} is {text}; it must be above 0 (None, or inf, means no privacy)")
    if math.gcd(above, below) != 1:
        raise InputError(f"{name} is {above}/{below}, which is not reduced; give a fraction above 0")


def parse_epsilon(value: object, name: str = "epsilon") -> PrivacyParameter | None:
    """Read a privacy parameter in nats: a number, a ratio such as ``"1/3"``, or infinity, which is None.

    >>> parse_epsilon("0.1") * 10
    Fraction(1, 1)
    >>> parse_epsilon("inf") is None
    True
    """
    # A float is read as the decimal that it prints.
    text = str(value).strip()
    try:
        exact = _read(text)
    except (ArithmeticError, ValueError):
        raise InputError(f"{name} is {text}; give a number above 0, or inf for no noise") from None
    if exact is not None and exact <= 0:
        raise InputError(f"{name} is {text}; it must be above 0 (inf means no noise)")
    return require_epsilon(exact, name)


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
