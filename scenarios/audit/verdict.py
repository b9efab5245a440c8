"""What an audit found: claimed, exact and measured epsilon, and each attack that was made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

ROUNDED = 2.0**-50
"""By how much an exact log-ratio may exceed the claim [nats]: floats that print it are rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack on real releases.

    Attributes
    ----------
    name, meaning : str
        A short name, and what is told apart by what.
    times : int
        How many times the claimed epsilon may be spent on what is seen: a new query each, or a coordinate each.
    claimed : float or None
        What all of them together may cost [nats]; None where nothing is promised.
    measured : float
        Lower bound of what they give away [nats], at the audit's confidence.
    right : float
        Share of victims whose input was guessed right; a half says nothing.
    plays : int
        Victims that were measured.
    by : str
        The look at the releases that was chosen.
    """

    name: str
    meaning: str
    times: int
    claimed: float | None
    measured: float
    right: float
    plays: int
    by: str

    @property
    def right_at_most(self) -> float | None:
        """Share of victims that anybody can guess right within the claim: ``e**eps / (1 + e**eps)``."""
        return None if self.claimed is None else 1 / (1 + math.exp(-self.claimed))

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__} | {"right_at_most": self.right_at_most}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit of one mechanism found.

    Attributes
    ----------
    design : str
        Its name, with its settings where they are not the default.
    guarantee : str
        What a device is promised, in words.
    claimed : float or None
        Epsilon of one release [nats]; None where none is promised.
    exact : float or None
        Largest log-ratio of the exact channel [nats]; infinite where ratings are told as they are, None where the
        channel cannot be gone through.
    dust : float
        By how much ``exact`` may exceed the claim where a class states floats [nats].
    confidence : float
        Probability that all lower bounds hold.
    attacks : tuple of Attack
        Those that were made.
    refused : str
        Why devices refuse such queries, if they do; the attacks were made past the refusal.
    """

    design: str
    guarantee: str
    claimed: float | None
    exact: float | None
    confidence: float
    attacks: tuple[Attack, ...]
    dust: float = ROUNDED
    refused: str = ""

    @property
    def measured(self) -> float:
        """Largest lower bound of what one release gives away [nats]: that of several is shared out."""
        return max((one.measured / one.times for one in self.attacks), default=0.0)

    @property
    def failures(self) -> list[str]:
        """What is not as it is claimed, a line each."""
        if self.claimed is None:
            return []
        told = [self.refused] if self.refused else []
        if self.exact is not None and self.exact > self.claimed + self.dust:
            told.append(f"exact epsilon {self.exact:.9g} is above the claimed {self.claimed:.9g}")
        return told + [
            f"attack {one.name} measured at least {one.measured:.4g}, claimed are {one.claimed:.9g}"
            for one in self.attacks
            if one.claimed is not None and one.measured > one.claimed
        ]

    @property
    def held(self) -> bool:
        """Whether nothing contradicts the claim."""
        return not self.failures

    def frame(self) -> pd.DataFrame:
        """Return the attacks as a table of pandas."""
        import pandas as pd  # noqa: PLC0415 (loaded by whoever wants a table)

        return pd.DataFrame([one.as_json() for one in self.attacks])

    def as_json(self) -> dict[str, Any]:
        """Return what `blindrec audit --json` tells; infinity is the string ``"inf"``."""
        exact: float | str | None = "inf" if self.exact == math.inf else self.exact
        return {
            "design": self.design,
            "guarantee": self.guarantee,
            "claimed": self.claimed,
            "exact": exact,
            "measured": self.measured,
            "confidence": self.confidence,
            "held": self.held,
            "failures": self.failures,
            "attacks": [one.as_json() for one in self.attacks],
        }

    def __repr__(self) -> str:
        claimed, exact = ("none" if one is None else f"{one:g}" for one in (self.claimed, self.exact))
        told = "held" if self.held else f"{len(self.failures)} failed"
        return f"<{self.design}: claimed {claimed}, exact {exact}, measured {self.measured:.4f}, {told}>"
