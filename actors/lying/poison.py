"""Private devices of two tiers that poison item features: they made up one vector together, and answer about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from actors.coins import Coins
from actors.keeper import Books
from actors.lying.plot import liars_among
from actors.second_order.cohort import PrivateCohort
from actors.second_order.crowd import PrivateDevices
from coordinator.protocol.arrays import Floats, Floats2, Words
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rows import Rows

LOUD = 10.0
"""How many times as large a liar's residuals are as a public user's are on average, where a mechanism tells a size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """What liars agreed on.

    Attributes
    ----------
    share : float
        Share of the private devices that lies, 0 to 1.
    signs : ndarray of float64, shape (m,)
        The vector that all of them claim to have, in units of `LOUD` times the public h: 1 or -1 an item.
    """

    share: float
    signs: Floats = field(repr=False)


class PoisoningCohort(PrivateCohort):
    """Private devices of which those lie whom a coin of their own chooses; the local randomizer stays."""

    poison: Poison

    def _vectors(self, features: ItemFeatures, own: Rows, coins: Coins) -> Floats2:
        vectors = super()._vectors(features, own, coins)
        which = liars_among(coins, self.poison.share)
        vectors[which] = LOUD * features.common_h * self.poison.signs
        return vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Poisoners(PrivateDevices):
    """Private devices some of which lie.

    Attributes
    ----------
    poison : Poison
        What these agreed on.
    """

    poison: Poison = field(repr=False)

    def cohort(self, holdings: Rows, secret: bytes, first: int, stop: int, keeper: Books | None) -> PoisoningCohort:
        """Return devices ``first`` to ``stop - 1``."""
        found = PoisoningCohort(holdings.block(first, stop), secret, first, consent=self.consent, keeper=keeper)
        found.poison = self.poison
        return found


def poisoned(poison: Poison, master: Words, devices: int) -> int:
    """Return how many of a population's private devices lie; for the experimenter."""
    return int(liars_among(Coins(master, 0, devices, np.zeros(2, np.uint64)), poison.share).size)
