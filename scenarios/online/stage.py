"""Where clients are served: in this process, or on Ray. The same voters, clients and coordinator behind both."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from actors.electors import VoterCohort
from coordinator.protocol.arrays import Bits2, Indices
from coordinator.protocol.ballots import Ballot, Service
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import Served, by_coin, serve
from scenarios.online.cast import Cast, Over, Stage
from scenarios.session import Session


@contextmanager
def set_stage(session: Session, cast: Cast, ledger: Path | None = None) -> Iterator[Stage]:
    """Bring voters and clients to where ``session`` runs; end at exit what was started for them.

    Voters book in the folder ``ledger`` what they enter; None: nothing outlives the stage.
    """
    if session.name == "ray":
        from scenarios.online.on_ray import stage_on_ray  # noqa: PLC0415 (importing Ray takes a second)

        with stage_on_ray(cast, session.workers, ledger) as stage:
            yield stage
        return
    with ThreadPoolExecutor(session.workers) as threads:
        yield InProcessStage(cast, threads, ledger)


class InProcessStage:
    """Cohorts in this process, a thread each at work."""

    actors = 0

    def __init__(self, cast: Cast, threads: ThreadPoolExecutor, ledger: Path | None) -> None:
        self._cohorts = [
            VoterCohort(cast.voters, cast.secret, first, stop, cast.budget, ledger)
            for first, stop in cast.layout.cohorts
        ]
        self._clients = {client.number: client for client in cast.clients}
        self._threads = threads

    def serve(self, service: Service, promise: Promise, coin: bytes, over: Over) -> Served:
        """Serve one client; see `Stage.serve`."""
        return serve(service, promise, self, by_coin(coin), over=over)

    def enter(self, service: Service) -> Indices:
        """Announce a service; see `coordinator.server.online.service.Transport`."""
        return np.concatenate([cohort.enter(service) for cohort in self._cohorts])

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        """Collect votes; see `coordinator.server.online.service.Transport`."""
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
        """Recommend to the client; see `coordinator.server.online.service.Transport`."""
        return self._clients[client].answer(round_number, chosen)
