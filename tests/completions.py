"""Planted matrices for tests of completion, and dense formulas in plain numpy to hold it against."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Bools2, Floats, Floats2, Indices, Ints
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.rating_table import Rows
from coordinator.server.completion.crowd import Crowd, local_crowd
from coordinator.server.completion.fitting import FittedModel, Fitting, begin, iterate


class Planted(NamedTuple):
    """A low-rank matrix, and noisy ratings of some entries in compressed sparse rows."""

    truth: Floats2
    seen: Bools2
    starts: Ints
    items: Indices
    values: Floats

    def crowd(self, workers: int = 1) -> Crowd:
        """All its users, public."""
        return local_crowd(self.rows(), ThreadPoolExecutor(workers) if workers > 1 else None, workers)

    def rows(self) -> Rows:
        """Its ratings."""
        return Rows(starts=self.starts, items=self.items, values=self.values, count=self.truth.shape[1])

    def dense(self, mean: Floats) -> Floats2:
        """Centred ratings, 0 where nothing was rated."""
        found = np.zeros(self.truth.shape)
        found[self.seen] = self.values - mean[self.items]
        return found


def planted(users: int, items: int, *, rank: int, share: float, noise: float = 0.3, seed: int = 0) -> Planted:
    """Ratings of a planted matrix, each entry seen with probability ``share``; every user rates something."""
    coins = np.random.default_rng(seed)
    truth = coins.standard_normal((users, rank)) @ coins.standard_normal((rank, items))
    seen = coins.random((users, items)) < share
    seen[:, 0] |= ~seen.any(axis=1)
    values = (truth + noise * coins.standard_normal(truth.shape))[seen]
    starts = np.concatenate(([0], np.cumsum(seen.sum(axis=1)))).astype(np.int64)
    return Planted(truth, seen, starts, np.nonzero(seen)[1].astype(np.int32), values)


def fitted(of: Planted, fitting: Fitting, iterations: int, workers: int = 1) -> FittedModel:
    """Fit all its users."""
    crowd = of.crowd(workers)
    return iterate(begin(crowd, fitting, lowest=-99, highest=99, scale=None), crowd, fitting, iterations)


def features_of(vectors: Floats2, mean: Floats, *, kappa: float = 1.0, **changes: object) -> ItemFeatures:
    """Features with everything else at plain values."""
    rest = {"lowest": 0.5, "highest": 5.0, "scale": (1.0, 2.0, 3.0, 4.0, 5.0), "common_h": 0.5, **changes}
    return ItemFeatures(mean=mean, vectors=vectors, kappa=kappa, **rest)  # type: ignore[arg-type] # test values


def equation_2(of: Planted, mean: Floats, fit: Floats2, kappa: float) -> float:
    """Equation 2's objective, ``|P(Y - X)|^2 + 2 kap |X|_*``."""
    error = np.where(of.seen, of.dense(mean) - fit, 0)
    return float(np.square(error).sum() + 2 * kappa * np.linalg.svd(fit, compute_uv=False).sum())


def soft_impute(of: Planted, mean: Floats, kappa: float, iterations: int = 1200) -> Floats2:
    """Equation 2's optimum by dense soft-thresholded singular values (Mazumder, Hastie and Tibshirani, 2010)."""
    fit = np.zeros(of.truth.shape)
    for _ in range(iterations):
        left, values, right = np.linalg.svd(np.where(of.seen, of.dense(mean), fit), full_matrices=False)
        fit = (left * np.maximum(values - kappa, 0)) @ right
    return fit


def complete_many(features: ItemFeatures, starts: Ints, items: Indices, values: Floats) -> Floats2:
    """Completed rating vectors r of several users, shape (users, m)."""
    rows = Rows(starts=starts, items=items, values=values, count=features.items)
    return residuals(features, rows) + features.mean


def complete(features: ItemFeatures, items: Indices, values: Floats) -> Floats:
    """The completed rating vector r of one user."""
    row: Floats = complete_many(features, np.array([0, items.size]), items, values)[0]
    return row
