"""PMC's bits: the sign vector or its opposite, fair at every item alone, with fair coins where there is no sign."""

import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
import reference
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st
from statistical import rate_fits
from thoroughness import examples

from actors.second_order.mechanisms.paper import (
    candidate,
    candidate_values,
    flipped_signs,
    greedy_swaps,
    shuffle,
    signs,
)
from actors.seeds import FAIR, PLACE, WHOLE
from coordinator.protocol.arrays import Bits2, Floats, Floats2
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.features import residuals as completed

MANY = 1 << 14


def coin(device: int, purpose: np.uint64, question: int) -> int:
    """The oracle's coin of a device in the tests' query."""
    words = np.frombuffer(reference.derive(9, "query"), "<u8").tolist()
    secret = reference.device_secret(tiers.SECRET, device)
    return reference.siphash_words(secret, int(purpose), *words, question)


def residuals(devices: int, items: int) -> Floats2:
    """Random, with every fifth item 0 or the zero below it."""
    found = np.random.default_rng([devices, items]).normal(size=(devices, items))
    found[:, ::10], found[:, 5::10] = 0.0, -0.0
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


# PMD's candidates: permutations at every item, sums that are kept right, uniform releases, a falling objective.
class Made(NamedTuple):
    order: Bits2
    norms: Floats
    products: Floats


def make(values: Floats2, residual: Floats, stream: int, *, sweeps: int = 3, passes: int = 1) -> Made:
    order, norms, products = np.empty(values.shape, np.uint8), np.empty(values.shape[1]), np.empty(values.shape[1])
    shuffle(np.uint64(stream), order)
    greedy_swaps(values, residual, order, norms, products, sweeps, passes)
    return Made(order, norms, products)


def world(items: int, levels: int, copies: int, seed: int) -> tuple[Floats2, Floats]:
    draws = np.random.default_rng([seed, items, levels])
    scale = np.tile(np.sort(draws.normal(size=levels)), copies)
    return scale[None, :] - draws.normal(0, 0.3, items)[:, None], draws.normal(0, 0.5, items)


@settings(max_examples=examples(60))
@given(st.integers(1, 40), st.integers(2, 10), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**63))
def test_every_item_holds_a_permutation_and_the_sums_are_right(
    items: int, levels: int, copies: int, passes: int, stream: int
) -> None:
    values, residual = world(items, levels, copies, stream % 97)
    made = make(values, residual, stream, passes=passes)
    many = levels * copies
    assert np.array_equal(np.sort(made.order, axis=1), np.tile(np.arange(many, dtype=np.uint8), (items, 1)))
    held = np.take_along_axis(values, made.order.astype(np.intp), axis=1)
    np.testing.assert_allclose(made.norms, np.square(held).sum(axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(made.products, residual @ held, rtol=1e-9, atol=1e-10)


def test_swaps_are_those_of_the_printed_objective() -> None:
    """A plain search that computes objective (8) as it is printed at every attempt makes the same candidates."""
    values, residual = world(7, 4, 1, 8)
    order = make(values, residual, 21, passes=0).order.astype(np.intp)

    def printed() -> float:
        held = np.take_along_axis(values, order, axis=1).T
        return float(np.mean([np.square(np.outer(x, x) - np.outer(residual, residual)).sum() for x in held]))

    for _ in range(2):
        for item, _sweep in itertools.product(range(7), range(3)):
            for p, q in itertools.combinations(range(4), 2):
                before = printed()
                order[item, [p, q]] = order[item, [q, p]]
                if printed() >= before:
                    order[item, [p, q]] = order[item, [q, p]]
    assert np.array_equal(make(values, residual, 21, passes=2).order, order)


def test_the_shuffle_is_the_oracles() -> None:
    order = np.empty((6, 5), np.uint8)
    stream = reference.draw(3, 4)
    shuffle(np.uint64(stream), order)
    for item, row in enumerate(order.tolist()):
        expected = list(range(5))
        for k in range(4, 0, -1):
            other = reference.below(stream, item * 5 + k, k + 1)
            expected[k], expected[other] = expected[other], expected[k]
        assert row == expected


def test_a_device_releases_the_candidate_that_its_own_coin_names() -> None:
    model, mine = tiers.features(items=20), np.random.default_rng(2).normal(0, 0.5, (6, 20))
    values, coins = candidate_values(model), tiers.coins(6, first=3)
    told = candidate(mine, values, coins)
    for k in range(6):
        made = make(values, mine[k], int(coins.shuffles()[k]))
        secret = reference.device_secret(tiers.SECRET, 3 + k)
        words = [int(word) for word in coins.query_id]
        chosen = reference.below(reference.siphash_words(secret, int(WHOLE), *words, 0), 0, 5)
        assert np.array_equal(told[k], made.order[:, chosen])
