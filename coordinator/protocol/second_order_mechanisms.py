"""The mechanisms that a private device can be asked for, by name: what each promises, and what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from coordinator.protocol import grid_noise
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import LARGEST_EPSILON, SMALLEST_EPSILON
from coordinator.protocol.errors import InputError

_ELEMENT = "element-wise deniability of one release (Definition 4.1); not differential privacy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A mechanism by name: what it promises, and what it needs.

    Attributes
    ----------
    guarantee : str
        What a private device is promised, in words; reports print it.
    private : bool
        False where the release is the completed vector itself.
    takes_epsilon : bool
        Whether it has an epsilon.
    needs_scale : bool
        Whether ratings must come from a finite set S.
    moment : bool
        Whether it releases an r x r moment in the model's own basis instead of a vector of m numbers.
    needs_range : bool
        Whether it divides by the width of the range of ratings.
    smallest, largest : Fraction or int
        Range of epsilons that its channel can express [nats].
    """

    guarantee: str
    private: bool = True
    takes_epsilon: bool = False
    needs_scale: bool = False
    moment: bool = False
    needs_range: bool = False
    smallest: Fraction = SMALLEST_EPSILON
    largest: int = LARGEST_EPSILON


MECHANISMS: dict[str, Mechanism] = {
    "pmd": Mechanism(guarantee=_ELEMENT, needs_scale=True),
    "pmc": Mechanism(guarantee=_ELEMENT),
    "pmc-rr": Mechanism(
        guarantee=f"{_ELEMENT}; each bit flipped as under epsilon a bit, m times that for all bits", takes_epsilon=True
    ),
    "laplace": Mechanism(
        guarantee="epsilon for one coordinate of the completed vector, m times epsilon for the whole; none a rating",
        takes_epsilon=True,
        smallest=grid_noise.SMALLEST_EPSILON,
        largest=grid_noise.LARGEST_EPSILON,
        needs_range=True,
    ),
    "sslp": Mechanism(
        guarantee="epsilon-local differential privacy of all that a device holds", takes_epsilon=True, needs_range=True
    ),
    "privunit": Mechanism(
        guarantee="epsilon-local differential privacy of all that a device holds", takes_epsilon=True, moment=True
    ),
    "exact": Mechanism(guarantee="none: the completed vector itself is released", private=False),
}
"""Every mechanism that a private device can be asked for."""


def check_mechanism(name: str, epsilon: Epsilon) -> None:
    """Refuse a mechanism that there is not, and an epsilon that it does not take or cannot express.

    Raises
    ------
    InputError
    """
    if (kind := MECHANISMS.get(name)) is None:
        raise InputError(f"mechanism is {name!r}; choose one of {', '.join(MECHANISMS)}")
    if kind.takes_epsilon != (epsilon is not None):
        remedy = "give a finite one above 0" if kind.takes_epsilon else "it has none, leave it out"
        raise InputError(f"epsilon is {as_float(epsilon):g} for {name}; {remedy}")
    if epsilon is not None and not kind.smallest <= epsilon <= kind.largest:
        raise InputError(
            f"epsilon is {as_float(epsilon):g}; the coins of {name} can express {float(kind.smallest):g} to "
            f"{kind.largest}, give one of these"
        )
