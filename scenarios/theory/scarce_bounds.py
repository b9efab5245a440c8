"""Lower bounds on the number of users that grow where each user rated few items, one function a row.

Conventions as in `scenarios.theory.lower_bounds`: a `LearningProblem` in, a number of users out, 0 where the bound says
nothing.
"""

from __future__ import annotations

import math

from scenarios.theory import information
from scenarios.theory.hypotheses import LearningProblem
from scenarios.theory.lower_bounds import OutOfRangeError, users_by_fano


def _single_rating(problem: LearningProblem, name: str) -> None:
    if problem.rated != 1:
        raise OutOfRangeError(
            f"{name} bound at rated {problem.rated}: it holds for 1 rating per user only; take capacity"
        )


def one_bit(problem: LearningProblem) -> float:
    """One-bit sketches of a single rating, no privacy needed, non-adaptive: `Omega(N^2)` (Theorem 10 [4.3]).

    Raises
    ------
    OutOfRangeError
        Unless `rated` is 1. That each answer is one bit is the caller's to know.
    """
    _single_rating(problem, "one-bit")
    return users_by_fano(problem, information.one_bit_information(items=problem.items))


def weak_scarce(problem: LearningProblem) -> float:
    """Non-adaptive epsilon-LDP learners, `w = o(N)`, read as `w < N`: `Omega(N^2 / w^2)` (Theorem 13 [4.8]).

    Raises
    ------
    OutOfRangeError
        Every item is rated.
    """
    if problem.rated == problem.items:
        raise OutOfRangeError(
            f"weak-scarce bound at rated {problem.rated} of {problem.items}: it needs unrated items; take capacity"
        )
    shape = {"items": problem.items, "rated": problem.rated}
    return users_by_fano(problem, information.weak_scarce_information(**shape, epsilon=problem.epsilon))


def scarce(problem: LearningProblem) -> float:
    """Non-adaptive epsilon-LDP learners: `Omega(N^2 / w)` (Theorem 14 [4.10]).

    Raises
    ------
    OutOfRangeError
        Unless `eps < ln 2` and `w = o(N^(1/3))`, read as `w^3 < N`.
    """
    if not (problem.epsilon < math.log(2) and problem.rated**3 < problem.items):
        raise OutOfRangeError(
            f"scarce bound at epsilon {problem.epsilon}, rated {problem.rated} of {problem.items}: it needs "
            "epsilon below ln 2 and rated^3 below items; take capacity or weak-scarce"
        )
    shape = {"items": problem.items, "rated": problem.rated}
    return users_by_fano(problem, information.scarce_information(**shape, epsilon=problem.epsilon))


def adaptive(problem: LearningProblem) -> float:
    """Sequential queries that may depend on earlier answers, `w = 1`: `Omega(N log N)` (Theorem 17 [6.1]).

    T users tell at most `(1 + C/N)^T` nats, `C = 40 (e^eps - 1)^2`, so `T >= ln(nats needed) / ln(1 + C/N)`; the
    paper asks for `N^alpha` nats, this for what Fano needs. (The paper bounds a conditional variance along one
    transcript by the information of the average one; averaged, the step gives `2 ((1 + C/2N)^T - 1)`, no more.)

    Raises
    ------
    OutOfRangeError
        Unless `rated` is 1.

    Notes
    -----
    Known since: `Omega(N^2 / eps^2)` for sequentially interactive protocols, eps <= 1 and `0 < b < 1`, so that
    interaction helps by logarithms at most (Acharya, Canonne, Liu, Sun, Tyagi, Interactive Inference under
    Information Constraints, IEEE Trans. Inf. Theory 2022). A reference: no constant, so no number of users here.
    """
    _single_rating(problem, "adaptive")
    nats = problem.bits * math.log(2)
    if nats <= 1 or problem.epsilon > 350:
        return 0.0
    growth = 40 * math.expm1(problem.epsilon) ** 2 / problem.items
    return math.log(nats) / math.log1p(growth) if growth > 0 else math.inf


def contraction(problem: LearningProblem) -> float:
    """Non-adaptive epsilon-LDP learners, every w: `Omega(N^2 / (w sinh(eps/2)^2))`. Ours, not in the paper."""
    shape = {"items": problem.items, "rated": problem.rated}
    return users_by_fano(problem, information.contraction_information(**shape, epsilon=problem.epsilon))
