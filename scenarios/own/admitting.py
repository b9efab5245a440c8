"""Admitting a user's own mechanism: it gets a name, and its question and its channel are checked."""

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
"""Items of a small catalogue in which a channel can be checked that is too large to check at the run's size."""


def admitted_for(
    mechanism: Mechanism, world: World, *, epsilon: Epsilon, helpers: Sequence[str] = ()
) -> tuple[Own, Checked]:
    """Admit a mechanism in this process, and return it in the form in which all processes of the run will admit it.

    Parameters
    ----------
    mechanism : Mechanism
        The class with its settings.
    world : World
        Public numbers of the run.
    epsilon : Fraction or None
        What one answer may cost [nats].
    helpers : sequence of str
        Packages that are sent with it.

    Raises
    ------
    MechanismError
        If its class asks an impossible question, or its channel reveals more than it claims. No device was asked.
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
        OwnDesign(own, world).rates(query)  # so that an invalid estimate is reported before any device is asked
    return own, checked


def _check_small(own: Own, world: World, epsilon: Epsilon) -> None:
    """Check the whole channel in a catalogue of a few items, if the class can ask there."""
    few = replace(world, items=SMALL, rated=min(world.rated, SMALL))
    try:
        query = OwnDesign(own, few).query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    except MechanismError:
        return
    check_channel(own, query)


_RUNS: dict[tuple[str, tuple[str, ...], World, Epsilon], tuple[Own, Checked]] = {}


def of_run(settings: object, world: World, epsilon: Epsilon) -> tuple[Own, Checked] | None:
    """Return a run's admitted mechanism and the result of its check; None if the mechanism is not a user's own.

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
