"""Beliefs: the posterior after all rounds, whose answers are read again with the latest estimates."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import Posterior, believe, expected_levels
from coordinator.server.design import PoolDesign
from coordinator.server.rounds.state import ServerState


def beliefs(
    state: ServerState, design: PoolDesign, *, clusters: int, failure: float, assume_malicious: float = 0.0
) -> tuple[Posterior, Estimates]:
    """Return the posterior of a state, and the estimates that it rests on.

    Reading a round of centred ratings requires to know how much users like its items. When the round was asked, its
    centres were the best estimates; now better ones are known. So if there are such rounds, a mixture is fitted to the
    estimates as they came in, the rounds are read again with what the mixture expects, and the posterior of the new
    estimates is returned.

    Parameters
    ----------
    state : ServerState
        At least one round, whose answers were read as estimates.
    design : PoolDesign
        Reads the answers.
    clusters, failure
        As for `coordinator.server.decoding.posterior.believe`.
    assume_malicious : float
        Share of liars that the posterior's doubts must withstand; see `Posterior.withstanding`.

    Raises
    ------
    InputError
        If nothing was asked, or the answers tell no estimates.
    """
    if state.estimates is None:
        raise InputError("there is nothing to believe yet: no round was asked, or its design tells no estimates")
    expected = expected_levels(state.estimates, clusters=clusters) if state.readings.centred else None
    told = state.estimates if expected is None else state.readings.anew(design, expected)
    posterior = believe(told, clusters=clusters, failure=failure)
    return (posterior.withstanding(assume_malicious * sway(state, design)) if assume_malicious else posterior), told


def sway(state: ServerState, design: PoolDesign) -> Floats:
    """Return how far all answerers together could move each item's information-weighted estimate, shape (N,).

    Where an answer is a sign it moves it by `most_moved` at most.
    """
    total = np.zeros(design.items)
    for ask, counts in zip(state.asked, state.counts, strict=True):
        if ask.verifies:
            continue
        pool = slice(None) if ask.query.pool is None else ask.query.pool
        total[pool] += most_moved(design.rates(ask.query)) * counts.answered
    return total


def most_moved(rates: Floats) -> Floats:
    """Return by how much one sign moves weighted estimates, counted from the middle of two levels.

    With the contrast c, whose square the rate is, a sign S adds ``c S`` to the estimate times its information, and c^2
    times the middle is taken off; levels lie between -1 and 1.
    """
    found: Floats = np.sqrt(rates) + rates
    return found
