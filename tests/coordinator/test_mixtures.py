"""Mixtures find what was planted; no clustering anybody could start from is more likely."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from statistical import normal_radius, variance_fits
from thoroughness import examples
from worlds import Planted, Sample, draw

from coordinator.protocol.arrays import Floats, Ints
from coordinator.server.decoding.mixture import Mixture, fit, fits, joint


def likelihood(levels: Floats, shares: Floats, sample: Sample) -> float:
    """Log-likelihood of the estimates, up to what their errors alone decide."""
    with np.errstate(divide="ignore"):
        prior = np.log(shares)
    exponent = prior - np.square((sample.value[:, None] - levels) / sample.error[:, None]) / 2
    return float(logsumexp(exponent, axis=1).sum())


def climbed(levels: Floats, shares: Floats, sample: Sample) -> float:
    """What expectation and maximization reach from there; slow, and never falling."""
    reached = likelihood(levels, shares, sample)
    for _ in range(60):
        with np.errstate(divide="ignore"):
            exponent = np.log(shares) - np.square((sample.value[:, None] - levels) / sample.error[:, None]) / 2
        belongs = np.exp(exponent - logsumexp(exponent, axis=1)[:, None])
        weights = belongs / np.square(sample.error)[:, None]
        levels = (weights * sample.value[:, None]).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
        shares = belongs.mean(axis=0)
        reached = likelihood(levels, shares, sample)
    return reached


def of_clusters(cluster: Ints, count: int, sample: Sample) -> tuple[Floats, Floats]:
    """Levels and shares of a clustering."""
    belongs = np.eye(count)[cluster]
    weights = belongs / np.square(sample.error)[:, None]
    levels = (weights * sample.value[:, None]).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
    return levels, belongs.mean(axis=0)


PLANTED = {
    "one": Planted((0.3,), (1.0,), 0.5),
    "halves": Planted((0.8, -0.8), (0.5, 0.5)),
    "halves, errors differ": Planted((0.8, -0.8), (0.5, 0.5), 0.5),
    "few are liked": Planted((0.8, -0.8), (0.05, 0.95)),
    "few are liked, errors differ": Planted((0.8, -0.8), (0.05, 0.95), 0.5),
    "thirds": Planted((0.8, 0.0, -0.8), (1 / 3, 1 / 3, 1 / 3), 0.3),
    "few at the ends": Planted((0.8, 0.0, -0.8), (0.1, 0.8, 0.1)),
    "falling shares": Planted((0.8, 0.0, -0.8), (0.05, 0.25, 0.7)),
    "falling shares, errors differ": Planted((0.8, 0.0, -0.8), (0.05, 0.25, 0.7), 0.5),
}


@pytest.mark.parametrize("name", PLANTED)
def test_no_start_leads_higher(name: str) -> None:
    """Neither the truth, nor what is reached from it, nor items cut evenly, are more likely than the fit."""
    planted, count = PLANTED[name], len(PLANTED[name].levels)
    for seed in range(4):
        sample = draw(planted, items=300, apart=4.5, seed=seed)
        mixture = fit(sample.value, sample.error, count)
        found = likelihood(mixture.levels, mixture.shares, sample)
        assert found >= climbed(*of_clusters(sample.cluster, count, sample), sample) - 1e-3
        evenly = np.argsort(np.argsort(-sample.value)) * count // 300
        assert found >= likelihood(*of_clusters(evenly, count, sample), sample) - 1e-6
        assert found >= likelihood(np.array(planted.levels), np.array(planted.shares), sample)


@pytest.mark.parametrize("name", PLANTED)
def test_levels_and_shares_are_found(name: str) -> None:
    """Twelve errors apart: shares are those of the items, levels within their errors; false alarm 1e-6 a fit."""
    planted = PLANTED[name]._replace(scatter=PLANTED[name].scatter / 2)
    count = len(planted.levels)
    for seed in range(4):
        sample = draw(planted, items=200, apart=12, seed=seed)
        mixture = fit(sample.value, sample.error, count)
        counted = np.bincount(sample.cluster, minlength=count) / 200
        np.testing.assert_allclose(mixture.shares, counted, atol=2e-4)
        present = counted > 0
        strayed = np.abs(mixture.levels - planted.levels) / mixture.doubts
        assert (strayed[present] <= normal_radius(1.0, comparisons=count)).all()
        assert (np.diff(mixture.levels[present]) < 0).all()
        assert mixture.shares.sum() == pytest.approx(1)


@pytest.mark.statistical
def test_levels_stray_as_far_as_they_say() -> None:
    """Mean square of (level - planted) / doubt, 60 fits of three clusters; chi-square, false alarm 1e-6.

    Twin: variances 2.5 times as large, or as small, are refused.
    """
    planted, strayed = Planted((0.8, 0.0, -0.8), (0.3, 0.3, 0.4), 0.3), []
    for seed in range(60):
        sample = draw(planted, items=60, apart=10, seed=seed)
        mixture = fit(sample.value, sample.error, 3)
        strayed.append((mixture.levels - np.array(planted.levels)) / mixture.doubts)
    assert variance_fits(strayed, 1.0)
    assert not variance_fits(strayed, 2.5)
    assert not variance_fits(strayed, 1 / 2.5)


def test_one_cluster_is_the_weighted_mean() -> None:
    sample = draw(PLANTED["one"], items=50, apart=3, seed=0)
    mixture = fit(sample.value, sample.error, 1)
    precision = sample.error**-2
    mean = (precision * sample.value).sum() / precision.sum()
    assert mixture.levels == pytest.approx([mean], abs=1e-3 * precision.sum() ** -0.5)
    assert mixture.doubts == pytest.approx([precision.sum() ** -0.5])
    assert mixture.shares.tolist() == [1.0]


@pytest.mark.parametrize("name", PLANTED)
def test_likelihoods_of_two_fits_can_be_compared(name: str) -> None:
    """The numbers that a fit reports differ as the likelihoods do; another cluster never makes it less likely."""
    sample = draw(PLANTED[name], items=120, apart=5, seed=1)
    fits = [fit(sample.value, sample.error, count) for count in (1, 2, 3)]
    exact = [likelihood(one.levels, one.shares, sample) for one in fits]
    reported = [one.likelihood for one in fits]
    np.testing.assert_allclose(np.diff(reported), np.diff(exact), atol=1e-4)
    assert (np.diff(exact) >= -1e-4).all()


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 1.0, 50.0]), shift=st.sampled_from([-3.0, 0.0, 7.0]))
def test_units_and_order_do_not_matter(seed: int, scale: float, shift: float) -> None:
    sample = draw(PLANTED["halves, errors differ"], items=60, apart=8, seed=seed)
    plain = fit(sample.value, sample.error, 2)
    order = np.random.default_rng(seed).permutation(60)
    moved = fit(scale * sample.value[order] + shift, scale * sample.error[order], 2)
    np.testing.assert_allclose((moved.levels - shift) / scale, plain.levels, atol=0.02 * float(plain.doubts.min()))
    np.testing.assert_allclose(moved.doubts / scale, plain.doubts, rtol=0.01)
    np.testing.assert_allclose(moved.shares, plain.shares, atol=1e-3)


def rough(kind: str, clusters: int, seed: int) -> Sample:
    """What has fewer clusters than are looked for, or hardly enough items; errors differ."""
    world = np.random.default_rng(seed)
    if kind == "two clusters":
        return draw(PLANTED["halves, errors differ"], items=60, apart=8, seed=seed)
    value = {
        "all alike": np.full(20, 0.25),
        "as many items as clusters": np.linspace(1, -1, clusters),
        "one cluster": world.normal(size=30),
        "two items far out": np.where(np.arange(40) < 2, 60.0, 0.0) + world.normal(size=40),
        "exact": np.where(np.arange(30) % 2, 1e6, -1e6) + world.normal(size=30),
    }[kind]
    return Sample(np.zeros(value.size, np.int64), value, np.exp(world.normal(0, 0.7, value.size)))


@pytest.mark.parametrize("clusters", [2, 3])
@pytest.mark.parametrize(
    "kind", ["all alike", "as many items as clusters", "one cluster", "two clusters", "two items far out", "exact"]
)
def test_clusters_that_are_not_there_do_no_harm(kind: str, clusters: int) -> None:
    """Nothing warns, nothing is no number, and shares are shares."""
    for seed in range(8):
        sample = rough(kind, clusters, seed)
        mixture = fit(sample.value, sample.error, clusters)
        assert np.isfinite([*mixture.levels, *mixture.doubts, *mixture.shares, mixture.likelihood]).all()
        assert (mixture.shares >= 0).all()
        assert mixture.shares.sum() == pytest.approx(1)
        assert mixture.doubts.min() > 0


def test_joint_is_the_normal_density_up_to_a_constant() -> None:
    sample = draw(PLANTED["thirds"], items=9, apart=4, seed=3)
    mixture = Mixture(
        levels=np.array([1.0, 0.1, -2.0]), shares=np.array([0.5, 0.5, 0.0]), doubts=np.ones(3), likelihood=0.0
    )
    found = joint(mixture, sample.value, sample.error)
    spread = sample.error[:, None]
    density = np.exp(-np.square((sample.value[:, None] - mixture.levels) / spread) / 2) / spread
    np.testing.assert_allclose(np.exp(found), mixture.shares * density, rtol=1e-12)


@pytest.mark.parametrize("clusters", [2, 3])
def test_all_fits_are_told_once_and_the_likeliest_first(clusters: int) -> None:
    """Of few items: each is where expectation and maximization stay, too."""
    many = 0
    for seed in range(10):
        sample = draw(PLANTED["thirds"], items=12, apart=3, seed=seed)
        found = fits(sample.value, sample.error, clusters)
        heights = [one.likelihood for one in found]
        assert heights == sorted(heights, reverse=True)
        many += len(found) > 1
        for one in found:
            exact = likelihood(one.levels, one.shares, sample)
            assert climbed(one.levels, one.shares, sample) - exact < 1e-6
    assert many
