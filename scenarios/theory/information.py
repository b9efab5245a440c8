"""How much one device's answer can tell about the clusters at most: upper bounds in nats per user.

The paper counts in bits, but its step `log x <= x - 1` holds for natural logarithms only; all is in nats here.
The paper's proofs are for two clusters and certain ratings, `Z` uniform on {0, 1}^N. The bounds hold for L clusters
and uncertain binary ratings too: given the user's class, the kernel `2 * 1[z = z']` of Lemma 9 becomes
`sum_c P(c) P(r | c) P(r' | c) / (P(r) P(r'))`, a mixture of that of certain ratings and of the constant 1; and
telling the learner the class can only add information, since it is independent of the clusters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scenarios.theory.hypotheses import check_epsilon, check_shape


class Overlap(NamedTuple):
    """How many items two independent uniform w-subsets of N share: `P(1)`, `P(>= 2)`, `E[count; >= 2]`."""

    one: float
    more: float
    excess: float


def _exp(power: float) -> float:
    return math.exp(power) if power < 709 else math.inf


def _log_avoid(items: int, rated: int) -> float:
    """`ln [C(N - w, w) / C(N, w)]` as a sum of `log1p`, since differences of `gammaln` lose all digits."""
    if 2 * rated > items or rated * rated > 800 * items:  # the second underflows: below exp(-w^2 / N)
        return -math.inf
    return float(np.log1p(-rated / (items - np.arange(rated, dtype=np.float64))).sum())


def overlap(*, items: int, rated: int) -> Overlap:
    """Overlap of the rated sets of two users, without cancellation up to `N = 10^9`.

    Two sets that share a given item are, beyond it, two `(w - 1)`-subsets of the other `N - 1` items; hence
    `P(1) = (w^2 / N) a` and `E[count; >= 2] = (w^2 / N) (1 - a)` with `a` their chance to share nothing more.

    >>> [round(x, 6) for x in overlap(items=4, rated=2)]
    [0.666667, 0.166667, 0.333333]
    """
    check_shape(items=items, rated=rated)
    mean = rated * rated / items
    alone = _log_avoid(items - 1, rated - 1)
    one, excess = mean * math.exp(alone), -mean * math.expm1(alone)
    if mean > 1:
        return Overlap(one, max(0.0, 1.0 - one - math.exp(_log_avoid(items, rated))), excess)
    more, term = 0.0, one
    for count in range(1, rated):
        term *= (rated - count) ** 2 / ((count + 1) * (items - 2 * rated + count + 1))
        more += term
        if term <= 1e-18 * more:
            break
    return Overlap(one, more, excess)


def fano_information(*, epsilon: float) -> float:
    """`epsilon` nats (`epsilon log2 e` bits): any epsilon-LDP answer (Lemma 6). Infinite at epsilon = inf."""
    check_epsilon(epsilon)
    return epsilon


def tanh_information(*, epsilon: float) -> float:
    """`epsilon tanh(epsilon / 2)` nats: the largest Kullback-Leibler divergence between two answers' laws."""
    check_epsilon(epsilon)
    return epsilon * math.tanh(epsilon / 2)


def capacity_information(*, epsilon: float) -> float:
    """Exact capacity of an epsilon-LDP channel [nats]: no answer, however long, tells more.

    `max_a [eps a e^eps / (1 + a(e^eps - 1)) - ln(1 + a(e^eps - 1))]` is reached where
    `1 + a(e^eps - 1) = k`, `k = eps / (1 - e^-eps)`, and equals `k - 1 - ln k`; about `eps^2 / 8` for small
    epsilon. At epsilon = inf it is infinite, as long as answers may be of any length: then an answer of m bits
    tells `m ln 2` at most, and w binary ratings `w ln 2` (`ratings_information`).

    >>> round(capacity_information(epsilon=1.0), 4)
    0.1233
    """
    check_epsilon(epsilon)
    if epsilon == math.inf:
        return math.inf
    if epsilon < 1e-3:
        x = epsilon / 2 + epsilon**2 / 12 - epsilon**4 / 720
        return x * x * (1 / 2 - x * (1 / 3 - x * (1 / 4 - x / 5)))
    x = -epsilon / math.expm1(-epsilon) - 1.0
    return x - math.log1p(x)


def ratings_information(*, rated: int) -> float:
    """`w ln 2` nats: which items were rated tells nothing, a binary rating a bit at most. Ours; needs no privacy."""
    return rated * math.log(2)


def one_bit_information(*, items: int) -> float:
    """`1 / N` nats: any one-bit sketch, private or not, of a single rating, `w = 1` (Theorem 10 [4.3])."""
    return 1.0 / items


def weak_scarce_information(*, items: int, rated: int, epsilon: float) -> float:
    """`e^(2 eps) (Delta_1 + Delta_2)` nats, of order `w^2 / N` for `w = o(N)` (Theorem 13 [4.8]).

    `Delta_1` is half the chance that two users share one rated item, `Delta_2` the chance that they share more.
    The inequality holds for every w.
    """
    check_epsilon(epsilon)
    shared = overlap(items=items, rated=rated)
    return _exp(2 * epsilon) * (shared.one / 2 + shared.more)


def scarce_information(*, items: int, rated: int, epsilon: float) -> float:
    """`2 (e^eps - 1)^2 w / N` + equations (15) and (16), nats; of order `w / N` for `w = o(N^(1/3))`.

    Theorem 14 [4.10]. The paper asks for `eps < ln 2`; the inequality holds for every w and epsilon.
    """
    check_epsilon(epsilon)
    shared = overlap(items=items, rated=rated)
    first = 2 * (_exp(epsilon) - 1) ** 2 * rated / items if epsilon < 350 else math.inf
    return first + _exp(2 * epsilon) * (shared.excess + shared.more)


def contraction_information(*, items: int, rated: int, epsilon: float) -> float:
    """`sinh(eps / 2)^2 w / N` nats, for every N, w and epsilon. Ours, not in the paper; below Theorem 14 everywhere.

    Lemma 9's bound for an answer s is `sum_T <lambda_s - 1, h_T>^2` over nonempty sets of items T: `lambda_s` is the
    density of `(I, R)` given s against its prior, `h_T = 1[T in I] prod_{i in T} phi(R_i)`, phi the standardised
    rating. The `h_T` are orthogonal with squared norms `P(T in I) <= w / N`, so that Bessel's inequality leaves
    `(w / N) Var(lambda_s)`; and a density of mean 1 whose values differ by a factor `e^eps` at most has variance
    `sinh(eps / 2)^2` at most.
    """
    check_epsilon(epsilon)
    check_shape(items=items, rated=rated)
    return math.sinh(epsilon / 2) ** 2 * rated / items if epsilon < 700 else math.inf
