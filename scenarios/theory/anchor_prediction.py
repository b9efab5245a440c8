"""Users that anchor sensing needs: its rounds, played with normal noise from the moments of what it asks."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.errors import InputError
from coordinator.server.anchor.anchor_queries import CLIP, ENOUGH, FIRST_LOOK, NEXT_LOOK, SENSING_LEVELS, AnchorSensing
from coordinator.server.anchor.policy import CLEAR, LEVELS_TRIED, PAIR_AGAIN, PAIR_GROWTH, PAIRS_COUNT, SURE, TRIAL
from coordinator.server.decoding.posterior import Posterior
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.probabilities import hypergeometric_masses
from coordinator.server.moments.sign_moments import pair_contrast
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import block_parameters

PLAYED, MANY = 6, 60
"""Runs that are played, whose mean is the prediction; a third of them in pools above the second number."""
MOST_ROUNDS, MOST = 400, 1e15
"""A run that is played goes on for so many rounds, and begins only if so many users are enough for its pairs."""


class AnchorWorld(NamedTuple):
    """A block model of two clusters, and what anchor sensing asks in it."""

    block: BlockParameters
    ratings: Floats  # shape (K, 2): mean rating of each class, in [-1, 1], for items of each cluster
    epsilon: Epsilon
    failure: float
    pool: int  # items whose pairs are asked about


@lru_cache(maxsize=256)
def users_of(scenario: Scenario, failure: float) -> float:
    """Return users whom anchor sensing asks on average in a filled-in block model until every item is decided.

    The rounds of `coordinator.server.anchor.policy` are played item by item: pairs' agreements are normal around
    their means, and so are estimates of items; guesses are right as often as a normal sum of log-odds is positive. The
    mixture's levels are taken as known.
    """
    block = block_parameters(scenario)
    if block.cluster_sizes.size != 2:
        raise InputError(f"anchor sensing is predicted for 2 clusters, not for {block.cluster_sizes.size}; run it")
    if block.rated < 2:
        raise InputError("anchor sensing learns from pairs of ratings; give users 2 rated items or more")
    design = RunSpec(scenario).design
    assert isinstance(design, AnchorSensing)  # predicted for no other
    pool = design.pool(bytes(16)).size
    world = AnchorWorld(block, 2 * block.like - 1, scenario.epsilon, failure, pool)
    runs = PLAYED if pool <= MANY else PLAYED // 3
    return float(np.mean([_play(world, np.random.default_rng(number)) for number in range(runs)]))


def _play(world: AnchorWorld, noise: np.random.Generator) -> float:
    pool, block = world.pool, world.block
    cluster = noise.permutation(np.repeat(np.arange(2), block.cluster_sizes))
    contrast = pair_contrast(pool, items=block.items, rated=block.rated, epsilon=world.epsilon)
    pairs = _Pairs(world, cluster[:pool], contrast, noise)
    if not pairs.threshold < MOST:
        return math.inf
    near = pairs.threshold * (1.6 if pool > MANY else 0.125)  # looks before that are of noise alone
    pairs.ask(max(FIRST_LOOK / (pool * contrast**2), near))
    wasted = 0.0
    while True:
        while not pairs.stands:
            pairs.ask(NEXT_LOOK * pairs.users)
        spent, done = _turned(world, cluster, pairs, wasted + pairs.users, noise)
        if done:
            return wasted + pairs.users + spent
        wasted += spent
        pairs.ask((PAIR_AGAIN - 1) * pairs.users)


class _Pairs:
    """Agreements of a pool's pairs, as users come in."""

    def __init__(self, world: AnchorWorld, cluster: Ints, contrast: float, noise: np.random.Generator) -> None:
        self.users, self._contrast, self._noise = 0.0, contrast, noise
        likes, shares = world.ratings[:, cluster], world.block.class_shares
        self._agreement = np.einsum("k,ki,kj->ij", shares, likes, likes)
        np.fill_diagonal(self._agreement, 0.0)
        self._side = likes[np.argmax(shares)]
        self._sums = np.zeros_like(self._agreement)
        strength = contrast * float(scipy.linalg.eigvalsh(self._agreement)[-1])
        self.threshold = len(self._agreement) / strength**2 if strength > 0 else math.inf

    def ask(self, users: float) -> None:
        """Add so many users."""
        upper = np.triu(self._noise.normal(scale=math.sqrt(users), size=self._sums.shape), 1)
        self._sums += upper + upper.T + users * self._contrast * self._agreement
        self.users += users
        size = len(self._sums)
        values, vectors = scipy.linalg.eigh(self._sums, subset_by_index=[size - 1, size - 1])
        edge = values[-1] / (2 * math.sqrt(size * self.users))
        self.stands = bool(edge >= ENOUGH)
        if self.stands:
            strength = edge + math.sqrt(edge**2 - 1)
            entries, overlap = vectors[:, -1] * math.sqrt(size), 1 - strength**-2
            odds = np.clip(2 * math.sqrt(overlap) * entries / (1 - overlap), -CLIP, CLIP)
            self.odds = odds if odds @ self._side > 0 else -odds
            self.level = math.sqrt(min(strength / (math.sqrt(self.users * size) * self._contrast), 1.0))


