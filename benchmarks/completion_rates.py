"""Theorems 3.2 and 3.4 and Lemma 3.3 of two tiers held against planted data: how errors fall, and below which bounds.

``python -m benchmarks.completion_rates`` prints slopes with intervals of 95 % over seeds, and how near the bounds are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import typer

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.checked import LARGEST
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.features import tastes
from coordinator.protocol.rating_table import Rows, starts_of
from coordinator.server.completion.crowd import local_public_users
from coordinator.server.completion.fitting import Fitting, begin, iterate
from scenarios.show.intervals import mean_interval

COUNTS = tuple(100 * 2**power for power in range(8))  # Users of Theorem 3.4
MOST_RANK = 24  # Columns of V in `completion_errors`; the regularisation leaves fewer


def sample_errors(counts: Sequence[int], *, items: int, rank: int, seed: int) -> list[float]:
    """Return ``|S_n - S*|_F`` of Theorem 3.4, S_n from n complete rows of bounded tastes, for every number of users n.

    Both live in the same r-dimensional subspace, so that r x r matrices are enough; smaller samples are the first rows
    of larger ones.
    """
    coins, sizes = _coins(seed, "theorem 3.4"), _sizes(rank)
    tastes = coins.uniform(-1, 1, (max(counts), rank)) * sizes * np.sqrt(items)
    limit = np.diag(sizes / np.sqrt(3))
    errors = []
    for count in counts:
        values, directions = np.linalg.eigh(tastes[:count].T @ tastes[:count] / (items * count))
        root = (directions * np.sqrt(values)) @ directions.T
        errors.append(float(np.linalg.norm(root - limit)))
    return errors


def _sizes(rank: int) -> Floats:
    return np.asarray(np.sqrt(3) * 0.7 ** np.arange(rank))


def sample_bound(count: int, *, rank: int) -> float:
    """Return ``2 sqrt(r) alpha sqrt(beta_r log n / (beta_1 n))``, Theorem 3.4's bound for `sample_errors`."""
    alpha, (largest, *_, smallest) = float(np.linalg.norm(_sizes(rank))), _sizes(rank)
    return float(2 * np.sqrt(rank) * alpha * np.sqrt(largest * np.log(count) / (smallest * count)))


class CompletionError(NamedTuple):
    """How far a completed matrix is from the planted one."""

    ratings: int  # N
    matrix: float  # ``|X - X*|_F / sqrt(n m)``
    second_moment: float  # ``|Sigma - Sigma*|_F``; Lemma 3.3: at most sqrt 2 times the other


def second_moment(matrix: Floats2) -> Floats2:
    """Return ``Sigma = (X^T X)^(1/2) / sqrt(n m)``."""
    _, values, rows = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray((rows.T * values) @ rows / np.sqrt(matrix.size))


def completion_errors(
    shares: Sequence[float], *, size: int, rank: int, noise: float, seed: int, factor: float = 6.0
) -> list[CompletionError]:
    """Return the errors of Theorem 3.2 at n = m = ``size``, for every share of observed entries.

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
        moved = np.linalg.norm(second_moment(fitted) - second_moment(truth))
        errors.append(CompletionError(count, float(np.linalg.norm(fitted - truth)) / size, float(moved)))
    return errors


def slope(points: Sequence[Sequence[float]]) -> float:
    """Return the slope of log y on log x by least squares."""
    x, y = np.log(np.array([point[:2] for point in points], np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def _coins(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng(as_words(derive(seed, purpose)))


def _rows_where(values: Floats2, seen: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Rows:
    items = np.nonzero(seen)[1].astype(np.int32)
    return Rows(starts=starts_of(seen.sum(axis=1)), items=items, values=values[seen], count=values.shape[1])


def _complete(rows: Rows, fitting: Fitting, iterations: int = 30) -> Floats2:
    """Return the optimum X of equation 2 on a planted matrix of mean 0, without centring."""
    public_users = local_public_users(rows)
    model = begin(public_users, fitting, lowest=-LARGEST, highest=LARGEST, scale=None)
    model.features.mean[:] = 0.0
    features = iterate(model, public_users, fitting, iterations).features
    fitted: Floats2 = tastes(features, rows.starts, rows.items, rows.values) @ features.vectors.T
    return fitted


def _interval(values: Sequence[float]) -> str:
    mean, low, high = mean_interval(values)
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def main(seeds: int = 10, size: int = 200) -> None:
    """Measure all three."""
    noise, rank = 0.5, 4
    runs = [completion_errors([0.1, 0.2, 0.4, 0.8], size=size, rank=3, noise=noise, seed=seed) for seed in range(seeds)]
    slopes = [slope(points) for points in runs]
    constants = [
        point.matrix * np.sqrt(point.ratings) / (noise * np.log(point.ratings)) for points in runs for point in points
    ]
    shares = [point.second_moment / (np.sqrt(2) * point.matrix) for points in runs for point in points]
    errors = [sample_errors(COUNTS, items=50, rank=rank, seed=seed) for seed in range(3 * seeds)]
    falls = [slope(list(zip(COUNTS, of_seed, strict=True))) for of_seed in errors]
    bounds = [sample_bound(count, rank=rank) for count in COUNTS]
    rows = {
        "Theorem 3.2, slope of log error on log N": _interval(slopes),
        "Theorem 3.2, error sqrt(N) / (sigma log N)": f"{min(constants):.2f} to {max(constants):.2f}",
        "Lemma 3.3, error of Sigma / (sqrt 2 error of X)": f"at most {max(shares):.2f}",
        "Theorem 3.4, slope of log error on log n": _interval(falls),
        "Theorem 3.4, error / bound": f"at most {float((np.array(errors) / bounds).max()):.3f}",
    }
    for name, value in rows.items():
        typer.echo(f"| {name} | {value} |")


if __name__ == "__main__":
    typer.run(main)
