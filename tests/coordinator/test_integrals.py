"""Integrals over levels and shares against a plain one: many draws, weighted by how likely they make it all."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import softmax
from worlds import Planted, Sample, draw

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.server.decoding.mixture import Mixture, climb, fits, height, joint
from coordinator.server.decoding.posterior import PRIOR, integrated

WORLDS = {
    "halves": (Planted((0.8, -0.8), (0.5, 0.5)), 12, 5.0),
    "one stands out": (Planted((0.8, -0.8), (0.12, 0.88)), 12, 6.5),
    "errors differ": (Planted((0.8, -0.8), (0.3, 0.7), 0.5), 14, 5.5),
    "three": (Planted((0.8, 0.0, -0.8), (0.3, 0.4, 0.3)), 12, 6.0),
    "three, errors differ": (Planted((0.8, 0.0, -0.8), (0.2, 0.3, 0.5), 0.4), 12, 6.0),
}
DRAWS, WIDE = 200_000, 2.0


def by_draws(sample: Sample, planted: Planted) -> tuple[Floats2, Floats]:
    """P(cluster) and mean levels by levels from around the planted ones and shares from the prior, weighted.

    Given that no cluster is empty, by inclusion and exclusion of those that are.
    """
    coins, value, clusters = np.random.default_rng(0), sample.value, len(planted.levels)
    middle, unit = (value.max() + value.min()) / 2, value.max() - value.min()
    away = WIDE * np.median(sample.error) * coins.normal(size=(DRAWS, clusters))
    levels = np.array(planted.levels) + away
    weight = np.exp((away**2).sum(axis=1) / 2 / (WIDE * np.median(sample.error)) ** 2)
    weight *= np.exp(-(((levels - middle) / unit) ** 2).sum(axis=1) / 2) * (np.diff(levels) < 0).all(axis=1)
    log_shares = np.log(coins.dirichlet(np.ones(clusters), DRAWS))
    parts = log_shares[:, None, :] - np.square((value[:, None] - levels[:, None, :]) / sample.error[:, None]) / 2
    inside, told = np.exp(parts - parts.max(axis=2, keepdims=True)), np.zeros(parts.shape)
    scale = weight * np.exp(parts.max(axis=2).sum(axis=1) - parts.max(axis=2).sum(axis=1).max())
    for some in product([True, False], repeat=clusters):  # clusters that may hold items
        held = inside[:, :, some]
        all_held = held.sum(axis=2).prod(axis=1)
        share = np.divide(held, held.sum(axis=2, keepdims=True), out=np.zeros_like(held), where=held > 0)
        told[:, :, some] += (-1) ** (clusters - sum(some)) * (scale * all_held)[:, None, None] * share
    whole = told.sum(axis=(0, 2))
    return told.sum(axis=0) / whole[:, None], (told * levels[:, None, :]).sum(axis=(0, 2)) / whole


def agree(told: Floats2, exact: Floats2) -> bool:
    """Whether every probability is right to a fifth of itself, and a thousandth."""
    return bool((np.abs(told - exact) <= exact / 5 + 1e-3).all())


@pytest.mark.parametrize("name", WORLDS)
def test_probabilities_are_those_of_all_levels_and_shares(name: str) -> None:
    """The twin takes levels and shares for known: it is too sure."""
    planted, items, apart = WORLDS[name]
    sample = draw(planted, items=items, apart=apart, seed=4)
    near = fits(sample.value, sample.error, len(planted.levels))
    told, means = integrated(sample.value, sample.error, near, np.arange(items, dtype=np.int32))
    exact, levels = by_draws(sample, planted)
    assert agree(told, exact)
    np.testing.assert_allclose(told.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(means, levels, atol=0.05)
    assert not agree(softmax(joint(near[0], sample.value, sample.error), axis=1), exact)


@pytest.mark.parametrize(("by", "times"), [(5.0, 1.0), (-0.7, 0.01)])
def test_a_shift_and_a_unit_of_all_estimates_change_levels_only(by: float, times: float) -> None:
    sample = draw(Planted((0.8, -0.8), (0.5, 0.5)), items=12, apart=5, seed=0)
    some = np.arange(12, dtype=np.int32)
    told, means = integrated(sample.value, sample.error, fits(sample.value, sample.error, 2), some)
    value, error = by + times * sample.value, times * sample.error
    moved, levels = integrated(value, error, fits(value, error, 2), some)
    np.testing.assert_allclose(moved, told, rtol=1e-6)
    np.testing.assert_allclose(levels, by + times * means, rtol=1e-6)


def test_only_some_items_tell_levels() -> None:
    """All the others are labelled by what these tell."""
    sample = draw(Planted((0.8, -0.8), (0.5, 0.5)), items=40, apart=5, seed=0)
    some = np.arange(12, dtype=np.int32)
    near = fits(sample.value[some], sample.error[some], 2)
    told, _ = integrated(sample.value, sample.error, near, some)
    alone, _ = integrated(sample.value[some], sample.error[some], near, some)
    np.testing.assert_allclose(told[some], alone, atol=0.02)
    assert told.shape == (40, 2)


@pytest.mark.parametrize("clusters", [1, 2, 3, 5])
@pytest.mark.parametrize("prior", [np.zeros(3), PRIOR, np.array([0.3, 1.5, 0.7])])
def test_slopes_and_curves_are_those_of_the_height(clusters: int, prior: Floats) -> None:
    """Against differences, at random points."""
    coins = np.random.default_rng(clusters)
    value, precision = coins.normal(size=30), np.exp(coins.normal(1, 0.5, 30))
    size = 2 * clusters

    def at(point: Floats) -> tuple[float, Floats, Floats2]:
        slope, curve, known = np.empty(size), np.empty((size, size)), np.empty(size)
        found = height(value, precision, point, prior, slope, curve, known)
        assert (known >= np.diag(curve) - 1e-9).all()
        return found, slope, curve

    for _ in range(3):
        point, step = coins.normal(size=size), 1e-5
        _, slope, curve = at(point)
        ends = [(at(point + step * unit), at(point - step * unit)) for unit in np.eye(size)]
        np.testing.assert_allclose(slope, [(up[0] - down[0]) / 2 / step for up, down in ends], rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(curve, [(down[1] - up[1]) / 2 / step for up, down in ends], rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("prior", [np.zeros(3), PRIOR])
def test_a_climb_ends_where_nothing_rises_and_never_below_its_start(prior: Floats) -> None:
    """From anywhere, to the last bits: what decides afterwards must not depend on where a climb gave up."""
    sample = draw(Planted((0.8, 0.0, -0.8), (0.2, 0.3, 0.5), 0.3), items=40, apart=5, seed=3)
    coins, precision = np.random.default_rng(0), sample.error**-2.0
    slope, curve, known, inside = np.empty(6), np.empty((6, 6)), np.empty(6), np.empty(3)
    for _ in range(20):
        point = coins.normal(size=6)
        point[3:] -= point[3:].mean()
        before = height(sample.value, precision, point, prior, slope, curve, known)
        reached = climb(sample.value, precision, point, prior, curve, inside)
        assert reached >= before
        at_the_end = height(sample.value, precision, point, prior, slope, curve, known)
        assert at_the_end == pytest.approx(reached, rel=1e-12)
        assert (np.abs(slope) <= 1e-6 * np.sqrt(known)).all()


def test_levels_too_far_from_each_other_to_count_do_no_harm() -> None:
    """Numbers of any size, clusters without items, items without spread."""
    for value, error in (
        (np.where(np.arange(12) % 2, 1e6, -1e6) + np.arange(12.0), np.full(12, 1e-3)),
        (np.full(12, 0.25), np.full(12, 1.0)),
        (np.array([1.0, -1.0, 0.0]), np.full(3, 1e-3)),
    ):
        near = [
            Mixture(
                levels=np.array([9.0, 0.0, -9.0]), shares=np.array([1.0, 0.0, 0.0]), doubts=np.ones(3), likelihood=0.0
            ),
            *fits(value, error, 3),
        ]
        told, means = integrated(value, error, near, np.arange(value.size, dtype=np.int32))
        assert np.isfinite(told).all()
        assert np.isfinite(means).all()
        np.testing.assert_allclose(told.sum(axis=1), 1, rtol=1e-9)
