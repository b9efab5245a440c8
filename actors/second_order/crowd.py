"""All private devices of a run in small cohorts, asked batch by batch; what each answers does not depend on the cut."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from actors.second_order.cohort import PrivateCohort
from actors.second_order.consent import Consent
from actors.second_order.ratings import PrivateRatings
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease

DEVICES_A_COHORT = 5
"""Devices of one cohort: fewer than a batch has, so that all workers have something to do."""


class Devices(Protocol):
    """All private devices, wherever they are."""

    def pin(self, model: bytes, first: int, stop: int) -> None:
        """Announce to devices ``first`` to ``stop - 1`` the digest of the one model that they will answer."""
        ...

    def answer(
        self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int
    ) -> list[SecondOrderRelease]:
        """Return the releases of devices ``first`` to ``stop - 1``, in order."""
        ...


class LocalDevices:
    """Private devices in this process.

    Parameters
    ----------
    ratings : PrivateRatings
    secret : bytes
        The population's master secret.
    consent : Consent
        What all of them take part in.
    workers : int
        Threads.
    folder : Path or None
        Where answers are kept beyond this process; None for memory only.
    """

    def __init__(
        self, ratings: PrivateRatings, secret: bytes, consent: Consent, workers: int = 1, folder: Path | None = None
    ) -> None:
        bounds = cohort_bounds(ratings.devices)
        self._cohorts = [cohort_of(ratings, secret, one, consent, folder) for one in bounds]
        self._workers = workers

    def pin(self, model: bytes, first: int, stop: int) -> None:
        """Announce a model's digest; see `Devices.pin`."""
        for cohort, low, high in self._parts(first, stop):
            cohort.pin(model, low, high)

    def answer(
        self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int
    ) -> list[SecondOrderRelease]:
        """Let devices answer; see `Devices.answer`."""
        parts = self._parts(first, stop)
        if self._workers == 1:
            answers = [cohort.answer(query, features, low, high) for cohort, low, high in parts]
        else:
            with ThreadPoolExecutor(self._workers) as threads:
                answers = list(threads.map(lambda part: part[0].answer(query, features, part[1], part[2]), parts))
        return [release for answer in answers for release in answer]

    def _parts(self, first: int, stop: int) -> list[tuple[PrivateCohort, int, int]]:
        return [
            (cohort, max(cohort.first, first), min(cohort.stop, stop))
            for cohort in self._cohorts
            if max(cohort.first, first) < min(cohort.stop, stop)
        ]


def cohort_of(
    ratings: PrivateRatings, secret: bytes, bounds: tuple[int, int], consent: Consent, folder: Path | None = None
) -> PrivateCohort:
    """Return the cohort of devices ``bounds[0]`` to ``bounds[1] - 1``; it keeps answers in its own part of a folder."""
    kept = None if folder is None else folder / str(bounds[0])
    return PrivateCohort(ratings.block(*bounds), secret, bounds[0], consent=consent, folder=kept)


def cohort_bounds(devices: int) -> list[tuple[int, int]]:
    """Return every cohort's devices ``[first, stop)``."""
    return [(first, min(first + DEVICES_A_COHORT, devices)) for first in range(0, devices, DEVICES_A_COHORT)]
