"""Predictions for the curator's totals against enumeration, quadrature and k-means on simulated ratings."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.curator import noisy_totals
from coordinator.server.decoding.line import kmeans_on_line
from coordinator.server.moments.blocks import BlockParameters
from scenarios.data.metrics import clustering_scores
from scenarios.theory import predictors
from scenarios.theory.prediction import LineLaw, kmeans_cuts, line_accuracy, line_exact
from scenarios.theory.predictors import curator_accuracy, curator_exact, normal_laplace_tail


def model(like: list[list[float]], sizes: list[int], rated: int) -> BlockParameters:
    shares = np.full(len(like), 1 / len(like))
    return BlockParameters(rated=rated, like=np.array(like), class_shares=shares, cluster_sizes=np.array(sizes))


def totals(parameters: BlockParameters, users: int, generator: np.random.Generator) -> Ints:
    """Simulate ``T_i`` from ratings: a w-subset a user, likes by class and cluster."""
    labels = np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)
    classes = generator.choice(parameters.class_shares.size, users, p=parameters.class_shares)
    order = generator.random((users, parameters.items)).argsort(axis=1)
    rated = order < parameters.rated
    liked = generator.random(rated.shape) < parameters.like[classes][:, labels]
    return np.asarray((rated * (2 * liked.astype(np.int64) - 1)).sum(axis=0))


def simulated(parameters: BlockParameters, users: int, epsilon: Epsilon, runs: int) -> Floats:
    """Shares of items right, one a run."""
    generator = np.random.default_rng(3)
    labels = np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)
    shares = []
    for _ in range(runs):
        noisy, _ = noisy_totals(
            totals(parameters, users, generator), epsilon=epsilon, sensitivity=parameters.rated,
            seed=generator.bytes(16),
        )  # fmt: skip
        found = kmeans_on_line(noisy, parameters.cluster_sizes.size).astype(np.int64)
        shares.append(clustering_scores(found, labels).accuracy)
    return np.array(shares)


@pytest.mark.parametrize(("deviation", "scale"), [(1.0, 0.1), (1.0, 1.0), (0.1, 2.0), (3.0, 1.0)])
def test_normal_laplace_tail_is_the_convolution(deviation: float, scale: float) -> None:
    for offset in (0.0, 0.3, 2.0, 7.0):

        def product(noise: float, offset: float = offset) -> float:
            return float(stats.norm.sf(offset - noise, scale=deviation) * stats.laplace.pdf(noise, scale=scale))

        ends = sorted({-40 * scale, 0.0, offset, 40 * scale + offset})
        expected = sum(quad(product, a, b, epsabs=0, epsrel=1e-10, limit=400)[0] for a, b in itertools.pairwise(ends))
        found = normal_laplace_tail(np.array([offset]), np.array([deviation]), scale)[0]
        assert found == pytest.approx(expected, rel=1e-7)


def test_normal_laplace_tail_far_out_and_in_its_limits() -> None:
    def tail(offset: float, deviation: float, scale: float) -> float:
        return float(normal_laplace_tail(np.array([offset]), np.array([deviation]), scale)[0])

    assert tail(600, 1, 1) == pytest.approx(0.5 * math.exp(0.5 - 600), rel=1e-9)
    assert tail(3, 1, 0) == pytest.approx(stats.norm.sf(3))
    assert tail(3, 1, 1e-9) == pytest.approx(stats.norm.sf(3), rel=1e-6)
    assert tail(3, 1e-9, 2) == pytest.approx(0.5 * math.exp(-1.5), rel=1e-6)
    assert tail(0, 1, 5) == pytest.approx(0.5)


def test_one_user_who_rates_all_by_hand() -> None:
    """w = N, scale 2/3: T is +1 or -1 plus noise k; equal clusters are cut at 0, and ties at 0 are right in one."""
    parameters = model([[0.9, 0.1]], [50, 50], 100)
    ratio = math.exp(-1.5)
    one, two, none = ratio / (1 + ratio), ratio**2 / (1 + ratio), 1 / (1 + ratio)  # P(k >= 1), P(k >= 2), P(k >= 0)
    above = 0.9 * none + 0.1 * two  # P(T >= 1) of the liked cluster
    reached = 0.9 * (1 - two) + 0.1 * one  # P(T >= 0)
    found = curator_accuracy(parameters, users=1, epsilon=Fraction(150))
    assert found == pytest.approx((above + reached) / 2, abs=1e-9)


def test_the_lattice_is_the_enumeration_of_a_few_users() -> None:
    """Three users of one class, w/N = 1/2, no noise: T is a sum of three signs or zeros, enumerated."""
    parameters = model([[0.8, 0.3]], [60, 140], 100)
    law = np.zeros((2, 7))
    for cluster, like in enumerate((0.8, 0.3)):
        one = {-1: (1 - like) / 2, 0: 0.5, 1: like / 2}
        for signs in itertools.product((-1, 0, 1), repeat=3):
            law[cluster, sum(signs) + 3] += math.prod(one[sign] for sign in signs)
    line = LineLaw(points=np.arange(-3.0, 4), mass=law, sizes=parameters.cluster_sizes)
    found = curator_accuracy(parameters, users=3, epsilon=None)
    assert found == pytest.approx(line_accuracy(line, kmeans_cuts(line)), abs=1e-12)
    by_hand = max(0.3 * law[0, cut:].sum() + 0.7 * law[1, :cut].sum() for cut in range(1, 7))
    assert found <= by_hand + 1e-12
    assert found > 0.6


@pytest.mark.parametrize("epsilon", [None, Fraction(1), Fraction(1, 20)])
def test_density_and_lattice_agree_where_both_hold(epsilon: Epsilon, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = model([[0.7, 0.45], [0.6, 0.5]], [500, 700], 40)
    users = {None: 6000, Fraction(1): 10_000, Fraction(1, 20): 160_000}[epsilon]
    lattice = curator_accuracy(parameters, users=users, epsilon=epsilon)
    monkeypatch.setattr(predictors, "LATTICE", 0)
    assert curator_accuracy(parameters, users=users, epsilon=epsilon) == pytest.approx(lattice, abs=1e-4)
    assert 0.8 < lattice < 0.99999


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("like", "sizes", "rated", "users", "epsilon"),
    [
        ([[0.9, 0.1]], [300, 300], 20, 1500, Fraction(1)),
        ([[0.9, 0.2], [0.6, 0.1]], [360, 240], 60, 900, Fraction(2)),
        ([[0.8, 0.5, 0.2]], [200, 200, 200], 20, 1000, Fraction(2)),
        ([[1.0, 0.0]], [300, 300], 3, 500, None),
    ],
)
def test_kmeans_on_simulated_totals(
    like: list[list[float]], sizes: list[int], rated: int, users: int, epsilon: Epsilon
) -> None:
    """Mean share of 12 runs, six standard errors: false alarm below 1e-4 (Student's t), at a fixed seed.

    5e-4 more is for the finite number of items. The twin, at a third fewer users, lies outside.
    """
    parameters = model(like, sizes, rated)
    shares = simulated(parameters, users, epsilon, 12)
    radius = 6 * float(shares.std(ddof=1)) / math.sqrt(shares.size) + 5e-4
    assert abs(curator_accuracy(parameters, users=users, epsilon=epsilon) - shares.mean()) < radius
    assert abs(curator_accuracy(parameters, users=users * 2 // 3, epsilon=epsilon) - shares.mean()) > radius


@pytest.mark.statistical
def test_variance_of_a_total_around_its_cluster() -> None:
    """Within-cluster variances of 400 simulated populations, five standard errors: false alarm below 1e-6.

    The twin, the variance of a total on its own, is 0.06 or more away: users of one class move a cluster as one.
    """
    parameters = model([[0.95, 0.3], [0.4, 0.05]], [40, 40], 60)
    generator = np.random.default_rng(8)
    within = np.array([totals(parameters, 50, generator).reshape(2, 40).var(axis=1, ddof=1) for _ in range(400)]) / 50
    error = 5 * within.std(axis=0) / math.sqrt(400)
    rate, signs = 60 / 80, 2 * parameters.like - 1
    both = 60 * 59 / (80 * 79)
    expected = rate - both * np.square(signs).mean(axis=0)
    assert predictors._variances(parameters) == pytest.approx(expected)
    assert np.all(np.abs(within.mean(axis=0) - expected) < error)
    alone = rate - (rate * signs.mean(axis=0)) ** 2
    assert np.all(np.abs(within.mean(axis=0) - alone) > error)


def test_clusters_that_coincide_are_right_by_luck() -> None:
    parameters = model([[0.9, 0.1], [0.1, 0.9]], [500, 500], 30)
    for epsilon in (None, Fraction(1), Fraction(1, 10**4)):
        assert curator_accuracy(parameters, users=10_000, epsilon=epsilon) == pytest.approx(0.5, abs=1e-9)
    assert curator_exact(parameters, users=10_000, epsilon=None) < 1e-200
    assert curator_accuracy(model([[0.0, 0.0]], [6, 2], 8), users=5, epsilon=None) == pytest.approx(0.75)
    assert curator_exact(model([[0.0, 0.0]], [6, 2], 8), users=5, epsilon=None) == 0


def test_more_users_more_epsilon_more_right_and_huge_numbers() -> None:
    parameters = model([[0.9, 0.1]], [500_000_000, 500_000_000], 30)
    low, high = (curator_exact(parameters, users=n * 10**10, epsilon=Fraction(1)) for n in (2, 4))
    assert low < 0.5 < high
    assert curator_exact(parameters, users=10**15, epsilon=Fraction(1)) == 1
    shares = [curator_accuracy(parameters, users=10**9, epsilon=e) for e in (Fraction(1, 10), Fraction(1), None)]
    assert shares == sorted(shares)
    assert curator_accuracy(model([[0.5]], [9], 3), users=4, epsilon=Fraction(1)) == pytest.approx(1)


def test_exact_is_the_product_over_items() -> None:
    line = LineLaw(points=np.array([0.0, 1, 9, 10]), mass=np.array([[0.9, 0.08, 0.02, 0], [0, 0, 0.1, 0.9]]),
                   sizes=np.array([3, 5]))  # fmt: skip
    cuts = kmeans_cuts(line)
    assert 1 < cuts[0] < 9
    assert line_accuracy(line, cuts) == pytest.approx((3 * 0.98 + 5) / 8)
    assert line_exact(line, cuts) == pytest.approx(0.98**3)


def test_users_are_needed() -> None:
    with pytest.raises(InputError, match="users = 0"):
        curator_accuracy(model([[0.9, 0.1]], [5, 5], 2), users=0, epsilon=None)
