"""Adaptive policies: items that are decided leave the pool, and what is left is asked about with more force."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from coordinator.pool_designs import PoolDesign
from coordinator.posterior import Posterior
from coordinator.protocol.arrays import Bools, Floats
from coordinator.protocol.errors import InputError
from coordinator.server import Ask, ServerState
from coordinator.setting import Setting

PILOT = 0.5
"""The first round brings this share of the log-odds that decide an item, if users like all of a cluster or nothing."""
SHARE = 0.14
"""A round is as large as decides this share of the open items on average, and `MORE` items."""
MORE = 2.0
MOST = 0.8
"""But no more than this share of them: the last items need not all be decided at once."""
LARGEST_ROUND = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Eliminate:
    """Decided items leave the pool; each round is as large as decides a share of the open ones.

    Nothing is decided before the clusters stand apart: until then every round doubles the users asked so far. The
    policy stops when all items are decided at the setting's confidence, or when no device has an answer left.

    Attributes
    ----------
    setting : Setting
        Its design must ask about pools (MaxSense, sign sensing).
    share : float
        Share of the open items that a round decides on average, in (0, 1): with less of it there are more rounds, and
        fewer users are asked about items that are all but decided.
    """

    setting: Setting
    share: float = SHARE

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting, everywhere = self.setting, self.setting.design.items
        if not state.asked:
            return setting.ask(state, users=pilot_users(setting, everywhere))
        posterior = setting.believe(state)
        if not posterior.apart:
            return setting.ask(state, users=state.answers_asked)
        if not (undecided := ~posterior.decided(setting.failure)).any():
            return None
        goal = min(self.share * undecided.sum() + MORE, MOST * undecided.sum())
        users = users_to_decide(setting, posterior, undecided, goal=float(goal))
        return setting.ask(state, users=users, pool=np.flatnonzero(undecided).astype(np.int32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemByItem:
    """The naive sequential scheme: one item at a time, until it is decided; each item costs what it costs alone.

    Every item gets a pilot round. While the clusters do not stand apart, the item that least is known about is asked
    about again, as much as before; from then on the first open item.

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
            item = np.array([len(state.asked)], np.int32)
            return setting.ask(state, users=pilot_users(setting, 1), pool=item)
        posterior = setting.believe(state)
        if not posterior.apart:
            assert state.estimates is not None  # there is a posterior
            item = np.array([state.estimates.information.argmin()], np.int32)
            before = sum(ask.stop - ask.first for ask in state.asked if _only(ask) == item[0])
            return setting.ask(state, users=before, pool=item)
        if not (undecided := ~posterior.decided(setting.failure)).any():
            return None
        only = np.arange(undecided.size) == undecided.argmax()
        users = users_to_decide(setting, posterior, only, goal=0.5)
        return setting.ask(state, users=users, pool=np.flatnonzero(only).astype(np.int32))


def _only(ask: Ask) -> int | None:
    """Return the one item that a round asks about, or None where it is about several."""
    pool = ask.query.pool
    return int(pool[0]) if pool is not None and pool.size == 1 else None


def pilot_users(setting: Setting, pool: int) -> int:
    """Return the size of a first round about ``pool`` items, before anything is known."""
    design = pool_design(setting)
    gap = design.widest / (setting.clusters - 1)
    information = PILOT * 2 * math.log(design.items / setting.failure) / gap**2
    return _users(information, design.rate(pool, setting.epsilon_per_answer, 0.5))


def users_to_decide(setting: Setting, posterior: Posterior, undecided: Bools, *, goal: float) -> int:
    """Return the users after which so many of the open items should be decided, on average.

    Parameters
    ----------
    setting : Setting
        Design, privacy and confidence.
    posterior : Posterior
        What is known; its clusters stand apart.
    undecided : ndarray of bool, shape (N,)
        The pool of the round.
    goal : float
        How many of them are to be decided, fewer than all.

    Notes
    -----
    The log-odds of an item's cluster against the next one are a Brownian motion in the information I about the item:
    with a gap g between the levels they drift by ``g^2 I / 2`` with variance ``g^2 I``.
    """
    assert posterior.mixture is not None  # clusters that stand apart have levels
    design, pool = pool_design(setting), int(undecided.sum())
    levels = posterior.mixture.levels
    gaps = np.append(-np.diff(levels), np.inf)
    nearest = np.minimum(gaps, np.insert(gaps[:-1], 0, np.inf))[posterior.cluster[undecided]]
    doubt = np.clip(posterior.doubt[undecided], 1e-300, 0.5)
    odds, bound = np.log1p(-doubt) - np.log(doubt), posterior.threshold(setting.failure)
    edge = math.log1p(-min(bound, 0.5)) - math.log(min(bound, 0.5))
    liked = design.liked(float(levels[posterior.cluster[undecided]].mean()))

    def decided(information: float) -> float:
        drift = nearest**2 * information / 2
        return _passes(odds, doubt, drift, edge)

    low, high = 0.0, 1.0
    while decided(high) < goal:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if decided(middle) >= goal else (middle, high)
    return _users(high, design.rate(pool, setting.epsilon_per_answer, liked))


def _passes(odds: Floats, doubt: Floats, drift: Floats, edge: float) -> float:
    """Return how many items' log-odds should pass the edge after so much drift."""
    spread = np.sqrt(2 * drift)
    right, wrong = ndtr((odds + drift - edge) / spread), ndtr((drift - odds - edge) / spread)
    return float(((1 - doubt) * right + doubt * wrong).sum())


def _users(information: float, rate: float) -> int:
    return max(1, math.ceil(min(information / rate, LARGEST_ROUND))) if rate else LARGEST_ROUND


def pool_design(setting: Setting) -> PoolDesign:
    """Return the setting's design, which must ask about pools.

    Raises
    ------
    InputError
        If it does not.
    """
    design = setting.design
    if not isinstance(design, PoolDesign):
        raise InputError(f"{type(design).__name__} asks about no pools of items; choose maxsense or sign")
    return design
