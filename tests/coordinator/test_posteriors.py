"""Mixtures behind noisy estimates, and posteriors: labels are decided as rarely wrong as is promised."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy
from evidence import binomial_bounds, examples, normal_radius, variance_fits
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax
from worlds import Planted, Sample, draw, in_world

from coordinator.protocol.arrays import Bools, Floats, Floats2, Ints
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.posterior import (
    PRIOR,
    Mixture,
    Posterior,
    believe,
    climb,
    farthest_gaps,
    fit,
    fits,
    height,
    integrated,
    joint,
    nearest_gaps,
)
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.server.rounds.setting import most_moved


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


@pytest.mark.few(4)
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


POSTERIORS_PLANTED = {
    "halves": Planted((0.8, -0.8), (0.5, 0.5)),
    "few are liked, errors differ": Planted((0.8, -0.8), (0.05, 0.95), 0.4),
    "thirds, errors differ": Planted((0.8, 0.0, -0.8), (1 / 3, 1 / 3, 1 / 3), 0.4),
    "falling shares": Planted((0.8, 0.0, -0.8), (0.1, 0.3, 0.6)),
}


def told(sample: Sample, *, by: float = 1.0) -> Estimates:
    """Estimates that state their errors, or errors that are wrong by a factor."""
    information = 1 / np.square(by * sample.error)
    return Estimates(weighted=sample.value * information, information=information)


BELIEVED = believe(told(draw(POSTERIORS_PLANTED["halves"], items=20, apart=9, seed=0)), clusters=2, failure=0.05)


def doubts_and_errors(name: str, by: float) -> tuple[Floats, Bools]:
    """Doubts of items in many runs whose clusters stand apart, and which labels are wrong."""
    doubts, wrong = list[Floats](), list[Bools]()
    for seed in range(6):
        sample = draw(POSTERIORS_PLANTED[name], items=1000, apart=4, seed=seed)
        found = believe(told(sample, by=by), clusters=len(POSTERIORS_PLANTED[name].levels), failure=0.05)
        if found.apart:
            doubts.append(found.doubt)
            wrong.append(found.cluster != sample.cluster)
    assert len(doubts) > 4
    return np.concatenate(doubts), np.concatenate(wrong)


def calibrated(doubts: Floats, wrong: Bools) -> bool:
    """Whether of the items of about one doubt about that share is wrong, in each of four ranges; 1e-6 together."""
    fits = []
    for low, high in ((0.0, 0.01), (0.01, 0.05), (0.05, 0.2), (0.2, 1.0)):
        some = (doubts > low) & (doubts <= high)
        expected, spread = doubts[some].sum(), np.sqrt((doubts[some] * (1 - doubts[some])).sum())
        fits.append(abs(wrong[some].sum() - expected) <= 2 + normal_radius(1.2 * spread, comparisons=4))
    return all(fits)


@pytest.mark.few(1)
@pytest.mark.statistical
@pytest.mark.parametrize("name", POSTERIORS_PLANTED)
def test_doubts_are_shares_of_wrong_labels(name: str) -> None:
    """6,000 items of 6 runs; normal, false alarm 1e-6, a fifth added for the levels that a run's items share.

    Twins: estimates that state 0.6 or 1.5 times their error are found out.
    """
    assert calibrated(*doubts_and_errors(name, 1.0))
    assert not calibrated(*doubts_and_errors(name, 0.6))
    assert not calibrated(*doubts_and_errors(name, 1.5))


@pytest.mark.statistical
def test_what_is_decided_is_right_with_the_asked_probability() -> None:
    """100 runs of 40 items, failure 0.1: runs with a wrong decided label; binomial, false alarm 1e-6.

    Twin: with errors that are stated 0.4 too small there are more.
    """
    runs_wrong = {1.0: 0, 0.6: 0}
    for by in runs_wrong:
        for seed in range(100):
            sample = draw(POSTERIORS_PLANTED["halves"], items=40, apart=4, seed=seed)
            found = believe(told(sample, by=by), clusters=2, failure=0.1)
            decided = found.decided(0.1)
            runs_wrong[by] += bool((found.cluster != sample.cluster)[decided].any())
    most = binomial_bounds(100, 0.1)[1]
    assert runs_wrong[1.0] <= most < runs_wrong[0.6]


@pytest.mark.few(1)
@pytest.mark.parametrize(("clusters", "seeds"), [(2, 40), (3, 15)])
@pytest.mark.parametrize("scatter", [0.0, 0.5])
def test_pure_noise_never_stands_apart(clusters: int, seeds: int, scatter: float) -> None:
    """By its own rule a run would with probability 1/1200, one of 40 with .03; whatever failure is allowed, nothing is
    decided."""
    for seed in range(seeds):
        sample = draw(Planted((0.3,), (1.0,), scatter), items=60, apart=3, seed=seed)
        found = believe(told(sample), clusters=clusters, failure=0.05)
        assert not found.apart
        assert found.doubt.min() >= 1 - 1 / clusters
        assert not any(found.decided(failure).any() for failure in (0.05, 0.5, 0.99, 60.0))
        assert found.threshold(0.05) == pytest.approx(0.05 / 60)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("shares", "scatter", "items", "apart"),
    [
        ((0.5, 0.5), 0.0, 60, 6),
        ((0.5, 0.5), 0.5, 200, 12),
        ((0.05, 0.95), 0.0, 200, 6),
        ((0.05, 0.95), 0.5, 60, 12),
        ((0.05, 0.95), 1.0, 40, 8),
        ((0.2, 0.8), 0.5, 200, 8),
    ],
)
def test_three_clusters_do_not_stand_apart_where_there_are_two(
    shares: tuple[float, float], scatter: float, items: int, apart: float
) -> None:
    """However far apart the two are."""
    for seed in range(20 if items <= 60 else 8):
        sample = draw(Planted((0.8, -0.8), shares, scatter), items=items, apart=apart, seed=seed)
        found = believe(told(sample), clusters=3, failure=0.05)
        assert not found.apart
        assert not found.decided(0.05).any()
        assert found.doubt.min() >= 2 / 3


def within(doubts: Sequence[Fraction], threshold: Fraction, failure: Fraction) -> bool:
    return sum(min(doubt, threshold) for doubt in doubts) <= failure


@settings(max_examples=examples(150))
@given(st.lists(st.integers(0, 64), min_size=1, max_size=12), st.integers(0, 128))
@example([0, 0, 0], 0)
@example([0, 64, 64], 0)
@example([1, 1, 1], 3)
@example([1, 1, 1], 2)
@example([3, 1, 2], 6)
@example([64], 64)
def test_decided_items_are_those_of_the_largest_threshold(parts: list[int], allowed: int) -> None:
    """A naive search over all thresholds that a doubt could be, in exact fractions."""
    doubts, failure = [Fraction(part, 64) for part in parts], Fraction(allowed, 64)
    posterior = replace(BELIEVED, doubt=np.array(doubts, float))
    decided = posterior.decided(float(failure)).tolist()
    assert decided == [within(doubts, doubt, failure) for doubt in doubts]
    threshold = Fraction(posterior.threshold(float(failure))).limit_denominator(10**6)
    if not all(decided):
        assert within(doubts, threshold - Fraction(1, 10**6), failure)
        assert not within(doubts, threshold + Fraction(1, 10**5), failure)
    assert not replace(posterior, apart=False).decided(float(failure)).any()


@pytest.mark.parametrize("clusters", [2, 3])
def test_items_that_were_in_no_pool_keep_all_undecided(clusters: int) -> None:
    sample = draw(POSTERIORS_PLANTED["halves"], items=30, apart=9, seed=0)
    full = told(sample)
    seen = np.arange(30) != 7
    some = Estimates(weighted=full.weighted * seen, information=full.information * seen)
    found = believe(some, clusters=clusters, failure=0.05)
    assert (found.mixture, found.apart) == (None, False)
    assert found.doubt.tolist() == pytest.approx([1 - 1 / clusters] * 30)
    assert not found.decided(0.05).any()
    model = found.model(some, clusters)
    assert (model.score[7], model.error[7]) == (0, 0)
    assert np.isfinite(model.error).all()


def test_doubts_lie_on_a_grid_above_what_they_are() -> None:
    """So that last bits hardly ever decide, and the union bound still holds."""
    sample = draw(POSTERIORS_PLANTED["halves"], items=200, apart=5, seed=2)
    estimates = told(sample)
    found, near = believe(estimates, clusters=2, failure=0.05), fits(sample.value, sample.error, 2)
    belongs, _ = integrated(sample.value, sample.error, near, np.arange(200, dtype=np.int32))
    exact = belongs.min(axis=1)
    assert ((found.doubt >= exact * (1 - 1e-6)) & (found.doubt <= exact * 2 ** (1 / 64) * (1 + 1e-6))).all()
    np.testing.assert_allclose(np.log2(found.doubt) * 64, np.rint(np.log2(found.doubt) * 64), atol=1e-9)
    moved = Estimates(weighted=estimates.weighted * (1 + 1e-14), information=estimates.information * (1 - 1e-14))
    np.testing.assert_array_equal(believe(moved, clusters=2, failure=0.05).doubt, found.doubt)


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


@pytest.mark.few(1)
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


def mixture_of(*levels: float) -> Mixture:
    many = len(levels)
    return Mixture(levels=np.array(levels), shares=np.full(many, 1 / many), doubts=np.full(many, 0.01), likelihood=0.0)


def doubts(mixture: Mixture, weighted: Floats, information: float, cluster: Ints | None = None) -> tuple[Ints, Floats]:
    """The most probable clusters, or given ones, and the probability that they are wrong."""
    error = np.full(weighted.size, information**-0.5)
    belongs = scipy.special.softmax(joint(mixture, weighted / information, error), axis=1)
    rows, found = np.arange(weighted.size), belongs.argmax(axis=1) if cluster is None else cluster
    belongs[rows, found] = 0
    return found, belongs.sum(axis=1)


@pytest.mark.parametrize("levels", [(0.8, 0.0), (1.0, 0.0, -0.1), (0.9, 0.8, -0.9)])
def test_no_lies_leave_less_doubt_than_honest_answers_do(levels: tuple[float, ...]) -> None:
    """Liars answer alike about an item, up or down, beside honest answers that tell any level; smaller margins fail."""
    mixture, honest, liars = mixture_of(*levels), 200, 20
    design = in_world(Sign, items=4, rated=4, signs="plain")
    query = design.query(round_number=0, public_seed=bytes(16), epsilon=Fraction(4), pool=np.array([0], np.int32))
    rates = design.rates(query)
    rate, value = float(rates[0]), np.linspace(-1, 1, 400)

    def covered(moved: float) -> bool:
        for sign in (-1, 1):
            weighted = rate * honest * value
            cluster, doubt = doubts(mixture, weighted + sign * rate**0.5 * liars, rate * (honest + liars))
            lied = Posterior(cluster=cluster.astype(np.int32), doubt=doubt, expected=value, mixture=mixture, apart=True)
            _, truly = doubts(mixture, weighted, rate * honest, cluster)
            if (lied.withstanding(np.full(value.size, moved)).doubt < truly * (1 - 1e-9)).any():
                return False
        return True

    assert covered(liars * float(most_moved(rates)[0]))
    assert not covered(liars * rate**0.5 / 2)
    if levels == (0.8, 0.0):  # the middle is not 0, so that the sign alone is too little
        assert not covered(liars * rate**0.5)


def test_gaps_to_the_nearest_and_to_the_farthest_level() -> None:
    assert nearest_gaps(mixture_of(1.0, 0.0, -0.5)).tolist() == [1.0, 0.5, 0.5]
    assert farthest_gaps(mixture_of(1.0, 0.0, -0.5)).tolist() == [1.5, 1.0, 1.5]
    assert nearest_gaps(mixture_of(0.3)).tolist() == [math.inf]
    assert farthest_gaps(mixture_of(0.3)).tolist() == [0.0]
