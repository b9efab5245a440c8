"""Compiled loops over surviving voters: count their votes, and strike and drop them. Linear in the survivors."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Bits, Floats, Indices
from coordinator.protocol.compiled import compiled


@compiled
def tally(votes: Bits, place: Indices, weight: Floats, sums: Floats) -> int:
    """Add up survivors' weights by the object that they vote for.

    Parameters
    ----------
    votes : ndarray of uint8
        One round's votes.
    place : ndarray of int32, shape (survivors,)
        Where each survivor's vote stands in ``votes``.
    weight : ndarray of float64, shape (survivors,)
    sums : ndarray of float64, shape (m,)
        Overwritten.

    Returns
    -------
    int
        Place among the survivors of the first one that votes for no object of the round; -1 if all are in order.
    """
    sums[:] = 0.0
    for k in range(place.size):
        vote = votes[place[k]]
        if vote >= sums.size:
            return k
        sums[vote] += weight[k]
    return -1


@compiled
def strike(
    votes: Bits,
    place: Indices,
    number: Indices,
    weight: Floats,
    first: Indices,
    second: Indices,
    chosen: int,
    liked: bool,
    rule: Indices,
) -> int:
    """Give survivors their strikes and close the ranks of those that survive them.

    Parameters
    ----------
    votes : ndarray of uint8
        One round's votes.
    place, number : ndarray of int32, shape (survivors,)
        Where each survivor's vote stands, and which voter it is; those that survive move to the front.
    weight : ndarray of float64, shape (survivors,)
        Moves with them.
    first, second : ndarray of int32, shape (voters,)
        D-strikes ``a`` and R-strikes ``b`` of every voter.
    chosen : int
        The object recommended.
    liked : bool
        What the client says of it.
    rule : ndarray of int32, shape (3,)
        Most R-strikes, D-strikes and strikes in all that are survived.

    Returns
    -------
    int
        Number of voters that survive.
    """
    kept = 0
    for k in range(place.size):
        voter = number[k]
        agrees = votes[place[k]] == chosen
        if liked and not agrees:
            first[voter] += 1
        elif agrees and not liked:
            second[voter] += 1
        a, b = np.int64(first[voter]), np.int64(second[voter])
        if b <= rule[0] and a <= rule[1] and a + b <= rule[2]:
            place[kept], number[kept], weight[kept] = place[k], voter, weight[k]
            kept += 1
    return kept


@compiled
def reweigh(votes: Bits, place: Indices, weight: Floats, chosen: int, inside: float, outside: float) -> None:
    """Multiply the weights of those that vote for ``chosen`` by ``inside``, all others' by ``outside``."""
    for k in range(place.size):
        weight[k] *= inside if votes[place[k]] == chosen else outside


@compiled
def expose(votes: Bits, place: Indices, number: Indices, ratios: Floats, exposure: Floats) -> None:
    """Add to every survivor's exposure the log-likelihood ratio that its vote makes in this round."""
    for k in range(place.size):
        exposure[number[k]] += ratios[votes[place[k]]]
