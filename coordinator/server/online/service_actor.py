"""The Ray edge of the coordinator that serves clients: it asks voters' hosts and the clients' host."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray

from coordinator.protocol.arrays import Bits2, Indices
from coordinator.protocol.ballots import Ballot, Service, Votes
from coordinator.server.fleet.retrying import again, got
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import Served, by_coin, serve


class OnlineCoordinator:
    """The trusted coordinator as an actor.

    Parameters
    ----------
    hosts : list of ray.actor.ActorHandle
        Voters' hosts, in the order of their addresses.
    stops : list of int
        Where each host's addresses end.
    clients : ray.actor.ActorHandle
        Answers for all clients.
    """

    def __init__(self, hosts: list[Any], stops: list[int], clients: Any) -> None:
        self._hosts, self._stops, self._clients = hosts, stops, clients
        self._rounds = 0

    def progress(self) -> int:
        """Return how many rounds of the current service are over."""
        return self._rounds

    def serve(self, service: Service, promise: Promise, coin: bytes) -> Served:
        """Serve one client; see `coordinator.server.online.service.serve`."""
        self._over(0)
        return serve(service, promise, self, by_coin(coin), over=self._over)

    def _over(self, rounds: int) -> None:
        self._rounds = rounds

    def enter(self, service: Service) -> Indices:
        """Announce a service; see `coordinator.server.online.service.Transport`."""

        def attempt() -> list[Indices]:
            shared = ray.put(service)
            entered: list[Indices] = got([host.enter.remote(shared) for host in self._hosts])
            return entered

        return np.concatenate(again(attempt, f"{service} was lost"))

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        """Collect votes; see `coordinator.server.online.service.Transport`."""
        ends = np.searchsorted(electors, self._stops)
        starts = np.concatenate([[0], ends[:-1]])
        asked = [part for part in zip(self._hosts, starts, ends, strict=True) if part[1] < part[2]]
        if not asked:
            return np.empty((ballot.stop - ballot.first, 0), np.uint8)

        def attempt() -> list[Votes]:
            votes: list[Votes] = got([host.vote.remote(ballot, electors[start:end]) for host, start, end in asked])
            for told, (_, start, end) in zip(votes, asked, strict=True):
                Votes.arrived(told).require(ballot, electors[start:end])
            return votes

        parts = again(attempt, f"votes of rounds {ballot.first} to {ballot.stop - 1} were lost")
        return np.concatenate([answer.votes for answer in parts], axis=1)

    def offer(self, client: int, round_number: int, chosen: int) -> bool:
        """Recommend to the client; see `coordinator.server.online.service.Transport`."""
        lost = f"client {client} was lost in round {round_number}"
        return bool(again(lambda: got(self._clients.answer.remote(client, round_number, chosen)), lost))


def start_online_coordinator(hosts: list[Any], stops: list[int], clients: Any) -> Any:
    """Start an `OnlineCoordinator` as a Ray actor; its second thread tells progress.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(OnlineCoordinator)
    return actor.options(num_cpus=0, max_concurrency=2).remote(hosts, stops, clients)
