"""Nobody is trusted: every device answers one question under its whole epsilon, as in `blindrec run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Ints
from coordinator.protocol.messages import Model
from coordinator.protocol.own import Mechanism
from coordinator.protocol.public_features import typical_error
from coordinator.server.rounds.state import ServerState
from coordinator.server.server_half import GROUPS
from scenarios.compare import laws
from scenarios.compare.row import AGGREGATE, DEVICES, Advised, Asked, Row
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import World
from scenarios.data.block_world import settle
from scenarios.data.populations import Population
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.places.in_process import InProcess
from scenarios.run.experiment import run


def people_of(world: World, asked: Asked) -> Ints:
    """Return the person behind each device: everybody once, or people drawn at random if more or fewer are asked."""
    if asked.users == world.people:
        return np.arange(world.people)
    return asked.coins.integers(world.people, size=asked.users)


@dataclass(frozen=True, slots=True)
class Local(Row):
    """A mechanism of `blindrec run` that ranks items by its estimates, not by their clusters.

    Attributes
    ----------
    design : str or Mechanism
        The mechanism's name there, or a user's own.
    settings : callable
        Its settings from the comparison's public constants and the number of items.
    law : callable or None
        Draws the sum of so many answers; see `scenarios.compare.laws`. None: devices answer, or nobody.
    """

    mechanism: str
    order: int
    design: str | Mechanism
    law: laws.Law | None
    settings: Callable[[Comparison, int], Mapping[str, Any]] = lambda *_: {}

    trust_model: ClassVar[str] = "local"
    asks: ClassVar[frozenset[str]] = frozenset({"epsilon", "scale"})

    def reaches(self, users: int, wanted: Comparison) -> bool:
        """Return whether there is a law to draw from, where so many people are too many to answer one by one."""
        return self.law is not None or users <= wanted.devices

    def scenario_of(self, items: int, asked: Asked) -> Scenario:
        """Return what `blindrec run` would be told; of the file it knows how many items there are."""
        one = Scenario(
            design=self.design,
            ratings=asked.wanted.ratings,
            users=asked.users,
            rated=min(asked.wanted.likes, items),
            epsilon="inf" if asked.epsilon is None else asked.epsilon,
            seed=asked.seed,
            **self.settings(asked.wanted, items),
        )
        return one.complete(items=items)

    def advise(self, world: World, asked: Asked) -> Advised:
        """Let devices answer, or draw the sum of their answers; rank items by what that tells."""
        few = asked.users <= asked.wanted.devices
        model = self.answered(world, asked) if few else self.drawn(world, asked)
        return Advised.noisy(model.score, typical_error(model.error), DEVICES if few else AGGREGATE)

    def answered(self, world: World, asked: Asked, user: Ints | None = None) -> Model:
        """Return the model that is learned from devices: through rounds, the ledger and everybody's own coins.

        ``user`` holds the person behind each device; by default `people_of`.
        """
        user = people_of(world, asked) if user is None else user
        train = world.fold.train
        scenario = self.scenario_of(world.items, asked)
        if scenario.policy == GROUPS:
            user = asked.coins.permutation(user)
        ratings = StoredRatings(rows=train, user=user.astype(np.int32), rated_public=scenario.settings.rated_public)
        population = Population(
            scenario=scenario,
            ratings=ratings,
            truth=None,
            split=None,
            item_labels=np.array([""] * world.items, dtype=np.object_),
            copies_max=int(np.bincount(user).max()),
        )
        return run(scenario, InProcess(1), population=population).outcome.model

    def drawn(self, world: World, asked: Asked) -> Model:
        """Return the model that is learned from sums that were drawn from their laws, round by round."""
        spec = RunSpec(settle(self.scenario_of(world.items, asked)))
        policy, learner, state = spec.policy, spec.learner, ServerState(devices=asked.users)
        assert self.law is not None  # no unit asks for it otherwise
        while (ask := policy.next_query(state)) is not None:
            statistic = self.law(ask.query, world.fold, ask.stop - ask.first, asked.coins)
            state = learner.absorb(state, ask, statistic)
        return learner.learn(state)[0]


def set_sizes(told: Comparison, items: int) -> Mapping[str, Any]:
    """Return the size of sets, or how many devices tell it first."""
    return {"counted_group": told.counted} if told.counted else {"padded": min(told.likes, items)}


SET = Local("set", 40, "set", laws.set_counts, set_sizes)
SIGN = Local("sign", 20, "sign", laws.sign_agreements)
ROWS = (
    Local("subset", 10, "subset", laws.subset_counts),
    SIGN,
    Local("MaxSense", 30, "maxsense", laws.sensed_scores, lambda told, _: {"theta": told.sensed}),
    SET,
)
