"""Whole runs at every number of users, where they are asked in groups whose sizes depend on that number."""

from __future__ import annotations

from functools import cache

from scenarios.data.liked import liked_share
from scenarios.data.metrics import ClusteringScores, clustering_scores
from scenarios.given.config import Scenario
from scenarios.places.in_process import InProcess
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.run.experiment import run
from scenarios.run.job import Result
from scenarios.run.popularity import top_share


class Reruns:
    """What `scenarios.sweep.prefixes.Prefixes` tells, by a run for each number of users; nothing is asked twice.

    Parameters
    ----------
    scenario : Scenario
        Its ``users`` do not matter.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.scores, self.top = cache(self._scores), cache(self._top)
        self.simulated = 0

    def _scores(self, users: int, decoder: str) -> ClusteringScores:
        """Return how right the labels are that a decoder finds from so many users."""
        ran = self._ran(users, decoder)
        if ran.population.truth is None:
            raise ValueError("a ratings file has no truth to compare labels with")
        return clustering_scores(ran.outcome.model.cluster, ran.population.truth)

    def _top(self, users: int, decoder: str) -> float:
        """Return the share of the list that a decoder finds which is right; see `popularity.top_share`."""
        ran = self._ran(users, decoder)
        return top_share(ran.outcome.model.score, liked_share(ran.population))

    def _ran(self, users: int, decoder: str) -> Result:
        stop_if_abandoned()
        self.simulated += users
        return run(self._scenario.model_copy(update={"users": users, "decoder": decoder}), InProcess(1))
