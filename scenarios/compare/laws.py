"""Exact laws of the sums that devices' answers have, for more people than answer one by one.

People are drawn from the file with replacement, and each answers with coins of its own. How many answers speak for
one item is then binomial, with the probability of a single random person: exact for every item. Counts of two items
are drawn independently, though a report that speaks for one speaks a little less often for another.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.mechanisms.set import Set
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import asked, values_of
from coordinator.protocol.subset_form import PADDED
from coordinator.server.mechanisms.subset import subset_rates
from coordinator.server.statistics.counts import CountStatistic
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.statistic import Statistic
from scenarios.compare.group_laws import group_counts
from scenarios.compare.splitting import Fold

Law = Callable[[Query, Fold, int, np.random.Generator], Statistic]
"""Takes a query, a file, a number of people and coins; returns the sum of their answers."""


def mean_of_likers(fold: Fold, weights: Floats) -> Floats:
    """Return the mean over people of a weight of each where it likes an item and 0 elsewhere, shape (N,)."""
    liked = fold.liked
    total = np.bincount(liked.items, weights=weights[liked.owners], minlength=liked.count)
    return total / liked.users


def set_counts(query: Query, fold: Fold, users: int, coins: np.random.Generator) -> Statistic:
    """Draw how many subsets name each item; one of l likes is in a set of w with probability ``min(1, w / l)``."""
    if query.design != Set.name:  # a group tells how many items it likes
        return group_counts(query, fold, users, coins)
    kept = np.minimum(1.0, query.parameters[PADDED] / np.maximum(fold.liked.degrees, 1))
    return _named(query, mean_of_likers(fold, kept), Set().values(query), users, coins)


def subset_counts(query: Query, fold: Fold, users: int, coins: np.random.Generator) -> CountStatistic:
    """Draw how many subsets name each item; a device's own value is one of its likes at random."""
    return _named(query, mean_of_likers(fold, 1 / np.maximum(fold.liked.degrees, 1)), values_of(query), users, coins)


def _named(query: Query, share: Floats, values: int, users: int, coins: np.random.Generator) -> CountStatistic:
    """Draw counts ``Binomial(n, q + (p - q) f)``; nobody reads those of values that are no items."""
    rates, counts = subset_rates(query), np.zeros(values, np.int64)
    counts[: asked(query)] = coins.binomial(users, rates.others + rates.contrast * share)
    return CountStatistic(sums=counts, asked=users, answered=users, refused=0, told=0)


def sensed_scores(query: Query, fold: Fold, users: int, coins: np.random.Generator) -> ScoreStatistic:
    """Draw how many devices sensed each item, and how many of these answered 1.

    A device with l likes that senses each item with probability p has 1 with probability ``1 - (1-p)^l``, and always if
    it senses an item that it likes.
    """
    sensing, channel = query.parameters["sensing"], bit_channel(query.epsilon)
    silent = (1 - sensing) ** fold.liked.degrees.astype(np.float64)
    wrong, base = (1 - channel.contrast) / 2, float(1 - silent.mean())
    ones = wrong + channel.contrast * (base + mean_of_likers(fold, silent))
    sensed: Ints = coins.binomial(users, sensing, query.items)
    scores: Ints = coins.binomial(sensed, np.clip(ones, 0, 1))
    answered_one = int(coins.binomial(users, wrong + channel.contrast * base))
    return ScoreStatistic(sensed=sensed, scores=scores, asked=users, answered=users, refused=0, ones=answered_one)


def sign_agreements(query: Query, fold: Fold, users: int, coins: np.random.Generator) -> ScoreStatistic:
    """Draw how many answers agree with each item's sign.

    Of l signed ratings the sum has the sign of one of them more often than not by ``C(l-1, (l-1)//2) / 2^(l-1)``.
    """
    rated = fold.train
    many = np.maximum(rated.degrees, 1)
    tie = np.asarray(scipy.stats.binom.pmf((many - 1) // 2, many - 1, 0.5))
    signed = np.where(rated.values, 1.0, -1.0) * tie[rated.owners]
    mean = np.bincount(rated.items, weights=signed, minlength=rated.count) / rated.users
    agreed: Ints = coins.binomial(users, (1 + bit_channel(query.epsilon).contrast * mean) / 2)
    told = np.full(query.items, users, np.int64)
    return ScoreStatistic(sensed=told, scores=agreed, asked=users, answered=users, refused=0, ones=users // 2)
