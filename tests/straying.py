"""A policy that goes astray after some good rounds, and the devices that it asks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import worlds
from answering import Devices
from runs import present

from actors.device import Cohort
from coordinator.protocol.budget import Epsilon
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.rounds.learner import PosteriorLearner
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState

ITEMS, USERS = 20, 400
DESIGN = SignSensing(items=ITEMS, rated=5)
SETTING = Setting(design=DESIGN, epsilon=Fraction(1), public_seed=worlds.PUBLIC)
LEARNER = PosteriorLearner(clusters=2, design=DESIGN)


def devices(budget: Epsilon = Fraction(1)) -> Devices:
    """All of them; without a budget they answer for ever."""
    ratings = worlds.block_ratings(worlds.world(items=ITEMS, rated=5), USERS)
    return Devices(Cohort(ratings, worlds.SECRET, 0, USERS, budget))


@dataclass(frozen=True)
class Stray:
    """Asks well for some rounds, a hundred devices each, and then makes of a good round what ``bad`` makes of it."""

    bad: Callable[[Ask, ServerState], Any]
    good: int

    def next_query(self, state: ServerState) -> Ask | None:
        ask = present(SETTING.ask(state, users=100))
        answer: Ask | None = ask if len(state.asked) < self.good else self.bad(ask, state)
        return answer


@dataclass(frozen=True)
class AllAtOnce:
    """Asks for all answers of a device at once, under its whole budget."""

    setting: Setting

    def next_query(self, state: ServerState) -> Ask | None:
        if state.asked:
            return None
        ask = present(self.setting.ask(state, users=state.devices))
        return replace(
            ask, query=replace(ask.query, epsilon=self.setting.answers_per_device * present(ask.query.epsilon))
        )


def query(**changes: Any) -> Callable[[Ask, ServerState], Ask]:
    """Changes parts of the query, whatever their types."""
    return lambda ask, _: replace(ask, query=replace(ask.query, **changes))


def pool(*items: float, kind: Any = np.int32) -> Callable[[Ask, ServerState], Ask]:
    """Asks about these items."""
    return query(pool=np.array(items, kind))
