"""Designs: which sets a query asks about. A design turns its public parameters into queries, and knows no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from coordinator.pair_statistics import check_items
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.questions import AGREEMENTS


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
    rated_public : bool
        Whether the pair is drawn among the device's rated items, which are public then.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    agreement: str = "rated-equal"
    rated_public: bool = False

    def __post_init__(self) -> None:
        check_items(self.items)
        if self.agreement not in AGREEMENTS:
            raise InputError(f"agreement is {self.agreement!r}; choose one of {', '.join(AGREEMENTS)}")

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return the query of one round."""
        return Query(
            design=f"pairwise-{self.agreement}{'-of-rated' if self.rated_public else ''}",
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
        )


def check_shape(items: int, rated: int, theta: float) -> None:
    """Refuse numbers of items, of rated items or a sensing rate that contradict each other."""
    if items < 1:
        raise InputError(f"items is {items}; a catalogue has at least 1")
    if not 1 <= rated <= items:
        raise InputError(f"rated is {rated}; it must lie between 1 and the number of items, {items}")
    if not 0 < theta <= rated:
        raise InputError(f"theta is {theta}; it must lie above 0 and be at most rated, {rated}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiMaxSense:
    """Multi-MaxSense: ``questions`` sets of a random partition of the items; one bit each, as MaxSense's.

    Source: Banerjee, Hegde, Massoulié, Figure 3 and Theorem 16, with ``p = theta / rated`` (there theta = 1).

    Attributes
    ----------
    items, rated, theta
        As for `pool_designs.MaxSense`.
    questions : int
        Sets Q that each device is asked about, each under ``epsilon / Q``; at most ``1 / p``.

    Raises
    ------
    InputError
        If a parameter is outside its range.

    Notes
    -----
    Sets hold ``N p`` items, rounded to a whole number of at least 1. Where ``1 / p`` or ``N p`` is no whole number, the
    last set of the partition is smaller; it is never asked about.
    """

    items: int
    rated: int
    questions: int
    theta: float = 1.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated, self.theta)
        if not 1 <= self.questions <= self.most_questions:
            raise InputError(
                f"questions is {self.questions}; it must lie between 1 and 1/p = rated/theta, here "
                f"{self.most_questions}: sets of {self.set_size} of {self.items} items must not overlap"
            )

    @property
    def set_size(self) -> int:
        """Items in a set, ``N p``."""
        return max(1, round(self.items * self.theta / self.rated))

    @property
    def most_questions(self) -> int:
        """Full sets of a partition, at most ``1 / p``."""
        return min(self.items // self.set_size, int(self.rated / self.theta + 1e-9))

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return the query of one round."""
        return Query(
            design="multi-maxsense",
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            questions=self.questions,
            parameters={"set_size": self.set_size},
        )
