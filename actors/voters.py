"""Where votes come from: planted peers, real ratings, or a table; and the compiled loops that cast them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numba import uint64

from actors.seeds import VOTE
from coordinator.protocol.arrays import Bits, Bits2, Bools, Bools2, Floats, Indices, Indices2, Ints, Words
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import below, siphash1, siphash4
from coordinator.protocol.rows import Rows

OWN_ROUNDS = 1 << 31
"""Lanes from here on draw the rounds in which a peer differs; below them stands a lane a round."""


@compiled
def vote_streams(master: Words, electors: Indices, series: Words) -> Words:
    """Return the stream of every elector's coins in one series of rounds, uint64."""
    streams = np.empty(electors.size, np.uint64)
    for k in range(electors.size):
        twice = uint64(2) * uint64(electors[k])
        low, high = siphash1(master[0], master[1], twice), siphash1(master[0], master[1], twice + uint64(1))
        streams[k] = siphash4(low, high, VOTE, series[0], series[1], uint64(0))
    return streams


@compiled
def vote_at_random(streams: Words, first: int, objects: int, votes: Bits2) -> None:
    """Write a uniform vote for every elector and round; ``votes`` has shape (rounds, electors)."""
    for t in range(votes.shape[0]):
        for k in range(votes.shape[1]):
            votes[t, k] = below(streams[k], first + t, objects)


@compiled
def _draw_rounds(stream: np.uint64, rounds: int, drawn: Ints) -> None:
    """Draw a uniform subset of the rounds, without replacement (Floyd's algorithm)."""
    count = drawn.size
    for j in range(count):
        last = rounds - count + j
        found = below(stream, OWN_ROUNDS + j, last + 1)
        for earlier in range(j):
            if drawn[earlier] == found:
                found = last
                break
        drawn[j] = found


@compiled
def vote_as_peers(
    streams: Words, columns: Ints, taste: Bits, diverse: Bools, first: int, objects: int, radius: int, votes: Bits2
) -> None:
    """Overwrite the votes of a client's peers.

    Shapes: ``streams`` (electors,); ``taste`` (T,); ``diverse`` (T,); ``votes`` (rounds, electors).
    """
    drawn = np.empty(radius, np.int64)
    for k in columns:
        for t in range(votes.shape[0]):
            step = 0
            if diverse[first + t]:
                step = below(streams[k], first + t, 2)
            votes[t, k] = (taste[first + t] + step) % objects
        _draw_rounds(streams[k], taste.size, drawn)
        for number in drawn:
            if first <= number < first + votes.shape[0]:
                step = 1 + below(streams[k], int(number), objects - 1)
                votes[number - first, k] = (taste[number] + step) % objects


@compiled
def vote_by_rating(
    streams: Words,
    electors: Indices,
    starts: Ints,
    items: Indices,
    values: Floats,
    titles: Indices2,
    first: int,
    votes: Bits2,
) -> None:
    """Write votes for the title that each elector rates best; its coin decides ties, and where it rated none.

    Shapes: ``streams`` (electors,); ``titles`` (rounds, m); ``votes`` (rounds, electors).
    """
    best = np.empty(titles.shape[1], np.int64)
    for k in range(electors.size):
        start, stop = starts[electors[k]], starts[electors[k] + 1]
        row = items[start:stop]
        for t in range(titles.shape[0]):
            count, top = 0, -np.inf
            for j in range(titles.shape[1]):
                place = np.searchsorted(row, titles[t, j])
                if place < row.size and row[place] == titles[t, j]:
                    value = values[start + place]
                    if value > top:
                        count, top = 0, value
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
    """

    client: Indices = field(repr=False)  # shape (N,); The client whose taste each device shares; -1 for none
    taste: Bits2 = field(repr=False)  # shape (clients, T); The object that each client likes first
    diverse: Bools2 = field(repr=False)  # shape (clients, T); Rounds in which it likes the next one, too
    objects: int  # m and R
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
    """Voters whose votes are given by a table, with a column for each group of voters that vote alike."""

    table: Bits2 = field(repr=False)  # shape (T, groups)
    group: Indices = field(repr=False)  # shape (N,); Each device's column

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
