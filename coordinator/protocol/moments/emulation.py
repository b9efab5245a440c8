"""Drawing statistics from their exact moments instead of summing over devices, for runs that are too large or too many.

Devices are independent, so every count is binomial. `decoding.estimates.contrasts_of` gives the probability that a
device's sign of an item agrees with its bit, and `given_sensed` the probabilities that a bit about a sensing set is 1,
in general and with an item in the set. Given the bits, two items' counts are uncorrelated up to the product of their
effects, so they are drawn independently.
"""

import math
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.blocks import BlockParameters, BlockSignal, mean_product, nearest_root

MANY = 10.0
"""From so many expected answers of either kind about every pair on, their numbers are drawn from the normal law."""
FEW = 8  # Up to so many answers a pair these are drawn one by one, which is faster than the law of every pair's number


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedDevices:
    """Devices of a block model that are not simulated one by one."""

    likes: Floats2  # shape (K, M); Probability that a user of each class likes each item of the query
    class_shares: Floats  # shape (K,); Shares of the user classes
    rated: int  # Number of items w that every user rated, and of users who answer
    users: int


def given_sensed(query: Query, crowd: EmulatedDevices) -> tuple[Floats, float]:
    """Return P(answer 1 | item sensed) of each item of the pool, shape (M,), and P(answer 1), of MaxSense."""
    # As `blocks.maxsense_moments` has it, for a pool: items outside are never sensed.
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


def draw_sets(query: Query, crowd: EmulatedDevices, coins: np.random.Generator) -> tuple[Ints, Ints, int]:
    """Draw MaxSense's counts: devices that sensed each item, those of them that answered 1, and ones."""
    sensing = float(query.parameters["sensing"])
    item_rates, rate = given_sensed(query, crowd)
    ones = int(coins.binomial(crowd.users, rate))
    met = sensing * item_rates / rate if rate else item_rates
    missed = sensing * (1 - item_rates) / (1 - rate) if rate < 1 else 1 - item_rates
    # Rounded, a chance of 1 may be above it
    scores = coins.binomial(ones, np.clip(met, 0, 1))
    others = coins.binomial(crowd.users - ones, np.clip(missed, 0, 1))
    return scores + others, scores, ones


def draw_pairs(chances: Floats, *, users: int, coins: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw how many devices are asked about each pair, and how many agree, from ``P(S = 1)`` of every pair."""
    if users <= FEW * chances.size:
        questions = coins.integers(chances.size, size=users)
        agree = coins.random(users) < chances[questions]
        return np.bincount(questions, minlength=chances.size), np.bincount(questions[agree], minlength=chances.size)
    each = users / chances.size
    if each * min(float(chances.min()), 1 - float(chances.max())) < MANY:
        pairs = coins.multinomial(users, np.full(chances.size, 1 / chances.size))
        return pairs, coins.binomial(pairs, chances)
    # Of many thousands of pairs the law draws one below 0 now and then; less than one draw in a thousand is cut off
    pairs = np.maximum(np.rint(each + math.sqrt(each) * coins.standard_normal(chances.size)), 0)
    spread = np.sqrt(pairs * chances * (1 - chances))
    agreed = np.clip(np.rint(pairs * chances + spread * coins.standard_normal(chances.size)), 0, pairs)
    return pairs.astype(np.int64), agreed.astype(np.int64)


def draw_votes(parameters: BlockParameters, *, users: int, coins: np.random.Generator) -> Ints:
    """Draw users' ratings, shape (U, N): 1 for an item that is liked, -1 for one that is not, 0 for one unrated."""
    items, rated = parameters.items, parameters.rated
    likes = parameters.like[:, np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)]
    classes = coins.choice(parameters.class_shares.size, users, p=parameters.class_shares)
    votes = np.where(coins.random((users, items)) < likes[classes], 1, -1)
    if rated < items:
        order = coins.random((users, items)).argpartition(rated, axis=1)
        np.put_along_axis(votes, order[:, rated:], 0, axis=1)
    return votes


def draw_totals(signal: BlockSignal, coins: np.random.Generator) -> Floats:
    """Draw a curator's totals of pairs, shape (N, N), from the normal law with the moments of `curator_signal`."""
    # a user touches many pairs, so the entries of a row share what `BlockSignal.shared` says
    cluster = np.repeat(np.arange(signal.sizes.size), signal.sizes)
    roots = np.stack([nearest_root(shared) for shared in signal.shared])
    lean = np.einsum("imk,ik->im", roots[cluster], coins.standard_normal((cluster.size, signal.sizes.size)))[:, cluster]
    block = np.ix_(cluster, cluster)
    noise = coins.standard_normal((cluster.size, cluster.size))
    return np.asarray(signal.means[block] + lean + lean.T + np.sqrt(signal.independent)[block] * noise)


def draw_reveals(parameters: BlockParameters, *, users: int, coins: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw how many of the users that reveal everything rated each item, and how many liked it, shape (N,)."""
    cluster = np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)
    # That every user rates exactly w items is left out: it moves numbers of ratings by a part in N, and no shares.
    classes = coins.multinomial(users, parameters.class_shares)[:, None]
    rated = coins.binomial(classes, parameters.rated / parameters.items, (classes.size, cluster.size))
    return rated.sum(axis=0), coins.binomial(rated, parameters.like[:, cluster]).sum(axis=0)
