"""Theorems 3.2, 3.4 and 3.5 on planted data: slopes in the specification's intervals, and the set D(gamma)."""

from __future__ import annotations

import numpy as np
import pytest
from completions import features_of

from scenarios.families.two_tier.rates import completion_errors, overlap, sample_errors, slope


def test_the_error_of_the_second_moment_falls_with_the_root_of_the_users() -> None:
    counts = [100 * 2**power for power in range(8)]
    errors = np.mean([sample_errors(counts, items=50, rank=4, seed=seed) for seed in range(30)], axis=0)
    found = slope(list(zip(counts, errors.tolist(), strict=True)))
    assert -0.55 <= found <= -0.45


@pytest.mark.parametrize("seed", [0, 1])
def test_the_error_of_completion_falls_with_the_ratings_as_the_bound_does(seed: int) -> None:
    points = completion_errors([0.15, 0.3, 0.6], size=120, rank=3, noise=0.5, seed=seed)
    assert -0.70 <= slope(points) <= -0.45


def test_gamma_is_the_smallest_that_holds_for_the_whole_span() -> None:
    coins = np.random.default_rng(0)
    features = features_of(coins.standard_normal((30, 3)), np.zeros(30))
    starts, items = np.array([0, 12, 14]), np.arange(14, dtype=np.int32)
    few, many = overlap(features, starts, items)[1], overlap(features, starts, items)[0]
    assert np.isinf(few)
    basis = np.linalg.qr(features.vectors)[0]
    inside = basis @ coins.standard_normal((3, 5000))
    ratios = np.square(inside).sum(axis=0) / (30 / 12 * np.square(inside[:12]).sum(axis=0))
    assert 0.8 * many < ratios.max() <= many * (1 + 1e-9)
    every = overlap(features, np.array([0, 30]), np.arange(30, dtype=np.int32))
    assert every[0] == pytest.approx(1)
