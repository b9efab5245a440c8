"""Posteriors are as sure as they may be: doubts are shares of wrong labels, and what cannot be told stays undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from statistical import binomial_bounds, normal_radius
from thoroughness import examples
from worlds import Planted, Sample, draw

from coordinator.protocol.arrays import Bools, Floats
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.mixture import fits
from coordinator.server.decoding.posterior import Posterior, believe, integrated

PLANTED = {
    "halves": Planted((0.8, -0.8), (0.5, 0.5)),
    "few are liked, errors differ": Planted((0.8, -0.8), (0.05, 0.95), 0.4),
    "thirds, errors differ": Planted((0.8, 0.0, -0.8), (1 / 3, 1 / 3, 1 / 3), 0.4),
    "falling shares": Planted((0.8, 0.0, -0.8), (0.1, 0.3, 0.6)),
}


def told(sample: Sample, *, by: float = 1.0) -> Estimates:
    """Estimates that state their errors, or errors that are wrong by a factor."""
    information = 1 / np.square(by * sample.error)
    return Estimates(weighted=sample.value * information, information=information)


BELIEVED = believe(told(draw(PLANTED["halves"], items=20, apart=9, seed=0)), clusters=2, failure=0.05)


def posterior_of(doubts: Sequence[float], *, apart: bool = True) -> Posterior:
    """What would be believed of items with these doubts."""
    return replace(BELIEVED, doubt=np.array(doubts, float), apart=apart)


def doubts_and_errors(name: str, by: float) -> tuple[Floats, Bools]:
    """Doubts of items in many runs whose clusters stand apart, and which labels are wrong."""
    doubts, wrong = list[Floats](), list[Bools]()
    for seed in range(6):
        sample = draw(PLANTED[name], items=1000, apart=4, seed=seed)
        found = believe(told(sample, by=by), clusters=len(PLANTED[name].levels), failure=0.05)
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


@pytest.mark.statistical
@pytest.mark.parametrize("name", PLANTED)
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
            sample = draw(PLANTED["halves"], items=40, apart=4, seed=seed)
            found = believe(told(sample, by=by), clusters=2, failure=0.1)
            decided = found.decided(0.1)
            runs_wrong[by] += bool((found.cluster != sample.cluster)[decided].any())
    most = binomial_bounds(100, 0.1)[1]
    assert runs_wrong[1.0] <= most < runs_wrong[0.6]


@pytest.mark.parametrize(("clusters", "seeds"), [(2, 40), (3, 15)])
@pytest.mark.parametrize("scatter", [0.0, 0.5])
def test_pure_noise_never_stands_apart(clusters: int, seeds: int, scatter: float) -> None:
    """By its own rule a run would with probability 1/1200 or less; whatever failure is allowed, nothing is decided."""
    for seed in range(seeds):
        sample = draw(Planted((0.3,), (1.0,), scatter), items=60, apart=3, seed=seed)
        found = believe(told(sample), clusters=clusters, failure=0.05)
        assert not found.apart
        assert found.doubt.min() >= 1 - 1 / clusters
        assert not any(found.decided(failure).any() for failure in (0.05, 0.5, 0.99, 60.0))
        assert found.threshold(0.05) == pytest.approx(0.05 / 60)


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


@pytest.mark.parametrize("liked", [0.05, 0.95])
def test_a_small_cluster_is_found(liked: float) -> None:
    """Shares of 5 and 95 %: at eight errors they stand apart, and all that is decided is right."""
    for seed in range(10):
        sample = draw(Planted((0.8, -0.8), (liked, 1 - liked), 0.3), items=300, apart=10, seed=seed)
        found = believe(told(sample), clusters=2, failure=0.05)
        assert found.apart
        assert found.mixture is not None
        assert found.mixture.shares[0] == pytest.approx((sample.cluster == 0).mean(), abs=0.01)
        decided = found.decided(0.05)
        assert decided.mean() > 0.9
        assert (found.cluster == sample.cluster)[decided].all()


def test_more_items_than_are_fitted() -> None:
    """All are labelled, and the same way each time."""
    sample = draw(Planted((0.8, 0.0, -0.8), (0.2, 0.3, 0.5), 0.1), items=25_000, apart=14, seed=0)
    one, other = (believe(told(sample), clusters=3, failure=0.05) for _ in range(2))
    assert one.decided(0.05).all()
    assert (one.cluster == sample.cluster).all()
    np.testing.assert_array_equal(one.doubt, other.doubt)
    assert one.cluster.dtype == np.int32


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
    posterior = posterior_of([float(doubt) for doubt in doubts])
    decided = posterior.decided(float(failure)).tolist()
    assert decided == [within(doubts, doubt, failure) for doubt in doubts]
    threshold = Fraction(posterior.threshold(float(failure))).limit_denominator(10**6)
    if not all(decided):
        assert within(doubts, threshold - Fraction(1, 10**6), failure)
        assert not within(doubts, threshold + Fraction(1, 10**5), failure)
    assert not replace(posterior, apart=False).decided(float(failure)).any()


@settings(max_examples=examples(100))
@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(1e-6, 1))
def test_the_union_bound_holds(doubts: list[float], failure: float) -> None:
    """Doubts of what is decided, and the threshold for each of the others, stay within what is allowed."""
    posterior = posterior_of(doubts)
    decided = posterior.decided(failure)
    threshold = posterior.threshold(failure)
    spent = posterior.doubt[decided].sum() + (~decided).sum() * threshold
    if not decided.all():
        assert spent == pytest.approx(failure)
        assert posterior.doubt[~decided].min() >= threshold * (1 - 1e-9)
    assert posterior.doubt[decided].sum() <= failure * (1 + 1e-9)
    more = posterior.decided(min(2 * failure, 1.0))
    assert (more | ~decided).all()


def test_none_and_all_decided() -> None:
    assert posterior_of([0.2, 0.3]).decided(0.1).tolist() == [False, False]
    assert posterior_of([0.2, 0.3]).threshold(0.1) == pytest.approx(0.05)
    assert posterior_of([1e-9, 1e-8, 0.0]).decided(0.05).tolist() == [True] * 3
    assert posterior_of([1e-9, 1e-8, 0.0]).threshold(0.05) == 1
    assert posterior_of([1e-9, 1e-8, 0.0], apart=False).decided(0.05).tolist() == [False] * 3


@pytest.mark.parametrize("clusters", [2, 3])
def test_items_that_were_in_no_pool_keep_all_undecided(clusters: int) -> None:
    sample = draw(PLANTED["halves"], items=30, apart=9, seed=0)
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


def test_the_model_tells_clusters_estimates_and_their_errors() -> None:
    sample = draw(PLANTED["thirds, errors differ"], items=40, apart=9, seed=1)
    found = believe(told(sample), clusters=3, failure=0.05)
    model = found.model(told(sample), 3)
    np.testing.assert_array_equal(model.cluster, found.cluster)
    np.testing.assert_allclose(model.score, sample.value, rtol=1e-12)
    np.testing.assert_allclose(model.error, sample.error, rtol=1e-12)
    assert model.clusters == 3
    order = [model.score[model.cluster == cluster].mean() for cluster in range(3)]
    assert order == sorted(order, reverse=True)


def test_what_is_expected_is_the_mean_of_the_levels() -> None:
    """Between the levels where there is doubt, of two clusters in proportion to it; the cluster's own where not."""
    sample = draw(PLANTED["halves"], items=200, apart=5, seed=2)
    found = believe(told(sample), clusters=2, failure=0.05)
    assert found.mixture is not None
    own, other = found.mixture.levels[found.cluster], found.mixture.levels[1 - found.cluster]
    strayed = np.abs(found.expected - own - found.doubt * (other - own))
    assert strayed.max() < 0.5 * found.mixture.doubts.min()
    assert np.abs(found.expected - own).max() > 0.1


def test_doubts_lieon_a_grid_above_what_they_are() -> None:
    """So that last bits hardly ever decide, and the union bound still holds."""
    sample = draw(PLANTED["halves"], items=200, apart=5, seed=2)
    estimates = told(sample)
    found, near = believe(estimates, clusters=2, failure=0.05), fits(sample.value, sample.error, 2)
    belongs, _ = integrated(sample.value, sample.error, near, np.arange(200, dtype=np.int32))
    exact = belongs.min(axis=1)
    assert ((found.doubt >= exact * (1 - 1e-6)) & (found.doubt <= exact * 2 ** (1 / 64) * (1 + 1e-6))).all()
    np.testing.assert_allclose(np.log2(found.doubt) * 64, np.rint(np.log2(found.doubt) * 64), atol=1e-9)
    moved = Estimates(weighted=estimates.weighted * (1 + 1e-14), information=estimates.information * (1 - 1e-14))
    np.testing.assert_array_equal(believe(moved, clusters=2, failure=0.05).doubt, found.doubt)
