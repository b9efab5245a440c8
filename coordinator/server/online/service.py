"""One client's service round by round, with the record of its voters; and clients, each a round of the conductor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from coordinator.protocol.arrays import Bits, Bits2, Bools, Floats, Indices, Ints
from coordinator.protocol.ballots import Ballot, Offer, Service, Votes, check_electors
from coordinator.protocol.budget import as_float
from coordinator.protocol.checked import require_array, require_bool
from coordinator.protocol.coins import as_words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import draw
from coordinator.protocol.messages import Query
from coordinator.server.online.recommenders import (
    NO_LIMIT,
    NamedRecommender,
    PublicFacts,
    Recommender,
    Rule,
    recommender_of,
)
from coordinator.server.rounds.conductor import Block, Fleet
from coordinator.server.rounds.state import RunProgress


@compiled
def tally(votes: Bits, rows: Indices, weight: Floats, sums: Floats) -> int:
    """Sum survivors' weights by the object, of m, that they vote for; return the first without such a vote, or -1."""
    sums[:] = 0.0
    for k in range(rows.size):
        vote = votes[rows[k]]
        if vote >= sums.size:
            return k
        sums[vote] += weight[k]
    return -1


@compiled
def strike(
    votes: Bits,
    rows: Indices,
    number: Indices,
    weight: Floats,
    first: Indices,
    second: Indices,
    recommendation: int,
    liked: bool,
    rule: Indices,
) -> int:
    """Give survivors their strikes and close the ranks of those that survive them; return how many these are."""
    survivors = 0
    for k in range(rows.size):
        voter = number[k]
        agrees = votes[rows[k]] == recommendation
        if liked and not agrees:
            first[voter] += 1
        elif agrees and not liked:
            second[voter] += 1
        a, b = np.int64(first[voter]), np.int64(second[voter])
        if b <= rule[0] and a <= rule[1] and a + b <= rule[2]:
            rows[survivors], number[survivors], weight[survivors] = rows[k], voter, weight[k]
            survivors += 1
    return survivors


@compiled
def expose(votes: Bits, rows: Indices, number: Indices, ratios: Floats, exposure: Floats) -> None:
    """Add to every survivor's exposure the log-likelihood ratio that its vote makes in this round."""
    for k in range(rows.size):
        exposure[number[k]] += ratios[votes[rows[k]]]


class Electorate:
    """Voters of one service, numbered 0 to n - 1 in the order of their addresses."""

    def __init__(self, voters: int, rule: Rule, addresses: Indices | None = None) -> None:
        # Shapes: ``first_strikes``, ``second_strikes``: shape (n,); D-strikes ``a`` and R-strikes ``b``, frozen when a
        # voter is kicked out; ``exposure``: shape (n,); ``ln Pr[recommendations so far] - ln Pr'[...]``, where Pr' is
        # the same service without this voter [nats].
        self._address = np.arange(voters, dtype=np.int32) if addresses is None else addresses
        self.first_strikes = np.zeros(voters, np.int32)
        self.second_strikes = np.zeros(voters, np.int32)
        self.exposure = np.zeros(voters)
        self._rule = np.array(rule, np.int32)
        self._kicks = min(rule) < NO_LIMIT
        self._number = np.arange(voters, dtype=np.int32)
        self._rows = self._number.copy()
        self._weight = np.ones(voters)

    @property
    def survivors(self) -> Indices:
        """Voters that survive, ascending; int32."""
        return self._number

    @property
    def alive(self) -> Bools:
        """Which voters survive, bool, shape (n,)."""
        survivors = np.zeros(self.exposure.size, np.bool_)
        survivors[self._number] = True
        return survivors

    def seat(self) -> None:
        """Note that the next votes come in the order of the present survivors."""
        self._rows = np.arange(self._number.size, dtype=np.int32)

    def sums(self, votes: Bits, objects: int, round_number: int) -> Floats:
        """Return survivors' votes, by weight, for each of ``objects``."""
        totals = np.empty(objects)
        wrong = tally(votes, self._rows, self._weight, totals)
        if wrong >= 0:
            raise InputError(
                f"round {round_number}: voter {self._address[self._number[wrong]]} votes for object "
                f"{votes[self._rows[wrong]]}, which is none of {objects}; a vote is one number from 0 to {objects - 1}"
            )
        return totals

    def expose(self, votes: Bits, ratios: Floats) -> None:
        """Add this round's log-likelihood ratio of a voter missing, by the object it votes for, to all exposures."""
        expose(votes, self._rows, self._number, ratios, self.exposure)

    def learn(self, votes: Bits, recommendation: int, factors: tuple[float, float], *, liked: bool) -> None:
        """Take in the client's answer."""
        if factors != (1.0, 1.0):
            self._weight *= np.where(votes[self._rows] == recommendation, *factors)
        if self._kicks:
            ranks, strikes = (self._rows, self._number, self._weight), (self.first_strikes, self.second_strikes)
            survivors = strike(votes, *ranks, *strikes, recommendation, liked, self._rule)
            self._rows, self._number = self._rows[:survivors], self._number[:survivors]
            self._weight = self._weight[:survivors]


