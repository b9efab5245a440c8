"""The Ray edge of the device side: one actor embodies one device, or a cohort of them, or several cohorts."""

from __future__ import annotations

import hmac
from bisect import bisect_right
from pathlib import Path
from typing import Any

import ray

from actors.absence import PRESENT, Absence
from actors.device import Cohort
from actors.incarnations import Incarnation
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
    ratings, secret, budget, ledger, absence
        As for `actors.device.Cohort`. An actor that is started anew, after its process died, finds in ``ledger`` what
        its devices have spent, if that folder is still there. Whether it is, nobody can tell: it has another
        `incarnation`, and the server reminds it of everything, or does not.
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
        ledger: Path | None = None,
        absence: Absence = PRESENT,
        own: Own | None = None,
    ) -> None:
        admit(own)
        self._secret = secret
        self._incarnation = Incarnation()
        self._firsts = [first for first, _ in bounds]
        self._cohorts = [
            Cohort(ratings, secret, first, stop, budget, ledger=ledger, absence=absence) for first, stop in bounds
        ]

    def _cohort(self, device: int) -> Cohort:
        require_whole("first device", device, 0, MOST_DEVICES)
        return self._cohorts[bisect_right(self._firsts, device) - 1]

    def warm_up(self, query: Query) -> None:
        """Compile what ``query`` will need. Nothing is answered, charged or let out."""
        self._cohorts[0].rehearse(query)

    def incarnation(self) -> bytes:
        """Return the token of this process, drawn when it started."""
        return self._incarnation.token

    def answer(self, query: Query, first: int, stop: int, incarnation: bytes) -> Release:
        """Answer for devices of one cohort; see `actors.device.Cohort.answer`.

        Raises
        ------
        ForgottenError
            If ``incarnation`` is not this process's token: it may have forgotten what its devices answered.
        InputError
            As `actors.device.Cohort.answer`.
        """
        self._incarnation.require(incarnation)
        return self._cohort(first).answer(query, first, stop)

    def recall(self, query: Query, first: int, stop: int, incarnation: bytes) -> None:
        """Book a query that devices of one cohort answered earlier, if they have not; nothing is answered.

        It is checked as `answer` checks it: what could not have been answered is not booked.

        Several are booked in the order in which they were asked, from the first: out of order, a budget would hold
        what it did not hold before.

        Raises
        ------
        ForgottenError
            As for `answer`: a process that was started anew meanwhile would begin in the middle.
        """
        self._incarnation.require(incarnation)
        self._cohort(first).recall(query, first, stop)

    def spent(self, incarnation: bytes) -> list[tuple[int, int, Epsilon]]:
        """Return what devices have spent: ``(first, stop, spent)`` of stretches that spent alike [nats].

        Raises
        ------
        ForgottenError
            As for `answer`.
        """
        self._incarnation.require(incarnation)
        return [stretch for cohort in self._cohorts for stretch in cohort.ledger.stretches()]

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
    ledger: Path | None = None,
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
    secret, budget, ledger, absence
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
    return options.remote(ratings, secret, bounds, budget, ledger, absence, own)
