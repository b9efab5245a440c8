"""PrivUnitG: its density is within epsilon exactly, and the sampler draws from it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats
from statistical import normal_radius, rate_fits, variance_fits

from actors.second_order.directions import directions
from actors.second_order.rivals import leaning
from coordinator.protocol.arrays import Floats
from coordinator.protocol.caps import CapChannel, cap_channel
from coordinator.protocol.channels import COIN
from coordinator.protocol.errors import InputError
from coordinator.protocol.second_order import basis_of, pack_moment

MANY, WIDE = 60_000, 10


@settings(max_examples=60, deadline=None)
@given(st.fractions(Fraction(1, 100), 30), st.integers(1, 400))
def test_the_largest_log_ratio_is_epsilon(epsilon: Fraction, dimension: int) -> None:
    """Given a private vector a release's density over the Gaussian's is one of two numbers, whatever the vector."""
    channel = cap_channel(epsilon, dimension)
    inside, outside = channel.densities
    assert inside * (1 - Fraction(channel.below)) + outside * Fraction(channel.below) == 1
    assert inside > 1 > outside  # so noise alone, the release of no direction, is within epsilon, too
    assert float(epsilon) * (1 - 1e-6) <= channel.epsilon <= float(epsilon) * (1 + 1e-15)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(5)])
def test_length_and_second_moment_are_the_densitys_and_the_cap_is_the_best(epsilon: Fraction) -> None:
    channel = cap_channel(epsilon, 55)
    inside, outside = (float(one) for one in channel.densities)
    start = float(special.ndtri(channel.below))

    def moment(power: int) -> float:
        low, _ = integrate.quad(lambda x: x**power * stats.norm.pdf(x), -12, start)
        high, _ = integrate.quad(lambda x: x**power * stats.norm.pdf(x), start, 12)
        return outside * low + inside * high

    assert moment(0) == pytest.approx(1, abs=1e-9)
    assert channel.length == pytest.approx(moment(1), abs=1e-9)
    assert channel.second_moment == pytest.approx((moment(2) + 54) / moment(1) ** 2, rel=1e-8)
    for shift in (-0.2, -0.02, 0.02, 0.2):
        below = float(special.ndtr(start + shift))
        odds = math.exp(epsilon) * (1 - below) / below
        other = CapChannel(55, below, math.ceil(COIN / (1 + Fraction(odds))))
        assert other.epsilon == pytest.approx(float(epsilon))
        assert other.second_moment > channel.second_moment


def released(private: Floats, channel: CapChannel) -> tuple[Floats, Floats]:
    """Mean release, and its scaled component along the private vector, over many devices."""
    told = leaning(np.tile(private, (MANY, 1)), channel, tiers.coins(MANY))
    return told.mean(axis=0), told @ private * channel.length


@pytest.mark.statistical
def test_releases_are_unbiased() -> None:
    """All ten means over 60,000 devices, as normals; false alarm 1e-6. Twin: a vector a little longer."""
    private = np.random.default_rng(4).normal(size=WIDE)
    private /= np.linalg.norm(private)
    channel = cap_channel(Fraction(2), WIDE)
    mean, _ = released(private, channel)
    radius = normal_radius(1.1 / channel.length / math.sqrt(MANY), comparisons=WIDE)
    assert np.abs(mean - private).max() < radius
    assert np.abs(mean - 1.2 * private).max() > radius


@pytest.mark.statistical
def test_the_cap_is_hit_as_often_as_the_channel_says() -> None:
    """Over 60,000 devices; false alarm 1e-6 each. Twin: the cap of epsilon a twentieth larger."""
    private = np.eye(1, WIDE)[0]
    channel, larger = cap_channel(Fraction(2), WIDE), cap_channel(Fraction(21, 10), WIDE)
    _, along = released(private, channel)
    hits = int((along >= special.ndtri(channel.below)).sum())
    assert rate_fits(hits, MANY, 1 - channel.misses / COIN)
    odds = math.exp(2.1) * (1 - channel.below) / channel.below
    assert not rate_fits(hits, MANY, odds / (1 + odds))
    assert larger.epsilon > channel.epsilon


@pytest.mark.statistical
def test_what_is_across_the_vector_is_gaussian_noise_and_all_of_it_without_one() -> None:
    """Mean squares against 1 (chi-square); false alarm 1e-6 each. Twin: two hundredths more."""
    channel = cap_channel(Fraction(2), WIDE)
    across = leaning(np.tile(np.eye(1, WIDE), (MANY, 1)), channel, tiers.coins(MANY))[:, 1:] * channel.length
    silent = leaning(np.zeros((MANY, WIDE)), channel, tiers.coins(MANY)) * channel.length
    for noise in (across, silent):
        assert variance_fits(noise, 1.0)
        assert not variance_fits(noise, 1.02)
        assert abs(noise.mean()) < normal_radius(1 / math.sqrt(noise.size))


def test_directions_are_unit_moments_in_the_models_basis() -> None:
    model = tiers.features(items=40, unseen=10)
    mine = np.random.default_rng(0).normal(size=(3, 40))
    mine[2, :30] = 0.0
    told, basis = directions(mine, basis_of(model)), basis_of(model)
    for row, private in zip(told[:2], mine, strict=False):
        taste = basis.T @ private
        np.testing.assert_allclose(row, pack_moment(np.outer(taste, taste)) / (taste @ taste), atol=1e-12)
        assert np.linalg.norm(row) == pytest.approx(1)
    assert not told[2].any()


@pytest.mark.parametrize("epsilon", [None, Fraction(31)])
def test_an_epsilon_that_coins_cannot_express_is_refused(epsilon: Fraction | None) -> None:
    with pytest.raises(InputError, match="above 30"):
        cap_channel(epsilon, 10)
