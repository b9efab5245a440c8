"""Designs: which sets a query asks about. A design turns its public parameters into queries, and knows no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from coordinator.pair_moments import AGREEMENTS
from coordinator.pair_statistics import check_items
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query


class Design(Protocol):
    """What the server needs of a design."""

    @property
    def items(self) -> int:
        """Number of items N of the catalogue."""
        ...

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return the query of one round."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise:
    """Pairwise-Preference: a uniform pair of items each; the bit is 1 if the device agrees about them.

    Source: Banerjee, Hegde, Massoulié, Figure 1 and Theorem 8 [3.4].

    Attributes
    ----------
    items : int
        Number of items N, 2 to `pair_statistics.MOST_ITEMS`.
    agreement : {"rated-equal", "equal", "positive"}
        Both rated and rated alike (the paper's analysis, the default); liked alike, where unrated counts as not liked
        (its Figure 1 to the letter); both liked (the slides).

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    agreement: str = "rated-equal"

    def __post_init__(self) -> None:
        check_items(self.items)
        if self.agreement not in AGREEMENTS:
            raise InputError(f"agreement is {self.agreement!r}; choose one of {', '.join(AGREEMENTS)}")

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return the query of one round."""
        return Query(
            design=f"pairwise-{self.agreement}",
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxSense:
    """MaxSense: each item is sensed with probability ``theta / rated``; the bit is 1 if a sensed item was liked.

    Source: Banerjee, Hegde, Massoulié, Figure 2 and Theorem 15 [5.1].

    Attributes
    ----------
    items : int
        Number of items N, at least 1.
    rated : int
        Number of items w that a user rated: public, typical where users differ; 1 to N.
    theta : float
        Expected number of a user's rated items that are sensed, in (0, rated].

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    rated: int
    theta: float = 1.0

    name: ClassVar[str] = "maxsense"

    def __post_init__(self) -> None:
        if self.items < 1:
            raise InputError(f"items is {self.items}; a catalogue has at least 1")
        if not 1 <= self.rated <= self.items:
            raise InputError(f"rated is {self.rated}; it must lie between 1 and the number of items, {self.items}")
        if not 0 < self.theta <= self.rated:
            raise InputError(f"theta is {self.theta}; it must lie above 0 and be at most rated, {self.rated}")

    @property
    def sensing(self) -> float:
        """Sensing probability p of each item."""
        return self.theta / self.rated

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return the query of one round."""
        return Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={"sensing": self.sensing},
        )
