"""The Ray edge of the coordinator that serves clients: it asks voters' hosts and the clients' host."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import ray

from coordinator.protocol.arrays import Bits2, Indices
from coordinator.protocol.ballots import Ballot, Service, Votes
from coordinator.server.fleet.retrying import again, got
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import Served, by_coin, serve

T = TypeVar("T")


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
    earlier : sequence of Service
        What an earlier coordinator announced, in order.
    """

    def __init__(self, hosts: list[Any], stops: list[int], clients: Any, earlier: Sequence[Service] = ()) -> None:
        self._hosts, self._stops, self._clients = hosts, stops, clients
        self._announced = list(earlier)
        self._incarnations: dict[Any, bytes] = {}
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
        entered = self._again(lambda: self._enter(service, self._incarnations), f"{service} was lost")
        self._announced.append(service)
        return np.concatenate(entered)

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        """Collect votes; see `coordinator.server.online.service.Transport`."""
        ends = np.searchsorted(electors, self._stops)
        starts = np.concatenate([[0], ends[:-1]])
        asked = [part for part in zip(self._hosts, starts, ends, strict=True) if part[1] < part[2]]
        if not asked:
            return np.empty((ballot.stop - ballot.first, 0), np.uint8)

        def attempt() -> list[Votes]:
            tokens = self._incarnations
            answers = [host.vote.remote(ballot, electors[start:end], tokens[host]) for host, start, end in asked]
            votes: list[Votes] = got(answers)
            for told, (_, start, end) in zip(votes, asked, strict=True):
                Votes.arrived(told).require(ballot, electors[start:end])
            return votes

        parts = self._again(attempt, f"votes of rounds {ballot.first} to {ballot.stop - 1} were lost")
        return np.concatenate([answer.votes for answer in parts], axis=1)

    def offer(self, client: int, round_number: int, chosen: int) -> bool:
        """Recommend to the client; see `coordinator.server.online.service.Transport`."""
        lost = f"client {client} was lost in round {round_number}"
        return bool(again(lambda: got(self._clients.answer.remote(client, round_number, chosen)), lost))

    def _again(self, ask: Callable[[], T], lost: str) -> T:
        """Ask voters, again where a process died; the next one books first what its devices entered."""
        tries = itertools.count()

        def attempt() -> T:
            if next(tries) or not self._incarnations:
                self._settle()
            return ask()

        return again(attempt, lost)

    def _settle(self) -> None:
        """Let processes that are new enter all services again, in order: a budget then holds what it held before."""
        told = dict(zip(self._hosts, got([host.incarnation.remote() for host in self._hosts]), strict=True))
        strangers = {host: one for host, one in told.items() if self._incarnations.get(host) != one}
        for service in self._announced:
            self._enter(service, strangers)
        self._incarnations = told

    def _enter(self, service: Service, hosts: Mapping[Any, bytes]) -> list[Indices]:
        """Announce a service to hosts, by their tokens; return who enters."""
        shared = ray.put(service)
        entered: list[Indices] = got([host.enter.remote(shared, incarnation) for host, incarnation in hosts.items()])
        return entered


def start_online_coordinator(hosts: list[Any], stops: list[int], clients: Any, earlier: Sequence[Service]) -> Any:
    """Start an `OnlineCoordinator` as a Ray actor; its second thread tells progress.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(OnlineCoordinator)
    return actor.options(num_cpus=0, max_concurrency=2).remote(hosts, stops, clients, earlier)
