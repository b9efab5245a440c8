"""Small worlds that histories disturb, and what happens there where nothing does."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from actors.device import Cohort
from actors.keeper import Keeper
from actors.ratings import BlockRatings
from coordinator.protocol.arrays import Bits2, Bools
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Query, Release
from coordinator.server.aggregation import aggregate
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.rounds.query_rounds import Learner, Outcome, conduct
from coordinator.server.rounds.state import Ask, ServerState
from coordinator.server.server_half import POSTERIOR
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.config import Scenario

USERS, ITEMS = 24, 8
SECRET, PUBLIC = derive(0, "faults"), derive(1, "faults")
SIGN = SignSensing(items=ITEMS, rated=3)
LEARNER = Learner(clusters=2, decoder=POSTERIOR, design=SIGN)
RATINGS = BlockRatings(
    users=USERS,
    rated_items=3,
    like=np.array([[0.9, 0.2]]),
    class_shares=np.array([1.0]),
    clusters=np.arange(ITEMS, dtype=np.int32) % 2,
)
SCENARIO = Scenario.model_validate({"items": ITEMS, "rated": 3, "users": USERS, "design": "sign"})
"""Whom a folder belongs to; what is asked there is the world's."""
HALF, MOST = Fraction(1, 2), Fraction(3, 4)


@dataclass(frozen=True)
class World:
    """What is asked of whom, and where they live.

    Attributes
    ----------
    rounds : tuple of (Fraction, int, int)
        Epsilon, the first device and the one after the last.
    budget : Fraction
        What a device may spend in all.
    each, block, window : int
        Devices of a cohort and of a call, and calls in flight.
    """

    rounds: tuple[tuple[Fraction, int, int], ...]
    budget: Epsilon
    each: int
    block: int
    window: int

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round; see `coordinator.server.rounds.state.Policy`."""
        if (number := len(state.asked)) == len(self.rounds):
            return None
        epsilon, first, stop = self.rounds[number]
        return Ask(query=asked(number, epsilon), first=first, stop=stop)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The cohorts."""
        return [(first, min(first + self.each, USERS)) for first in range(0, USERS, self.each)]

    def blocks(self, ask: Ask) -> list[tuple[int, int, int]]:
        """Return whom a round asks, a call each: the cohort's place, its first device and the one after the last."""
        return [
            (place, max(first, ask.first), min(first + self.block, stop, ask.stop))
            for place, (begin, stop) in enumerate(self.bounds)
            for first in range(begin, stop, self.block)
            if max(first, ask.first) < min(first + self.block, stop, ask.stop)
        ]


WORLDS = (
    World(((HALF, 0, 24), (HALF, 0, 24)), Fraction(1), each=12, block=12, window=2),
    World(((MOST, 0, 24), (MOST, 4, 24), (HALF, 0, 18)), Fraction(3, 2), each=8, block=8, window=2),
    World(((MOST, 0, 24), (HALF, 3, 20), (MOST, 0, 24), (HALF, 0, 24)), Fraction(5, 4), each=6, block=6, window=3),
    World(((HALF, 0, 16), (MOST, 8, 24), (HALF, 0, 24)), Fraction(1), each=8, block=4, window=4),
)
"""Some whose budgets hold all rounds, some whose do not."""


@cache
def asked(number: int, epsilon: Fraction) -> Query:
    """Return the query of a round."""
    return SIGN.query(round_number=number, public_seed=PUBLIC, epsilon=epsilon)


@cache
def truth(query: Query) -> Bits2:
    """Return the bits that every device says to a query whenever it says anything, shape (devices, bits)."""
    return Cohort(RATINGS, SECRET, 0, USERS, None).answer(query, 0, USERS).unpacked()


@dataclass(frozen=True)
class Undisturbed:
    """How a world's run ends if nothing happens, and who answers in each round, by query id."""

    outcome: Outcome
    answered: dict[bytes, Bools]


class _Straight:
    """Carries questions to devices that are always there."""

    def __init__(self, world: World) -> None:
        keeper, self.world = Keeper(), world
        self._cohorts = [Cohort(RATINGS, SECRET, *one, world.budget, keeper=keeper) for one in world.bounds]
        self.answered: dict[bytes, Bools] = {}

    def ask(self, ask: Ask) -> tuple[Statistic, list[Release]]:
        """Ask all of them."""
        releases = [
            self._cohorts[place].answer(ask.query, first, stop) for place, first, stop in self.world.blocks(ask)
        ]
        self.answered[ask.query.id] = np.concatenate([release.answered_mask() for release in releases])
        return merge(*(aggregate(ask.query, release) for release in releases)), releases


@cache
def undisturbed(world: World) -> Undisturbed:
    """Return how a world's run ends if nothing happens."""
    straight = _Straight(world)
    outcome = conduct(world, LEARNER, straight, devices=USERS, budget=world.budget)
    return Undisturbed(outcome, straight.answered)
