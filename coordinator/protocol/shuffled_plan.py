"""Plans of shuffled rounds: settings of the set mechanism for each round, so that every person's whole history holds.

Rounds share the squared distance of two normal laws. A rule of thumb turns a share into a local epsilon and a size of
reports; then the privacy profiles of all rounds in which one person answers are composed, and budgets are lowered until
(epsilon, delta) is certified for each kind of person.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

from coordinator.protocol.amplification import SetDesign, rough_set, subset_levels
from coordinator.protocol.channels import LARGEST_EPSILON
from coordinator.protocol.composition import (
    ShuffledRounds,
    gaussian_distance,
    gaussian_epsilon,
    history_delta,
    longest,
    require_finite,
)

_STEP = 1.01  # Budgets of a shuffler's rounds are lowered by a per cent until the whole plan holds
_MOST_STEPS = 120  # Budgets are raised to at most three times the rule of thumb
_SHARES_ALONE = 2000  # After this many steps down budgets are nearly 0, and plain shares of epsilon are used
_FEW_ROUNDS = 4  # Up to this many kinds of rounds are certified with their exact sizes
_FAR = 1 << 4  # Once strides exceed this, the search bisects instead of guessing
_LEAST, _MOST = 1e-30, 0.9  # Range of deltas in which the search uses a normal law
_THOUSANDTHS = 1000  # Local epsilons are whole thousandths, rounded down


class SharedRound(NamedTuple):
    """A shuffled round: the least number of honest answers, and its share of the budget."""

    devices: int
    share: Fraction


def honest_counts(sizes: Collection[tuple[int, Fraction]]) -> Mapping[tuple[int, Fraction], int]:
    """Return, for each round's size and share, the number of honest devices to certify it for, at most its size.

    If there are more than a few kinds of rounds, sizes are rounded down to few numbers, so that rounds coincide.
    """
    few = len(set(sizes)) <= _FEW_ROUNDS
    return {size: size[0] if few else _few_figures(size[0]) for size in sizes}


def _few_figures(devices: int) -> int:
    """Return a number of devices rounded down, if it is large to a power of the root of two."""
    if devices < 32:
        return max(devices, 1)
    return math.floor(2 ** (math.floor(2 * math.log2(devices) + 1e-6) / 2))


History = tuple[SharedRound, ...]
"""The rounds in which one person answers."""


@lru_cache(maxsize=1 << 9)
def shuffled_plan(
    histories: frozenset[History], *, items: int, padded: int, epsilon: Fraction, delta: float
) -> Mapping[SharedRound, SetDesign]:
    """Return the set mechanism's settings for every round of a plan, so that each history keeps (epsilon, delta).

    Parameters
    ----------
    histories : frozenset
        Rounds in which one person answers, for every kind of person there is.
    items, padded : int
        Items N, and likes w that sets are padded or cut to.
    epsilon : Fraction
        Of a whole history [nats].
    delta : float
        Of a whole history.

    Returns
    -------
    mapping
        Of each round, how many values a report names and its local epsilon, in whole thousandths of a nat: budgets by
        the rule of thumb, lowered by a per cent at a time until the composition of each history was certified.
    """
    exact = require_finite("epsilon", epsilon)
    distance, needed = gaussian_distance(exact, delta), longest(histories)
    rounds = {shared_round for history in histories for shared_round in history}

    @cache
    def designs(step: int) -> dict[SharedRound, SetDesign]:
        square = distance**2 * _STEP ** -min(step, _SHARES_ALONE)
        return {shared_round: _design(shared_round, square, exact, items, padded, delta) for shared_round in rounds}

    def reached(step: int) -> float:
        return max(_delta_of(history, designs(step), items, padded, exact, delta) for history in needed)

    def nearer(step: int, largest: float) -> int:
        """Return the step that a normal law would hold at, which has such a delta now."""
        ratio = gaussian_distance(exact, min(max(largest, _LEAST), _MOST)) / distance
        return step + math.ceil(2 * math.log(ratio) / math.log(_STEP))

    return designs(_least_step(reached, nearer, delta))


def _least_step(reached: Callable[[int], float], nearer: Callable[[int, float], int], delta: float) -> int:
    """Return the least step at which a falling delta holds, by as few evaluations as there can be."""
    # Steps that hold, and that do not: at the end of the way down shares of epsilon add up, which always holds
    holding, failing, step, stride = None, None, 0, 1
    while holding is None or failing is None or holding - failing > 1:
        if (largest := reached(step)) <= delta:
            holding = step
        else:
            failing = step
        if holding is not None and holding < -_MOST_STEPS:
            break
        guess = nearer(step, largest)
        if holding is None:
            step = max(guess, step + stride)
        elif failing is None:
            step = min(guess, step - stride)
        else:
            step = (holding + failing) // 2 if stride > _FAR else min(max(guess, failing + 1), holding - 1)
        stride *= 2
    assert holding is not None  # as the loop has it
    return holding


@lru_cache(maxsize=1 << 13)
def _design(
    shared_round: SharedRound, square: float, epsilon: Fraction, items: int, padded: int, delta: float
) -> SetDesign:
    central = min(gaussian_epsilon(math.sqrt(square * shared_round.share), delta), LARGEST_EPSILON)
    best = rough_set(items=items, padded=padded, epsilon=central, devices=shared_round.devices, delta=delta, share=0.1)
    local = Fraction(math.floor(_THOUSANDTHS * best.local_epsilon), _THOUSANDTHS)
    return best._replace(local_epsilon=max(min(local, Fraction(LARGEST_EPSILON)), epsilon * shared_round.share))


def _delta_of(
    history: History,
    designs: Mapping[SharedRound, SetDesign],
    items: int,
    padded: int,
    epsilon: Fraction,
    delta: float,
) -> float:
    parts = [
        ShuffledRounds(
            subset_levels(items + padded, padded, designs[shared_round].subset_size),
            designs[shared_round].local_epsilon,
            shared_round.devices,
            count,
        )
        for shared_round, count in sorted(Counter(history).items())
    ]
    return history_delta(parts, epsilon, delta)
