"""Compiled loops of voters: which object each of them votes for, round by round."""

from __future__ import annotations

import numpy as np
from numba import uint64

from actors.seeds import VOTE
from coordinator.protocol.arrays import Bits, Bits2, Bools, Floats, Indices, Indices2, Ints, Words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import siphash1, siphash4
from coordinator.protocol.uniform import below

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

    Parameters
    ----------
    streams : ndarray of uint64, shape (electors,)
    columns : ndarray of int64
        Which electors are peers of this client.
    taste : ndarray of uint8, shape (T,)
        The object that the client, and each peer, likes first.
    diverse : ndarray of bool, shape (T,)
        Rounds in which they like the next object, too.
    first : int
        Round of the first row of ``votes``.
    objects : int
        m.
    radius : int
        Rounds, its own, in which a peer votes for another object than the first liked one.
    votes : ndarray of uint8, shape (rounds, electors)
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

    Parameters
    ----------
    streams : ndarray of uint64, shape (electors,)
    electors : ndarray of int32
        Rows of the ratings.
    starts, items, values
        Ratings, CSR; items ascend in each row.
    titles : ndarray of int32, shape (rounds, m)
        Titles of rounds ``first`` on.
    first : int
    votes : ndarray of uint8, shape (rounds, electors)
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
