"""A row of a comparison: under which trust model, by which mechanism, scores are learned that devices rank items by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.item_models import floor_of
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import FileWorld
from scenarios.data.datasets import RatingTable

Scorer = Callable[[Any], Floats2]
"""Takes people's own likes, a sparse matrix of shape (people, N), and returns their scores of the same shape."""
DEVICES, AGGREGATE = "devices", "aggregate"
"""Whether devices answered one by one, or the sum of their answers was drawn from its law."""


@dataclass(frozen=True, kw_only=True)
class RowRequest:
    """What a row is asked to measure."""

    settings: Comparison  # The constants
    epsilon: Epsilon  # Of every person [nats]; None for no noise
    users: int  # People who contribute
    public: float  # Share of the file's people whose ratings are public; 0 outside two-tier
    seed: int  # Of the split, and of all coins

    @cached_property
    def coins(self) -> np.random.Generator:
        """The experimenter's coins, for what no device tosses."""
        purpose = f"comparison {self.epsilon} {self.users} {self.public}"
        return np.random.default_rng(int.from_bytes(derive(self.seed, purpose)))

    def ranked(self, values: Floats) -> Ints:
        """Return the places of values, the largest first, and equal ones in a random order that rows share.

        Not in that of their numbers: a file's is no accident, as old items have small ones and are known to many.
        """
        order = np.random.default_rng(int.from_bytes(derive(self.seed, "equal items"))).permutation(values.size)
        places: Ints = order[np.argsort(-values[order], kind="stable")]
        return places


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedScores:
    """What was learned."""

    # shape (N,); Estimated popularity in any unit: what items are ranked by, where there is no `scorer`
    popularity: Floats = field(repr=False)
    floor: float  # Smaller scores count as this one where features multiply them
    noise: float = 0.0  # Standard error of popularity; see `coordinator.protocol.item_models.damped`
    scorer: Scorer | None = None  # Scores of each device from its own likes
    # shape (N,); All items: of equal scores the first one here is ranked higher. None: at random
    order: Indices | None = field(default=None, repr=False)
    simulated: str | None = None  # `DEVICES` or `AGGREGATE`; None where no device answers anything
    # Who is evaluated; None for everybody with a like that is held out
    people: Ints | None = field(default=None, repr=False)
    # shape (people of the file, N); What a scorer takes the rows of, if not people's likes
    holds: Any = field(default=None, repr=False)

    @classmethod
    def noisy(cls, popularity: Floats, noise: float, simulated: str | None = None) -> LearnedScores:
        """Return advice by estimates of popularity alone, all with this standard error."""
        return cls(popularity=popularity, floor=floor_of(noise), noise=noise, simulated=simulated)


class Row:
    """A row; subclasses define `advise`."""

    trust_model: ClassVar[str]  # Its name, without commas: lists of names have these between them
    mechanism: str
    order: int  # Its place in tables, within its trust model
    # What it depends on among ``epsilon``, ``scale`` (of people) and ``public`` (their share)
    asks: ClassVar[frozenset[str]] = frozenset()
    # Of a guarantee that fails with this probability; None where it never does, or where there is none
    delta: ClassVar[float | None] = None
    featured: ClassVar[bool] = True  # Whether it is also shown with public features

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Learn from a world what devices rank items by."""
        raise NotImplementedError

    def fits(self, table: RatingTable) -> bool:  # noqa: ARG002 (rows override it)
        """Return whether a file of such ratings can be computed; by default any."""
        return True

    def reaches(self, users: int, settings: Comparison) -> bool:  # noqa: ARG002 (rows override it)
        """Return whether so many people can be measured; by default any number."""
        return True

    def remarks(self, settings: Comparison) -> tuple[str, ...]:  # noqa: ARG002 (rows override it)
        """Return sentences about the row that stand below the tables; by default none."""
        return ()
