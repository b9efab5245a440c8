"""Clients served on Ray: voters' hosts, a host of clients, and the coordinator as actors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from actors.online_remote import start_clients, start_voters
from coordinator.online.recommenders import Promise
from coordinator.online.remote import start_online_coordinator
from coordinator.online.service import Served
from coordinator.protocol.ballots import Service
from scenarios.cluster import MOST_ACTORS
from scenarios.conducting import POLL
from scenarios.online.stage import Cast, Over


class RayStage:
    """Actors that are ready to serve; see `scenarios.online.stage.Stage`."""

    def __init__(self, coordinator: Any, actors: int) -> None:
        self._coordinator, self.actors = coordinator, actors

    def serve(self, service: Service, promise: Promise, coin: bytes, over: Over) -> Served:
        """Serve one client; report rounds meanwhile."""
        running = self._coordinator.serve.remote(service, promise, coin)
        while not ray.wait([running], timeout=POLL)[0]:
            over(ray.get(self._coordinator.progress.remote()))
        served: Served = ray.get(running)
        over(service.rounds)
        return served


@contextmanager
def stage_on_ray(cast: Cast, workers: int) -> Iterator[RayStage]:
    """Start the actors of a cast; kill them at exit."""
    voters = ray.put(cast.voters)
    bounds = cast.layout.cohorts
    each = -(-len(bounds) // min(len(bounds), MOST_ACTORS))
    groups = [bounds[start : start + each] for start in range(0, len(bounds), each)]
    cpus = int(min(1.0, workers / len(groups)) * 1000) / 1000
    hosts = [start_voters(group, voters, cast.secret, cast.budget, cpus) for group in groups]
    clients = start_clients(list(cast.clients))
    coordinator = start_online_coordinator(hosts, [group[-1][1] for group in groups], clients)
    try:
        yield RayStage(coordinator, len(hosts))
    finally:
        for actor in (coordinator, clients, *hosts):
            ray.kill(actor)
