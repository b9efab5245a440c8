"""Separability: which item clusters a design cannot tell apart, whatever the number of users."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from coordinator.moments import BlockParameters, maxsense_moments
from coordinator.multi_moments import multi_maxsense_moments
from coordinator.pair_moments import pair_agreement
from coordinator.pair_statistics import MOST_ITEMS
from coordinator.protocol.arrays import Floats
from scenarios.config import Scenario
from scenarios.kinds import multi_maxsense
from scenarios.populations import class_shares, cluster_sizes

PAIRED = ("pairwise", "curator-pairs")
"""Designs that learn from pairs of items."""
SAME = 1e-9
"""Clusters differ less than this, as a share of what answers without noise vary at all: rounding, no difference."""


def block_parameters(scenario: Scenario) -> BlockParameters:
    """Return the block model of a scenario, as moments take it."""
    return BlockParameters(
        rated=scenario.complete().rated or 0,
        like=np.array(scenario.like),
        class_shares=class_shares(scenario),
        cluster_sizes=cluster_sizes(scenario),
    )


def profiles(scenario: Scenario) -> Floats | None:
    """Return what answers without noise tell of each cluster's items, one row a cluster; None where nothing.

    Noise scales all of it alike. For MaxSense P(S = 1 | the item is sensed), less P(S = 1); where pairs are
    asked about, P(S = 1) of a pair with an item of each cluster; where ratings are told, the mean rating.
    """
    parameters = block_parameters(scenario)
    if scenario.design in PAIRED:
        public = scenario.rated_items == "public" or scenario.design == "curator-pairs"
        return pair_agreement(parameters, agreement=scenario.agreement, epsilon=math.inf, rated_public=public)
    if scenario.design == "multi-maxsense":
        size = multi_maxsense(scenario.complete(), 1).set_size
        return multi_maxsense_moments(parameters, set_size=size, questions=1, epsilon=math.inf).effect[:, None]
    if scenario.design == "maxsense":
        sensing = scenario.theta / parameters.rated
        return None if sensing >= 1 else maxsense_moments(parameters, sensing=sensing, epsilon=math.inf).effect[:, None]
    return np.asarray(parameters.class_shares @ parameters.like - 0.5)[:, None]


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
    told = ", ".join(f"{one} and {other}" for one, other in pairs)
    line = f"warning: {scenario.design} cannot tell clusters {told} apart, however many users answer"
    paired = scenario.model_copy(update={"design": "pairwise", "agreement": "rated-equal", "questions": "ceil"})
    small, many = (scenario.complete().items or 0) <= MOST_ITEMS, (scenario.complete().rated or 0) > 1
    if scenario.design not in PAIRED and small and many and not inseparable(paired):
        return f"{line}; Pairwise-Preference can (--design pairwise)"
    return line
