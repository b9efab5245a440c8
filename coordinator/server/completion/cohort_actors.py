"""The Ray edge of completion: actors that hold cohorts of public users, asked all at once, again where one died."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.server.completion.cohorts import cohort_of, cut_users
from coordinator.server.fleet.retrying import again

UNREACHABLE = "public users' cohorts cannot be reached"


class PublicHost:
    """The plain class behind the actor: some cohorts, in order.

    Parameters
    ----------
    starts, items, values, count
        As for `coordinator.server.completion.cohorts.PublicCohort`, of all public users.
    bounds : list of (int, int)
        Its cohorts, ``[first, stop)`` each.
    """

    def __init__(self, starts: Ints, items: Indices, values: Floats, count: int, bounds: list[tuple[int, int]]) -> None:
        self._cohorts = [cohort_of(starts, items, values, count, one) for one in bounds]

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every cohort; return the answers in order."""
        return [getattr(cohort, method)(*arguments) for cohort in self._cohorts]


class RayCrowd:
    """All public users behind actors; see `coordinator.server.completion.cohorts.Crowd`.

    Parameters
    ----------
    starts, items, values, count
        As for `coordinator.server.completion.cohorts.PublicCohort`, of all public users.
    workers : int
        Actors at most.
    """

    def __init__(self, starts: Ints, items: Indices, values: Floats, count: int, workers: int) -> None:
        self.items, self.users, self.ratings = count, int(starts.size) - 1, int(items.size)
        bounds = cut_users(starts)
        each = -(-len(bounds) // workers)
        self._ratings = [ray.put(array) for array in (starts, items, values)]  # held: a host started anew reads them
        self._expected: list[Any] = []
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(PublicHost)
        self.hosts = [
            actor.remote(*self._ratings, count, bounds[first : first + each]) for first in range(0, len(bounds), each)
        ]

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every cohort; see `coordinator.server.completion.cohorts.Crowd.ask`."""
        shared, tries = [ray.put(argument) for argument in arguments], itertools.count()
        if method == "expect":
            self._expected = shared

        def attempt() -> list[Any]:
            if next(tries) and self._expected:
                self._call("expect", self._expected)  # a host started anew knows nothing of the E-step
            return self._call(method, shared)

        return again(attempt, UNREACHABLE)

    def _call(self, method: str, shared: list[Any]) -> list[Any]:
        answers = ray.get([host.ask.remote(method, *shared) for host in self.hosts])
        return [one for answer in answers for one in answer]


@contextmanager
def crowd_on_ray(starts: Ints, items: Indices, values: Floats, count: int, workers: int) -> Iterator[RayCrowd]:
    """Yield a `RayCrowd`; its actors end at exit."""
    crowd = RayCrowd(starts, items, values, count, workers)
    try:
        yield crowd
    finally:
        for host in crowd.hosts:
            ray.kill(host)
