"""What is to be learned, and among how many clusterings: the counting half of every lower bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, gammaln

from coordinator.protocol.errors import InputError


def check_epsilon(epsilon: float) -> None:
    """Raise InputError unless epsilon, in nats, is above 0; infinity (no privacy) is allowed."""
    if not epsilon > 0:
        raise InputError(f"epsilon {epsilon}: give a number above 0, or inf for no privacy")


def check_shape(*, items: int, rated: int) -> None:
    """Raise InputError unless there are two items or more and each device rates 1 to all of them."""
    if items < 2:
        raise InputError(f"items {items}: a catalogue to cluster has 2 items or more")
    if not 1 <= rated <= items:
        raise InputError(f"rated {rated} of {items} items: give 1 to {items}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningProblem:
    """One learning problem, as every lower bound reads it.

    The clustering is uniform over the `clusters ** items` labellings; the learner succeeds if, for some
    renaming of the clusters, at most `mistakes` labels are wrong.

    Parameters
    ----------
    items : int
        Number of items N, 2 or more.
    rated : int
        Ratings w per user, 1 to N.
    epsilon : float
        Privacy of one device's whole answer [nats], above 0; `math.inf` for no privacy.
    clusters : int
        Number of item clusters L, 2 to N.
    failure : float
        Probability of failure the learner may have, in [0, 1).
    mistakes : int
        Wrong labels d that still count as success, 0 to N - 1.

    Raises
    ------
    InputError
        A value is outside of its range.
    """

    items: int
    rated: int
    epsilon: float
    clusters: int = 2
    failure: float = 0.5
    mistakes: int = 0

    def __post_init__(self) -> None:
        check_shape(items=self.items, rated=self.rated)
        check_epsilon(self.epsilon)
        if not 2 <= self.clusters <= self.items:
            raise InputError(f"clusters {self.clusters} of {self.items} items: give 2 to {self.items}")
        if not 0 <= self.failure < 1:
            raise InputError(f"failure {self.failure}: give a probability of at least 0 and below 1")
        if not 0 <= self.mistakes < self.items:
            raise InputError(f"mistakes {self.mistakes} of {self.items} items: give 0 to {self.items - 1}")

    @property
    def bits(self) -> float:
        """What the users' answers must tell at least [bits]: `(1 - failure) log2(M / M_d) - 1`, or 0."""
        told = log2_hypotheses(items=self.items, clusters=self.clusters)
        told -= log2_ball(items=self.items, clusters=self.clusters, mistakes=self.mistakes)
        return max(0.0, (1.0 - self.failure) * told - 1.0)


def log_binomial(total: int, chosen: int) -> float:
    """`ln C(total, chosen)`, minus infinity for an impossible choice.

    By `betaln`, so that `total = 10^9` with few chosen does not lose digits to a difference of huge numbers.

    >>> round(math.exp(log_binomial(5, 2)), 9)
    10.0
    """
    if not 0 <= chosen <= total:
        return -math.inf
    few = min(chosen, total - chosen)
    return -math.log1p(total) - float(betaln(few + 1.0, total - few + 1.0))


def log2_hypotheses(*, items: int, clusters: int) -> float:
    """`log2 M`, `M = L^N / L!`: clusterings up to the names of the clusters [bits].

    With the labelling uniform over `L^N` and success up to renaming, Lemma 20's ball holds `L!` labellings
    at most, which is where the `L!` comes from: no approximation.

    >>> log2_hypotheses(items=10, clusters=2)
    9.0
    """
    return items * math.log2(clusters) - float(gammaln(clusters + 1)) / math.log(2)


def log2_ball(*, items: int, clusters: int, mistakes: int) -> float:
    """`log2 M_d`, `M_d = sum_{i <= d} C(N, i) (L - 1)^i`: labellings within d mistakes of one [bits].

    Terms are summed relative to the largest; those further than `40 sqrt(N)` below the mode of the binomial
    weigh less than `e^-1000` and are left out, so that `N = 10^9` takes a fraction of a second.

    Notes
    -----
    Lemma 20 and Theorem 23 [A.5]. The paper divides by `L!`; a ball does not shrink by renaming, so this
    does not.

    >>> round(2 ** log2_ball(items=10, clusters=3, mistakes=2), 6)
    201.0
    """
    if mistakes == 0:
        return 0.0
    width = 40 * math.isqrt(items) + 40
    mode = (items + 1) * (clusters - 1) // clusters
    top = min(mistakes, mode + width)
    bottom = max(0, min(mistakes, mode) - width)
    index = np.arange(top, bottom, -1, dtype=np.float64)
    steps = np.log(index / ((items - index + 1) * (clusters - 1)))
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    largest = float(logs.max())
    total = largest + math.log(float(np.exp(logs - largest).sum()))
    return (log_binomial(items, top) + top * math.log(clusters - 1) + total) / math.log(2)
