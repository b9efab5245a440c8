"""Beliefs: the posterior after all rounds, whose answers are read again with the latest estimates."""

from __future__ import annotations

from coordinator.protocol.errors import InputError
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import Posterior, believe, expected_levels
from coordinator.server.design import PoolDesign
from coordinator.server.rounds.state import ServerState


def beliefs(state: ServerState, design: PoolDesign, *, clusters: int, failure: float) -> tuple[Posterior, Estimates]:
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

    Raises
    ------
    InputError
        If nothing was asked, or the answers tell no estimates.
    """
    if state.estimates is None:
        raise InputError("there is nothing to believe yet: no round was asked, or its design tells no estimates")
    expected = expected_levels(state.estimates, clusters=clusters) if state.readings.centred else None
    told = state.estimates if expected is None else state.readings.anew(design, expected)
    return believe(told, clusters=clusters, failure=failure), told
