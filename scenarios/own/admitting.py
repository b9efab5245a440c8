"""Admitting a mechanism of one's own: it gets its name, its question is looked at, its channel is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordinator.protocol.admitted import UNCHECKED, Own, OwnPublic, admit
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import Likelihood
from coordinator.protocol.own import Mechanism, MechanismError, require_whole_class
from coordinator.protocol.questions import check_question
from coordinator.server.design import World
from coordinator.server.own import OwnDesign, counts_itself
from scenarios.own.checking import FOR_SOME, Checked, check_channel
from scenarios.own.halves import OwnSettings
from scenarios.own.identity import identity

SMALL = 4
"""Items of a catalogue in which a channel can be gone through that is too large at the run's size."""


def admitted_for(
    mechanism: Mechanism, world: World, *, epsilon: Epsilon, helpers: Sequence[str] = ()
) -> tuple[Own, Checked]:
    """Return a mechanism as all processes of a run in this world will know it; this process knows it from now on.

    Parameters
    ----------
    mechanism : Mechanism
        The class with its settings.
    world : World
        Public numbers of the run.
    epsilon : Fraction or None
        What one answer may cost [nats].
    helpers : sequence of str
        Packages that travel with it.

    Raises
    ------
    MechanismError
        If its class asks nothing that can be asked, or its channel tells more than it claims. No device was asked.
    InputError
        If it is no mechanism, or its source cannot be read.
    """
    require_whole_class(mechanism)
    own = Own(
        mechanism=mechanism,
        name=f"{type(mechanism).__name__}@{identity(mechanism, helpers)}",
        helpers=tuple(helpers),
    )
    query = OwnDesign(own, world).query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    own = replace(own, parameters=frozenset(query.parameters), arrays=frozenset(query.arrays))
    checked = check_channel(own, query)
    if checked.how == UNCHECKED:
        _check_small(own, world, epsilon)
    own = replace(own, unchecked=checked.how == UNCHECKED, partly=FOR_SOME if checked.how == FOR_SOME else "")
    admit(own)
    check_question(query)
    if not counts_itself(own.mechanism) and not isinstance(OwnPublic(own).channel(query), Likelihood):
        OwnDesign(own, world).rates(query)  # an estimate that is none is told before anybody is asked
    return own, checked


def _check_small(own: Own, world: World, epsilon: Epsilon) -> None:
    """Check the channel in a catalogue of a few items, where it can be gone through, if the class can ask there."""
    few = replace(world, items=SMALL, rated=min(world.rated, SMALL))
    try:
        query = OwnDesign(own, few).query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    except MechanismError:
        return
    check_channel(own, query)


_RUNS: dict[tuple[str, tuple[str, ...], World, Epsilon], tuple[Own, Checked]] = {}


def of_run(settings: object, world: World, epsilon: Epsilon) -> tuple[Own, Checked] | None:
    """Return a run's mechanism as its processes will know it and what its check told; None where it is not one's own.

    Parameters
    ----------
    settings : Settings
        The scenario's.
    world : World
        The run's.
    epsilon : Fraction or None
        What one answer may cost [nats].

    Raises
    ------
    MechanismError, InputError
        As `admitted_for`.
    """
    if not isinstance(settings, OwnSettings):
        return None
    mechanism, helpers = settings.mechanism(), settings.helpers
    key = identity(mechanism, helpers), helpers, world, epsilon
    if key not in _RUNS:
        _RUNS[key] = admitted_for(mechanism, world, epsilon=epsilon, helpers=helpers)
    return _RUNS[key]
