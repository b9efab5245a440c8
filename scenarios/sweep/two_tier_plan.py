"""Which units a two-tier sweep has: the paper's Figure 1, left and right, and Figure 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.protocol import second_order_mechanisms as public
from coordinator.server.completion import mechanisms as server
from scenarios.given.validation import validated
from scenarios.sweep.two_tier_units import ATTACK, LEFT, RIGHT, SECOND, SETTINGS, Key, Measured, Unit
from scenarios.two_tier.config import FULL, NONE, TwoTier

FIRST_PUBLIC = 15
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Figure 1 right: shares of all training ratings that public users have."""


def _asked() -> tuple[str, ...]:
    """Return the rivals, then what every mechanism is shown at: what has no privacy first."""
    order = sorted(server.found(), key=lambda name: public.half_of(name).private)
    shown = [(name, epsilon) for name in order for epsilon in server.half_of(name).swept]
    return NONE, FULL, *(f"{name}:{epsilon}" if epsilon else name for name, epsilon in shown)


ASKED = _asked()
"""Curves of Figure 2: a mechanism, and its epsilon where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep measures.

    Attributes
    ----------
    base : TwoTier
        What all units share.
    figures : tuple of str
        Some of `FIGURES`.
    seeds : int
        From the base's seed on.
    curves : tuple of str
        Of Figure 2.
    users, ratings : int
        Of the table, held-out ratings left out.
    every : int
        Private devices between two points of Figure 2.
    """

    base: TwoTier
    figures: tuple[str, ...]
    seeds: int
    curves: tuple[str, ...]
    users: int
    ratings: int
    every: int

    def content(self) -> dict[str, Any]:
        """Return what all units share, as JSON values."""
        return {"sweep": "two-tier", "base": self.base.model_dump(mode="json", exclude={"seed"})}

    def first(self) -> dict[Key, Unit]:
        """Return the units that need no other: Figure 1, and the settings of Figure 2."""
        found: dict[Key, Unit] = {}
        if ATTACK in self.figures:
            attacked = self._with(mechanism=NONE, epsilon=None, weight=None)
            found[Key(ATTACK, "", 0, self.base.seed)] = Unit(wanted=attacked, attacks=True)
        for seed in range(self.base.seed, self.base.seed + self.seeds):
            alone = {"mechanism": NONE, "epsilon": None, "private": 0, "weight": None, "seed": seed}
            if LEFT in self.figures:
                for norm in ("uniform", "weighted"):
                    for public in self.public_counts():
                        wanted = self._with(**alone, norm=norm, public=public, public_by="most")
                        found[Key(LEFT, norm, public, seed)] = Unit(wanted=wanted)
            if RIGHT in self.figures:
                for by in ("most", "random"):
                    for share in SHARES:
                        budget = round(share * self.ratings)
                        wanted = self._with(**alone, public_by=by)
                        found[Key(RIGHT, by, budget, seed)] = Unit(wanted=wanted, budget=budget)
            if SECOND in self.figures:
                found[Key(SETTINGS, "", 0, seed)] = Unit(wanted=self._with(**alone), settings_only=True)
        return found

    def second(self, settings: Mapping[Key, Measured]) -> dict[Key, Unit]:
        """Return Figure 2's units: every mechanism with the same rank and kappa, validated once a seed."""
        found: dict[Key, Unit] = {}
        for seed in range(self.base.seed, self.base.seed + self.seeds) if SECOND in self.figures else ():
            chosen = settings[Key(SETTINGS, "", 0, seed)]
            for curve in self.curves:
                name, epsilon = read_curve(curve)
                wanted = self._with(
                    mechanism=name, epsilon=epsilon, seed=seed, rank=chosen.rank, regularisation=chosen.kappa
                )
                found[Key(SECOND, curve, 0, seed)] = Unit(wanted=wanted, every=self.every)
        return found

    def public_counts(self) -> list[int]:
        """Return Figure 1 left's numbers of public users: doubling, and all."""
        counts, count = [], FIRST_PUBLIC
        while count < 0.75 * self.users:
            counts.append(count)
            count *= 2
        return [*counts, self.users]

    def _with(self, **changes: object) -> TwoTier:
        return self.base.model_copy(update=changes)


def read_curve(curve: str) -> tuple[str, object]:
    """Return mechanism and epsilon of ``"laplace:5"``."""
    name, mark, epsilon = curve.partition(":")
    if not mark:
        return name, None
    return name, validated(TwoTier, None, {"planted": (2, 2, 2), "mechanism": name, "epsilon": epsilon}).epsilon
