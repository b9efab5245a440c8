"""K-means of numbers: to the last bit what scikit-learn's finds with the same coins, whose library it need not load."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from coordinator.protocol.arrays import Floats
from coordinator.server.decoding import lloyd_line
from coordinator.server.decoding.lloyd_line import fitted
from coordinator.server.decoding.threads import k_means

PROGRAM = """
import sys
from coordinator.server.aggregation import load_decoder
load_decoder()
sys.exit(sum(name in sys.modules for name in ("sklearn", "scipy.stats", "pandas")))
"""


def numbers(seed: int) -> Floats:
    """Return scores: counts with ties, far groups, or anything."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, [12, 60, 500][seed % 3]))
    if seed % 2:
        return rng.integers(0, 50, size=size) - 0.3137 * rng.integers(9, 11)
    return rng.normal(size=size) * 10.0 ** rng.integers(-3, 4) + rng.integers(0, 3, size=size) * 40


@pytest.mark.parametrize("clusters", [1, 2, 3, 6])
def test_it_is_scikit_learns(clusters: int) -> None:
    for seed in range(60):
        scores = numbers(seed)
        distinct = min(clusters, np.unique(scores).size)
        theirs = k_means(scores[:, None], distinct, starts=10)
        labels, means = fitted(scores, distinct, starts=10)
        assert labels.tolist() == theirs.labels_.tolist(), seed
        assert means.tolist() == theirs.cluster_centers_[:, 0].tolist(), seed


def test_a_cluster_that_is_empty_gets_the_farthest_number() -> None:
    """Nothing is nearest to the third centre; scikit-learn starts from the same centres."""
    scores, centres = np.array([-3.0, -2.0, 2.0, 4.0]), np.array([-2.0, 2.0, 100.0])
    theirs = k_means(scores[:, None], 3, starts=1, centres=centres[:, None])
    middle = scores.mean()
    labels, means = lloyd_line._settled(scores - middle, centres - middle)
    assert labels.tolist() == theirs.labels_.tolist()
    assert (means + middle).tolist() == theirs.cluster_centers_[:, 0].tolist()


def test_who_clusters_numbers_loads_no_library_for_it() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
