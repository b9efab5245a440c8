"""The compiled k-means of predictions against scikit-learn's, which decodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from sklearn.cluster import KMeans, kmeans_plusplus

from scenarios.data.metrics import clustering_scores
from scenarios.theory.partition import best_partition, decoder_coins, trials


def test_the_best_partition_of_planted_points_is_found() -> None:
    world = default_rng(8)
    labels = np.repeat(np.arange(3), 20)
    points = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 9.0]])[labels] + world.normal(size=(60, 2)) / 4
    found, centres = best_partition(points, np.ones(60), np.empty((0, 3, 2)), world.random((10, 3, 2)))
    assert clustering_scores(found, labels).exact
    assert centres == pytest.approx(np.array([points[found == k].mean(axis=0) for k in range(3)]))


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("starts", [1, 10])
def test_with_the_decoders_coins_it_is_the_decoders(count: int, starts: int) -> None:
    """Points without clusters have many local optima: only the same starts end in the same ones."""
    world = default_rng([count, starts])
    points, weights = world.normal(size=(300, count)), world.random(300)
    wanted = KMeans(count, n_init=starts, tol=0, max_iter=500, random_state=0).fit(points, sample_weight=weights)
    found, centres = best_partition(points, weights, np.empty((0, count, count)), decoder_coins(starts, count))
    assert clustering_scores(found, wanted.labels_).exact
    assert centres[found] == pytest.approx(wanted.cluster_centers_[wanted.labels_], abs=1e-9)


def test_of_given_starts_the_one_with_the_least_squares_wins() -> None:
    """Points of weight 1,000 at 0 and 1 and light ones at 9 and 10: to part the heavy ones costs 145, not 500."""
    points, weights = np.array([[0.0], [1.0], [9.0], [10.0]]), np.array([1000.0, 1000.0, 1.0, 1.0])
    apart, together = np.array([[[0.0], [1.0]]]), np.array([[[0.5], [9.5]]])
    for given in (apart, together, np.concatenate((apart, together)), np.concatenate((together, apart))):
        found, _ = best_partition(points, weights, given, np.empty((0, 2, 2)))
        assert found[2] == found[3]
        assert (found[0] == found[1]) == (len(given) == 1 and given is together)


@pytest.mark.parametrize("count", [2, 3, 7, 8, 21])
def test_as_many_candidates_as_the_decoder(count: int) -> None:
    """Scikit-learn's k-means++ draws its candidates by so many uniform numbers at a time."""
    drawn: list[int] = []

    class Coins(np.random.RandomState):
        def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
            drawn.append(size)
            return super().uniform(low, high, size)

    kmeans_plusplus(default_rng(1).normal(size=(60, 2)), count, random_state=Coins(2))
    assert set(drawn) == {trials(count)}
