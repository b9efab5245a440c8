"""A row of a comparison: a trust model and a mechanism, by which the scores are learned that devices rank items by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import REPLACE, Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.item_models import floor_of
from coordinator.protocol.trust_models import CHOSEN_RELATION
from scenarios.data.datasets import RatingTable
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.worlds import FileWorld

Scorer = Callable[[Any], Floats2]
"""Takes people's own likes, a sparse matrix of shape (people, N), and returns their scores of the same shape."""
DEVICES, AGGREGATE = "devices", "aggregate"
"""Whether devices answered one by one, or the sum of their answers was drawn from its law."""


@dataclass(frozen=True, kw_only=True)
class RowRequest:
    """The request that a row answers with learned scores."""

    settings: Comparison  # The constants
    epsilon: Epsilon  # Every person's privacy budget [nats]; None for no noise
    users: int  # People who contribute
    public: float = 0  # Share of the file's people whose ratings are public; 0 outside two-tier
    seed: int  # The seed of the split and of all coins

    @property
    def delta(self) -> float:
        """Probability that a guarantee fails which holds but for that."""
        return self.settings.delta_of(self.users)

    @cached_property
    def coins(self) -> np.random.Generator:
        """The experimenter's random generator, for everything that is not random on a device."""
        purpose = f"comparison {self.epsilon} {self.users} {self.public}"
        return np.random.default_rng(int.from_bytes(derive(self.seed, purpose)))

    def ranked(self, values: Floats) -> Ints:
        """Return the indices of values, the largest first, and equal ones in a random order that all rows share.

        Their own order would not do: a file's is no accident, since old items have small numbers and many know them.
        """
        order = np.random.default_rng(int.from_bytes(derive(self.seed, "equal items"))).permutation(values.size)
        places: Ints = order[np.argsort(-values[order], kind="stable")]
        return places


class Liar(NamedTuple):
    """What devices that lie are worth."""

    likes: float  # Likes of one item that one liar is worth, at most
    share: float  # Share of liars that lifts an item that nobody likes to the tenth place


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedScores:
    """Scores that a row learned, and how devices rank items by them."""

    # shape (N,); Estimated popularity in any unit, by which items are ranked where there is no `scorer`
    popularity: Floats = field(repr=False)
    floor: float  # Smaller scores count as this one where features multiply them
    noise: float = 0.0  # Standard error of popularity; see `coordinator.protocol.item_models.damped`
    scorer: Scorer | None = None  # It computes each device's scores from its own likes
    # shape (N,); All items in the order in which equal scores are ranked; None ranks these at random
    order: Indices | None = field(default=None, repr=False)
    simulated: str | None = None  # `DEVICES` or `AGGREGATE`; None where no device answers anything
    # Items that stand before all others, which follow by popularity, and a scorer of these alone, shape (people, pool)
    before: tuple[Indices, Scorer] | None = field(default=None, repr=False)
    # Scores that no item's exceed, shape (N,), and a scorer of some items alone: most items need not be scored
    bounded: tuple[Floats, Callable[[Any, Indices], Floats2]] | None = field(default=None, repr=False)
    # The people who are evaluated; None for everybody with a like that is held out
    people: Ints | None = field(default=None, repr=False)
    # shape (people of the file, N); The matrix whose rows a scorer takes, if these are not people's likes
    holds: Any = field(default=None, repr=False)
    # Under a shuffler: the largest epsilon of a device's own report [nats], None where there is none
    epsilon_local: float | None = None
    messages: float | None = None  # Under a shuffler: messages that a device sends, on average
    constant: float | None = None  # A model's ridge, rank, number of neighbours, or kappa of lifts
    liar: Liar | None = None  # What a device that lies is worth, where that is known

    @classmethod
    def noisy(cls, popularity: Floats, noise: float, simulated: str | None = None) -> LearnedScores:
        """Return scores that are estimates of popularity alone, all with this standard error."""
        return cls(popularity=popularity, floor=floor_of(noise), noise=noise, simulated=simulated)


BY_PEOPLE, BY_PUBLIC = frozenset({"epsilon", "scale"}), frozenset({"public"})
"""Settings that many rows depend on."""


def is_promise(delta: float | None, users: int) -> bool:
    """Return whether a delta promises something to each of so many people: at one above 1 / n somebody may be shown."""
    return delta is None or delta * users <= 1


class Row:
    """A row; subclasses define `advise`."""

    trust_model: str
    mechanism: str  # Its name, without commas: lists of names have these between them
    # The settings that it depends on, among ``epsilon``, ``scale`` (of people) and ``public`` (their share)
    asks: frozenset[str] = frozenset()
    approximate: bool = False  # Whether its guarantee fails with the comparison's delta
    pure: bool = False  # Whether such a row can do without a delta, too
    featured: bool = True  # Whether it is also shown with public features

    def delta(self, settings: Comparison, users: int) -> float | None:
        """Return the probability that its guarantee to so many people fails; None where it never does."""
        return settings.delta_of(users) or None if self.approximate else None

    def neighbours(self, settings: Comparison) -> str:
        """Return which data its guarantee takes as neighbours."""
        return settings.relation if self.trust_model in CHOSEN_RELATION else REPLACE

    def offered(self, settings: Comparison) -> bool:
        """Return whether it promises anything with the comparison's delta: most of what needs one has no row for 0."""
        return self.pure or not self.approximate or settings.delta != 0

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Learn from a world the scores that devices rank items by."""
        raise NotImplementedError

    def fits(self, table: RatingTable) -> bool:  # noqa: ARG002 (rows override it)
        """Return whether the row can be computed for such a file; by default it can for any."""
        return True

    def hindrance(self, table: RatingTable) -> str:  # noqa: ARG002 (rows override it)
        """Return why a file is too large for the row, as the tables say it; empty where it is not."""
        return ""

    def reaches(self, users: int, settings: Comparison) -> bool:
        """Return whether it is measured with so many people: by default wherever its delta promises something."""
        return is_promise(self.delta(settings, users), users)

    def remarks(self, settings: Comparison) -> tuple[str, ...]:  # noqa: ARG002 (rows override it)
        """Return sentences about the row that stand below the tables; by default none."""
        return ()


@dataclass(frozen=True, slots=True)
class TabledRow(Row):
    """A row that a function learns."""

    trust_model: str
    mechanism: str
    learn: Callable[[FileWorld, RowRequest], LearnedScores]
    asks: frozenset[str] = frozenset()
    approximate: bool = False
    pure: bool = False
    featured: bool = True
    suits: Callable[[RatingTable], bool] = lambda _: True
    excess: Callable[[RatingTable], str] = lambda _: ""  # Why a file is too large

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Learn by the function."""
        return self.learn(world, request)

    def fits(self, table: RatingTable) -> bool:
        """Return whether the function can learn from such a file."""
        return self.suits(table) and not self.hindrance(table)

    def hindrance(self, table: RatingTable) -> str:
        """Return why a file is too large for the function."""
        return self.excess(table)
