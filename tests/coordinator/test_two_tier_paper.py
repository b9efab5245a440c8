"""PMC's bits: the sign vector or its opposite, fair at every item alone, with fair coins where there is no sign."""

import itertools
from fractions import Fraction
from typing import NamedTuple

import evidence
import numpy as np
import pytest
import worlds
from evidence import examples, rate_fits
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from actors.seeds import FAIR, PLACE, WHOLE
from coordinator.protocol.arrays import Bits2, Floats, Floats2
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.features import residuals as completed
from coordinator.protocol.second_order.pmc import flipped_signs, signs
from coordinator.protocol.second_order.pmd import candidate, candidate_values, greedy_swaps, shuffle

MANY = 1 << 14


def coin(device: int, purpose: np.uint64, question: int) -> int:
    """The oracle's coin of a device in the tests' query."""
    words = np.frombuffer(evidence.derive(9, "query"), "<u8").tolist()
    secret = evidence.device_secret(worlds.SECRET, device)
    return evidence.siphash_words(secret, int(purpose), *words, question)


def residuals(devices: int, items: int) -> Floats2:
    """Random, with every fifth item 0 or the zero below it."""
    found = np.random.default_rng([devices, items]).normal(size=(devices, items))
    found[:, ::10], found[:, 5::10] = 0.0, -0.0
    return found


def test_bits_are_the_oracles() -> None:
    mine = residuals(7, 131)
    told = signs(mine, worlds.coins(7, first=40))
    for k, row in enumerate(mine):
        flip = coin(40 + k, WHOLE, 0) >> 63
        for item, residual in enumerate(row):
            fair = coin(40 + k, FAIR, item // 64) >> (item % 64) & 1
            assert told[k, item] == flip ^ (int(residual > 0) if residual else fair)


def test_randomized_response_flips_the_bits_whose_own_coin_says_so() -> None:
    mine, threshold = residuals(5, 30), bit_channel(Fraction(1, 2)).flips
    pure, told = (flipped_signs(mine, worlds.coins(5), epsilon) for epsilon in (None, Fraction(1, 2)))
    assert np.array_equal(pure, signs(mine, worlds.coins(5)))
    for k, item in np.ndindex(5, 30):
        assert (pure[k, item] != told[k, item]) == (coin(k, PLACE, item) < threshold)


@pytest.mark.statistical
def test_items_that_no_public_user_rated_do_not_tell_the_flip() -> None:
    """The majority of 101 unseen items against the flip, over 16,384 devices; false alarm 1e-6.

    Twins: one device in ten that tells its flip, and the trap, a fixed sign of 0, with which every device does.
    """
    model = worlds.features(items=301, unseen=101)
    of = worlds.rated(devices=MANY, items=200, each=5)
    mine = completed(model, worlds.private(of, items=301))
    assert not mine[:, 200:].any()
    flips = np.array(worlds.coins(MANY).whole() >> np.uint64(63), np.uint8)
    guess = signs(mine, worlds.coins(MANY))[:, 200:].mean(axis=1) < 0.5
    assert rate_fits(int((guess == flips).sum()), MANY, 0.5)
    assert not rate_fits(int(((guess == flips) | (np.arange(MANY) % 10 == 0)).sum()), MANY, 0.5)
    mine[:, 200:] = 1e-300
    fixed = signs(mine, worlds.coins(MANY))[:, 200:].mean(axis=1) < 0.5
    assert np.array_equal(fixed, flips)


def costs(releases: Floats2, residual: Floats) -> Floats:
    """What objectives (8) and (9) count for each possible release, shape (releases,)."""
    off = releases[:, :, None] * releases[:, None, :] - np.outer(residual, residual)
    return np.asarray(np.square(off).sum(axis=(1, 2)))


@pytest.mark.parametrize("residual", [(0.7, -0.2), (1.0, 1.0), (1.0, 0.5, -0.25), (0.1, -0.2, 3.0), (-1, 0.3, 0.2, 2)])
def test_no_law_on_a_grid_is_better_than_pmcs(residual: tuple[float, ...]) -> None:
    """Theorem 4.2 by a linear programme: laws of mean 0 and one free variance v at every item, objective (9)."""
    mine = np.array(residual)
    items, h = mine.size, float(np.abs(mine).mean())
    grid = h * np.array(list(itertools.product([-2, -1, -0.5, 0, 0.5, 1, 2], repeat=items)))
    rows = np.vstack([np.ones(len(grid)), grid.T, np.square(grid.T)])
    variance = np.r_[np.zeros(1 + items), -np.ones(items)]
    best = linprog(
        np.r_[costs(grid, mine), 0], A_eq=np.c_[rows, variance], b_eq=np.r_[1, np.zeros(2 * items)], method="highs"
    )
    released: Floats2 = np.where(signs(np.tile(mine, (16, 1)), worlds.coins(16)), h, -h)
    assert np.unique(released, axis=0).tolist() == sorted([list(h * np.sign(mine)), list(-h * np.sign(mine))])
    closed = np.square(mine).sum() ** 2 - np.abs(mine).sum() ** 4 / items**2
    assert costs(released, mine) == pytest.approx(closed, abs=1e-9)
    assert best.fun == pytest.approx(closed, abs=1e-7)


@pytest.mark.parametrize(
    ("items", "levels", "seed"), [(2, 2, 0), (2, 4, 1), (3, 3, 2), (3, 3, 3), (4, 2, 4), (4, 3, 5)]
)
def test_pmd_is_as_good_as_any_uniform_law(items: int, levels: int, seed: int) -> None:
    """Objective (8): a linear programme over all laws on S^m, all K permuted candidates, the best of 50 greedy ones."""
    values, residual = world(items, levels, 1, seed)
    places = np.array(list(itertools.product(range(levels), repeat=items)))
    cost = costs(values[np.arange(items), places], residual)
    uniform = np.vstack([places[:, item] == level for item in range(items) for level in range(levels)])
    best = linprog(cost, A_eq=uniform, b_eq=np.full(items * levels, 1 / levels), method="highs")
    table = cost.reshape((levels,) * items)
    orders = itertools.product(itertools.permutations(range(levels)), repeat=items - 1)
    permuted = min(float(table[(np.arange(levels), *map(np.array, order))].mean()) for order in orders)
    greedy = min(
        float(table[tuple(make(values, residual, stream, passes=3).order.astype(np.intp))].mean())
        for stream in range(50)
    )
    assert greedy == pytest.approx(permuted, abs=1e-9)
    assert permuted == pytest.approx(best.fun, abs=1e-7)


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
    stream = evidence.draw(3, 4)
    shuffle(np.uint64(stream), order)
    for item, row in enumerate(order.tolist()):
        expected = list(range(5))
        for k in range(4, 0, -1):
            other = evidence.below(stream, item * 5 + k, k + 1)
            expected[k], expected[other] = expected[other], expected[k]
        assert row == expected


def test_a_device_releases_the_candidate_that_its_own_coin_names() -> None:
    model, mine = worlds.features(items=20), np.random.default_rng(2).normal(0, 0.5, (6, 20))
    values, coins = candidate_values(model), worlds.coins(6, first=3)
    told = candidate(mine, values, coins)
    for k in range(6):
        made = make(values, mine[k], int(coins.shuffles()[k]))
        secret = evidence.device_secret(worlds.SECRET, 3 + k)
        words = [int(word) for word in coins.query_id]
        chosen = evidence.below(evidence.siphash_words(secret, int(WHOLE), *words, 0), 0, 5)
        assert np.array_equal(told[k], made.order[:, chosen])
