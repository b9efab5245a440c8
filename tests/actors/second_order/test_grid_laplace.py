"""Laplace noise on a grid: what the channel is, and that the sampler follows it coin by coin."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest
import tiers
from statistical import chi_square_fits

from actors.second_order.mechanisms.rivals import noisy_places
from actors.seeds import Coins
from coordinator.protocol.arrays import Words2
from coordinator.protocol.errors import InputError
from coordinator.protocol.second_order_channels import GridLaplace, grid_laplace


class Given(Coins):
    """Coins that a test names."""

    named: Words2

    def places(self, many: int) -> Words2:
        assert self.named.shape == (self.devices, many)
        return self.named


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(5), Fraction(20)])
def test_rows_are_laws_and_the_largest_log_ratio_is_epsilon(epsilon: Fraction) -> None:
    """That it is never exceeded, test_every_channel.py shows."""
    channel = grid_laplace(epsilon)
    assert channel.epsilon == pytest.approx(float(epsilon), rel=1e-6)
    for place in (0, channel.steps // 3, channel.steps):
        row = channel.row(place)
        assert sum(row) == 1
        assert min(row) > 0


def test_the_noise_is_the_two_sided_geometric_one() -> None:
    channel = grid_laplace(Fraction(2))
    row = channel.row(40)[channel.beyond : channel.beyond + channel.steps]
    ratios = [float(other / one) for one, other in itertools.pairwise(row[40:])]
    np.testing.assert_allclose(ratios, np.exp(-2 / channel.steps), rtol=1e-5)


def test_every_coin_falls_where_the_table_says() -> None:
    channel = grid_laplace(Fraction(5))
    half = 1 << 63
    edges = [int(word) for word in channel.at_least[:: channel.at_least.size // 20]]
    words = [sign + coin for edge in edges for coin in (edge - 1, edge) for sign in (0, half)]
    coins = Given(*tiers.coins(1))
    coins.named = np.array([words], np.uint64)
    told = noisy_places(np.full((1, len(words)), 0.25), channel, coins)[0]
    for noisy, word in zip(told.tolist(), words, strict=True):
        size = sum(word % half < int(edge) for edge in channel.at_least)
        place = channel.steps // 4 + (size if word >= half else -size)
        assert noisy == min(max(place, -channel.beyond), channel.steps + channel.beyond)


def expected(channel: GridLaplace, place: int, cuts: list[int]) -> list[float]:
    """Probabilities of the bins between the cuts, of releases given the coordinate."""
    row = np.array([float(one) for one in channel.row(place)])
    return [float(part.sum()) for part in np.split(row, [cut + channel.beyond for cut in cuts])]


@pytest.mark.statistical
def test_the_sampler_follows_the_channel() -> None:
    """Ten bins over 200,000 coordinates (Pearson); false alarm 1e-6. Twin: epsilon three hundredths larger."""
    channel, cuts = grid_laplace(Fraction(1)), [-150, -80, -40, -10, 0, 10, 25, 60, 140]
    told = noisy_places(np.full((400, 500), 0.125), channel, tiers.coins(400)).ravel()
    counts = np.bincount(np.searchsorted(cuts, told, side="right"))
    assert chi_square_fits(counts, expected(channel, 8, cuts))
    tails = ((channel.at_least / 2.0**63) ** 1.03 * 2.0**63).astype(np.uint64)
    assert not chi_square_fits(counts, expected(dataclasses.replace(channel, at_least=tails), 8, cuts))


def test_coordinates_off_the_range_are_clipped() -> None:
    channel = grid_laplace(Fraction(1))
    for far, edge in ((-3.0, 0.0), (1.5, 1.0)):
        one, other = (noisy_places(np.full((3, 40), share), channel, tiers.coins(3)) for share in (far, edge))
        assert np.array_equal(one, other)


def test_what_is_not_a_number_is_clipped_like_the_rest() -> None:
    """Otherwise a model that overflows on some devices alone would tell them by a release outside of all noise."""
    channel = grid_laplace(Fraction(20))
    one, other = (noisy_places(np.full((3, 40), share), channel, tiers.coins(3)) for share in (np.nan, 0.0))
    assert np.array_equal(one, other)
    one, other = (noisy_places(np.full((3, 40), share), channel, tiers.coins(3)) for share in (np.inf, 1.0))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("epsilon", [None, Fraction(21)])
def test_an_epsilon_that_coins_cannot_express_is_refused(epsilon: Fraction | None) -> None:
    with pytest.raises(InputError, match="above 20"):
        grid_laplace(epsilon)
