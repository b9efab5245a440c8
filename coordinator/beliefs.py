"""Beliefs: the posterior that all rounds together tell, read once more with what they tell."""

from __future__ import annotations

from coordinator.estimates import Estimates
from coordinator.pool_designs import PoolDesign
from coordinator.posterior import Posterior, believe
from coordinator.protocol.errors import InputError
from coordinator.server import ServerState


def beliefs(state: ServerState, design: PoolDesign, *, clusters: int, failure: float) -> tuple[Posterior, Estimates]:
    """Return the posterior of a state, and the estimates that it rests on.

    A round of centred ratings is read by how much users like its items. When it was asked, the centres were what was
    known of that; now more is known. So where there are such rounds, a first posterior is made from the estimates as
    they came in, these are read anew with what it expects, and the posterior of that is returned.

    Parameters
    ----------
    state : ServerState
        At least one round, whose answers were read as estimates.
    design : PoolDesign
        Reads the answers.
    clusters, failure
        As for `coordinator.posterior.believe`.

    Raises
    ------
    InputError
        If nothing was asked, or the answers tell no estimates.
    """
    if state.estimates is None:
        raise InputError("there is nothing to believe yet: no round was asked, or its design tells no estimates")
    first = believe(state.estimates, clusters=clusters, failure=failure)
    if first.mixture is None or not state.readings.centred:
        return first, state.estimates
    again = state.readings.anew(design, first.expected)
    return believe(again, clusters=clusters, failure=failure), again
