"""Prefixes: statistics of the first U devices for any U, each device asked as rarely as memory allows."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from functools import cache

import numpy as np

from actors.device import Cohort
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Model, Query
from coordinator.server.aggregation import aggregate, no_release
from coordinator.server.fleet.layout import cut
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.state import Ask, ServerState
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.data.block_world import settled
from scenarios.data.liked import liked_share
from scenarios.data.metrics import ClusteringScores, clustering_scores
from scenarios.data.populations import populate
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.run.popularity import top_share

BLOCK = 1 << 15
"""Devices that one call asks."""
APART = 2 ** (1 / 16)
"""Statistics on the way are kept at sizes this factor apart."""
KEEP_BYTES = 1 << 28
FEWEST_KEPT = 8


class Prefixes:
    """The first U devices of one scenario, for growing and shrinking U.

    Releases and public coins are keyed by device, so that the statistic of the first U devices is, bit for bit, that of
    a run with U users. A new U asks only the devices between the next smaller U that is kept and itself.

    Parameters
    ----------
    scenario : Scenario
        One whose policy asks everybody once; ``users`` is the most that can be asked for. With a ratings file they
        are drawn from it first, so that a smaller population is the first of these devices.
    """

    def __init__(self, scenario: Scenario) -> None:
        population = settled(populate(scenario))
        filled, self._population = population.scenario, population
        _ = RunSpec(filled).own  # one's own is checked and admitted before anybody is asked
        self.query = only_query(filled)
        secret, everybody = derive(filled.seed, "devices"), population.ratings.users
        self._cohort = Cohort(population.ratings, secret, 0, everybody, RunSpec(filled).budget)
        self._kept: dict[int, Statistic] = {0: aggregate(self.query, no_release(self.query))}
        self._sizes = [0]
        self._keep = max(FEWEST_KEPT, KEEP_BYTES // _bytes_of(self._kept[0]))
        self.scores, self.top = cache(self._scores), cache(self._top)
        self.simulated = 0

    def statistic(self, users: int) -> Statistic:
        """Return the statistic of devices 0 to ``users - 1``."""
        base = self._sizes[bisect_right(self._sizes, users) - 1]
        total, last = self._kept[base], base
        for first, stop in cut(base, users, BLOCK):
            stop_if_abandoned()
            total = merge(total, aggregate(self.query, self._cohort.answer(self.query, first, stop)))
            self.simulated += stop - first
            if stop >= math.ceil(last * APART):
                self._store(stop, total)
                last = stop
        self._store(users, total)
        return total

    def _store(self, users: int, statistic: Statistic) -> None:
        if users not in self._kept:
            self._kept[users] = statistic
            insort(self._sizes, users)
        while len(self._sizes) > self._keep:
            del self._kept[self._sizes.pop(1)]  # the smallest but nobody: the cheapest to ask again

    def _scores(self, users: int, decoder: str) -> ClusteringScores:
        """Return how right the labels are that a decoder finds from the first ``users`` devices."""
        if self._population.truth is None:
            raise ValueError("a ratings file has no truth to compare labels with")
        return clustering_scores(self._learned(users, decoder).cluster, self._population.truth)

    def _top(self, users: int, decoder: str) -> float:
        """Return the share of the list that a decoder finds which is right; see `popularity.top_share`."""
        return top_share(self._learned(users, decoder).score, liked_share(self._population, users))

    def _learned(self, users: int, decoder: str) -> Model:
        """Return the item model that a decoder finds from the first ``users`` devices."""
        stop_if_abandoned()
        learner = RunSpec(self._population.scenario.model_copy(update={"decoder": decoder})).learner
        return learned(learner, self.query, self.statistic(users), users=users)


def only_query(filled: Scenario) -> Query:
    """Return the one query of a filled-in scenario whose policy asks everybody at once.

    Raises
    ------
    ValueError
        If it does not.
    """
    start = ServerState(devices=filled.users or 0)
    ask = RunSpec(filled).policy.next_query(start)
    if ask is None or ask.stop < start.devices:
        raise ValueError(f"{filled.design} does not ask everybody at once; it has no prefixes")
    return ask.query


def learned(learner: Learner, query: Query, statistic: Statistic, *, users: int) -> Model:
    """Return the item model that a learner finds from one round with these ``users``."""
    state = learner.absorb(ServerState(devices=users), Ask(query=query, first=0, stop=users), statistic)
    return learner.learn(state)[0]


def _bytes_of(statistic: Statistic) -> int:
    names = getattr(statistic, "__dataclass_fields__", ())
    return sum(part.nbytes for name in names if isinstance(part := getattr(statistic, name), np.ndarray))