MOST_VOTES = 1 << 22
"""Most votes that one ballot asks for; early ballots have few rounds and many voters, later ones the reverse."""
MOST_ROUNDS = 512  # Most rounds of one ballot
_UNIT = 2.0**-53


class ServiceTransport(Protocol):
    """How the coordinator reaches voters and the client."""

    def enter(self, service: Service) -> Indices:
        """Announce a service; return the addresses of the voters that take part, int32, ascending."""

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        """Return the votes of ``electors`` (addresses, ascending), uint8, shape (rounds, electors)."""

    def offer(self, client: int, round_number: int, recommendation: int) -> bool:
        """Recommend an object to the client; return whether it likes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The record of a service, which the trusted coordinator keeps; the client sees only ``chosen``."""

    chosen: Bits  # shape (T,); The recommendations
    liked: Bools  # shape (T,); The client's answers
    electors: Indices = field(repr=False)  # Addresses of the voters that took part, ascending
    survivors: Ints  # shape (T,); Voters alive before each round
    log_likelihood: float  # ``ln Pr[chosen]`` [nats]
    # shape (electors,); Each elector's privacy loss: ``ln Pr[chosen] - ln Pr[chosen without this voter]`` [nats]. NaN
    # if weights differ, because it is not computed then
    exposure: Floats = field(repr=False)
    alive: Bools = field(repr=False)  # shape (electors,)
    first_strikes: Indices = field(repr=False)  # shape (electors,); D-strikes and R-strikes
    second_strikes: Indices = field(repr=False)

    @property
    def loss(self) -> int:
        """Number of disliked recommendations."""
        return int(self.liked.size - np.count_nonzero(self.liked))


Pick = Callable[[int, Floats], int]  # Returns the recommended object for a round and its probabilities


def by_coin(coin: bytes) -> Pick:
    """Return a function that draws by the coordinator's own coins; drawing a round again gives the same object."""
    key = as_words(coin)
    stream = key[0] ^ key[1]

    def pick(round_number: int, chances: Floats) -> int:
        point = float(draw(stream, np.uint64(round_number)) >> np.uint64(11)) * _UNIT
        return min(int(np.searchsorted(np.cumsum(chances), point, side="right")), chances.size - 1)

    return pick


def by_sequence(sequence: Bits) -> Pick:
    """Return a function that follows a given sequence, whose likelihood is then computed."""
    return lambda round_number, _: int(sequence[round_number])


