"""Theorems 3.2 and 3.4 held against planted data: how errors fall with ratings and with users."""

from collections.abc import Sequence

import numpy as np

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.checked import LARGEST
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.features import tastes
from coordinator.protocol.rating_table import Rows, starts_of
from coordinator.server.completion.crowd import local_crowd
from coordinator.server.completion.fitting import Fitting, begin, iterate

MOST_RANK = 24  # Columns of V in `completion_errors`; the regularisation leaves fewer


def sample_errors(counts: Sequence[int], *, items: int, rank: int, seed: int) -> list[float]:
    """Return ``|S_n - S*|_F`` of Theorem 3.4, S_n from n complete rows of bounded tastes, for every number of users n.

    Both live in the same r-dimensional subspace, so that r x r matrices are enough; smaller samples are the first rows
    of larger ones.
    """
    coins = _coins(seed, "theorem 3.4")
    sizes = np.sqrt(3) * 0.7 ** np.arange(rank)
    tastes = coins.uniform(-1, 1, (max(counts), rank)) * sizes * np.sqrt(items)
    limit = np.diag(sizes / np.sqrt(3))
    errors = []
    for count in counts:
        values, directions = np.linalg.eigh(tastes[:count].T @ tastes[:count] / (items * count))
        root = (directions * np.sqrt(values)) @ directions.T
        errors.append(float(np.linalg.norm(root - limit)))
    return errors


def completion_errors(
    shares: Sequence[float], *, size: int, rank: int, noise: float, seed: int, factor: float = 6.0
) -> list[tuple[int, float]]:
    """Return (N, ``|X - X*|_F / sqrt(n m)``) of Theorem 3.2 at n = m = ``size``, for every share of observed entries.

    ``noise`` is the standard deviation of observations; regularised by ``lambda = factor * noise * log N / sqrt N``.
    """
    coins = _coins(seed, "theorem 3.2")
    truth = coins.standard_normal((size, rank)) @ coins.standard_normal((rank, size)) / np.sqrt(rank)
    observed = truth + noise * coins.standard_normal(truth.shape)
    level = coins.random(truth.shape)
    errors = []
    for share in shares:
        rows = _rows_where(observed, level < share)
        count = rows.items.size
        kappa = factor * noise * np.log(count) / np.sqrt(count) * count / (2 * size)
        fitted = _complete(rows, Fitting(rank=MOST_RANK, kappa=float(kappa), mstep="prox"))
        errors.append((count, float(np.linalg.norm(fitted - truth)) / size))
    return errors


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of log y on log x by least squares."""
    x, y = np.log(np.array(points, np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def _coins(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng(as_words(derive(seed, purpose)))


def _rows_where(values: Floats2, seen: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Rows:
    items = np.nonzero(seen)[1].astype(np.int32)
    return Rows(starts=starts_of(seen.sum(axis=1)), items=items, values=values[seen], count=values.shape[1])


def _complete(rows: Rows, fitting: Fitting, iterations: int = 30) -> Floats2:
    """Return the optimum X of equation 2 on a planted matrix of mean 0, without centring."""
    crowd = local_crowd(rows)
    model = begin(crowd, fitting, lowest=-LARGEST, highest=LARGEST, scale=None)
    model.features.mean[:] = 0.0
    features = iterate(model, crowd, fitting, iterations).features
    fitted: Floats2 = tastes(features, rows.starts, rows.items, rows.values) @ features.vectors.T
    return fitted
