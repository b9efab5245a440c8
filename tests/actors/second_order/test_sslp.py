"""SSLP by enumeration: unbiased, of a second moment that tells nothing, within epsilon; and the sampler follows it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import reference
import tiers
from statistical import chi_square_fits

from actors.second_order.mechanisms.rivals import Sslp, corners
from actors.seeds import Coins
from coordinator.protocol.arrays import Floats, Floats2, Words, Words2
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_mechanisms.rivals import sslp_bound, sslp_clip

EPSILON = Fraction(3, 2)


def cube(d: int) -> Floats2:
    return np.array(list(itertools.product((-1.0, 1.0), repeat=d)))


def law(shares: Floats, epsilon: float) -> Floats:
    """Probability of every corner of `cube`, given the private vector over its bound."""
    points = cube(shares.size)
    near = np.prod((1 + points * shares) / 2, axis=1)
    keep = 1 / (1 + math.exp(-epsilon))
    sides = np.sign(points @ points.T)
    given = np.where(sides > 0, 2 * keep, np.where(sides < 0, 2 * (1 - keep), 1.0)) / len(points)
    return np.asarray(given @ near)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(5)])
def test_the_release_is_unbiased_and_its_second_moment_tells_nothing(d: int, epsilon: Fraction) -> None:
    """``E Z = r'`` and ``E Z Z^T = B^2 I`` for every vector, so it carries no second-order information at all."""
    model = tiers.features(items=d, rank=1)
    clip, bound = sslp_clip(model), sslp_bound(model, epsilon)
    points = cube(d)
    for private in (*np.random.default_rng(d).uniform(-1, 1, (3, d)), np.ones(d), np.zeros(d)):
        chances = law(private, float(epsilon))
        assert chances.sum() == pytest.approx(1)
        np.testing.assert_allclose(bound * points.T @ chances, private * clip, atol=1e-12 * bound)
        second = (points * chances[:, None]).T @ points
        np.testing.assert_allclose(second, np.eye(d), atol=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_the_largest_likelihood_ratio_is_e_to_the_epsilon(d: int) -> None:
    epsilon = bit_channel(EPSILON).epsilon
    laws = np.array([law(private, epsilon) for private in cube(d)])
    assert math.log((laws.max(axis=0) / laws.min(axis=0)).max()) == pytest.approx(epsilon, abs=1e-12)
    within = np.array([law(private, epsilon) for private in np.random.default_rng(d).uniform(-1, 1, (40, d))])
    assert math.log((within.max(axis=0) / within.min(axis=0)).max()) < epsilon


class Given(Coins):
    """Coins that a test names: whether corners are turned, and the uniform corners."""

    sides: Words
    words: Words2

    def whole(self, question: int = 0) -> Words:
        assert question == 0
        return self.sides

    def fair(self, items: int) -> Words2:
        assert items <= 64
        return self.words


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_the_samplers_own_law_is_exactly_within_epsilon(d: int) -> None:
    """By every coin there is: all uniform corners, turned and not, from all private corners v~.

    All 2**d uniform corners are as probable, and a coin below `flips` turns them. A release given v~ has 2 q, 1 (at
    right angles) or 2 (1 - q) parts of 2**d, whatever d. Whatever law v~ has given the private vector, which is all
    that rounding could change there, mixing keeps the ratios.
    """
    channel = bit_channel(EPSILON)
    coins = Given(*tiers.coins(2 ** (d + 1)))
    coins.words = np.tile(np.arange(2**d, dtype=np.uint64), 2)[:, None]
    coins.sides = np.repeat(np.array([channel.flips - 1, channel.flips], np.uint64), 2**d)
    laws = []
    for corner in cube(d):
        told = corners(np.tile(corner, (2 ** (d + 1), 1)), channel, coins) @ (1 << np.arange(d))
        turned, straight = (np.bincount(part, minlength=2**d) for part in np.split(told, 2))
        law = [
            (int(a) * channel.flip_probability + int(b) * (1 - channel.flip_probability)) / 2**d
            for a, b in zip(turned, straight, strict=True)
        ]
        assert sum(law) == 1
        laws.append(law)
    ratio = max(max(column) / min(column) for column in zip(*laws, strict=True))
    assert ratio == 1 / channel.flip_probability - 1 <= reference.exp_bounds(EPSILON)[0]


def counts(shares: Floats, epsilon: Fraction, many: int) -> Floats:
    """How often the sampler releases every corner of `cube`."""
    told = corners(np.tile(shares, (many, 1)), bit_channel(epsilon), tiers.coins(many))
    numbers = told.astype(np.int64) @ (1 << np.arange(shares.size)[::-1])
    return np.bincount(numbers, minlength=2**shares.size).astype(np.float64)


@pytest.mark.statistical
@pytest.mark.parametrize("shares", [(0.3, -0.8, 1.0), (0.9, 0.9, -0.5, 0.0)])
def test_the_sampler_follows_the_law(shares: tuple[float, ...]) -> None:
    """All corners over 200,000 devices (Pearson); false alarm 1e-6. Twin: epsilon a twentieth larger."""
    private = np.array(shares)
    found = counts(private, EPSILON, 200_000)
    assert chi_square_fits(found, law(private, 1.5))
    assert not chi_square_fits(found, law(private, 1.575))


def test_the_bound_is_the_specifications_at_movielens_10m() -> None:
    """Half stars, m = 10,677, epsilon 5: B = 295."""
    stars = replace(tiers.features(items=10_677, rank=1), lowest=0.5, highest=5.0)
    assert sslp_bound(stars, Fraction(5)) == pytest.approx(295, abs=0.5)


def test_a_device_clips_its_residuals_at_half_the_range() -> None:
    """A residual of M moves as one of 2 M does, and one of M / 2 does not."""
    model = tiers.features(items=5, rank=1)
    query = SecondOrderQuery(model=model.digest, mechanism="sslp", epsilon=EPSILON)
    half, edge, far = (
        Sslp().payloads(np.full((300, 5), size * sslp_clip(model)), query, model, tiers.coins(300))
        for size in (0.5, 1.0, 2.0)
    )
    assert edge == far
    assert half != edge


def test_vectors_beyond_the_bound_are_clipped() -> None:
    far, edge = (corners(np.full((300, 5), one), bit_channel(EPSILON), tiers.coins(300)) for one in (7.0, 1.0))
    assert np.array_equal(far, edge)
