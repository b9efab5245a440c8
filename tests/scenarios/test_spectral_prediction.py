"""Predicted success of spectral clustering against closed forms, recorded figures and the decoder itself."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import statistical
from scipy.stats import norm

from coordinator.protocol.arrays import Floats, Ints
from coordinator.server.decoding.spectral import decode_pairs
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.pairs import BlockSignal, curator_signal, pair_agreement, pair_signal
from coordinator.server.statistics.pairs import PairStatistic
from scenarios.data.metrics import clustering_scores
from scenarios.theory.spectral_prediction import Right, predict_signal


def rates(
    like: list[list[float]], sizes: Ints, rated: int, *, agreement: str = "rated-equal", epsilon: float
) -> Floats:
    shares = np.full(len(like), 1 / len(like))
    model = BlockParameters(rated=rated, like=np.array(like), class_shares=shares, cluster_sizes=sizes)
    return pair_agreement(model, agreement=agreement, epsilon=epsilon)


def predict_pairs(chances: Floats, sizes: Ints, *, users: int, decoder: str) -> Right:
    return predict_signal(pair_signal(chances, sizes, users=users, decoder=decoder))


def successes(chances: Floats, sizes: Ints, *, users: int, decoder: str, runs: int) -> int:
    """How often the decoder puts all items right, pairs and bits drawn at random."""
    generator, truth = np.random.default_rng(5), np.repeat(np.arange(sizes.size), sizes)
    upper = np.triu_indices(truth.size, 1)
    chance = chances[truth[upper[0]], truth[upper[1]]]
    right = 0
    for _ in range(runs):
        pairs, agreed = np.zeros((2, truth.size, truth.size), np.int64)
        pairs[upper] = generator.multinomial(users, np.full(chance.size, 1 / chance.size))
        agreed[upper] = generator.binomial(pairs[upper], chance)
        statistic = PairStatistic(pairs=pairs, agreed=agreed, devices=users, answered=users, refused=0)
        found = decode_pairs(statistic, clusters=sizes.size, decoder=decoder)
        right += clustering_scores(found.cluster, truth).exact
    return right


def even_signal(theta: float, size: int) -> BlockSignal:
    """Two clusters of a size, means +-d, variance 1: theta is the eigenvalue of the signal over sqrt(N)."""
    each = theta / math.sqrt(2 * size)
    return BlockSignal(
        means=each * np.array([[1.0, -1.0], [-1.0, 1.0]]),
        variances=np.ones((2, 2)),
        thirds=np.zeros((2, 2)),
        sizes=np.array([size, size]),
        shared=np.zeros((2, 2, 2)),
    )


@pytest.mark.parametrize("theta", [2.5, 4.0])
def test_two_even_clusters_follow_the_closed_form(theta: float) -> None:
    """z^2 = theta^2 - 1; the share within 0.002, which is 3 % of z, for a million items."""
    expected = float(norm.cdf(math.sqrt(theta**2 - 1)))
    assert predict_signal(even_signal(theta, 500_000)).share == pytest.approx(expected, abs=0.002)


def test_below_the_threshold_nothing_is_told() -> None:
    assert predict_signal(even_signal(0.7, 5_000_000)).share < 0.52
    assert predict_signal(even_signal(2.0, 5_000_000)).share > 0.9
    assert predict_signal(even_signal(0.7, 5_000)).all_right < 1e-100


@pytest.mark.parametrize(("decoder", "factor"), [("centred", 16), ("paper", 32)])
@pytest.mark.parametrize("like", [[[0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]]])
def test_recorded_settings(decoder: str, factor: int, like: list[list[float]]) -> None:
    """0.98 of runs at these users, about a third at half of them (recorded for N = 100 to 400)."""
    sizes = np.array([100, 100])
    chances = rates(like, sizes, 200, epsilon=1)
    users = round(factor * 200 * math.log(200))
    assert predict_pairs(chances, sizes, users=users, decoder=decoder).all_right == pytest.approx(0.98, abs=0.02)
    assert predict_pairs(chances, sizes, users=users // 2, decoder=decoder).all_right == pytest.approx(0.35, abs=0.1)


CASES = [
    ([[0.9, 0.1]], [25, 25], 50, "rated-equal", 1.0, "centred", 1607),
    ([[0.9, 0.1]], [30, 70], 100, "rated-equal", math.inf, "centred", 820),
    ([[0.9, 0.1], [0.1, 0.9]], [25, 25], 50, "rated-equal", 1.0, "paper", 3195),
    ([[0.9, 0.9, 0.1], [0.9, 0.1, 0.1]], [34, 33, 33], 33, "rated-equal", math.inf, "centred", 134_000),
    ([[0.9, 0.5, 0.1], [0.1, 0.9, 0.5]], [34, 33, 33], 33, "positive", 1.0, "centred", 3_760_000),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("like", "sizes", "rated", "agreement", "epsilon", "decoder", "users"), CASES)
def test_the_decoder_succeeds_as_often_as_predicted(
    like: list[list[float]], sizes: list[int], rated: int, agreement: str, epsilon: float, decoder: str, users: int
) -> None:
    """False alarm 1e-6 for users within 25 % of those predicted (Clopper-Pearson); the twin is wrong by a factor 2."""
    items = np.array(sizes)
    chances = rates(like, items, rated, agreement=agreement, epsilon=epsilon)
    right = successes(chances, items, users=users, decoder=decoder, runs=40)
    low, high = statistical.clopper_pearson(right, 40)
    fewer, more = (
        predict_pairs(chances, items, users=round(users * k), decoder=decoder).all_right for k in (0.75, 1.25)
    )
    assert fewer <= high
    assert more >= low
    half, twice = (predict_pairs(chances, items, users=round(users * k), decoder=decoder).all_right for k in (0.5, 2))
    assert half < low
    assert twice > high


def test_no_number_of_users_helps_the_paper_where_the_diagonal_hides_the_signal() -> None:
    """N = 50, w = 16: the contrast of rates is below 4 a / N; the centred decoder needs about 1.2 million users."""
    sizes = np.array([25, 25])
    chances = rates([[0.9, 0.1]], sizes, 16, agreement="positive", epsilon=1)
    assert predict_pairs(chances, sizes, users=10**12, decoder="paper").all_right < 0.01
    assert successes(chances, sizes, users=10**12, decoder="paper", runs=5) == 0
    assert predict_pairs(chances, sizes, users=10**8, decoder="centred").all_right > 0.99
    assert successes(chances, sizes, users=10**8, decoder="centred", runs=5) == 5


def curator_successes(sizes: Ints, liked: float, *, users: int, scale: float, runs: int) -> int:
    """How often signs of the leading eigenvector are right: b = (liked, 1 - liked), everything rated."""
    generator, truth = np.random.default_rng(8), np.repeat(np.arange(sizes.size), sizes)
    right = 0
    for _ in range(runs):
        votes = 2.0 * (generator.random((users, truth.size)) < np.where(truth, 1 - liked, liked)) - 1
        noise = np.triu(
            generator.laplace(scale=scale, size=(truth.size, truth.size)) if scale else np.zeros((truth.size,) * 2), 1
        )
        matrix = votes.T @ votes + noise + noise.T
        np.fill_diagonal(matrix, 0)
        right += clustering_scores((np.linalg.eigh(matrix)[1][:, -1] > 0).astype(np.int64), truth).exact
    return right


def curator(sizes: Ints, liked: float, *, users: float, scale: float) -> BlockSignal:
    items = int(sizes.sum())
    alike = rates([[liked, 1 - liked]], sizes, items, epsilon=math.inf)
    return curator_signal(alike, sizes, users=round(users), rated=items, scale=scale)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("liked", "users", "scale", "within"), [(0.9, 1950, 50 * 49, 1.15), (0.6, 250, 0.0, 1.25)], ids=["noise", "exact"]
)
def test_curator_succeeds_as_often_as_predicted(liked: float, users: int, scale: float, within: float) -> None:
    """False alarm 1e-6 for users within a factor of those predicted (Clopper-Pearson); the twin is wrong by 2."""
    sizes = np.array([25, 25])
    right = curator_successes(sizes, liked, users=users, scale=scale, runs=100)
    low, high = statistical.clopper_pearson(right, 100)
    fewer, more, half, twice = (
        predict_signal(curator(sizes, liked, users=users * k, scale=scale)).all_right
        for k in (1 / within, within, 0.5, 2)
    )
    assert fewer <= high
    assert more >= low
    assert half < low
    assert twice > high


def test_what_entries_of_a_row_share_costs_the_curator() -> None:
    """Without noise, items' own votes limit it: as independent entries, far fewer users would seem enough."""
    signal = curator(np.array([50, 50]), 0.6, users=200, scale=0)
    apart = dataclasses.replace(signal, shared=np.zeros((2, 2, 2)))
    assert predict_signal(apart).all_right > 0.99
    assert predict_signal(signal).all_right < 0.9


def test_one_cluster_and_no_signal() -> None:
    assert predict_pairs(np.array([[0.4]]), np.array([9]), users=5, decoder="paper").share == 1
    nothing = np.zeros((2, 2))
    sizes = np.array([6, 2])
    silent = BlockSignal(means=nothing, variances=nothing, thirds=nothing, sizes=sizes, shared=np.zeros((2, 2, 2)))
    assert predict_signal(silent).share == 0.75
    assert predict_signal(silent).all_right == 0
