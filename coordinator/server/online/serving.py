"""Clients are served one after the other, and each service is a round of the conductor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Bits2, Indices
from coordinator.protocol.ballots import Ballot, Offer, Service, Votes, check_electors
from coordinator.protocol.budget import as_float
from coordinator.protocol.checked import require_truth
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import Served, by_coin, serve
from coordinator.server.rounds.conductor import Block, Fleet
from coordinator.server.rounds.tally import RunProgress

VOTERS, CLIENTS = "voters", "clients"
"""Kinds of devices that a fleet must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlan:
    """The plan of one client's service."""

    service: Service  # The service as voters see it
    promise: Promise  # The public facts that the recommender gets
    coin: bytes  # The coordinator's own, sixteen bytes that the client does not know


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedClient:
    """A client who was served."""

    number: int  # Its place among the clients, from 0
    service: bytes  # Digest of the service that voters entered
    served: Served
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """The clients to serve, in this order; see `coordinator.server.rounds.conductor.ServerSpec`."""

    clients: tuple[ClientPlan, ...]
    voters: int  # Addresses of voters lie below this

    @property
    def own(self) -> None:
        """No custom mechanism."""
        return

    @property
    def in_step(self) -> bool:
        """False, because who takes part follows from the voters' book, and they repeat their votes."""
        return False

    def rehearsal(self) -> Query | None:
        """Return None, because voters are asked services instead of queries."""
        return None

    def begin(self, fleet: Fleet) -> Serving:
        """Return the learning in its state before the first service."""
        return Serving(self, fleet)


class Serving:
    """Serves client after client; see `coordinator.server.rounds.conductor.ServerProcess`."""

    def __init__(self, plan: ServingPlan, fleet: Fleet) -> None:
        self._plan, self._fleet = plan, fleet
        self._line = Line(fleet, plan.voters)
        self._served: list[ServedClient] = []
        self._votes, self._spent = 0, np.zeros(plan.voters)

    def run_round(self) -> ServedClient | None:
        """Serve the next client."""
        if (number := len(self._served)) == len(self._plan.clients):
            return None
        client, start = self._plan.clients[number], time.perf_counter()
        served = serve(client.service, client.promise, self._line, by_coin(client.coin), over=self._counted())
        over = ServedClient(
            number=number, service=client.service.id, served=served, seconds=time.perf_counter() - start
        )
        self._take(over)
        return over

    def _take(self, over: ServedClient) -> None:
        """Take in a client who was served."""
        service, electors = self._plan.clients[over.number].service, over.served.electors
        self._spent[electors] += as_float(service.epsilon)
        self._votes += service.rounds * electors.size
        self._served.append(over)

    def _counted(self) -> Callable[[int], None]:
        """Return a callback that takes the number of finished rounds and counts the new ones."""
        before = 0

        def over(rounds: int) -> None:
            nonlocal before
            self._fleet.report_progress(rounds - before)
            before = rounds

        return over

    def replay(self, over: ServedClient) -> None:
        """Take in a client who was served before an interruption."""
        service = self._plan.clients[over.number].service
        if (over.number, over.service) != (len(self._served), service.id):
            raise InputError(
                f"client {over.number} is kept as served by another service than {service}, which it would get here: "
                "it was computed by other code, or on another kind of processor; go on there, or start in a new folder"
            )
        self._take(over)
        self._fleet.report_progress(service.rounds)

    def outcome(self) -> list[ServedClient]:
        """Return all clients in order."""
        return self._served

    def progress(self) -> RunProgress:
        """Return how far the clients have come; answers are votes."""
        return RunProgress(
            rounds=len(self._served),
            planned=len(self._plan.clients),
            answers=self._votes,
            refused=None,
            epsilon=float(self._spent.max(initial=0.0)),
        )


class Line:
    """How a service reaches voters and the client; see `coordinator.server.online.service.Transport`."""

    def __init__(self, fleet: Fleet, voters: int) -> None:
        self._voters, self._clients, self._count = fleet.hosts(VOTERS), fleet.hosts(CLIENTS), voters

    def enter(self, service: Service) -> Indices:
        """Announce a service; see `coordinator.server.online.service.Transport`."""
        return np.concatenate(self._voters.ask(service, self._voters.blocks(0, self._count), _check_entered))

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        """Collect votes; see `coordinator.server.online.service.Transport`."""
        blocks = []
        for block in self._voters.blocks(0, self._count):
            own = electors[slice(*np.searchsorted(electors, (block.first, block.stop)))]
            if own.size:
                blocks.append(block._replace(public=(own,)))
        if not blocks:
            return np.empty((ballot.stop - ballot.first, 0), np.uint8)

        def check(block: Block, votes: Votes) -> None:
            Votes.valid(votes).require(ballot, *block.public)

        return np.concatenate([answer.votes for answer in self._voters.ask(ballot, blocks, check)], axis=1)

    def offer(self, client: int, round_number: int, recommendation: int) -> bool:
        """Recommend to the client; see `coordinator.server.online.service.Transport`."""
        offer = Offer(client=client, round=round_number, recommendation=recommendation)
        (liked,) = self._clients.ask(offer, self._clients.blocks(client, client + 1), _check_liked)
        return bool(liked)


def _check_entered(block: Block, electors: Indices) -> None:
    check_electors(electors, block.first, block.stop)


def _check_liked(_: Block, liked: bool) -> None:
    require_truth("what a client answers", liked)
