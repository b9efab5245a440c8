"""From noisy shares of pairs to an item-item model, and from signs of pairs to directions of taste."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from statistical import normal_radius

from actors.device import Cohort
from benchmarks.tastes import likeness
from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import ItemToItem, Tastes, likely, powers, scores
from coordinator.protocol.messages import Model
from coordinator.server.decoding.estimates import shares
from coordinator.server.decoding.pair_model import (
    LEAST_RIDGE,
    agreed,
    cleaned,
    ease,
    from_counts,
    item_to_item,
    noise_of,
    pair_matrix,
    subspace,
    tastes_of_pairs,
)
from coordinator.server.decoding.threads import one_thread
from coordinator.server.mechanisms import aggregate
from coordinator.server.mechanisms.oracles import subset_rates
from coordinator.server.mechanisms.sets import LikedPairs
from coordinator.server.statistics.counts import PAIRED, GroupStatistic, Rates

ITEMS = 60
RATES = Rates(0.02, 0.012)
"""Of subsets of a few of thousands of pairs."""


def planted(strength: float = 0.5) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], Floats2]:
    """Shares of items, and of pairs, of users of two tastes: each likes its half of the items more, the other less."""
    base = np.linspace(0.3, 0.08, ITEMS)
    sign = np.where(np.arange(ITEMS) % 2, 1.0, -1.0)
    tastes = [base * (1 + strength * sign), base * (1 - strength * sign)]
    pairs: Floats2 = (np.outer(tastes[0], tastes[0]) + np.outer(tastes[1], tastes[1])) / 2
    np.fill_diagonal(pairs, 0.0)
    return base, pairs


def right_side(model: ItemToItem) -> float:
    """For each item, whether the ten that its like lifts most are of its own half: mean share."""
    best = np.argsort(-model.weights, axis=1)[:, :10]
    return float((best % 2 == np.arange(ITEMS)[:, None] % 2).mean())


def drawn(devices: int, seed: int) -> ItemToItem:
    """The model from counts that are drawn from their law."""
    liked, pairs = planted()
    generator = np.random.default_rng(seed)
    told = [liked, pairs[np.triu_indices(ITEMS, 1)]]
    counts = [generator.binomial(devices, RATES.others + RATES.contrast * one) for one in told]
    return from_counts(np.arange(ITEMS, dtype=np.int32), *((RATES, one, devices) for one in counts))


def test_without_noise_the_covariance_is_what_was_planted() -> None:
    liked, pairs = planted()
    sign = np.where(np.arange(ITEMS) % 2, 1.0, -1.0)
    alpha, excess = cleaned(pairs, liked, 0.0)
    wanted = 0.25 * np.outer(liked * sign, liked * sign)
    off = ~np.eye(ITEMS, dtype=bool)
    assert alpha == pytest.approx(1.0, abs=0.02)
    assert np.abs((excess - wanted)[off]).max() < 0.05 * wanted.max()
    assert right_side(item_to_item(np.arange(ITEMS, dtype=np.int32), liked, pairs, 0.0)) == 1.0


def test_what_is_independent_leaves_nothing() -> None:
    liked, _ = planted()
    alpha, excess = cleaned(0.7 * np.outer(liked, liked), liked, 0.0)
    assert alpha == pytest.approx(0.7)
    assert np.abs(excess).max() < 1e-12


@pytest.mark.statistical
def test_pure_noise_leaves_next_to_nothing() -> None:
    """Wigner's edge: of 200 eigenvalues of a random matrix at most a few lie beyond it, barely. Its largest one exceeds
    the edge by 5 % with probability below 1e-6 (Tracy and Widom's law, whose scale is 200^(-2/3) / 2 = 1.5 %, has right
    tail exp(-(4/3) s^(3/2)), here at s = 6.8). The twin believes in half of the noise."""
    many, noise = 200, 1e-3
    values = np.random.default_rng(3).normal(0, noise, many * (many - 1) // 2)
    pairs, liked = pair_matrix(values, many), np.full(many, 1e-6)
    largest = np.abs(np.linalg.eigvalsh(pairs)).max()
    assert largest < 1.05 * 2 * noise * np.sqrt(many)
    kept = np.abs(np.linalg.eigvalsh(cleaned(pairs, liked, noise)[1])).max()
    assert kept < 0.35 * largest
    assert np.abs(np.linalg.eigvalsh(cleaned(pairs, liked, noise / 2)[1])).max() > 0.8 * largest


@pytest.mark.statistical
def test_noise_is_as_large_as_it_is_said_to_be() -> None:
    """1,770 pairs of one share, chi-square by its normal limit: five standard errors, false alarm 6e-7; and a twin."""
    devices, share = 50_000, 0.02
    rate = RATES.others + RATES.contrast * share
    counts = np.random.default_rng(5).binomial(devices, rate, ITEMS * (ITEMS - 1) // 2)
    found = (counts / devices - RATES.others) / RATES.contrast
    stated = noise_of(RATES, counts, devices)
    radius = 5 * np.sqrt(2 / counts.size)
    assert abs(found.var() / stated**2 - 1) < radius
    assert abs(found.var() / (1.3 * stated**2) - 1) > radius


@pytest.mark.statistical
def test_noise_of_devices_that_answer_is_that() -> None:
    """40,000 devices that like nothing: as above, over 435 pairs; the twin is 1.5 times as large."""
    devices, many = 40_000, 30
    query = LikedPairs(items=many, rated=12).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(2))
    ratings = worlds.stored_ratings([dict.fromkeys(range(12), False)], [0] * devices, many)
    release = Cohort(ratings, worlds.SECRET, 0, devices, None).answer(query, 0, devices)
    told = aggregate(query, release)
    assert isinstance(told, GroupStatistic)
    rates, counts = subset_rates(query), told.of(PAIRED).sums[: many * (many - 1) // 2]
    found = shares(rates, counts, devices)
    ratio, radius = float((found**2).mean()) / noise_of(rates, counts, devices) ** 2, 5 * np.sqrt(2 / counts.size)
    assert abs(ratio - 1) < radius
    assert abs(ratio * 1.5 - 1) > radius


def test_more_devices_tell_the_planted_taste_better() -> None:
    """From chance to certainty; without answers every item is as good as any other."""
    told = [np.mean([right_side(drawn(devices, seed)) for seed in range(3)]) for devices in (10**4, 10**6, 10**9)]
    assert told[0] < 0.65
    assert 0.8 < told[1] <= told[2] == 1.0
    nobody = from_counts(
        np.arange(3, dtype=np.int32), (RATES, np.zeros(3, np.int64), 0), (RATES, np.zeros(3, np.int64), 0)
    )
    assert not nobody.weights.any()


def test_ease_is_the_least_squares_solution() -> None:
    """Against its definition: every column minimises the ridge loss among weights that leave the item itself out."""
    generator = np.random.default_rng(0)
    likes = (generator.random((500, 6)) < generator.random(6)).astype(float)
    second = likes.T @ likes / 500
    found = ease(second)
    for item in range(6):
        others = np.arange(6) != item
        normal = second[np.ix_(others, others)] + LEAST_RIDGE * np.eye(5)
        assert found[others, item] == pytest.approx(np.linalg.solve(normal, second[others, item]))
    assert not np.diag(found).any()


def test_ease_takes_what_is_no_covariance_too() -> None:
    """Noise makes a matrix with negative eigenvalues; the ridge lies above them."""
    second = np.array([[0.01, 0.3], [0.3, 0.01]])
    ridge = 1.2 * 0.29 + 0.015
    assert ease(second)[0, 1] == pytest.approx(0.3 / (0.01 + ridge))


def test_scores_add_up_a_devices_likes_exactly() -> None:
    """Weights lie on the public grid, so that sums are the same on every processor and in every block."""
    model = drawn(10**6, 0)
    likes = np.random.default_rng(1).random((300, ITEMS)) < 0.4
    whole = scores(model, likes)
    by_hand = np.array([sum(model.weights[item] for item in np.flatnonzero(row)[::-1]) for row in likes])
    assert (whole == by_hand).all()
    assert (whole[17:18] == scores(model, likes[17:18])).all()


TASTE_ITEMS = 60
PLANTED = np.linalg.qr(np.random.default_rng(0).standard_normal((TASTE_ITEMS, 2)))[0]


def matrices(noise: float, strengths: Floats, many: int) -> list[Floats2]:
    """Planted directions of such strengths, and symmetric noise with a diagonal of 0."""
    coins, found = np.random.default_rng(1), []
    for _ in range(many):
        upper = np.triu(coins.standard_normal((TASTE_ITEMS, TASTE_ITEMS)) * noise, 1)
        found.append((PLANTED * strengths) @ PLANTED.T + upper + upper.T)
    return found


def test_without_noise_a_subspace_is_exact() -> None:
    found = subspace(matrices(0, np.array([3.0, 1.0]), 1)[0], 0)
    assert found.strengths == pytest.approx([3, 1])
    assert found.overlaps == pytest.approx([1, 1])
    assert likeness(found.vectors, PLANTED) == pytest.approx(1)
    assert likeness(found.vectors[:, :1], PLANTED) == pytest.approx(0.5)
    assert not found.directions(0).any()
    v = found.directions(0.5)
    assert v @ v.T * 0.5 == pytest.approx((PLANTED * [3.0, 1.0]) @ PLANTED.T)


@pytest.mark.statistical
def test_strengths_and_overlaps_are_those_of_the_planted_direction() -> None:
    """Means over 200 matrices: false alarm 1e-6 and 3 % for a finite matrix; a twin that is told half the noise fails.

    A direction of strength s, in units of sigma sqrt(M), is seen at s + 1 / s with an overlap of 1 - 1 / s^2.
    """
    noise, drawn = 0.1, matrices(0.1, np.array([2.0 * 0.1 * math.sqrt(TASTE_ITEMS), 0.0]), 200)

    def doubt(told: float) -> tuple[float, float]:
        with one_thread():
            found = [subspace(one, told) for one in drawn]
        strengths = np.array([one.strengths[0] for one in found]) / (2 * noise * math.sqrt(TASTE_ITEMS)) - 1
        overlaps = np.array([one.overlaps[0] - (one.vectors[:, 0] @ PLANTED[:, 0]) ** 2 for one in found])
        return tuple(
            (abs(float(one.mean())) - 0.03) / (float(one.std()) / math.sqrt(len(drawn)))  # type: ignore[return-value]
            for one in (strengths, overlaps)
        )

    radius = normal_radius(1.0, comparisons=2)
    assert max(doubt(noise)) < radius
    assert min(doubt(noise / 2)) > radius


def test_noise_alone_has_no_direction_and_pairs_become_a_matrix() -> None:
    found = subspace(matrices(0.1, np.zeros(2), 1)[0], 0.11)
    assert found.vectors.shape == (TASTE_ITEMS, 0)
    matrix, noise = agreed(np.array([75, 50, 25]), 100, 3)
    assert matrix.tolist() == [[0, 0.5, 0], [0.5, 0, -0.5], [0, -0.5, 0]]
    assert noise == 0.1


def test_directions_of_a_pool_say_nothing_of_other_items() -> None:
    pool = np.array([1, 3], np.int32)
    told = subspace(np.array([[0.0, 0.25], [0.25, 0.0]]), 0)
    found = tastes_of_pairs(pool, told, 0.25, rated=np.array([0.0, 0.5, 0.5, 2.0]), liked=np.array([-1, 0, 0.5, 1.0]))
    assert np.abs(found.vectors[:, 0]) == pytest.approx([0, math.sqrt(0.5), 0, math.sqrt(0.5)], abs=1e-6)
    assert found.rated == pytest.approx([1e-5, 0.5, 0.5, 0.99], abs=1e-6)
    assert found.liked == pytest.approx([-0.99, 0, 0.5, 0.99], abs=1e-6)


def test_powers_expect_as_many_ratings_as_a_device_has() -> None:
    rated, numbers = np.array([0.9, 0.5, 0.2, 0.1]), np.array([3, 1, 2, 1, 4, 0])
    found = powers(rated, numbers)
    assert (rated ** found[:, None]).sum(axis=1)[:4] == pytest.approx(numbers[:4])
    assert found[4:] == pytest.approx([0, 8], abs=1e-6)


def test_a_device_likes_what_goes_with_its_own_likes() -> None:
    """Ridge regression by hand, on a device that rated as much as the average and on one that rated nothing."""
    vectors = np.array([[1.0], [1.0], [-1.0], [0.0]])
    tastes = Tastes(rated=np.full(4, 0.5), liked=np.array([0.5, 0.0, 0.0, 0.0]), vectors=vectors, ridge=2.0)
    one, nothing = likely(tastes, worlds.likes([{0: True, 3: False}, {}], 4))
    taste = 0.5 / (1 + 2.0)  # its rating, 0.5 above the mean, on the direction
    assert one == pytest.approx(0.5 * (1 + np.array([0.5 + taste, taste, -taste, 0])) / 2)
    assert nothing == pytest.approx(0.5**8 * np.array([0.75, 0.5, 0.5, 0.5]), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rated": np.zeros(3)}, "shares of tastes"),
        ({"liked": np.ones(3)}, "mean ratings of tastes"),
        ({"liked": np.zeros(2)}, "mean ratings of tastes"),
        ({"vectors": np.zeros((2, 1))}, "directions of tastes"),
        ({"vectors": np.full((3, 1), np.nan)}, "directions of tastes"),
        ({"vectors": np.zeros((3, 65))}, "64 at most"),
        ({"ridge": 0.0}, "ridge"),
    ],
)
def test_tastes_that_do_not_fit_are_refused(changes: dict[str, Any], line: str) -> None:
    good: dict[str, Any] = {"rated": np.full(3, 0.5), "liked": np.zeros(3), "vectors": np.zeros((3, 1)), "ridge": 1.0}
    zeros = {"cluster": np.zeros(4, np.int32), "score": np.zeros(4), "error": np.ones(4), "clusters": 1}
    with pytest.raises(InputError, match=line):
        Tastes(**{**good, **changes})
    with pytest.raises(InputError, match="tastes of a model"):
        replace(Model(**zeros), tastes=Tastes(**good))  # type: ignore[arg-type]
