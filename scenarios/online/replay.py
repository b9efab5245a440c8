"""Services whose votes and likes are written down, by the coordinator's own code: how adversaries are measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from actors.client import Client
from coordinator.protocol.arrays import Bits2, Bools2, Indices
from coordinator.protocol.ballots import Ballot, Service
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import Pick, Served, serve


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Voters and a client.

    Attributes
    ----------
    likes : ndarray of bool, shape (rounds, m)
        What the client likes.
    votes : ndarray of uint8, shape (rounds, groups)
        A column a group of voters that vote alike.
    group : ndarray of int32, shape (voters,)
        Each voter's column.
    """

    likes: Bools2 = field(repr=False)
    votes: Bits2 = field(repr=False)
    group: Indices = field(repr=False)


class _Written:
    """Voters and client that do as it is written."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern, self._client = pattern, Client(0, pattern.likes)

    def enter(self, service: Service) -> Indices:  # noqa: ARG002 (a protocol)
        return np.arange(self._pattern.group.size, dtype=np.int32)

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        votes: Bits2 = self._pattern.votes[ballot.first : ballot.stop][:, self._pattern.group[electors]]
        return np.ascontiguousarray(votes)

    def offer(self, client: int, round_number: int, chosen: int) -> bool:  # noqa: ARG002 (a protocol)
        return self._client.answer(round_number, chosen)


def replay(recommender: str, promise: Promise, pattern: Pattern, pick: Pick) -> Served:
    """Serve the client of a pattern.

    Parameters
    ----------
    recommender : str
        Its name.
    promise : Promise
        What it is told; its T is the weighting's, and may be larger than the number of rounds written down.
    pattern : Pattern
        Voters and client.
    pick : callable
        Draws the recommendations, or repeats given ones.

    Returns
    -------
    Served
    """
    rounds, objects = pattern.likes.shape
    service = Service(client=0, recommender=recommender, rounds=rounds, objects=objects, epsilon=None)
    return serve(service, promise, _Written(pattern), pick)


def likes_of(liked: list[tuple[int, ...]], objects: int) -> Bools2:
    """Return a table of likes from the objects liked in each round."""
    likes: Bools2 = np.zeros((len(liked), objects), np.bool_)
    for row, found in zip(likes, liked, strict=True):
        row[list(found)] = True
    return likes
