"""PMC's bits: the sign vector or its opposite, fair at every item alone, with fair coins where there is no sign."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import reference
import tiers
from statistical import rate_fits

from actors.second_order.mechanisms.paper import flipped_signs, own_h, signs
from actors.seeds import FAIR, PLACE, WHOLE
from coordinator.protocol.arrays import Bits2, Floats2
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.features import residuals as completed

MANY = 1 << 14


def coin(device: int, purpose: np.uint64, question: int) -> int:
    """The oracle's coin of a device in the tests' query."""
    words = np.frombuffer(reference.derive(9, "query"), "<u8").tolist()
    secret = reference.device_secret(tiers.SECRET, device)
    return reference.siphash_words(secret, int(purpose), *words, question)


def residuals(devices: int, items: int) -> Floats2:
    """Random, with every fifth item 0."""
    found = np.random.default_rng([devices, items]).normal(size=(devices, items))
    found[:, ::5] = 0.0
    return found


def test_bits_are_the_oracles() -> None:
    mine = residuals(7, 131)
    told = signs(mine, tiers.coins(7, first=40))
    for k, row in enumerate(mine):
        flip = coin(40 + k, WHOLE, 0) >> 63
        for item, residual in enumerate(row):
            fair = coin(40 + k, FAIR, item // 64) >> (item % 64) & 1
            assert told[k, item] == flip ^ (int(residual > 0) if residual else fair)


def test_randomized_response_flips_the_bits_whose_own_coin_says_so() -> None:
    mine, threshold = residuals(5, 30), bit_channel(Fraction(1, 2)).flips
    pure, told = (flipped_signs(mine, tiers.coins(5), epsilon) for epsilon in (None, Fraction(1, 2)))
    assert np.array_equal(pure, signs(mine, tiers.coins(5)))
    for k, item in np.ndindex(5, 30):
        assert (pure[k, item] != told[k, item]) == (coin(k, PLACE, item) < threshold)


def unlike(told: Bits2, mine: Floats2) -> Bits2:
    """Where bits differ from the residuals' signs."""
    return (told ^ (mine > 0)).astype(np.uint8)


@pytest.mark.statistical
def test_every_bit_alone_is_fair_and_all_signs_flip_together() -> None:
    """Counts over 16,384 devices of one vector; false alarm 1e-6 each (Clopper-Pearson).

    Twin: a device in twenty that never flips.
    """
    mine = np.tile(residuals(1, 10), (MANY, 1))
    told = signs(mine, tiers.coins(MANY))
    assert all(rate_fits(int(column.sum()), MANY, 0.5) for column in told.T)
    seen = unlike(told, mine)[:, mine[0] != 0]
    assert np.array_equal(seen.min(axis=1), seen.max(axis=1))
    told[::20] = mine[::20] > 0
    assert not any(rate_fits(int(column.sum()), MANY, 0.5) for column in told[:, mine[0] != 0].T)


@pytest.mark.statistical
def test_randomized_response_flips_as_often_as_its_channel_says() -> None:
    """All bits of 16,384 devices against ``1 / (1 + e^epsilon)``; false alarm 1e-6.

    Twin: the same bits against epsilon two hundredths larger.
    """
    mine = np.ones((MANY, 20))
    coins, epsilon = tiers.coins(MANY), Fraction(3, 2)
    flips = int((flipped_signs(mine, coins, epsilon) ^ signs(mine, coins)).sum())
    assert rate_fits(flips, MANY * 20, 1 / (1 + math.exp(1.5)))
    assert not rate_fits(flips, MANY * 20, 1 / (1 + math.exp(1.52)))


@pytest.mark.statistical
def test_items_that_no_public_user_rated_do_not_tell_the_flip() -> None:
    """The majority of 101 unseen items against the flip, over 16,384 devices; false alarm 1e-6.

    Twin, the trap: with a fixed sign of 0 every device's flip is told.
    """
    model = tiers.features(items=301, unseen=101)
    of = tiers.rated(devices=MANY, items=200, each=5)
    mine = completed(model, tiers.private(of, items=301))
    assert not mine[:, 200:].any()
    flips = np.array(tiers.coins(MANY).whole() >> np.uint64(63), np.uint8)
    guess = signs(mine, tiers.coins(MANY))[:, 200:].mean(axis=1) < 0.5
    assert rate_fits(int((guess == flips).sum()), MANY, 0.5)
    mine[:, 200:] = 1e-300
    fixed = signs(mine, tiers.coins(MANY))[:, 200:].mean(axis=1) < 0.5
    assert np.array_equal(fixed, flips)


def test_negative_zero_has_no_sign_either() -> None:
    zeros = np.zeros((9, 100))
    assert np.array_equal(signs(-zeros, tiers.coins(9)), signs(zeros, tiers.coins(9)))


def test_own_h_is_the_mean_absolute_residual() -> None:
    mine = residuals(4, 33)
    np.testing.assert_allclose(own_h(mine), np.abs(mine).mean(axis=1), rtol=1e-13)
