"""Services of voters and of a client whose votes and likes are written down."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Bits2, Bools2, Indices
from coordinator.protocol.ballots import Ballot, Service
from coordinator.server.online.recommenders import Promise
from coordinator.server.online.service import Pick, Served, by_sequence, serve

Rows = Sequence[Sequence[int]]


class Written:
    """Voters and a client whose votes and likes are written down; ``addresses`` are the voters that take part."""

    def __init__(self, votes: Rows, likes: Rows, addresses: Sequence[int] | None = None) -> None:
        self.votes: Bits2 = np.array(votes, np.uint8).reshape(len(votes), -1)
        self.likes: Bools2 = np.array(likes, np.bool_)
        self.addresses = np.array(range(self.votes.shape[1]) if addresses is None else addresses, np.int32)
        self.ballots: list[tuple[int, int, list[int]]] = []

    def enter(self, service: Service) -> Indices:  # noqa: ARG002 (a protocol)
        return self.addresses

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        self.ballots.append((ballot.first, ballot.stop, electors.tolist()))
        return self.votes[ballot.first : ballot.stop][:, np.searchsorted(self.addresses, electors)]

    def offer(self, client: int, round_number: int, chosen: int) -> bool:  # noqa: ARG002 (a protocol)
        return bool(self.likes[round_number, chosen])


def liking(objects: int, *liked: Sequence[int]) -> list[list[int]]:
    """The liked objects of every round as rows of 0 and 1."""
    return [[int(k in row) for k in range(objects)] for row in liked]


def served(name: str, written: Written, pick: Pick | Sequence[int], **told: Any) -> Served:
    """A service that is over."""
    rounds, objects = written.likes.shape
    promise = Promise(**{"rounds": rounds, "objects": objects, **told})
    announced = Service(client=0, recommender=name, rounds=rounds, objects=objects, epsilon=None)
    drawn = pick if callable(pick) else by_sequence(np.array(pick, np.uint8))
    return serve(announced, promise, written, drawn)