def _turned(
    world: AnchorWorld, cluster: Ints, pairs: _Pairs, before: float, noise: np.random.Generator
) -> tuple[float, bool]:
    """Return users of turned signs, and whether these decided all items, or were given up."""
    items, sizes = world.block.items, world.block.cluster_sizes
    spent, odds = 0.0, np.zeros(items)
    odds[: pairs.odds.size] = pairs.odds
    expected, decided = pairs.level * np.tanh(odds / 2), np.zeros(items, np.bool_)
    noises, information = np.zeros((2, items))
    for number in range(MOST_ROUNDS):
        best = max(
            (_slopes(world, cluster, np.clip(expected, -SURE, SURE), decided, level) for level in LEVELS_TRIED),
            key=lambda one: one.share * float((one.slope**2).sum()),
        )
        users = PAIR_GROWTH * (before + spent)
        signal_information = users * best.share * best.slope**2
        noises += np.sqrt(signal_information) * noise.normal(size=items)
        information += signal_information
        spent += users
        value = best.levels[cluster] + np.divide(noises, information, out=noises * 0, where=information > 0)
        one, other = best.levels
        own = (one - other) * information * (value - (one + other) / 2)
        if number < PAIRS_COUNT:
            expected = pairs.level * np.tanh((odds + 2 * pairs.level * information * value) / 2)
        else:
            belongs = scipy.special.expit(own + math.log(sizes[0] / sizes[1]))
            expected = other + (one - other) * belongs
            guess, doubt = (belongs < 0.5).astype(np.int32), scipy.special.expit(-np.abs(own))
            posterior = Posterior(cluster=guess, doubt=doubt, expected=expected, mixture=None, apart=True)
            decided = posterior.decided(world.failure)
            if decided.all():
                return spent, True
        chi_square = float((value**2 * information).sum())
        if spent >= TRIAL * pairs.users and chi_square < items + CLEAR * math.sqrt(2 * items):
            return spent, False
    return math.inf, True


class _Slopes(NamedTuple):
    share: float  # how often open items are sensed
    slope: Floats  # of every item's agreements, in the server's model of two mirrored classes; 0 of decided items
    levels: Floats  # what its estimates of each cluster's items are around


def _right(guess: Floats, weights: Floats, ratings: Floats, others: int) -> float:
    """Return E[guessed class] of a class with these mean ratings, the first class counted 1 and the second -1."""
    mean = others * float((guess * ratings).mean())
    spread = others * float((guess * weights).mean()) - mean**2 / others
    return math.erf(mean / math.sqrt(2 * spread)) if spread > 0 else 0.0


def _slopes(world: AnchorWorld, cluster: Ints, expected: Floats, decided: Bools, level: int) -> _Slopes:
    """Return what turned signs say, where open items are sensed so often."""
    block, ratings = world.block, world.ratings
    share, others, weights = level / SENSING_LEVELS, block.rated - 1, np.arctanh(expected)
    guess = np.where(decided, 1.0, 1 - share) * weights
    own = _right(guess, weights, expected, others)
    turned = [
        part * _right(guess, weights, one[cluster], others)
        for part, one in zip(block.class_shares, ratings, strict=True)
    ]
    means, centres, still = np.array(turned) @ ratings, own * expected, ~decided
    size = float((1 + centres[still] ** 2 - 2 * centres[still] * means[cluster][still]).mean())
    least, masses = hypergeometric_masses(block.items - 1, int(still.sum()) - 1, others)
    sensed = share * (least + np.arange(masses.size))[:, None] * size
    grid = np.linspace(0, 2, 33)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = masses @ np.where(sensed > 0, scipy.special.erf(grid / np.sqrt(2 * sensed)), grid > 0)
    near, far = np.interp(1 - np.abs(centres), grid, reach), np.interp(1 + np.abs(centres), grid, reach)
    contrast_per_item = bit_channel(world.epsilon).contrast * block.rated / block.items
    slope = np.where(decided, 0.0, contrast_per_item * own * (near + far) / 2)
    return _Slopes(share, slope, means / own if own else means)
