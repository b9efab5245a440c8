"""How many users are enough for MaxSense, and which clusters a mechanism cannot tell apart with any number."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.protocol.moments.count_moments import NoSignal
from coordinator.protocol.trust_models import LOCAL
from scenarios.config.custom_kinds import design_of
from scenarios.config.mechanism_settings import designs
from scenarios.config.resolve import ResolvedRun
from scenarios.theory.bounds import check_epsilon, check_shape

SAME = 1e-9
"""Clusters differ less than this, as a share of what answers without noise vary at all: rounding, no difference."""


def profiles(run: ResolvedRun) -> Floats | None:
    """Return what answers without noise say of each cluster's items, one row a cluster; None where nothing.

    Where a mechanism has no moments nobody knows, and its clusters count as told apart. Noise scales all of it alike.
    For scores P(S = 1 | the item is sensed), less P(S = 1); where pairs are asked about, P(S = 1) of a pair with an
    item of each cluster; where ratings are released, the mean rating.
    """
    block, moments = run.block, replace(run, world=replace(run.world, epsilon=None)).moments
    if moments is None or isinstance(moments, NoSignal):
        return None if moments else np.eye(block.cluster_sizes.size)
    profile: Floats | None = getattr(moments, "profile", None)
    return (block.class_shares @ block.like - 0.5)[:, None] if profile is None else profile


def inseparable(run: ResolvedRun) -> list[tuple[int, int]]:
    """Return the pairs of clusters that the run's mechanism cannot tell apart."""
    rows = profiles(run)
    return [
        (first, second)
        for first, second in combinations(range(run.block.cluster_sizes.size), 2)
        if rows is None or np.abs(rows[first] - rows[second]).max() <= SAME * np.abs(rows).max()
    ]


def warning(run: ResolvedRun) -> str | None:
    """Return a line that warns of clusters that cannot be told apart and names a way, or None."""
    if run.world.block is None or not (pairs := inseparable(run)):
        return None
    listing = ", ".join(f"{first} and {second}" for first, second in pairs)
    line = f"warning: {run.scenario.design} cannot tell clusters {listing} apart, however many users answer"
    for other in designs().values() if run.world.rated > 1 and not run.mechanism.paired else ():
        if other.paired and other.trust == LOCAL:
            settings = other.settings()
            with suppress(InputError):  # too many items for pairs of them
                design_of(settings, run.world)
                changed = run.scenario.model_copy(update={"design": other.name, "settings": settings})
                if not inseparable(replace(run, scenario=changed)):
                    return f"{line}; {other.title} can (--design {other.name})"
    return line


Shares: TypeAlias = Sequence[float] | Floats | None
BLIND = 1e-12  # a delta_min below this is a rounding error of 0


def delta_min(
    *, like: ArrayLike, user_shares: Shares = None, cluster_shares: Shares = None, theta: float = 1.0
) -> float:
    """Separation, in [0, 1], of the two item clusters that MaxSense tells apart worst; below `BLIND` it cannot.

    `min_{l < l'} | sum_k alpha_k exp(-theta sum_m beta_m b[k, m]) (b[k, l] - b[k, l']) |`: P(like) b has shape (K, L)
    or (L,), shares alpha of user classes and beta of item clusters sum to 1 and are equal by default, and items are
    sensed with probability `theta / w`. The Price of Privacy, Theorem 15 [5.1].

    >>> round(delta_min(like=[[0.9, 0.1]]), 4)
    0.4852
    >>> delta_min(like=[[0.9, 0.1], [0.1, 0.9]]) < BLIND
    True
    """
    table = np.atleast_2d(np.asarray(like, dtype=np.float64))
    if table.ndim != 2 or table.shape[1] < 2 or not ((table >= 0) & (table <= 1)).all():
        raise InputError(f"like {table.tolist()}: give probabilities in [0, 1], a row per class, 2 clusters or more")
    if not 0 < theta < math.inf:
        raise InputError(f"theta {theta}: give a finite sensing rate above 0")
    alpha = _shares("user_shares", user_shares, table.shape[0])
    beta = _shares("cluster_shares", cluster_shares, table.shape[1])
    seen = (alpha * np.exp(-theta * (table @ beta))) @ table
    return float(min(abs(first - second) for first, second in combinations(seen, 2)))


def sufficient_users(
    *,
    items: int,
    rated: int,
    epsilon: float,
    like: ArrayLike,
    user_shares: Shares = None,
    cluster_shares: Shares = None,
    theta: float = 1.0,
    exponent: float = 1.0,
) -> float:
    """Users with which MaxSense labels every item right with probability at least `1 - N^-d`.

    `300 N^2 (ln 2 + (1 + d) ln N) / (eps_hat^2 delta_min^2 w theta (1 - theta/w)^2)`, `eps_hat = 2 tanh(eps / 2)`:
    of N items a user rated w, and the exponent d is `-log(1 - success) / log(N)`. An upper bound with generous
    constants: in the standard setting some sixty times what simulation needs.

    The Price of Privacy, Theorem 15 [5.1]. The paper prints 75 for 300, having dropped a factor 1/2 of its own
    Delta_min. `O(N^2 log N / w)`, stated for `w = o(N)` and large N.
    """
    check_shape(items=items, rated=rated)
    check_epsilon(epsilon)
    if not exponent > 0:
        raise InputError(f"exponent {exponent}: give a number above 0; success has probability 1 - items^-exponent")
    gap = delta_min(like=like, user_shares=user_shares, cluster_shares=cluster_shares, theta=theta)
    if theta >= rated:
        raise InputError(f"theta {theta} at rated {rated}: Theorem 15 senses with probability theta/rated below 1")
    if gap < BLIND:
        raise InputError(f"delta_min {gap:.1g}: MaxSense cannot tell two clusters apart; use Pairwise-Preference")
    effort = math.log(2) + (1 + exponent) * math.log(items)
    signal = (2 * math.tanh(epsilon / 2) * gap * (1 - theta / rated)) ** 2 * rated * theta
    return 300 * float(items) ** 2 * effort / signal if signal > 0 else math.inf


def _shares(name: str, shares_or_none: Shares, size: int) -> Floats:
    if shares_or_none is None:
        return np.full(size, 1.0 / size)
    shares = np.asarray(shares_or_none, dtype=np.float64)
    if shares.shape != (size,) or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise InputError(f"{name} {shares.tolist()}: give {size} numbers of at least 0 that sum to 1")
    return shares
