"""The Ray edge of private devices: one actor embodies some cohorts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from actors.keeper import Books, Keeper
from actors.second_order.cohort import PrivateCohort
from actors.second_order.consent import Consent
from actors.second_order.crowd import cohort_of
from actors.second_order.ratings import PrivateRatings
from coordinator.protocol.errors import BlockError
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
    consent : Consent
        What its devices take part in.
    keeper : Books or None
        Where models and answers are booked: an actor that is started anew, after its process died, finds there which
        model its devices were told of, and what they have answered. None for memory only.
    """

    def __init__(
        self,
        ratings: PrivateRatings,
        secret: bytes,
        bounds: list[tuple[int, int]],
        consent: Consent,
        keeper: Books | None = None,
    ) -> None:
        keeper = Keeper() if keeper is None else keeper
        self._cohorts = {one[0]: cohort_of(ratings, secret, one, consent, keeper) for one in bounds}

    def _cohort(self, cohort: int) -> PrivateCohort:
        if type(cohort) is not int or cohort not in self._cohorts:
            raise BlockError("a cohort of private devices is named that is not here; name its first device")
        return self._cohorts[cohort]

    def answer(
        self, query: SecondOrderQuery, features: ItemFeatures, cohort: int, first: int, stop: int
    ) -> list[SecondOrderRelease]:
        """Answer for devices of the cohort whose first device is ``cohort``; see `PrivateCohort.answer`.

        Raises
        ------
        BlockError
            If there is no such cohort.
        """
        return self._cohort(cohort).answer(query, features, first, stop)

    def pin(self, model: bytes, cohort: int, first: int, stop: int) -> None:
        """Let devices take an announced digest; see `PrivateCohort.pin`."""
        self._cohort(cohort).pin(model, first, stop)


class HostedDevices:
    """Private devices behind actors; see `actors.second_order.crowd.Devices`.

    Where an actor's process dies Ray starts it again; calls are not repeated by Ray.

    Parameters
    ----------
    ratings, secret, consent, keeper
        As for `PrivateHost`.
    bounds : list of (int, int)
        All cohorts, ascending.
    workers : int
        Actors at most.
    """

    def __init__(
        self,
        ratings: PrivateRatings,
        secret: bytes,
        bounds: list[tuple[int, int]],
        consent: Consent,
        workers: int,
        keeper: Books,
    ) -> None:
        self._bounds, self._ratings = bounds, ray.put(ratings)  # held: a host that is started anew reads them
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(PrivateHost)
        self.hosts = [
            actor.remote(self._ratings, secret, bounds[k::workers], consent, keeper)
            for k in range(min(workers, len(bounds)))
        ]

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
    ratings: PrivateRatings,
    secret: bytes,
    bounds: list[tuple[int, int]],
    consent: Consent,
    workers: int,
    keeper: Books,
) -> Iterator[HostedDevices]:
    """Yield `HostedDevices`; their actors end at exit."""
    devices = HostedDevices(ratings, secret, bounds, consent, workers, keeper)
    try:
        yield devices
    finally:
        for host in devices.hosts:
            ray.kill(host)
