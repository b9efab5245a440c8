"""Predicted accuracy against recorded figures, closed forms and k-means on simulated scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from coordinator.protocol.arrays import Ints
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.line import kmeans_on_line
from coordinator.server.moments.blocks import BlockParameters, SketchMoments, maxsense_moments
from scenarios.data.metrics import clustering_scores
from scenarios.theory.prediction import predicted_accuracy, predicted_exact

EQUAL = np.array([500, 500])
MANY = 1_000_000


def standard() -> SketchMoments:
    """N = 1000, w = 30, epsilon 1, theta 1, b = (0.9, 0.1)."""
    like = np.array([[0.9, 0.1]])
    model = BlockParameters(rated=30, like=like, class_shares=np.ones(1), cluster_sizes=EQUAL)
    return maxsense_moments(model, sensing=1 / 30, epsilon=1)


def at_distances(*means: float) -> SketchMoments:
    """Moments whose centred estimates from 100 answers have these means, in units of their deviation."""
    unit = 0.3
    return SketchMoments(
        sensing=0.1,
        epsilon=1.0,
        private_rate=0.5,
        answer_rate=0.5,
        effect=np.array(means) * unit,
        noise_paper=2 * unit**2,
        noise_centred=unit**2,
    )


def accuracy(moments: SketchMoments, sizes: Ints) -> float:
    return predicted_accuracy(moments, sizes, users=100, decoder="centred")


def test_the_helper_means_what_it_says() -> None:
    moments = at_distances(0, 3)
    assert moments.estimate_deviation(100, "centred") == pytest.approx(0.3)


@pytest.mark.parametrize(("decoder", "share", "error"), [("centred", 0.9590, 0.0010), ("paper", 0.9015, 0.0019)])
def test_standard_setting(decoder: str, share: float, error: float) -> None:
    """The recorded brute force of 40 seeds, within two of its standard errors."""
    found = predicted_accuracy(standard(), EQUAL, users=2_000_000, decoder=decoder)
    assert abs(found - share) < 2 * error


def test_many_items_give_the_recorded_formula() -> None:
    """The spec's 0.9589 is Phi(d / (2 sd)): what is left once the cuts no longer scatter."""
    found = predicted_accuracy(standard(), EQUAL * MANY, users=2_000_000, decoder="centred")
    assert found == pytest.approx(0.9589, abs=0.0002)
    assert predicted_accuracy(standard(), EQUAL, users=2_000_000, decoder="centred") < found - 0.0001


@pytest.mark.parametrize(
    ("decoder", "millions", "chance"),
    [
        ("centred", 6.8, 0.5),
        ("centred", 10.0, 0.95),
        ("centred", 12.0, 0.99),
        ("paper", 12.3, 0.5),
        ("paper", 18.2, 0.95),
        ("paper", 22.0, 0.99),
    ],
)
def test_users_for_all_right(decoder: str, millions: float, chance: float) -> None:
    """The recorded users, to 2 %: they were computed for cuts that do not scatter and answers without effect."""
    low, high = (
        predicted_exact(standard(), EQUAL, users=round(millions * factor * 1e6), decoder=decoder)
        for factor in (0.98, 1.02)
    )
    assert low < chance < high


def test_exact_is_about_the_exponential_of_expected_errors() -> None:
    moments = standard()
    share = predicted_accuracy(moments, EQUAL, users=10_000_000, decoder="centred")
    found = predicted_exact(moments, EQUAL, users=10_000_000, decoder="centred")
    assert found == pytest.approx(math.exp(-1000 * (1 - share)), rel=1e-4)


@pytest.mark.parametrize("gap", [0.5, 2.0, 5.0])
def test_two_equal_clusters_of_many_items(gap: float) -> None:
    """Many items of two equal clusters: Phi of half the gap."""
    general = accuracy(at_distances(gap, 0), EQUAL * MANY)
    assert general == pytest.approx(float(norm.cdf(gap / 2)), abs=1e-8)


def test_far_clusters_are_all_right_whatever_their_shares() -> None:
    moments = at_distances(40, 0, 75, 20, 60)
    sizes = np.array([10, 1000, 50, 5, 300])
    assert accuracy(moments, sizes) == pytest.approx(1, abs=1e-9)
    assert predicted_exact(moments, sizes, users=100, decoder="centred") == pytest.approx(1, abs=1e-9)


