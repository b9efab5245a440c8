"""Users that anchor sensing needs: its rounds, played with normal noise from the moments of what it asks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from coordinator.protocol.arrays import Bools, Floats
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.server.anchor.sensing import SENSING_LEVELS, AnchorSensing
from coordinator.server.anchor.start import CLIP, ENOUGH, FIRST_LOOK, NEXT_LOOK
from coordinator.server.anchor.two_class import LEVELS_TRIED, PAIRS_COUNT, SURE
from coordinator.server.moments.anchor import pair_contrast
from coordinator.server.moments.counts import hypergeometric_masses
from coordinator.server.rounds.anchoring import AGAIN, CLEAR, GROWTH, TRIAL

PLAYED = 6
"""Runs that are played; their mean is the prediction."""
MOST_ROUNDS = 400


class AnchorWorld(NamedTuple):
    """Two mirrored classes: the second likes what the first dislikes."""

    items: int
    rated: int
    level: float
    """How far ratings of both clusters lie from 0 on average."""
    epsilon: Epsilon
    failure: float


@lru_cache(maxsize=256)
def anchor_users(world: AnchorWorld) -> tuple[float, float]:
    """Return users whom anchor sensing asks on average until every item is decided, and how many of them tell pairs.

    The rounds of `coordinator.server.rounds.anchoring` are played item by item: pairs' agreements are normal around
    their means, and so are estimates of items; guesses are right as often as a normal sum of log-odds is positive. Like
    rates are taken as known by the posterior.
    """
    played = [_play(world, np.random.default_rng(number)) for number in range(PLAYED)]
    users, pairs = np.mean(played, axis=0).tolist()
    return users, pairs


def _play(world: AnchorWorld, noise: np.random.Generator) -> tuple[float, float]:
    design = AnchorSensing(items=world.items, rated=world.rated)
    pool = design.pool(bytes(16)).size
    truth = noise.permutation(np.where(np.arange(world.items) % 2, world.level, -world.level))
    contrast = pair_contrast(pool, items=world.items, rated=world.rated, epsilon=world.epsilon)
    pairs = _Pairs(truth[:pool], contrast, noise)
    pairs.ask(FIRST_LOOK / (pool * contrast**2))
    wasted = 0.0
    while True:
        while not pairs.stands:
            pairs.ask(NEXT_LOOK * pairs.users)
        spent, done = _turned(world, truth, pairs, wasted + pairs.users, noise)
        if done:
            return wasted + pairs.users + spent, pairs.users
        wasted += spent
        pairs.ask((AGAIN - 1) * pairs.users)


class _Pairs:
    """Agreements of a pool's pairs, as users come in."""

    def __init__(self, truth: Floats, contrast: float, noise: np.random.Generator) -> None:
        self.users, self._truth, self._contrast, self._noise = 0.0, truth, contrast, noise
        self._sums = np.zeros((truth.size, truth.size))

    def ask(self, users: float) -> None:
        """Add so many users."""
        upper = np.triu(self._noise.normal(scale=math.sqrt(users), size=self._sums.shape), 1)
        told = users * self._contrast * np.outer(self._truth, self._truth)
        self._sums += upper + upper.T + told - np.diag(np.diag(told))
        self.users += users
        values, vectors = np.linalg.eigh(self._sums)
        edge = values[-1] / (2 * math.sqrt(self._truth.size * self.users))
        self.stands = bool(edge >= ENOUGH)
        if self.stands:
            strength = edge + math.sqrt(edge**2 - 1)
            entries, overlap = vectors[:, -1] * math.sqrt(self._truth.size), 1 - strength**-2
            odds = np.clip(2 * math.sqrt(overlap) * entries / (1 - overlap), -CLIP, CLIP)
            self.odds = odds if odds @ self._truth > 0 else -odds


def _turned(
    world: AnchorWorld, truth: Floats, pairs: _Pairs, before: float, noise: np.random.Generator
) -> tuple[float, bool]:
    """Return users of turned signs, and whether these decided all items, or were given up."""
    spent, first = 0.0, np.zeros(world.items)
    first[: pairs.odds.size] = pairs.odds
    weighted, information = np.zeros((2, world.items))
    for number in range(MOST_ROUNDS):
        own = 2 * world.level * weighted
        expected = world.level * np.tanh((own + (first if number <= PAIRS_COUNT else 0.0)) / 2)
        decided = _decided(own, world.failure) if number > PAIRS_COUNT else np.zeros(world.items, np.bool_)
        if decided.all():
            return spent, True
        if spent >= TRIAL * pairs.users:
            told = float((weighted**2 / np.maximum(information, 1e-300)).sum())
            if told < world.items + CLEAR * math.sqrt(2 * world.items):
                return spent, False
        users = GROWTH * (before + spent)
        share, slope = max(
            (_slopes(world, truth, np.clip(expected, -SURE, SURE), decided, level) for level in LEVELS_TRIED),
            key=lambda one: one[0] * float((one[1] ** 2).sum()),
        )
        told_now = users * share * slope**2
        weighted += told_now * truth + np.sqrt(told_now) * noise.normal(size=world.items)
        information += told_now
        spent += users
    return math.inf, True


def _decided(odds: Floats, failure: float) -> Bools:
    """Return which items are decided; see `coordinator.server.decoding.posterior.Posterior.decided`."""
    doubt = scipy.special.expit(-np.abs(odds))
    ordered = np.sort(doubt)
    room = (failure - np.concatenate([[0.0], np.cumsum(ordered)[:-1]])) / (ordered.size - np.arange(ordered.size))
    small = ordered <= room
    return np.asarray(doubt <= (ordered[small].max() if small.any() else -1.0))


def _slopes(world: AnchorWorld, truth: Floats, expected: Floats, decided: Bools, level: int) -> tuple[float, Floats]:
    """Return how often open items are sensed, and the slope of every item's agreements; 0 of decided ones."""
    share, others = level / SENSING_LEVELS, world.rated - 1
    serve = np.where(decided, 1.0, 1 - share)
    guess = serve * np.arctanh(expected)
    mean = others * float((guess * truth).mean())
    spread = others * float((guess * np.arctanh(expected)).mean()) - mean**2 / others
    rho = math.erf(mean / math.sqrt(2 * spread)) if spread > 0 else 0.0
    centres = np.abs(rho * expected)
    still = ~decided
    size = float((1 + centres[still] ** 2 - 2 * rho * (centres * np.sign(expected) * truth)[still]).mean())
    least, masses = hypergeometric_masses(world.items - 1, int(still.sum()) - 1, others)
    sensed = share * (least + np.arange(masses.size))[:, None] * size
    grid = np.linspace(0, 2, 33)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = masses @ np.where(sensed > 0, scipy.special.erf(grid / np.sqrt(2 * sensed)), grid > 0)
    near, far = np.interp(1 - centres, grid, reach), np.interp(1 + centres, grid, reach)
    told = bit_channel(world.epsilon).contrast * world.rated / world.items
    return share, np.where(decided, 0.0, told * rho * (near + far) / 2)
