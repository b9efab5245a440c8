"""Where votes come from: planted peers, real ratings, or a table. Opinions stay private; repr shows none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from actors.vote_kernels import vote_as_peers, vote_at_random, vote_by_rating, vote_streams
from coordinator.protocol.arrays import Bits2, Bools2, Indices, Words
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.errors import InputError
from coordinator.protocol.rows import Rows


class Voters(Protocol):
    """What a cohort of voters needs of its devices' opinions."""

    @property
    def users(self) -> int:
        """Number of devices."""
        ...

    def check(self, service: Service) -> None:
        """Refuse a service that nobody here has opinions about, because compiled code checks no bounds.

        Raises
        ------
        InputError
        """
        ...

    def cast(self, master: Words, ballot: Ballot, electors: Indices) -> Bits2:
        """Return what ``electors`` vote for in the ballot's rounds, uint8, shape (rounds, electors)."""
        ...


def _require_rounds(service: Service, rounds: int) -> None:
    if service.rounds > rounds:
        raise InputError(f"{service} has {service.rounds} rounds; voters here have opinions about {rounds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedVoters:
    """Voters of the random environment: each client has peers, and all other voters vote at random.

    Source: the spec's section 8. A peer votes for an object that its client likes, fairly between two, but in
    ``radius`` rounds of its own for another object than the first liked one.

    Attributes
    ----------
    client : ndarray of int32, shape (N,)
        The client whose taste each device shares; -1 for none.
    taste : ndarray of uint8, shape (clients, T)
        The object that each client likes first.
    diverse : ndarray of bool, shape (clients, T)
        Rounds in which it likes the next one, too.
    objects, radius : int
        m and R.
    """

    client: Indices = field(repr=False)
    taste: Bits2 = field(repr=False)
    diverse: Bools2 = field(repr=False)
    objects: int
    radius: int

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.client.size

    def check(self, service: Service) -> None:
        """Refuse a service that goes on beyond the planted rounds, or has other objects; see `Voters.check`."""
        _require_rounds(service, self.taste.shape[1])
        if service.objects != self.objects:
            raise InputError(f"{service} has {service.objects} objects a round; voters here know {self.objects}")

    def cast(self, master: Words, ballot: Ballot, electors: Indices) -> Bits2:
        """Return votes; see `Voters.cast`."""
        votes = np.empty((ballot.stop - ballot.first, electors.size), np.uint8)
        streams = vote_streams(master, electors, ballot.service.series)
        vote_at_random(streams, ballot.first, self.objects, votes)
        whose = self.client[electors]
        for client in np.unique(whose[whose >= 0]):
            columns = np.flatnonzero(whose == client)
            taste, diverse = self.taste[client], self.diverse[client]
            vote_as_peers(streams, columns, taste, diverse, ballot.first, self.objects, self.radius, votes)
        return votes


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingVoters:
    """Voters with real ratings: each votes for the title that it rates best, and its own coin decides ties.

    Attributes
    ----------
    rows : Rows
        Titles that each voter rated, ascending, and their ratings.
    """

    rows: Rows

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.rows.users

    def check(self, service: Service) -> None:
        """Refuse a service without titles; see `Voters.check`."""
        if service.titles is None:
            raise InputError(f"{service} names no titles; voters with ratings need titles to vote on")

    def cast(self, master: Words, ballot: Ballot, electors: Indices) -> Bits2:
        """Return votes; see `Voters.cast`."""
        self.check(ballot.service)
        titles = ballot.service.titles
        assert titles is not None
        streams = vote_streams(master, electors, ballot.service.series)
        votes = np.empty((ballot.stop - ballot.first, electors.size), np.uint8)
        asked = titles[ballot.first : ballot.stop]
        rows = self.rows.starts, self.rows.items, self.rows.values
        vote_by_rating(streams, electors, *rows, asked, ballot.first, votes)
        return votes


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVoters:
    """Voters whose votes are given by a table, with a column for each group of voters that vote alike.

    Attributes
    ----------
    table : ndarray of uint8, shape (T, groups)
    group : ndarray of int32, shape (N,)
        Each device's column.
    """

    table: Bits2 = field(repr=False)
    group: Indices = field(repr=False)

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.group.size

    def check(self, service: Service) -> None:
        """Refuse a service that goes on beyond the table; see `Voters.check`."""
        _require_rounds(service, self.table.shape[0])

    def cast(self, master: Words, ballot: Ballot, electors: Indices) -> Bits2:  # noqa: ARG002 (no coin is needed)
        """Return votes; see `Voters.cast`."""
        votes: Bits2 = self.table[ballot.first : ballot.stop][:, self.group[electors]]
        return np.ascontiguousarray(votes)
