"""The server's aggregation process, which adds releases up on the node where they are stored."""

from __future__ import annotations

from typing import Any

import ray

from coordinator.protocol.admitted import Own, admit
from coordinator.protocol.checked import MOST_DEVICES, require_whole
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.questions import check_question
from coordinator.server.aggregation import aggregate, no_release, require_answer
from coordinator.server.rounds.transcript import Sealed, seal
from coordinator.server.statistics.statistic import Statistic, merge

CPUS = 0.5
"""CPUs that Ray reserves for an aggregator; each block takes a worker's time on the devices' side and here."""


def alone(workers: int, own: Own | None) -> bool:
    """Return whether the coordinator adds releases up itself, because a process more would cost more than it saves.

    A mechanism of one's own adds up in a process that holds no handle of a device.
    """
    return workers == 1 and own is None


class Aggregator:
    """Adds releases up and keeps nothing, so that Ray may repeat a call after a crash.

    Parameters
    ----------
    own : Own, optional
        The experimenter's own mechanism.
    """

    def __init__(self, own: Own | None = None) -> None:
        admit(own)

    def warm_up(self, query: Query) -> None:
        """Compile what releases to a query will need."""
        aggregate(query, no_release(query))

    def aggregate(self, query: Query, release: Release, first: int, stop: int) -> tuple[Statistic, Release | Sealed]:
        """Return the statistic of the release of devices ``first`` to ``stop - 1``, and what digests it.

        Raises
        ------
        InputError
            If it is no answer of these devices to the query.
        """
        check_question(query)
        require_whole("first device", first, 0, MOST_DEVICES)
        require_whole("end of the devices", stop, first, MOST_DEVICES)
        try:
            require_answer(query, release, first, stop)
        except InputError as error:
            raise InputError(f"devices {first} to {stop - 1} sent what is no answer: {error}") from None
        return aggregate(query, release), seal(release)

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
