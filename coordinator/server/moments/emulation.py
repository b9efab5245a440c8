"""Drawing statistics from their exact moments instead of summing over devices, for runs that are too large or too many.

Devices are independent, so every count is binomial. `decoding.estimates.contrasts_of` gives the probability that a
device's sign of an item agrees with its bit, and `given_sensed` the probabilities that a bit about a sensing set is 1,
in general and with an item in the set. Given the bits, two items' counts are uncorrelated up to the product of their
effects, so they are drawn independently.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import Query
from coordinator.server.moments.blocks import mean_product


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Devices of a block model that are not simulated one by one."""

    likes: Floats2  # shape (K, M); Probability that a user of each class likes each item of the query
    class_shares: Floats  # shape (K,); Shares of the user classes
    rated: int  # Number of items w that every user rated, and of users who answer
    users: int


def given_sensed(query: Query, crowd: Crowd) -> tuple[Floats, float]:
    """Return P(answer 1 | item sensed) of each item of the pool, shape (M,), and P(answer 1), of MaxSense.

    As `blocks.maxsense_moments` has it, for a pool: items outside are never sensed.
    """
    sensing, flips = float(query.parameters["sensing"]), bit_channel(query.epsilon).contrast
    kinds, which, counts = np.unique(crowd.likes, axis=1, return_inverse=True, return_counts=True)
    sizes = np.append(counts, query.items - crowd.likes.shape[1])
    silent, without = 0.0, np.zeros(counts.size)
    for share, likes in zip(crowd.class_shares.tolist(), kinds, strict=True):
        factors = np.append(1 - sensing * likes, 1.0)
        silent += share * mean_product(factors, sizes, crowd.rated)
        for kind in range(counts.size):
            others = sizes - (np.arange(sizes.size) == kind)
            rest = mean_product(factors, others, crowd.rated - 1)
            without[kind] += share * (1 - sensing) * likes[kind] * rest
    rate = (1 + flips) / 2 - flips * silent
    item_rates: Floats = rate + flips * crowd.rated / query.items * without
    return item_rates[which.reshape(-1)], rate


def draw_sets(query: Query, crowd: Crowd, coins: np.random.Generator) -> tuple[Ints, Ints, int]:
    """Draw MaxSense's counts: devices that sensed each item, those of them that answered 1, and ones."""
    sensing = float(query.parameters["sensing"])
    item_rates, rate = given_sensed(query, crowd)
    ones = int(coins.binomial(crowd.users, rate))
    scores = coins.binomial(ones, sensing * item_rates / rate if rate else item_rates)
    others = coins.binomial(crowd.users - ones, sensing * (1 - item_rates) / (1 - rate) if rate < 1 else 1 - item_rates)
    return scores + others, scores, ones
