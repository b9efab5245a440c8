"""Separability: which item clusters a mechanism cannot tell apart, whatever the number of users."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.server.moments.blocks import NoSignal
from coordinator.server.server_half import TRUST_LOCAL, ServerHalf
from scenarios.data.populations import known_world
from scenarios.given.config import Scenario
from scenarios.given.mechanisms import designs
from scenarios.given.run_spec import half_in

SAME = 1e-9
"""Clusters differ less than this, as a share of what answers without noise vary at all: rounding, no difference."""


def profiles(scenario: Scenario) -> Floats | None:
    """Return what answers without noise tell of each cluster's items, one row a cluster; None where nothing.

    Where a mechanism tells no moments nobody knows, and its clusters count as told apart. Noise scales all of it alike.
    For scores P(S = 1 | the item is sensed), less P(S = 1); where pairs are asked about, P(S = 1) of a pair with an
    item of each cluster; where ratings are told, the mean rating.
    """
    half, filled = half_in(scenario), scenario.complete()
    world = known_world(filled)
    settings = filled.settings.settle(world, scenario.decoder)
    assert world.block is not None
    moments = half.moments(settings, replace(world, epsilon=None))
    if moments is None or isinstance(moments, NoSignal):
        return None if moments else np.eye(len(scenario.like[0]))
    profile: Floats | None = getattr(moments, "profile", None)
    return (world.block.class_shares @ world.block.like - 0.5)[:, None] if profile is None else profile


def inseparable(scenario: Scenario) -> list[tuple[int, int]]:
    """Return the pairs of clusters (columns of ``like``) that the scenario's design cannot tell apart.

    For MaxSense these are the pairs with ``delta_min = 0`` (Theorem 15).
    """
    rows = profiles(scenario)
    many = len(scenario.like[0])
    return [
        (one, other)
        for one, other in combinations(range(many), 2)
        if rows is None or np.abs(rows[one] - rows[other]).max() <= SAME * np.abs(rows).max()
    ]


def warning(scenario: Scenario) -> str | None:
    """Return a line that warns of clusters that cannot be told apart and names a way, or None."""
    if scenario.ratings is not None or not (pairs := inseparable(scenario)):
        return None
    listing = ", ".join(f"{one} and {other}" for one, other in pairs)
    line = f"warning: {scenario.design} cannot tell clusters {listing} apart, however many users answer"
    several = (scenario.complete().rated or 0) > 1
    for half in designs().values() if several and not half_in(scenario).paired else ():
        if half.paired and half.trust == TRUST_LOCAL and _tells_apart(half, scenario):
            return f"{line}; {half.title} can (--design {half.name})"
    return line


def _tells_apart(half: ServerHalf, scenario: Scenario) -> bool:
    other = scenario.complete().model_copy(update={"design": half.name, "settings": half.settings()})
    try:
        half_in(other).design(other.settings, other.world)
    except InputError:  # too many items for pairs of them
        return False
    return not inseparable(other)