def serve(
    service: Service,
    facts: PublicFacts,
    transport: ServiceTransport,
    pick: Pick,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Served:
    """Serve one client: ask voters by ballots, recommend, give strikes; ``on_progress`` gets a ballot's rounds."""
    named = recommender_of(service.recommender)
    electors = transport.enter(service)
    check_electors(electors)
    if electors.size < facts.voters:
        electors = electors[:0]  # see PublicFacts.voters
    course = _Course(named, facts, electors)
    first = 0
    while first < service.rounds:
        alive = course.electorate.survivors
        fit = MOST_VOTES // max(alive.size, 1)
        stop = min(first + min(max(fit, 1), MOST_ROUNDS), service.rounds)
        votes = transport.vote(Ballot(service=service, first=first, stop=stop), electors[alive])
        if require_array("votes", votes, np.uint8, None).shape != (stop - first, alive.size):
            raise InputError(f"votes of rounds {first} to {stop - 1} have shape {votes.shape}; {alive.size} were asked")
        course.electorate.seat()
        for number in range(first, stop):
            row = votes[number - first]
            recommendation = course.recommend(row, service.objects, number, pick)
            # Strikes are given even if the recommendation came from the hidden uniform coin: otherwise the likelihood
            # of a sequence would not be the product of equation (2).
            course.learn(row, recommendation, liked=transport.offer(service.client, number, recommendation))
        on_progress(stop - first)
        first = stop
    return course.served(electors)


class _Course:
    """The state of one service."""

    def __init__(self, named: NamedRecommender, facts: PublicFacts, electors: Indices) -> None:
        self._recommender, self._weighted = named.build(facts), named.weighted
        self.electorate = Electorate(electors.size, named.limits(facts.diversity, facts.radius), electors)
        self._recommendations, self._liked, self._survivors = list[int](), list[bool](), list[int]()
        self._log_likelihood = 0.0
        self._sums = np.empty(0)

    def recommend(self, votes: Bits, objects: int, round_number: int, pick: Pick) -> int:
        """Return the object that is recommended."""
        self._survivors.append(self.electorate.survivors.size)
        self._sums = self.electorate.sums(votes, objects, round_number)
        chances = self._recommender.chances(self._sums)
        recommendation = pick(round_number, chances)
        self._log_likelihood += _ln(chances[recommendation])
        if not self._weighted:
            self.electorate.expose(votes, missing_ratios(self._recommender, self._sums, chances, recommendation))
        return recommendation

    def learn(self, votes: Bits, recommendation: int, *, liked: bool) -> None:
        """Take in the client's answer."""
        factors = self._recommender.factors(self._sums, recommendation, liked=liked)
        self.electorate.learn(votes, recommendation, factors, liked=liked)
        self._recommendations.append(recommendation)
        self._liked.append(liked)

    def served(self, electors: Indices) -> Served:
        """Return the record of the service."""
        return Served(
            chosen=np.array(self._recommendations, np.uint8),
            liked=np.array(self._liked, np.bool_),
            electors=electors,
            survivors=np.array(self._survivors, np.int64),
            log_likelihood=self._log_likelihood,
            exposure=self.electorate.exposure * (np.nan if self._weighted else 1.0),
            alive=self.electorate.alive,
            first_strikes=self.electorate.first_strikes,
            second_strikes=self.electorate.second_strikes,
        )


def missing_ratios(recommender: Recommender, sums: Floats, chances: Floats, recommendation: int) -> Floats:
    """Return how much a round's log-likelihood changes without one voter, by the object that it votes for."""
    ratios = np.zeros(sums.size)
    for vote in np.flatnonzero(sums >= 1):
        fewer = sums.copy()
        fewer[vote] -= 1
        ratios[vote] = _ln(chances[recommendation]) - _ln(recommender.chances(fewer)[recommendation])
    return ratios


def _ln(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


VOTERS, CLIENTS = "voters", "clients"  # Kinds of devices that a fleet must have


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlan:
    """The plan of one client's service."""

    service: Service  # The service as voters see it
    facts: PublicFacts  # The public facts that the recommender gets
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

    custom: ClassVar[None] = None  # No custom mechanism
    agreement: ClassVar[None] = None  # about queries alone
    in_step: ClassVar[bool] = False  # who takes part follows from the voters' book, and they repeat their votes

    clients: tuple[ClientPlan, ...]
    voters: int  # Addresses of voters lie below this

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
        client, start, report = self._plan.clients[number], time.perf_counter(), self._fleet.report_progress
        served = serve(client.service, client.facts, self._line, by_coin(client.coin), on_progress=report)
        record = ServedClient(
            number=number, service=client.service.id, served=served, seconds=time.perf_counter() - start
        )
        self._take(record)
        return record

    def _take(self, record: ServedClient) -> None:
        """Take in a client who was served."""
        service, electors = self._plan.clients[record.number].service, record.served.electors
        self._spent[electors] += as_float(service.epsilon)
        self._votes += service.rounds * electors.size
        self._served.append(record)

    def replay(self, record: ServedClient) -> None:
        """Take in a client who was served before an interruption."""
        service = self._plan.clients[record.number].service
        if (record.number, record.service) != (len(self._served), service.id):
            raise InputError(
                f"client {record.number} is kept as served by another service than {service}, which it would get here: "
                "it was computed by other code, or on another kind of processor; go on there, or start in a new folder"
            )
        self._take(record)
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
    """How a service reaches voters and the client; see `ServiceTransport`."""

    def __init__(self, fleet: Fleet, voters: int) -> None:
        self._voters, self._clients, self._count = fleet.hosts(VOTERS), fleet.hosts(CLIENTS), voters

    def enter(self, service: Service) -> Indices:
        """Announce a service; see `ServiceTransport`."""

        def check(block: Block, electors: Indices) -> None:
            check_electors(electors, block.first, block.stop)

        return np.concatenate(self._voters.ask(service, self._voters.blocks(0, self._count), check))

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        """Collect votes; see `ServiceTransport`."""
        blocks = []
        for block in self._voters.blocks(0, self._count):
            electors_here = electors[slice(*np.searchsorted(electors, (block.first, block.stop)))]
            if electors_here.size:
                blocks.append(block._replace(public=(electors_here,)))
        if not blocks:
            return np.empty((ballot.stop - ballot.first, 0), np.uint8)

        def check(block: Block, votes: Votes) -> None:
            Votes.valid(votes).require(ballot, *block.public)

        return np.concatenate([answer.votes for answer in self._voters.ask(ballot, blocks, check)], axis=1)

    def offer(self, client: int, round_number: int, recommendation: int) -> bool:
        """Recommend to the client; see `ServiceTransport`."""
        offer = Offer(client=client, round=round_number, recommendation=recommendation)
        (liked,) = self._clients.ask(offer, self._clients.blocks(client, client + 1), _check_liked)
        return bool(liked)


def _check_liked(_: Block, liked: bool) -> None:
    require_bool("what a client answers", liked)
