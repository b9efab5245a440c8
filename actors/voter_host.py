"""The Ray edge of voters and clients: thin actors around their plain classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray

from actors.client import Client
from actors.electors import VoterCohort
from actors.keeper import Books
from actors.voters import Voters
from coordinator.protocol.arrays import Indices
from coordinator.protocol.ballots import Ballot, Service, Votes, check_electors
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError


class VoterHost:
    """The plain class behind the actor: one or several cohorts of voters.

    Parameters
    ----------
    voters, secret, budget, keeper
        As for `actors.electors.VoterCohort`. An actor that is started anew finds with the ``keeper`` which services its
        devices entered.
    bounds : list of (int, int)
        The cohorts, ``[first, stop)`` each, ascending and side by side.
    """

    def __init__(
        self,
        voters: Voters,
        secret: bytes,
        bounds: list[tuple[int, int]],
        budget: Epsilon,
        keeper: Books | None = None,
    ) -> None:
        self._cohorts = [VoterCohort(voters, secret, first, stop, budget, keeper) for first, stop in bounds]

    def enter(self, service: Service) -> Indices:
        """Let devices book a service; see `actors.electors.VoterCohort.enter`."""
        return np.concatenate([cohort.enter(service) for cohort in self._cohorts])

    def vote(self, ballot: Ballot, electors: Indices) -> Votes:
        """Return votes of this host's devices; see `actors.electors.VoterCohort.vote`.

        Raises
        ------
        InputError
            If it is no ballot, or electors are no ascending list of devices of this host.
        """
        Ballot.arrived(ballot)
        check_electors(electors, self._cohorts[0].first, self._cohorts[-1].stop)
        parts = [
            cohort.vote(ballot, electors[start:end])
            for cohort in self._cohorts
            if (start := int(np.searchsorted(electors, cohort.first)))
            < (end := int(np.searchsorted(electors, cohort.stop)))
        ]
        if len(parts) == 1:
            return parts[0]
        nobody = np.empty((ballot.stop - ballot.first, 0), np.uint8)
        return Votes(
            service_id=ballot.service.id,
            first=ballot.first,
            electors=electors,
            votes=np.concatenate([nobody, *(part.votes for part in parts)], axis=1),
        )


class ClientHost:
    """Clients' devices, by their numbers."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = {client.number: client for client in clients}

    def answer(self, client: int, round_number: int, chosen: int) -> bool:
        """Return whether a client likes what is recommended; see `actors.client.Client.answer`.

        Raises
        ------
        InputError
            If there is no such client, round or object.
        """
        if type(client) is not int or client not in self._clients:
            raise InputError("a client is asked who is not here; name one of those who are served")
        return self._clients[client].answer(round_number, chosen)


def start_voters(
    bounds: list[tuple[int, int]], voters: Any, secret: bytes, budget: Epsilon, cpus: float, keeper: Books
) -> Any:
    """Start a `VoterHost` as a Ray actor; ``voters`` is a reference, stored once for all hosts and held by the caller.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(VoterHost)
    options = actor.options(num_cpus=cpus, scheduling_strategy="SPREAD", max_restarts=-1)
    return options.remote(voters, secret, bounds, budget, keeper)


def start_clients(clients: list[Client]) -> Any:
    """Start a `ClientHost` as a Ray actor.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(ClientHost)
    return actor.options(num_cpus=0, max_restarts=-1).remote(clients)
