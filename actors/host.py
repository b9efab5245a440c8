"""The Ray edge of the device side: one actor embodies one device, or a cohort of them, or several cohorts."""

from __future__ import annotations

import hmac
from bisect import bisect_right
from typing import Any

import ray

from actors.embodied import Embodied, Kind
from actors.keeper import Books
from coordinator.protocol.admitted import Own, admit
from coordinator.protocol.checked import MOST_DEVICES, require_block, require_whole
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import PermitError
from coordinator.protocol.messages import Query


class DeviceHost:
    """The plain class behind the actor: cohorts by their first device.

    Parameters
    ----------
    kind : Kind
        Which devices these are.
    holdings, secret, keeper
        As for `actors.embodied.Kind.cohort`. An actor that is started anew, after its process died, finds with the
        ``keeper`` what its devices have booked, or they refuse: nothing that the server says or keeps from it changes
        that.
    bounds : list of (int, int)
        The cohorts, ``[first, stop)`` each, ascending.
    own : Own, optional
        The experimenter's own mechanism, which these devices answer, too.
    """

    def __init__(
        self,
        kind: Kind,
        holdings: Any,
        secret: bytes,
        bounds: list[tuple[int, int]],
        keeper: Books | None = None,
        own: Own | None = None,
    ) -> None:
        admit(own)
        self._secret = secret
        self._firsts = [first for first, _ in bounds]
        self.cohorts = [kind.cohort(holdings, secret, first, stop, keeper) for first, stop in bounds]

    def _cohort(self, device: int) -> Embodied:
        require_whole("first device", device, 0, MOST_DEVICES)
        return self.cohorts[bisect_right(self._firsts, device) - 1]

    def _cohort_of(self, first: int, stop: int) -> Embodied:
        """Return the cohort that devices ``first`` to ``stop - 1`` are all of; refuse where there is none."""
        cohort = self._cohort(first)
        require_block(first, stop, cohort.first, cohort.stop)
        return cohort

    def warm_up(self, question: Query | None) -> None:
        """Compile what a question will need, if there is one. Nothing is answered, charged or let out."""
        if question is not None:
            self.cohorts[0].rehearse(question)

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Any:
        """Answer for devices of one cohort; see `actors.embodied.Embodied.ask`.

        Raises
        ------
        BlockError
            If these are no devices of one cohort here.
        """
        return self._cohort_of(first, stop).ask(question, first, stop, *public)

    def spent(self, device: int) -> Any:
        """Return what a device has spent; see `actors.embodied.Embodied.spent`."""
        return self._cohort(device).spent(device)

    def see(self, permit: bytes, question: Any, first: int, stop: int) -> Any:
        """Let the experimenter look at devices of one cohort; see `actors.embodied.Embodied.see`.

        What is seen may tell what a device rated. Only the experimenter, who knows the secret, can name the
        ``permit``; the server holds a handle of this actor, too.

        Raises
        ------
        PermitError
            If the permit is wrong.
        """
        if type(permit) is not bytes or not hmac.compare_digest(permit, permit_of(self._secret)):
            raise PermitError("what devices hold stays there; only the experimenter may look at it")
        return self._cohort_of(first, stop).see(question, first, stop)


def permit_of(secret: bytes) -> bytes:
    """Return what the experimenter shows to look at devices; it follows from their master secret."""
    return derive(secret, "advice")


def start_host(
    kind: Kind,
    holdings: Any,
    secret: bytes,
    bounds: list[tuple[int, int]],
    keeper: Books,
    own: Own | None = None,
    *,
    cpus: float,
) -> Any:
    """Start a `DeviceHost` as a Ray actor. Where its process dies Ray starts it again; calls are not repeated by Ray.

    Parameters
    ----------
    kind, secret, bounds, keeper, own
        As for `DeviceHost`.
    holdings : object or ray.ObjectRef
        A reference is stored once for all hosts; whoever starts them must hold it as long as they live.
    cpus : float
        CPUs that Ray sets aside for it.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(DeviceHost)
    options = actor.options(num_cpus=cpus, scheduling_strategy="SPREAD", max_restarts=-1)
    return options.remote(kind, holdings, secret, bounds, keeper, own)
