"""The Ray edge of the server: the coordinator actor, its fan-out to devices, and aggregation where releases lie."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from coordinator.layout import Layout, cut
from coordinator.protocol.messages import Release
from coordinator.rounds import Learner, Outcome, conduct
from coordinator.server import Ask, Policy
from coordinator.statistics import ScoreStatistic, aggregate

WINDOW = 3
"""Blocks in flight for each worker: enough to keep both sides busy, few enough to keep memory flat."""
FAN_IN = 8
"""Statistics that one merging task adds up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohorts:
    """Addresses of the devices: which actor to call for which stretch.

    Attributes
    ----------
    bounds : list of (int, int)
        The cohorts, ``[first, stop)`` each, ascending.
    hosts : list of ray.actor.ActorHandle
        One a cohort; a host may stand behind several.
    """

    bounds: list[tuple[int, int]]
    hosts: list[Any]


def merge(*statistics: ScoreStatistic) -> ScoreStatistic:
    """Return the sum of statistics: one node of the reduction tree."""
    first, *others = statistics
    return sum(others, start=first)


def _share(cpus: float) -> tuple[Any, Any]:
    """Return the server side's tasks, aggregate and merge, as Ray tasks that set ``cpus`` aside."""
    remote = ray.remote(num_cpus=cpus)
    return remote(aggregate), remote(merge)


class Coordinator:
    """The untrusted server as an actor: it conducts the rounds, and tells how far they are.

    Parameters
    ----------
    policy : Policy
        Which query comes next.
    learner : Learner
        How statistics become a model.
    cohorts : Cohorts
        Whom to ask.
    layout : Layout
        Number of devices, workers, and devices a call.
    """

    def __init__(self, policy: Policy, learner: Learner, cohorts: Cohorts, layout: Layout) -> None:
        self._policy, self._learner, self._cohorts, self._layout = policy, learner, cohorts, layout
        self._aggregate, self._merge = _share(0.5)
        self._answers = 0

    def progress(self) -> int:
        """Return how many answers have been aggregated so far, over all rounds."""
        return self._answers

    def run(self) -> tuple[Outcome, float]:
        """Conduct the rounds; return the outcome and its seconds, from the first question to the decoded model."""
        start = time.perf_counter()
        outcome = conduct(self._policy, self._learner, self, devices=self._layout.devices)
        return outcome, time.perf_counter() - start

    def ask(self, ask: Ask) -> tuple[ScoreStatistic, Sequence[Release]]:
        """Ask every device of ``ask``; see `coordinator.rounds.Transport`."""
        query = ray.put(ask.query)
        waiting = self._blocks(ask)
        releases: list[Release] = []
        partial: deque[Any] = deque()
        flying: dict[Any, Any] = {}
        while True:
            while len(flying) < WINDOW * self._layout.workers and (block := next(waiting, None)):
                host, first, stop = block
                answer = host.answer.remote(query, first, stop)
                flying[self._aggregate.remote(query, answer)] = answer
            if not flying:
                break
            (done, *_), _ = ray.wait(list(flying), num_returns=1)
            release: Release = ray.get(flying.pop(done))
            releases.append(release)
            partial.append(done)
            self._answers += release.count
            self._reduce(partial)
        return self._total(partial), releases

    def _blocks(self, ask: Ask) -> Iterator[tuple[Any, int, int]]:
        """Yield (host, first, stop) of every call, cohorts in turn, so that all hosts work from the start."""
        calls = [
            deque((host, a, b) for a, b in cut(max(first, ask.first), min(stop, ask.stop), self._layout.block))
            for (first, stop), host in zip(self._cohorts.bounds, self._cohorts.hosts, strict=True)
        ]
        while calls := [queue for queue in calls if queue]:
            for queue in calls:
                yield queue.popleft()

    def _reduce(self, partial: deque[Any]) -> None:
        if len(partial) >= FAN_IN:
            partial.append(self._merge.remote(*[partial.popleft() for _ in range(FAN_IN)]))

    def _total(self, partial: deque[Any]) -> ScoreStatistic:
        while len(partial) > 1:
            partial.append(self._merge.remote(*[partial.popleft() for _ in range(min(FAN_IN, len(partial)))]))
        statistic: ScoreStatistic = ray.get(partial.popleft())
        return statistic


def start_coordinator(policy: Policy, learner: Learner, cohorts: Cohorts, layout: Layout) -> Any:
    """Start a `Coordinator` as a Ray actor; its second thread answers `Coordinator.progress` while rounds run.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(num_cpus=0, max_concurrency=2)(Coordinator)
    return actor.remote(policy, learner, cohorts, layout)