def test_three_equal_clusters_on_a_lattice() -> None:
    """Means -d, 0, d: by symmetry the cuts are -c and c, with c the fixed point found here by bisection."""
    gap = 3.0
    means = np.array([-gap, 0, gap])

    def centre_above(cut: float) -> float:
        mass = norm.sf(cut - means)
        return float((means @ mass + norm.pdf(cut - means).sum()) / mass.sum())

    low, high = 0.1, gap
    for _ in range(60):
        cut = (low + high) / 2
        low, high = (cut, high) if centre_above(cut) / 2 > cut else (low, cut)
    expected = (2 * float(norm.sf(cut - gap)) + 1 - 2 * float(norm.sf(cut))) / 3
    assert accuracy(at_distances(0, gap, -gap), np.full(3, 70 * MANY)) == pytest.approx(expected, abs=1e-8)


def test_a_small_cluster_near_a_large_one_is_missed() -> None:
    """With shares 0.02 and 0.98, k-means halves the large cluster: about half of all items are right."""
    assert 0.45 < accuracy(at_distances(2, 0), np.array([20, 980])) < 0.6


def test_clusters_that_coincide() -> None:
    """Three clusters, two with equal rates: k-means halves one of the two separate heaps, the larger one."""
    assert accuracy(at_distances(1, 1), np.array([50, 50])) == pytest.approx(0.5)
    far = accuracy(at_distances(0, 0, 100), np.array([100, 100, 100]))
    assert far == pytest.approx(1 / 3 + 2 / 3 * 0.5, abs=1e-9)
    assert predicted_exact(at_distances(1, 1), EQUAL, users=100, decoder="centred") < 1e-200


def test_one_cluster_and_scores_without_spread() -> None:
    assert accuracy(at_distances(0), np.array([30])) == 1
    like = np.zeros((1, 2))
    model = BlockParameters(rated=2, like=like, class_shares=np.ones(1), cluster_sizes=np.array([6, 2]))
    silent = maxsense_moments(model, sensing=0.5, epsilon=math.inf)
    assert accuracy(silent, np.array([6, 2])) == 0.75
    assert predicted_exact(silent, np.array([6, 2]), users=100, decoder="centred") == 0


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("means", "sizes"),
    [
        ((0.0, 2.0), (20_000, 80_000)),
        ((0.0, 3.0, 4.5), (50_000, 30_000, 20_000)),
        ((0.0, 2.5, 2.5, 7.0), (40_000, 30_000, 20_000, 10_000)),
    ],
)
def test_kmeans_on_simulated_scores(means: tuple[float, ...], sizes: tuple[int, ...]) -> None:
    """Tolerance 0.02 on 100 thousand items.

    Over 25 seeds the share scattered by at most 0.0038 around the prediction (the sample moves the cuts), so 0.02 is
    5 standard deviations: false alarm below 1e-6. The twin, with 30 % fewer users, lies 0.038 or more lower.
    """
    labels = np.repeat(np.arange(len(sizes)), sizes)
    scores = np.random.default_rng(11).normal(np.array(means)[labels])
    found = clustering_scores(kmeans_on_line(scores, len(sizes)).astype(np.int64), labels).accuracy
    moments = at_distances(*means)
    assert accuracy(moments, np.array(sizes)) == pytest.approx(found, abs=0.02)
    fewer = predicted_accuracy(moments, np.array(sizes), users=70, decoder="centred")
    assert abs(fewer - found) > 0.02


def test_any_mixture_gives_chances() -> None:
    """Clusters that coincide, single items, far heaps: never a warning, always a number from 0 to 1."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        clusters = int(rng.integers(2, 6))
        moments = at_distances(*np.cumsum(rng.choice([0, 0.3, 1, 2, 4, 20], clusters)).tolist())
        sizes = rng.integers(1, int(rng.choice([3, 30, 300])), clusters)
        assert 0 <= accuracy(moments, sizes) <= 1
        assert 0 <= predicted_exact(moments, sizes, users=100, decoder="centred") <= 1


def test_sizes_must_fit_the_moments() -> None:
    with pytest.raises(InputError, match="2 clusters"):
        accuracy(at_distances(0, 1), np.array([1, 2, 3]))
