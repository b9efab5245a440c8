"""Devices of the online family: voters, the compiled loops that cast votes, and the devices of clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from actors.device_block import DeviceBlock
from actors.keeper import LedgerClient
from actors.ledger import Ledger
from actors.seeds import VOTE
from coordinator.protocol.arrays import Bits, Bits2, Bools, Bools2, Floats, Indices, Indices2, Ints, Words, read_only
from coordinator.protocol.ballots import Ballot, Offer, Service, Votes, check_electors
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.checked import require_block, require_whole
from coordinator.protocol.coins import as_words
from coordinator.protocol.compiled import ZERO, compiled, int64, uint64
from coordinator.protocol.errors import BlockError, InputError, LedgerError
from coordinator.protocol.hashing import below, siphash1, siphash4
from coordinator.protocol.rating_table import Rows

OWN_ROUNDS = 1 << 31  # Lanes from here on draw the rounds in which a peer differs; below them stands a lane a round


@compiled
def vote_streams(master: Words, voters: Indices, series: Words) -> Words:
    """Return the stream of every voter's coins in one series of rounds, uint64."""
    streams = np.empty(voters.size, np.uint64)
    for voter in range(voters.size):
        twice = uint64(2) * uint64(voters[voter])
        low, high = siphash1(master[0], master[1], twice), siphash1(master[0], master[1], twice + uint64(1))
        streams[voter] = siphash4(low, high, VOTE, series[0], series[1], uint64(0))
    return streams


@compiled
def vote_at_random(streams: Words, first: int, objects: int, votes: Bits2) -> None:
    """Write a uniform vote for every voter and round; ``votes`` has shape (rounds, voters)."""
    for t in range(votes.shape[0]):
        for k in range(votes.shape[1]):
            votes[t, k] = below(streams[k], first + t, objects)


@compiled
def _draw_rounds(stream: np.uint64, rounds: int, subset: Ints) -> None:
    """Draw a uniform subset of the rounds, without replacement (Floyd's algorithm)."""
    count = subset.size
    for j in range(count):
        last = rounds - count + j
        number = below(stream, OWN_ROUNDS + j, last + 1)
        for earlier in range(j):
            if subset[earlier] == number:
                number = last
                break
        subset[j] = number


@compiled
def vote_as_peers(
    streams: Words, columns: Ints, taste: Bits, diverse: Bools, first: int, objects: int, radius: int, votes: Bits2
) -> None:
    """Overwrite the votes of a client's peers."""
    # Shapes: ``streams`` (voters,); ``taste`` (T,); ``diverse`` (T,); ``votes`` (rounds, voters).
    own_rounds = np.empty(radius, np.int64)
    for k in columns:
        for t in range(votes.shape[0]):
            step = 0
            if diverse[first + t]:
                step = below(streams[k], first + t, int64(2))
            votes[t, k] = (taste[first + t] + step) % objects
        _draw_rounds(streams[k], taste.size, own_rounds)
        for number in own_rounds:
            if first <= number < first + votes.shape[0]:
                step = 1 + below(streams[k], int(number), objects - 1)
                votes[number - first, k] = (taste[number] + step) % objects


@compiled
def vote_by_rating(
    streams: Words,
    voters: Indices,
    starts: Ints,
    items: Indices,
    values: Floats,
    titles: Indices2,
    first: int,
    votes: Bits2,
) -> None:
    """Write votes for the title that each voter rates best; its coin decides ties, and where it rated none."""
    # Shapes: ``streams`` (voters,); ``titles`` (rounds, m); ``votes`` (rounds, voters).
    best = np.empty(titles.shape[1], np.int64)
    for k in range(voters.size):
        start, stop = starts[voters[k]], starts[voters[k] + 1]
        row = items[start:stop]
        for t in range(titles.shape[0]):
            count, top = ZERO, -np.inf
            for j in range(titles.shape[1]):
                index = np.searchsorted(row, titles[t, j])
                if index < row.size and row[index] == titles[t, j]:
                    value = values[start + index]
                    if value > top:
                        count, top = ZERO, value
                    if value == top:
                        best[count] = j
                        count += 1
            if count == 0:
                votes[t, k] = below(streams[k], first + t, titles.shape[1])
            else:
                votes[t, k] = best[below(streams[k], first + t, count)]


