"""What crosses in online recommendation: a service that voters may enter, ballots, votes, and offers to the client.

Trust model curator: the coordinator is trusted with votes; the client is the one who is curious.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Bits2, Indices, Indices2, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.coins import as_words

MOST_OBJECTS = 256
"""Objects of a round: a vote is one byte."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service:
    """One client's service, as the coordinator announces it to voters before the first round.

    Attributes
    ----------
    client : int
        Which client is served.
    recommender : str
        Name of the recommender.
    rounds, objects : int
        T rounds of m objects each.
    epsilon : Fraction or None
        What the client may learn about a voter, in all rounds together [nats]; None where nothing is proved.
    titles : ndarray of int32, shape (T, m), or None
        Where objects are titles of a catalogue: which ones; else a round's objects are new and have no names.
    own_device : int or None
        Address of the client's own device, where it is among the voters' devices: it does not vote here.
    """

    client: int
    recommender: str
    rounds: int
    objects: int
    epsilon: Epsilon
    titles: Indices2 | None = field(default=None, repr=False)
    own_device: int | None = None

    @property
    def id(self) -> bytes:
        """Sixteen bytes: digest of the content. A voter that entered a service enters it again at no cost."""
        content = {
            "client": self.client,
            "recommender": self.recommender,
            "rounds": self.rounds,
            "objects": self.objects,
            "epsilon": "inf" if self.epsilon is None else str(self.epsilon),
            "own_device": self.own_device,
        }
        if self.titles is not None:
            content["titles"] = hashlib.blake2b(self.titles.astype("<i4").tobytes(), digest_size=16).hexdigest()
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).digest()

    @property
    def series(self) -> Words:
        """Two words that key voters' own coins: one a client where titles differ, else the same for all clients.

        A voter votes once on an object, whoever is served: its coins must not depend on the client, unless the
        objects do. They never depend on the recommender.
        """
        if self.titles is None:
            return np.zeros(2, np.uint64)
        told = f"client {self.client}".encode() + self.titles.astype("<i4").tobytes()
        return as_words(hashlib.blake2b(told, digest_size=16).digest())

    def __str__(self) -> str:
        """Return a short name for logs and errors."""
        return f"service of client {self.client} ({self.recommender}, epsilon {as_float(self.epsilon):g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """Rounds ``first`` to ``stop - 1`` of a service, for voters to vote in; public among voters and coordinator.

    Attributes
    ----------
    service : Service
        What the votes are for.
    first, stop : int
        The rounds.
    """

    service: Service
    first: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """What voters answer to a ballot: one object each in every round.

    Attributes
    ----------
    service_id : bytes
        Which service they are for.
    first : int
        First round.
    electors : ndarray of int32, shape (n,)
        Who votes, ascending.
    votes : ndarray of uint8, shape (rounds, n)
        Object that each votes for.
    """

    service_id: bytes
    first: int
    electors: Indices
    votes: Bits2
