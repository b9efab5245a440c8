"""The Ray edge of the device side: one actor embodies one device, or a cohort of them, or several cohorts."""

from __future__ import annotations

import hmac
from bisect import bisect_right
from typing import Any

import ray

from actors.absence import PRESENT, Absence
from actors.device import Cohort
from actors.keeper import Books
from actors.ratings import Ratings
from coordinator.protocol.admitted import Own, admit
from coordinator.protocol.arrays import Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.checked import MOST_DEVICES, require_whole
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import PermitError
from coordinator.protocol.messages import Model, Query, Release


class DeviceHost:
    """The plain class behind the actor: cohorts by their first device.

    Parameters
    ----------
    ratings, secret, budget, keeper, absence
        As for `actors.device.Cohort`. An actor that is started anew, after its process died, finds with the ``keeper``
        what its devices have spent, or they refuse: nothing that the server says or keeps from it changes that.
    bounds : list of (int, int)
        The cohorts, ``[first, stop)`` each, ascending.
    own : Own, optional
        The experimenter's own mechanism, which these devices answer, too.
    """

    def __init__(
        self,
        ratings: Ratings,
        secret: bytes,
        bounds: list[tuple[int, int]],
        budget: Epsilon,
        keeper: Books | None = None,
        absence: Absence = PRESENT,
        own: Own | None = None,
    ) -> None:
        admit(own)
        self._secret = secret
        self._firsts = [first for first, _ in bounds]
        self._cohorts = [
            Cohort(ratings, secret, first, stop, budget, keeper=keeper, absence=absence) for first, stop in bounds
        ]

    def _cohort(self, device: int) -> Cohort:
        require_whole("first device", device, 0, MOST_DEVICES)
        return self._cohorts[bisect_right(self._firsts, device) - 1]

    def warm_up(self, query: Query) -> None:
        """Compile what ``query`` will need. Nothing is answered, charged or let out."""
        self._cohorts[0].rehearse(query)

    def answer(self, query: Query, first: int, stop: int) -> Release:
        """Answer for devices of one cohort; see `actors.device.Cohort.answer`."""
        return self._cohort(first).answer(query, first, stop)

    def recommend(self, model: Model, first: int, stop: int, k: int, permit: bytes) -> Indices2:
        """Let devices of one cohort draw their own top ``k``; see `actors.device.Cohort.recommend`.

        Advice tells what a device rated. Only the experimenter, who knows the secret, can name the ``permit``; the
        server holds a handle of this actor, too.

        Raises
        ------
        PermitError
            If the permit is wrong.
        """
        if type(permit) is not bytes or not hmac.compare_digest(permit, advice_permit(self._secret)):
            raise PermitError("advice stays on the device; only the experimenter may look at it")
        return self._cohort(first).recommend(model, first, stop, k)


def advice_permit(secret: bytes) -> bytes:
    """Return what the experimenter shows to look at devices' advice; it follows from their master secret."""
    return derive(secret, "advice")


def start_host(
    bounds: list[tuple[int, int]],
    ratings: Any,
    secret: bytes,
    budget: Epsilon,
    cpus: float,
    keeper: Books,
    absence: Absence = PRESENT,
    own: Own | None = None,
) -> Any:
    """Start a `DeviceHost` as a Ray actor. Where its process dies Ray starts it again; calls are not repeated by Ray.

    Parameters
    ----------
    bounds : list of (int, int)
        Its cohorts.
    ratings : ray.ObjectRef of Ratings
        Stored once for all hosts; whoever starts them must hold it as long as they live.
    secret, budget, keeper, absence
        As for `actors.device.Cohort`.
    cpus : float
        CPUs that Ray sets aside for it.
    own : Own, optional
        As for `DeviceHost`.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(DeviceHost)
    options = actor.options(num_cpus=cpus, scheduling_strategy="SPREAD", max_restarts=-1)
    return options.remote(ratings, secret, bounds, budget, keeper, absence, own)
