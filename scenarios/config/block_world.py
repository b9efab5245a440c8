"""The block model that a scenario describes: how many items each cluster has, and what share of users each class."""

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.moments.blocks import BlockParameters
from scenarios.config.scenario import Scenario


def exact_sizes(shares: Floats, total: int) -> Ints:
    """Return whole sizes that sum to ``total``, each within one of its share (largest remainders)."""
    sizes = np.floor(shares * total).astype(np.int64)
    order = np.argsort(sizes - shares * total, kind="stable")
    sizes[order[: total - sizes.sum()]] += 1
    return sizes


def _shares(weights: tuple[float, ...] | None, count: int) -> Floats:
    shares = np.full(count, 1 / count) if weights is None else np.array(weights)
    return np.asarray(shares / shares.sum())


def block_of(scenario: Scenario) -> BlockParameters:
    """Return a scenario's block model."""
    filled = scenario.filled
    items = filled.world.items
    sizes = exact_sizes(_shares(scenario.cluster_shares, len(scenario.like[0])), items)
    if not sizes.all():
        empty = f"cluster {sizes.argmin()} of {sizes.size} would hold none of {items} items"
        raise InputError(
            f"cluster_shares is {scenario.cluster_shares or 'equal'}: {empty}; give a larger share or more"
        )
    return BlockParameters(
        rated=filled.world.rated,
        like=np.array(scenario.like),
        class_shares=_shares(scenario.class_shares, len(scenario.like)),
        cluster_sizes=sizes,
    )
