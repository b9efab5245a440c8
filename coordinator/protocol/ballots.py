"""What crosses in online recommendation: a service that voters may enter, ballots, votes, and offers to the client.

Trust model curator: the coordinator is trusted with votes; the client is the one who is curious.
"""

import hashlib
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol import checked
from coordinator.protocol.arrays import Bits2, Indices, Indices2, Words
from coordinator.protocol.budget import Epsilon, as_float, require_epsilon
from coordinator.protocol.checked import MOST_DEVICES, Checked
from coordinator.protocol.coins import as_words, digest_of
from coordinator.protocol.errors import InputError

MOST_OBJECTS = 256  # Objects of a round: a vote is one byte
MOST_ROUNDS = 1 << 31  # Rounds of a service at most: from there on lanes of a voter's stream have another purpose


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service(Checked):
    """One client's service, as the coordinator announces it to voters before the first round."""

    client: int  # Which client is served
    recommender: str  # Name of the recommender
    rounds: int  # T rounds of m objects each
    objects: int
    # What the client may learn about a voter, in all rounds together [nats]; None where nothing is proved
    epsilon: Epsilon
    # shape (T, m); Where objects are titles of a catalogue: which ones; None where they are new and have no names
    titles: Indices2 | None = field(default=None, repr=False)
    # Address of the client's own device, where it is among the voters' devices: it does not vote here
    own_device: int | None = None

    def check(self) -> None:
        """Refuse a service that is none; see `Checked.check`."""
        checked.require_whole("client", self.client, 0, MOST_DEVICES)
        checked.require_name("recommender", self.recommender)
        checked.require_whole("rounds of a service", self.rounds, 1, MOST_ROUNDS)
        checked.require_whole("objects of a round", self.objects, 1, MOST_OBJECTS)
        require_epsilon(self.epsilon)
        if self.titles is not None:
            checked.require_array(
                "titles", self.titles, np.int32, [self.rounds, self.objects], 0, np.iinfo(np.int32).max
            )
        if self.own_device is not None:
            checked.require_whole("the client's own device", self.own_device, 0, MOST_DEVICES)

    @property
    def id(self) -> bytes:
        """Sixteen bytes: digest of the content. A voter that entered a service enters it again at no cost."""
        names = ("client", "recommender", "rounds", "objects", "own_device")
        content = {name: getattr(self, name) for name in names}
        content["epsilon"] = "inf" if self.epsilon is None else str(self.epsilon)
        if self.titles is not None:
            content["titles"] = hashlib.blake2b(self.titles.astype("<i4").tobytes(), digest_size=16).hexdigest()
        return digest_of(content)

    @property
    def series(self) -> Words:
        """Two words that key voters' own coins: one a client where titles differ, else the same for all clients."""
        # A voter votes once on an object, whoever is served: its coins must not depend on the client, unless the
        # objects do. They never depend on the recommender.
        if self.titles is None:
            return np.zeros(2, np.uint64)
        content = f"client {self.client}".encode() + self.titles.astype("<i4").tobytes()
        return as_words(hashlib.blake2b(content, digest_size=16).digest())

    def __str__(self) -> str:
        return f"service of client {self.client} ({self.recommender}, epsilon {as_float(self.epsilon):g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot(Checked):
    """Rounds ``first`` to ``stop - 1`` of a service, for voters to vote in; public among voters and coordinator."""

    service: Service  # What the votes are for
    first: int  # The rounds, at least one
    stop: int

    def check(self) -> None:
        """Refuse rounds that the service has not; see `Checked.check`."""
        Service.valid(self.service)
        checked.require_whole("first round of a ballot", self.first, 0, self.service.rounds - 1)
        checked.require_whole("end of a ballot", self.stop, self.first + 1, self.service.rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes(Checked):
    """What voters answer to a ballot: one object each in every round."""

    service_id: bytes  # Which service they are for
    first: int  # First round
    electors: Indices  # shape (n,); Who votes, ascending
    votes: Bits2  # shape (rounds, n); Object that each votes for

    def check(self) -> None:
        """Refuse votes whose arrays do not fit each other; see `Checked.check`."""
        checked.require_bytes("service id", self.service_id, 16)
        checked.require_whole("first round of votes", self.first, 0, MOST_ROUNDS)
        check_electors(self.electors)
        checked.require_array("votes", self.votes, np.uint8, [None, self.electors.size])

    def require(self, ballot: Ballot, electors: Indices) -> None:
        """Raise InputError if these are not the votes of ``electors`` in all rounds of ``ballot``."""
        expected = ballot.service.id, ballot.first, ballot.stop - ballot.first
        if (self.service_id, self.first, len(self.votes)) != expected or not np.array_equal(self.electors, electors):
            raise InputError(f"votes from round {self.first} on are no answer to the ballot of {ballot.service}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(Checked):
    """A recommendation to the client, which answers whether it likes it."""

    client: int  # Whom it is for
    round: int  # The round
    recommendation: int  # The object

    def check(self) -> None:
        """Refuse what is no recommendation; see `Checked.check`."""
        checked.require_whole("client", self.client, 0, MOST_DEVICES)
        checked.require_whole("round", self.round, 0, MOST_ROUNDS - 1)
        checked.require_whole("recommended object", self.recommendation, 0, MOST_OBJECTS - 1)


def check_electors(electors: Indices, first: int = 0, stop: int = np.iinfo(np.int32).max) -> None:
    """Refuse what is no list of voters' addresses, int32, ascending, ``first`` to ``stop - 1``."""
    checked.require_array("electors", electors, np.int32, [None])
    checked.require_ascending("electors", electors, first, stop)
