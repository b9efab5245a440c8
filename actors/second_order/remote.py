"""The Ray edge of private devices: one actor embodies some cohorts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from actors.second_order.cohort import PrivateCohort
from actors.second_order.crowd import cohort_of
from actors.second_order.ratings import PrivateRatings
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease


class PrivateHost:
    """The plain class behind the actor: cohorts by their first device.

    Parameters
    ----------
    ratings : PrivateRatings
        Of all private devices; each cohort takes its own.
    secret : bytes
        The population's master secret.
    bounds : list of (int, int)
        Its cohorts, ``[first, stop)`` each.
    """

    def __init__(self, ratings: PrivateRatings, secret: bytes, bounds: list[tuple[int, int]]) -> None:
        self._cohorts: dict[int, PrivateCohort] = {one[0]: cohort_of(ratings, secret, one) for one in bounds}

    def answer(
        self, query: SecondOrderQuery, features: ItemFeatures, cohort: int, first: int, stop: int
    ) -> list[SecondOrderRelease]:
        """Answer for devices of the cohort whose first device is ``cohort``; see `PrivateCohort.answer`."""
        return self._cohorts[cohort].answer(query, features, first, stop)

    def pin(self, model: bytes, cohort: int, first: int, stop: int) -> None:
        """Let devices take an announced digest; see `PrivateCohort.pin`."""
        self._cohorts[cohort].pin(model, first, stop)


class HostedDevices:
    """Private devices behind actors; see `actors.second_order.crowd.Devices`.

    Parameters
    ----------
    ratings, secret
        As for `PrivateHost`.
    bounds : list of (int, int)
        All cohorts, ascending.
    workers : int
        Actors at most.
    """

    def __init__(self, ratings: PrivateRatings, secret: bytes, bounds: list[tuple[int, int]], workers: int) -> None:
        self._bounds, shared = bounds, ray.put(ratings)
        actor: Any = ray.remote(num_cpus=0)(PrivateHost)
        self.hosts = [actor.remote(shared, secret, bounds[k::workers]) for k in range(min(workers, len(bounds)))]

    def pin(self, model: bytes, first: int, stop: int) -> None:
        """Announce a model's digest to devices; see `actors.second_order.crowd.Devices.pin`."""
        ray.get([host.pin.remote(model, *part) for host, part in self._parts(first, stop)])

    def answer(
        self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int
    ) -> list[SecondOrderRelease]:
        """Let devices answer; see `actors.second_order.crowd.Devices.answer`."""
        model = ray.put(features)
        answers = ray.get([host.answer.remote(query, model, *part) for host, part in self._parts(first, stop)])
        return [release for answer in answers for release in answer]

    def _parts(self, first: int, stop: int) -> Iterator[tuple[Any, tuple[int, int, int]]]:
        for k, (low, high) in enumerate(self._bounds):
            if max(low, first) < min(high, stop):
                yield self.hosts[k % len(self.hosts)], (low, max(low, first), min(high, stop))


@contextmanager
def devices_on_ray(
    ratings: PrivateRatings, secret: bytes, bounds: list[tuple[int, int]], workers: int
) -> Iterator[HostedDevices]:
    """Yield `HostedDevices`; their actors end at exit."""
    devices = HostedDevices(ratings, secret, bounds, workers)
    try:
        yield devices
    finally:
        for host in devices.hosts:
            ray.kill(host)
