"""Adaptive policies: decided items leave the pool, and later rounds ask only about the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from coordinator.protocol.arrays import Bools, Floats, Indices
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.posterior import Posterior, farthest_gaps, nearest_gaps
from coordinator.server.design import PoolDesign
from coordinator.server.rounds.beliefs import most_moved
from coordinator.server.rounds.setting import LARGEST_ROUND, POOLED, Setting, users_on_grid
from coordinator.server.rounds.state import Ask, ServerState

PILOT = 0.15
"""Share of the log-odds that decide an item which the first round brings, if users like all of a cluster or nothing."""
SHARE = 0.18
"""A round is so large that on average it decides this share of the open items, and `MORE` items."""
MORE = 2.0
MOST = 0.8
"""Largest share of the open items that a round should decide."""
GROWTH = 0.35
"""A round asks at most this share of the users asked so far, so that the next round can use what it tells."""
LEAST, LEAST_ALONE = 0.04, 0.25
"""A round adds at least this share to the information about its items, for several items and for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eliminate:
    """Decided items leave the pool; each round is large enough to decide a share of the open ones.

    Nothing is decided before the clusters stand apart: until then every round doubles the users asked so far. The
    policy stops when all items are decided at the setting's confidence, or when no device has an answer left.

    Attributes
    ----------
    setting : Setting
        Its design must ask about pools (MaxSense, sign sensing).
    share : float
        Share of the open items that a round decides on average, in (0, 1). A smaller share means more rounds, and fewer
        users who are asked about items that are almost decided.
    """

    asks_undecided: ClassVar[bool] = True
    setting: Setting
    share: float = SHARE

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting = self.setting
        if len(state.asked) < len(pools := setting.pools):
            return _pilot(setting, state, pool=pools[len(state.asked)] if setting.pool_size else None)
        posterior = setting.believe(state)
        if not posterior.apart:
            pool = pools[len(state.asked) % len(pools)] if setting.pool_size else None
            return setting.ask(state, users=-(-state.answers_asked // len(pools)), pool=pool)
        if not (undecided := ~posterior.decided(setting.failure)).any():
            return None
        undecided = _some(setting, state, undecided)
        goal = min(self.share * undecided.sum() + MORE, MOST * undecided.sum())
        return _next(setting, state, posterior, undecided, goal=float(goal), least=LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemByItem:
    """The naive sequential scheme, which asks about one item at a time until it is decided.

    Every item gets a pilot round. While the clusters do not stand apart, the next round is about the item with the
    least information and doubles it; afterwards it is about the first open item.

    Attributes
    ----------
    setting : Setting
        As for `Eliminate`.
    """

    setting: Setting

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting = self.setting
        if len(state.asked) < setting.design.items:
            return _pilot(setting, state, pool=np.array([len(state.asked)], np.int32))
        posterior = setting.believe(state)
        if not posterior.apart:
            assert state.estimates is not None  # because there is a posterior
            item = np.array([state.estimates.information.argmin()], np.int32)
            before = sum(ask.stop - ask.first for ask in state.asked if _only(ask) == item[0])
            return setting.ask(state, users=before, pool=item)
        if not (undecided := ~posterior.decided(setting.failure)).any():
            return None
        only = np.arange(undecided.size) == undecided.argmax()
        return _next(setting, state, posterior, only, goal=0.5, least=LEAST_ALONE)


def _some(setting: Setting, state: ServerState, open_ones: Bools) -> Bools:
    """Return the open items to ask about next: those that least is known of, as many as a pool may have."""
    assert state.estimates is not None  # because there is a posterior
    if setting.pool_size is None or open_ones.sum() <= setting.pool_size:
        return open_ones
    items = np.flatnonzero(open_ones)
    chosen = np.zeros_like(open_ones)
    chosen[items[np.argsort(state.estimates.information[items], kind="stable")[: setting.pool_size]]] = True
    return chosen


def _only(ask: Ask) -> int | None:
    """Return the one item that a round asks about, or None where it is about several."""
    pool = ask.query.pool
    return int(pool[0]) if pool is not None and pool.size == 1 else None


def _pilot(setting: Setting, state: ServerState, pool: Indices | None = None) -> Ask | None:
    """Return the first round about some items, before anything is known."""
    design, query = pool_design(setting), setting.query(state, pool=pool)
    gap = design.widest / (setting.clusters - 1)
    information = PILOT * 2 * math.log(design.items / setting.failure) / gap**2
    return setting.send(state, query, users=users_on_grid(information / float(design.rates(query).mean())))


def _next(
    setting: Setting, state: ServerState, posterior: Posterior, open_ones: Bools, *, goal: float, least: float
) -> Ask | None:
    """Return a round about open items, large enough to decide ``goal`` of them; see `users_to_decide`."""
    assert state.estimates is not None  # there is a posterior
    expected = posterior.expected[open_ones]
    query = setting.query(state, pool=np.flatnonzero(open_ones).astype(np.int32), expected=expected)
    rates = pool_design(setting).rates(query, expected)
    users = users_to_decide(
        posterior, open_ones, rates, goal=goal, failure=setting.failure, assume_malicious=setting.assume_malicious
    )
    crumbs = least * float((state.estimates.information[open_ones] / rates).mean())
    return setting.send(state, query, users=users_on_grid(max(min(users, GROWTH * state.answers_asked), crumbs)))


def users_to_decide(
    posterior: Posterior,
    open_ones: Bools,
    rates: Floats,
    *,
    goal: float,
    failure: float,
    assume_malicious: float = 0.0,
) -> float:
    """Return the users after which so many of the open items should be decided, on average.

    Parameters
    ----------
    posterior : Posterior
        What is known; its clusters stand apart.
    open_ones : ndarray of bool, shape (N,)
        The pool of the round.
    rates : ndarray of float64, shape (M,)
        Information of a device's answer about each of them.
    goal : float
        How many of them the round should decide, fewer than all.
    failure : float
        Probability of a wrong label that is allowed, in all.
    assume_malicious : float
        Share of liars that decided items must withstand: the edge moves away with every user.

    Notes
    -----
    The log-odds of an item's cluster against the next one are a Brownian motion in the information I about the item:
    with a gap g between the levels they drift by ``g^2 I / 2`` with variance ``g^2 I``.
    """
    assert posterior.mixture is not None  # clusters that stand apart have levels
    nearest = nearest_gaps(posterior.mixture)[posterior.cluster[open_ones]]
    doubt = np.clip(posterior.doubt[open_ones], 1e-300, 0.5)
    odds, bound = np.log1p(-doubt) - np.log(doubt), min(posterior.threshold(failure), 0.5)
    edge = math.log1p(-bound) - math.log(bound)
    farthest = farthest_gaps(posterior.mixture)[posterior.cluster[open_ones]]
    drift, lost = nearest**2 * rates / 2, assume_malicious * farthest * most_moved(rates)

    def decided(users: float) -> float:
        return _passes(odds, doubt, drift * users, edge + lost * users)

    low, high = 0.0, 1.0
    while decided(high) < goal and high < LARGEST_ROUND:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if decided(middle) >= goal else (middle, high)
    return high


def _passes(odds: Floats, doubt: Floats, drift: Floats, edge: Floats) -> float:
    """Return the expected number of items whose log-odds pass the edge after so much drift."""
    spread = np.sqrt(2 * drift)
    right, wrong = ndtr((odds + drift - edge) / spread), ndtr((drift - odds - edge) / spread)
    return float(((1 - doubt) * right + doubt * wrong).sum())


def pool_design(setting: Setting) -> PoolDesign:
    """Return the setting's design, which must ask about pools.

    Raises
    ------
    InputError
        If it does not.
    """
    design = setting.design
    if not isinstance(design, PoolDesign):
        raise InputError(f"{type(design).__name__} asks about no pools of items; choose {POOLED}")
    return design
