"""Clients served on Ray: voters' hosts, a host of clients, and the coordinator as actors."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

from actors.voter_host import start_clients, start_voters
from coordinator.protocol.ballots import Service
from coordinator.server.fleet.retrying import LOST, again, got
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import Served
from coordinator.server.online.service_actor import start_online_coordinator
from scenarios.cluster import MOST_ACTORS, quiet
from scenarios.online.cast import Cast, Over
from scenarios.supervising import POLL


class RayStage:
    """Actors that are ready to serve; see `scenarios.online.cast.Stage`."""

    def __init__(self, hosts: list[Any], stops: list[int], clients: Any) -> None:
        self._hosts, self._stops, self._clients = hosts, stops, clients
        self._served: list[Service] = []
        self._coordinator: Any = start_online_coordinator(hosts, stops, clients, ())
        self.actors = len(hosts)

    def serve(self, service: Service, promise: Promise, coin: bytes, over: Over) -> Served:
        """Serve one client; report rounds meanwhile. A coordinator that dies is replaced by one that starts anew.

        Its coins are the same, voters and client repeat their answers: so are the recommendations.
        """
        return again(lambda: self._serve(service, promise, coin, over), f"{service} was lost with its coordinator")

    def _serve(self, service: Service, promise: Promise, coin: bytes, over: Over) -> Served:
        if self._coordinator is None:
            earlier = tuple(self._served)
            self._coordinator = start_online_coordinator(self._hosts, self._stops, self._clients, earlier)
        try:
            running = self._coordinator.serve.remote(service, promise, coin)
            while not ray.wait([running], timeout=POLL)[0]:
                over(got(self._coordinator.progress.remote()))
            served: Served = got(running)
        except LOST:
            self.close()
            raise
        self._served.append(service)
        over(service.rounds)
        return served

    def close(self) -> None:
        """End the coordinator."""
        if self._coordinator is not None:
            ray.kill(self._coordinator)
            self._coordinator = None


@contextmanager
def stage_on_ray(cast: Cast, workers: int, ledger: Path | None = None) -> Iterator[RayStage]:
    """Start the actors of a cast; kill them at exit. Without a folder for ledgers they have one until then."""
    voters = ray.put(cast.voters)
    bounds = cast.layout.cohorts
    each = -(-len(bounds) // min(len(bounds), MOST_ACTORS))
    groups = [bounds[start : start + each] for start in range(0, len(bounds), each)]
    cpus = int(min(1.0, workers / len(groups)) * 1000) / 1000
    with tempfile.TemporaryDirectory(prefix="blindrec-ledger-") as temporary:
        folder = ledger or Path(temporary)
        with quiet():
            hosts = [start_voters(group, voters, cast.secret, cast.budget, cpus, folder) for group in groups]
            clients = start_clients(list(cast.clients))
        stage = RayStage(hosts, [group[-1][1] for group in groups], clients)
        try:
            yield stage
        finally:
            stage.close()
            for actor in (clients, *hosts):
                ray.kill(actor)
            del voters  # until here a host that is started anew can read them
