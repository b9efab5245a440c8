"""Beliefs: the posterior that all rounds together tell, read once more with what they tell."""

from __future__ import annotations

from coordinator.protocol.errors import InputError
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import Posterior, believe, expected_levels
from coordinator.server.design import PoolDesign
from coordinator.server.rounds.state import ServerState


def beliefs(state: ServerState, design: PoolDesign, *, clusters: int, failure: float) -> tuple[Posterior, Estimates]:
    """Return the posterior of a state, and the estimates that it rests on.

    A round of centred ratings is read by how much users like its items. When it was asked, the centres were what was
    known of that; now more is known. So where there are such rounds, a mixture is fitted to the estimates as they came
    in, these are read anew with what it expects, and the posterior of that is returned.

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
