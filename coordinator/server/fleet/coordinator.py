"""The untrusted server as an actor: it conducts what a plan says, and reaches devices and its own processes by Ray."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import ray

from coordinator.protocol.admitted import Own, admit
from coordinator.protocol.messages import Query
from coordinator.server.decoding.line import kmeans_on_line
from coordinator.server.fleet.carrying import RayHosts
from coordinator.server.fleet.cohorts import Cohorts, side_by_side
from coordinator.server.fleet.layout import Layout
from coordinator.server.fleet.querying import WINDOW, Querying
from coordinator.server.rounds.conductor import Conductor, Plan

MOST_HELD, HELD_PAUSE = 16, 0.005
"""Rounds that wait to be kept at most, and the seconds after which the coordinator looks again."""


class RayFleet:
    """All that a server reaches on Ray; see `coordinator.server.rounds.conductor.Fleet`.

    Parameters
    ----------
    devices : dict
        Who stands behind which addresses, by the name of their kind in the run.
    layout : Layout
        Workers, and devices a call.
    """

    def __init__(self, devices: Mapping[str, Cohorts], layout: Layout) -> None:
        self._devices, self._layout = devices, layout
        self._querying: Querying | None = None
        self._held: list[Any] = []
        self.progress = self.retries = 0

    def hosts(self, kind: str) -> RayHosts:
        """Return the devices of a kind."""
        return RayHosts(self._devices[kind], WINDOW * self._layout.workers, self._retried)

    def queries(self, own: Own | None) -> Querying:
        """Start the aggregators of queries; return what carries these to devices."""
        (cohorts,) = self._devices.values()
        self._querying = Querying(cohorts, self._layout, own, more=self.more, retried=self._retried)
        return self._querying

    def spread(self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> RayHosts:
        """Start actors that hold cohorts of the server's own; they end with the coordinator."""
        held = [ray.put(one) for one in shared]
        self._held += held  # a host that is started anew reads them
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(host)
        parts = side_by_side(bounds, self._layout.workers)
        hosts = [actor.remote(*held, part) for part in parts]
        cohorts = Cohorts(bounds=[(part[0][0], part[-1][1]) for part in parts], hosts=hosts)
        return RayHosts(cohorts, len(hosts), self._retried)

    def more(self, count: int) -> None:
        """Count what is in; see `Coordinator.progress`."""
        self.progress += count

    def warm_up(self, query: Query) -> None:
        """Start and compile what a query will need."""
        if self._querying is not None:
            self._querying.warm_up(query)
            kmeans_on_line(np.arange(4.0), 2)

    def _retried(self, count: int) -> None:
        self.retries += count


class Coordinator:
    """The plain class behind the actor.

    Parameters
    ----------
    plan : Plan
        What is learned.
    devices : dict
        Who stands behind which addresses, by kind.
    layout : Layout
        Workers, and devices a call.
    """

    def __init__(self, plan: Plan[Any, Any], devices: Mapping[str, Cohorts], layout: Layout) -> None:
        admit(plan.own)
        self._fleet = RayFleet(devices, layout)
        self._conductor = Conductor(plan.begin(self._fleet))
        self._rounds: deque[Any] = deque()
        self._most_held = 0 if plan.in_step else MOST_HELD
        self._fetched = 0

    def warm_up(self, query: Query) -> None:
        """Start the server's processes and compile what ``query`` will need, before the clock runs."""
        self._fleet.warm_up(query)

    def progress(self) -> int:
        """Return how many answers, devices or rounds are in so far."""
        return self._fleet.progress

    def retries(self) -> int:
        """Return how many blocks were asked again, or rounds begun anew, since a process or a node died."""
        return self._fleet.retries

    def run(self) -> tuple[Any, float]:
        """Conduct the rounds; return the outcome and its seconds, from the first question on."""
        start = time.perf_counter()
        outcome = self._conductor.run(self._keep)
        return outcome, time.perf_counter() - start

    def repeat(self, over: Any) -> None:
        """Go over a round that an earlier coordinator conducted; before `run`, in order."""
        self._conductor.repeat(over)

    def _keep(self, over: Any) -> None:
        """Hold a round until it is kept; wait where whoever keeps them lags behind, or the plan goes on in step."""
        self._rounds.append(over)
        while len(self._rounds) > self._most_held:
            time.sleep(HELD_PAUSE)

    def new_rounds(self, since: int) -> list[Any]:
        """Return the rounds that are over, for whoever keeps them; the first ``since`` ones are kept, and dropped."""
        while self._fetched < since:
            self._rounds.popleft()
            self._fetched += 1
        return list(self._rounds)


def start_coordinator(plan: Plan[Any, Any], devices: Mapping[str, Cohorts], layout: Layout) -> Any:
    """Start a `Coordinator` as a Ray actor; its second thread answers `Coordinator.progress` while rounds run.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(Coordinator)
    return actor.options(num_cpus=0, max_concurrency=2).remote(plan, devices, layout)
