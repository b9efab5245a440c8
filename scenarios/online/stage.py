"""Where clients are served: in this process, or on Ray. The same voters, clients and coordinator behind both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from actors.client import Client
from actors.electors import VoterCohort
from actors.voters import Voters
from coordinator.layout import Layout
from coordinator.online.recommenders import Promise
from coordinator.online.service import Served, by_coin, serve
from coordinator.protocol.arrays import Bits2, Indices
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.budget import Epsilon
from scenarios.session import Session

Over = Callable[[int], None]
"""Told how many rounds of a service are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who takes part: the private side of an online run, and where it lives.

    Attributes
    ----------
    voters : Voters
        Private: goes to voters' devices only.
    secret : bytes
        Private: their master secret.
    clients : sequence of Client
        Private: each knows what it likes.
    budget : Fraction or None
        What all clients together may learn of each voter [nats].
    layout : Layout
        Speed only.
    """

    voters: Voters = field(repr=False)
    secret: bytes = field(repr=False)
    clients: Sequence[Client]
    budget: Epsilon
    layout: Layout


class Stage(Protocol):
    """A place that is ready to serve clients, one after the other."""

    @property
    def actors(self) -> int:
        """Ray actors that embody voters; 0 in process."""
        ...

    def serve(self, service: Service, promise: Promise, coin: bytes, over: Over) -> Served:
        """Serve one client; ``coin`` is the coordinator's own."""
        ...


@contextmanager
def set_stage(session: Session, cast: Cast) -> Iterator[Stage]:
    """Bring voters and clients to where ``session`` runs; end at exit what was started for them."""
    if session.name == "ray":
        from scenarios.online.on_ray import stage_on_ray  # noqa: PLC0415 (importing Ray takes a second)

        with stage_on_ray(cast, session.workers) as stage:
            yield stage
        return
    with ThreadPoolExecutor(session.workers) as threads:
        yield InProcessStage(cast, threads)


class InProcessStage:
    """Cohorts in this process, a thread each at work."""

    actors = 0

    def __init__(self, cast: Cast, threads: ThreadPoolExecutor) -> None:
        self._cohorts = [
            VoterCohort(cast.voters, cast.secret, first, stop, cast.budget) for first, stop in cast.layout.cohorts
        ]
        self._clients = {client.number: client for client in cast.clients}
        self._threads = threads

    def serve(self, service: Service, promise: Promise, coin: bytes, over: Over) -> Served:
        """Serve one client; see `Stage.serve`."""
        return serve(service, promise, self, by_coin(coin), over=over)

    def enter(self, service: Service) -> Indices:
        """Announce a service; see `coordinator.online.service.Transport`."""
        return np.concatenate([cohort.enter(service) for cohort in self._cohorts])

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        """Collect votes; see `coordinator.online.service.Transport`."""
        ends = np.searchsorted(electors, [cohort.stop for cohort in self._cohorts])
        starts = np.concatenate([[0], ends[:-1]])
        asked = [
            (cohort, electors[start:end])
            for cohort, start, end in zip(self._cohorts, starts, ends, strict=True)
            if start < end
        ]
        if len(asked) == 1:
            return asked[0][0].vote(ballot, electors).votes
        parts = [answer.votes for answer in self._threads.map(lambda one: one[0].vote(ballot, one[1]), asked)]
        return np.concatenate(parts, axis=1) if parts else np.empty((ballot.stop - ballot.first, 0), np.uint8)

    def offer(self, client: int, round_number: int, chosen: int) -> bool:
        """Recommend to the client; see `coordinator.online.service.Transport`."""
        return self._clients[client].answer(round_number, chosen)
