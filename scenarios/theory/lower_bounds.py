"""Lower bounds on the number of users that do not look at how many items a user rated, one function a row.

Every function takes a `LearningProblem` and returns the number of users (a float, 0 where the bound says nothing, as
all private ones do at epsilon = inf) below which every learner fails with probability above `problem.failure`, by
Fano's inequality `U >= ((1 - failure) log2(M / M_d) - 1) / I` (Lemmas 5 and 20). Orders are the paper's.
"""

from __future__ import annotations

import math

from coordinator.protocol.errors import InputError
from scenarios.theory import information
from scenarios.theory.hypotheses import LearningProblem


class OutOfRangeError(InputError):
    """A bound was asked outside of its range of validity."""


def users_by_fano(problem: LearningProblem, nats: float) -> float:
    """Users of `nats` information each that Fano's inequality asks for (Lemmas 5 and 20); 0 for infinite nats."""
    needed = problem.bits * math.log(2)
    if nats == 0:  # an epsilon so small that the information underflows
        return math.inf if needed > 0 else 0.0
    return needed / nats


def fano(problem: LearningProblem) -> float:
    """Any epsilon-LDP learner, adaptive or not: `Omega(N / eps)` (Lemma 6, Theorem 7 [3.3]).

    Parameters
    ----------
    problem : LearningProblem
        The learning problem; any.

    Returns
    -------
    float
        Users needed, 0 or more.
    """
    return users_by_fano(problem, information.fano_information(epsilon=problem.epsilon))


def fano_tanh(problem: LearningProblem) -> float:
    """`fano` with `eps tanh(eps / 2)` nats per user; any epsilon-LDP learner. `Omega(N / eps^2)` for small epsilon."""
    return users_by_fano(problem, information.tanh_information(epsilon=problem.epsilon))


def capacity(problem: LearningProblem) -> float:
    """`fano` with the exact capacity of an epsilon-LDP channel; any epsilon-LDP learner, adaptive or not.

    The sharpest that holds whatever the ratings are. `Omega(N / eps^2)` for small epsilon, `Omega(N / eps)` for large.

    >>> round(capacity(LearningProblem(items=1000, rated=30, epsilon=1.0)))
    2802
    """
    return users_by_fano(problem, information.capacity_information(epsilon=problem.epsilon))


def distortion(problem: LearningProblem) -> float:
    """`mistakes` wrong labels allowed, any epsilon-LDP learner (Lemma 20, Theorem 23 [A.5]), by the capacity.

    All bounds but `distortion_paper` count mistakes in this way, so it equals `capacity`; it stands here under the
    theorem's name. `Omega(N / eps)`.
    """
    return capacity(problem)


def distortion_paper(problem: LearningProblem) -> float:
    """Theorem 23's closed form, as printed: `(1 - failure) N L (1 - d/N - 1/L)^2 / (3 eps)`.

    It drops Fano's one bit and the `ln L!` of renaming; `distortion` is exact and, but for a handful of items or
    failure near 1, larger.

    Raises
    ------
    OutOfRangeError
        Unless `1 < (1 - d/N) L <= 2`, where the paper's Chernoff step holds.
    """
    share = 1 - problem.mistakes / problem.items
    if not 1 < share * problem.clusters <= 2:
        raise OutOfRangeError(
            f"distortion-paper bound at clusters {problem.clusters}, mistakes {problem.mistakes}: it needs "
            "(1 - mistakes/items) clusters above 1 and at most 2; take distortion"
        )
    gap = share - 1 / problem.clusters
    return (1 - problem.failure) * problem.items * problem.clusters * gap**2 / (3 * problem.epsilon)


def ratings(problem: LearningProblem) -> float:
    """Any learner, private or not, non-adaptive or not: w ratings tell w bits, `Omega(N / w)`. Ours."""
    return users_by_fano(problem, information.ratings_information(rated=problem.rated))
