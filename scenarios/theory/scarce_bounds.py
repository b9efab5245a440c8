"""Lower bounds on the number of users that grow where each user rated few items, one function a row.

Conventions as in `scenarios.theory.lower_bounds`: a `Setting` in, a number of users out, 0 where the bound says
nothing.
"""

from __future__ import annotations

import math

from scenarios.theory import information
from scenarios.theory.hypotheses import Setting
from scenarios.theory.lower_bounds import OutOfRangeError, users_by_fano


def _single_rating(setting: Setting, name: str) -> None:
    if setting.rated != 1:
        raise OutOfRangeError(
            f"{name} bound at rated {setting.rated}: it holds for 1 rating per user only; take capacity"
        )


def one_bit(setting: Setting) -> float:
    """One-bit sketches of a single rating, no privacy needed, non-adaptive: `Omega(N^2)` (Theorem 10 [4.3]).

    Raises
    ------
    OutOfRangeError
        Unless `rated` is 1. That each answer is one bit is the caller's to know.
    """
    _single_rating(setting, "one-bit")
    return users_by_fano(setting, information.one_bit_information(items=setting.items))


def weak_scarce(setting: Setting) -> float:
    """Non-adaptive epsilon-LDP learners, `w = o(N)`, read as `w < N`: `Omega(N^2 / w^2)` (Theorem 13 [4.8]).

    Raises
    ------
    OutOfRangeError
        Every item is rated.
    """
    if setting.rated == setting.items:
        raise OutOfRangeError(
            f"weak-scarce bound at rated {setting.rated} of {setting.items}: it needs unrated items; take capacity"
        )
    shape = {"items": setting.items, "rated": setting.rated}
    return users_by_fano(setting, information.weak_scarce_information(**shape, epsilon=setting.epsilon))


def scarce(setting: Setting) -> float:
    """Non-adaptive epsilon-LDP learners: `Omega(N^2 / w)` (Theorem 14 [4.10]).

    Raises
    ------
    OutOfRangeError
        Unless `eps < ln 2` and `w = o(N^(1/3))`, read as `w^3 < N`.
    """
    if not (setting.epsilon < math.log(2) and setting.rated**3 < setting.items):
        raise OutOfRangeError(
            f"scarce bound at epsilon {setting.epsilon}, rated {setting.rated} of {setting.items}: it needs "
            "epsilon below ln 2 and rated^3 below items; take capacity or weak-scarce"
        )
    shape = {"items": setting.items, "rated": setting.rated}
    return users_by_fano(setting, information.scarce_information(**shape, epsilon=setting.epsilon))


def adaptive(setting: Setting) -> float:
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
    _single_rating(setting, "adaptive")
    nats = setting.bits * math.log(2)
    if nats <= 1 or setting.epsilon > 350:
        return 0.0
    growth = 40 * math.expm1(setting.epsilon) ** 2 / setting.items
    return math.log(nats) / math.log1p(growth) if growth > 0 else math.inf


def contraction(setting: Setting) -> float:
    """Non-adaptive epsilon-LDP learners, every w: `Omega(N^2 / (w sinh(eps/2)^2))`. Ours, not in the paper."""
    shape = {"items": setting.items, "rated": setting.rated}
    return users_by_fano(setting, information.contraction_information(**shape, epsilon=setting.epsilon))
