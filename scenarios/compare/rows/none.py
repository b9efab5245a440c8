"""No privacy: whoever learns has everybody's ratings. What advice can be worth, and what chance is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from coordinator.protocol.public_features import LEAST
from scenarios.compare.item_models import alternating, decomposed, ease, neighbours
from scenarios.compare.row import Advised, Asked, Row, Scorer
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import World
from scenarios.data.datasets import RatingTable

MOST = 20_000
"""A matrix of so many rows can be inverted."""


class Chance(Row):
    """A random list of each person."""

    trust_model, mechanism, order = "none", "chance", 10
    featured = False

    def advise(self, world: World, asked: Asked) -> Advised:
        """Score items at random."""
        return Advised(popularity=np.ones(world.items), floor=1.0, scorer=lambda own: asked.coins.random(own.shape))


class Popularity(Row):
    """What most people like."""

    trust_model, mechanism, order = "none", "popularity", 20

    def advise(self, world: World, asked: Asked) -> Advised:  # noqa: ARG002 (no coins)
        """Count likes."""
        return Advised(popularity=world.popularity, floor=0.5)


@dataclass(frozen=True, slots=True)
class Fitted(Row):
    """A model of items that is fitted to all likes.

    Attributes
    ----------
    fit : callable
        Takes the likes and the constants.
    inverts : bool
        Whether a matrix as large as people or items is inverted.
    """

    mechanism: str
    order: int
    fit: Callable[[Any, Comparison], Scorer]
    inverts: bool = False

    trust_model: ClassVar[str] = "none"

    def advise(self, world: World, asked: Asked) -> Advised:
        """Fit the model."""
        return Advised(popularity=world.popularity, floor=LEAST, scorer=self.fit(world.matrix, asked.wanted))

    def fits(self, table: RatingTable) -> bool:
        """Return whether a matrix that is inverted is small enough."""
        return not self.inverts or min(table.users, table.count) <= MOST


MODELS = (
    Fitted("item kNN", 30, lambda likes, told: neighbours(likes, told.neighbours)),
    Fitted("SVD", 40, lambda likes, told: decomposed(likes, told.rank)),
    Fitted("EASE", 50, lambda likes, told: ease(likes, told.ridge), inverts=True),
)
CHECK = Fitted("ALS", 60, lambda likes, told: alternating(likes, told.rank, 1.0))
"""A library's model, which is no part of blindrec: only where its package is installed."""
ROWS = (Chance(), Popularity(), *MODELS, *([CHECK] if find_spec("implicit") else []))