class Voters(Protocol):
    """What a cohort of voters needs of its devices' opinions."""

    @property
    def users(self) -> int:
        """Number of devices."""
        ...

    def check(self, service: Service) -> None:
        """Refuse a service that nobody here has opinions about, because compiled code checks no bounds."""
        ...

    def cast_votes(self, master: Words, ballot: Ballot, voters: Indices) -> Bits2:
        """Return what ``voters`` vote for in the ballot's rounds, uint8, shape (rounds, voters)."""
        ...


def _require_rounds(service: Service, rounds: int) -> None:
    if service.rounds > rounds:
        raise InputError(f"{service} has {service.rounds} rounds; voters here have opinions about {rounds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedVoters:
    """Voters of the random environment: each client has peers, and all other voters vote at random.

    Source: the spec's section 8. A peer votes for an object that its client likes, fairly between two, but in
    ``radius`` rounds of its own for another object than the first liked one.
    """

    client: Indices = field(repr=False)  # The client whose taste each device shares, -1 for none; shape (N,)
    taste: Bits2 = field(repr=False)  # The object that each client likes first, shape (clients, T)
    diverse: Bools2 = field(repr=False)  # Whether it likes the next one, too; shape (clients, T)
    objects: int  # Objects of a round, m
    radius: int  # Rounds in which a peer's taste differs from its client's, R

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.client.size

    def check(self, service: Service) -> None:
        """Refuse a service with more rounds than planted, or with other objects; see `Voters.check`."""
        _require_rounds(service, self.taste.shape[1])
        if service.objects != self.objects:
            raise InputError(f"{service} has {service.objects} objects a round; voters here know {self.objects}")

    def cast_votes(self, master: Words, ballot: Ballot, voters: Indices) -> Bits2:
        """Return votes; see `Voters.cast_votes`."""
        votes = np.empty((ballot.stop - ballot.first, voters.size), np.uint8)
        streams = vote_streams(master, voters, ballot.service.series)
        vote_at_random(streams, ballot.first, self.objects, votes)
        whose = self.client[voters]
        for client in np.unique(whose[whose >= 0]):
            columns = np.flatnonzero(whose == client)
            taste, diverse = self.taste[client], self.diverse[client]
            vote_as_peers(streams, columns, taste, diverse, ballot.first, self.objects, self.radius, votes)
        return votes


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingVoters:
    """Voters with real ratings: each votes for the title that it rates best, and its own coin decides ties."""

    rows: Rows  # Titles that each voter rated, ascending, and their ratings

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.rows.users

    def check(self, service: Service) -> None:
        """Refuse a service without titles; see `Voters.check`."""
        if service.titles is None:
            raise InputError(f"{service} names no titles; voters with ratings need titles to vote on")

    def cast_votes(self, master: Words, ballot: Ballot, voters: Indices) -> Bits2:
        """Return votes; see `Voters.cast_votes`."""
        self.check(ballot.service)
        titles = ballot.service.titles
        assert titles is not None
        streams = vote_streams(master, voters, ballot.service.series)
        votes = np.empty((ballot.stop - ballot.first, voters.size), np.uint8)
        vote_by_rating(
            streams,
            voters,
            read_only(self.rows.starts),
            read_only(self.rows.items),
            read_only(self.rows.values),
            read_only(titles[ballot.first : ballot.stop]),
            ballot.first,
            votes,
        )
        return votes


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVoters:
    """Voters that vote by a table, which has a column for each group of voters that vote alike."""

    table: Bits2 = field(repr=False)  # The votes of each group, shape (T, groups)
    group: Indices = field(repr=False)  # Each device's group, which is its column; shape (N,)

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.group.size

    def check(self, service: Service) -> None:
        """Refuse a service with more rounds than the table; see `Voters.check`."""
        _require_rounds(service, self.table.shape[0])

    def cast_votes(self, master: Words, ballot: Ballot, voters: Indices) -> Bits2:  # noqa: ARG002 (no coin is needed)
        """Return votes; see `Voters.cast_votes`."""
        votes: Bits2 = self.table[ballot.first : ballot.stop][:, self.group[voters]]
        return np.ascontiguousarray(votes)


class VoterCohort(DeviceBlock):
    """A block of voters' devices of one process; each acts as if it were alone. ``budget`` in nats."""

    def __init__(
        self, voters: Voters, secret: bytes, first: int, stop: int, budget: Epsilon, keeper: LedgerClient | None = None
    ) -> None:
        # A voter's votes go to the coordinator, who is trusted. The ledger records what clients may learn from the
        # recommendations. The epsilons of several clients' services add up.
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
            raise BlockError(f"devices {first} to {stop - 1} are asked; ask all of this cohort's, and name the voters")
        if type(question) is not Ballot:
            return self.enter(question)
        if len(public) != 1:
            raise InputError(f"{len(public)} lists of voters come with a ballot; send one")
        return self.vote(question, public[0])

    def enter(self, service: Service) -> Indices:
        """Book a service; return the devices that take part, ascending."""
        # A device that has entered the service before enters again at no cost. A device stays away if its budget does
        # not cover the service, whatever its opinions are, and so does the client's own device. Therefore a service
        # that was interrupted has the same voters when it is announced again, and the client sees the same
        # recommendations.
        service = Service.arrived(service)
        self._voters.check(service)
        devices = np.arange(self.first, self.stop, dtype=np.int32)
        taking = np.ones(devices.size, np.bool_)
        for begin, end in self._others(service.own_device):
            for first, stop in self.ledger.book(service, begin, end):
                taking[first - self.first : stop - self.first] = False
        participants: Indices = devices[taking & (devices != service.own_device)]
        return participants

    def _others(self, own_device: int | None) -> list[tuple[int, int]]:
        """Return this cohort's devices except one, as ranges."""
        if own_device is None or not self.first <= own_device < self.stop:
            return [(self.first, self.stop)]
        return [(self.first, own_device), (own_device + 1, self.stop)]

    def vote(self, ballot: Ballot, voters: Indices) -> Votes:
        """Return what devices of this cohort vote for."""
        ballot = Ballot.arrived(ballot)
        self._voters.check(ballot.service)
        voters = voters.copy() if type(voters) is np.ndarray else voters  # as messages' arrays are
        check_electors(voters, self.first, self.stop)
        if not self.ledger.holds(ballot.service, voters):
            raise LedgerError(
                f"{ballot.service}: a device that should vote has not entered it, as far as its ledger says; "
                "announce the service first"
            )
        votes = self._voters.cast_votes(self._master, ballot, voters)
        return Votes(service_id=ballot.service.id, first=ballot.first, electors=voters, votes=votes)


class Client:
    """One client. Shapes: ``likes`` (T, m)."""

    def __init__(self, number: int, likes: Bools2) -> None:
        nothing = np.flatnonzero(~likes.any(axis=1))
        if nothing.size:
            raise InputError(
                f"round {nothing[0]}: client {number} likes none of {likes.shape[1]} objects (so in {nothing.size} "
                "rounds); leave such rounds out"
            )
        self.number = number
        self.likes = likes  # For the experimenter, who lets liars know it

    def answer(self, round_number: int, object_number: int) -> bool:
        """Return whether the client likes the object that is recommended."""
        rounds, objects = self.likes.shape
        require_whole("round", round_number, 0, rounds - 1)
        require_whole("recommended object", object_number, 0, objects - 1)
        return bool(self.likes[round_number, object_number])

    @property
    def random_loss(self) -> float:
        """Expected number of disliked recommendations if objects were recommended at random; for the experimenter."""
        return float((1 - self.likes.mean(axis=1)).sum())

    def __repr__(self) -> str:
        return f"Client(number={self.number}, rounds={len(self.likes)})"


class ClientCohort(DeviceBlock):
    """The devices of clients ``first`` to ``stop - 1``, who have no secrets to draw coins from and spend nothing."""

    def __init__(
        self, clients: Mapping[int, Client], _secret: bytes, first: int, stop: int, keeper: LedgerClient | None = None
    ) -> None:
        del keeper
        self.first, self.stop, self._clients = first, stop, clients

    def ask(self, question: Any, first: int, stop: int, *_: Any) -> bool:
        """Return whether a client likes what it is offered; see `Client.answer`."""
        offer = Offer.arrived(question)
        if (first, stop) != (offer.client, offer.client + 1) or offer.client not in self._clients:
            raise InputError("a client is asked who is not here; name one of those who are served")
        return self._clients[offer.client].answer(offer.round, offer.recommendation)
