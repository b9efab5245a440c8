"""Voters' devices: they take part in a client's service if their budget covers its privacy loss, and cast votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.embodied import Embodied
from actors.keeper import Books
from actors.ledger import Ledger
from actors.voters import Voters
from coordinator.protocol.arrays import Indices
from coordinator.protocol.ballots import Ballot, Service, Votes, check_electors
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.checked import require_block, require_whole
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import BlockError, InputError, LedgerError


class VoterCohort(Embodied):
    """A block of voters' devices in one place; each acts as if it were alone.

    ``budget`` in nats.

    A voter's votes go to the coordinator, who is trusted. The ledger books what clients may learn from the
    recommendations. The epsilons of several clients' services add up.
    """

    def __init__(
        self, voters: Voters, secret: bytes, first: int, stop: int, budget: Epsilon, keeper: Books | None = None
    ) -> None:
        if not 0 <= first <= stop <= voters.users:
            raise BlockError(f"devices {first} to {stop - 1} are not all among the {voters.users} voters")
        self.first, self.stop = first, stop
        self.ledger = Ledger(first, stop, budget, keeper)
        self._voters = voters
        self._master = as_words(secret)

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Indices | Votes:
        """Let devices enter a service, or vote on a ballot; see `enter` and `vote`."""
        require_block(first, stop, self.first, self.stop)
        if (first, stop) != (self.first, self.stop):
            raise BlockError(f"devices {first} to {stop - 1} are asked; ask all of this cohort's, and name electors")
        if type(question) is not Ballot:
            return self.enter(question)
        if len(public) != 1:
            raise InputError(f"{len(public)} lists of electors come with a ballot; send one")
        return self.vote(question, public[0])

    def enter(self, service: Service) -> Indices:
        """Book a service; return the devices that take part, ascending.

        A device that has entered the service before enters again at no cost. A device stays away if its budget does not
        cover the service, whatever its opinions are, and so does the client's own device. Therefore a service that was
        interrupted has the same voters when it is announced again, and the client sees the same recommendations.
        """
        service = Service.arrived(service)
        self._voters.check(service)
        found = np.arange(self.first, self.stop, dtype=np.int32)
        taking = np.ones(found.size, np.bool_)
        for start, end in self._others(service.own_device):
            for low, high in self.ledger.book(service, start, end):
                taking[low - self.first : high - self.first] = False
        others: Indices = found[taking & (found != service.own_device)]
        return others

    def spent(self, device: int) -> Epsilon:
        """Return what clients may have learned about a voter [nats]; None if a recommender had no proved bound."""
        return self.ledger.spent(require_whole("device", device, self.first, self.stop - 1))

    def _others(self, own: int | None) -> list[tuple[int, int]]:
        """Return this cohort's devices except one, as stretches."""
        if own is None or not self.first <= own < self.stop:
            return [(self.first, self.stop)]
        return [(self.first, own), (own + 1, self.stop)]

    def vote(self, ballot: Ballot, electors: Indices) -> Votes:
        """Return what devices of this cohort vote for."""
        ballot = Ballot.arrived(ballot)
        self._voters.check(ballot.service)
        electors = electors.copy() if type(electors) is np.ndarray else electors  # as messages' arrays are
        check_electors(electors, self.first, self.stop)
        if not self.ledger.holds(ballot.service, electors):
            raise LedgerError(
                f"{ballot.service}: a device that is asked for a vote has not entered it, as far as its ledger tells; "
                "announce the service first"
            )
        return Votes(
            service_id=ballot.service.id,
            first=ballot.first,
            electors=electors,
            votes=self._voters.cast(self._master, ballot, electors),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VotingDevices:
    """Devices that vote; see `actors.embodied.Kind`."""

    budget: Epsilon  # What all clients together may learn of each [nats]

    def cohort(self, holdings: Voters, secret: bytes, first: int, stop: int, keeper: Books | None) -> VoterCohort:
        """Return devices ``first`` to ``stop - 1``."""
        return VoterCohort(holdings, secret, first, stop, self.budget, keeper)
