"""The server's aggregation process, which adds releases up on the node where they are stored."""

from __future__ import annotations

from typing import Any

import ray

from coordinator.protocol.admitted import Own, admit
from coordinator.protocol.messages import Query, Release
from coordinator.server.aggregation import aggregate
from coordinator.server.statistics.statistic import Statistic, merge

CPUS = 0.5
"""CPUs that Ray reserves for an aggregator; each block takes a worker's time on the devices' side and here."""


class Aggregator:
    """Adds releases up and keeps nothing, so that Ray may repeat a call after a crash.

    Parameters
    ----------
    own : Own, optional
        The experimenter's own mechanism.
    """

    def __init__(self, own: Own | None = None) -> None:
        admit(own)

    def aggregate(self, query: Query, release: Release) -> Statistic:
        """Return one block's statistic."""
        return aggregate(query, release)

    def merge(self, *statistics: Statistic) -> Statistic:
        """Return the sum of statistics: one node of the reduction tree."""
        return merge(*statistics)


def start_aggregators(count: int, own: Own | None = None) -> list[Any]:
    """Start ``count`` aggregators as Ray actors, spread over the nodes; they end with the actor that started them.

    Returns
    -------
    list of ray.actor.ActorHandle
    """
    actor: Any = ray.remote(Aggregator)
    options = actor.options(num_cpus=CPUS, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")
    return [options.remote(own) for _ in range(count)]
