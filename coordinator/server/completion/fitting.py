"""Trace-norm regularised completion by EM: the E-step is made by the cohorts, the M-step here."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.server.completion.alternating import alternate
from coordinator.server.completion.crowd import Crowd
from coordinator.server.completion.folding import ReleaseBook
from coordinator.server.completion.spectrum import spectrum_of
from coordinator.server.completion.statistics import Expected, FirstOrder, merged

SHRINK = 3.0
"""Number of ratings at the overall mean that are added to every item's ratings before its mean is taken."""
MStep = Literal["keep", "prox"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """How features are fitted.

    Attributes
    ----------
    rank : int
        Largest number of columns of V.
    kappa : float
        Regularisation kap, above 0: half of equation 2's lambda' = lambda N / sqrt(n m).
    mstep : {"keep", "prox"}
        ``S~ = (sum r r^T)^(1/2)``, cut at the rank, as in the paper; or its singular values less kappa, which goes to
        the optimum of equation 2.
    weighted : bool
        Weighted trace norm: users and items in proportion to their ratings. Its M-step is alternating least squares
        on completed rows, with either ``mstep``.
    """

    rank: int
    kappa: float
    mstep: MStep = "keep"
    weighted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One EM iteration as it is reported.

    Attributes
    ----------
    objective : float
        Corrected equation 3, ``kap [sum_i y_i^T (kap I + S~)^-1 y_i + tr S~]``, of the features before the M-step; it
        is equation 2's objective at its minimum. With releases it counts public users only.
    error : float
        Root mean squared error of the public users' observed ratings.
    change : float
        ``|S~_new - S~| / |S~_new|``, Frobenius.
    seconds : float
        Duration of the iteration.
    """

    objective: float
    error: float
    change: float
    seconds: float


def centre(crowd: Crowd, shrink: float = SHRINK) -> tuple[Floats, FirstOrder]:
    """Return every item's shrunken mean over public ratings, ``(sum + shrink * overall mean) / (count + shrink)``.

    Returns
    -------
    mean : ndarray of float64, shape (m,)
        An item that no public user rated has the overall mean.
    first_order : FirstOrder
        What it follows from.

    Raises
    ------
    InputError
        If there is no public rating.
    """
    total = merged(crowd.ask("first_order"))
    ratings = int(total.counts.sum())
    if ratings == 0:
        raise InputError("public users have 0 ratings to learn from; make more users public")
    overall = total.sums.sum() / ratings
    return (total.sums + shrink * overall) / (total.counts + shrink), total


@dataclass(slots=True, kw_only=True)
class FittedModel:
    """Features during fitting, and what the next iteration starts from.

    Attributes
    ----------
    features : ItemFeatures
        The current ones.
    counts : ndarray of float64, shape (m,)
        Public ratings of every item.
    near : ndarray of float64 or None
        Singular vectors of the last iteration.
    steps : list of Iteration
        Every iteration so far.
    """

    features: ItemFeatures
    counts: Floats
    near: Floats2 | None
    steps: list[Iteration]


def begin(
    crowd: Crowd, fitting: Fitting, *, lowest: float, highest: float, scale: tuple[float, ...] | None
) -> FittedModel:
    """Return a model before the first iteration: item means and V = 0."""
    mean, first_order = centre(crowd)
    degree = crowd.ratings / max(crowd.users, 1)
    features = ItemFeatures(
        mean=mean,
        vectors=np.zeros((crowd.items, min(fitting.rank, crowd.items))),
        kappa=fitting.kappa,
        lowest=lowest,
        highest=highest,
        scale=scale,
        common_h=0.0,
        mean_degree=degree if fitting.weighted else None,
    )
    return FittedModel(features=features, counts=first_order.counts.astype(np.float64), near=None, steps=[])


def iterate(
    model: FittedModel,
    crowd: Crowd,
    fitting: Fitting,
    iterations: int,
    *,
    book: ReleaseBook | None = None,
    weight: float = 0.5,
) -> FittedModel:
    """Go through EM iterations.

    Parameters
    ----------
    model : FittedModel
        A model from `begin` or an earlier call; it is not changed.
    crowd : Crowd
        Public users.
    fitting : Fitting
        How to fit.
    iterations : int
        Number of iterations.
    book : ReleaseBook, optional
        Releases of private devices.
    weight : float
        Weight of a release's row, relative to a public user's.

    Returns
    -------
    FittedModel
    """
    book = book or ReleaseBook(crowd.items)
    model = replace(model, features=replace(model.features, kappa=fitting.kappa), steps=list(model.steps))
    for _ in range(iterations):
        start = time.perf_counter()
        told = merged(crowd.ask("expect", model.features))
        if fitting.weighted and model.steps:
            vectors = alternate(model.features, model.counts, told, crowd, book, weight)
        else:
            vectors = _maximise(model, crowd, fitting, book, weight)
        step = _step(model.features, vectors, told, crowd.ratings, model.counts)
        model.steps.append(replace(step, seconds=time.perf_counter() - start))
        model.features = replace(model.features, vectors=vectors)
    return model


def item_weights(features: ItemFeatures, counts: Floats) -> Floats:
    """Return the weight of every item's ``|v_j|^2``: 1, or ``(c_j + 1) / mean`` with the weighted trace norm."""
    return np.ones(counts.size) if features.mean_degree is None else (counts + 1) / (counts + 1).mean()


def _maximise(model: FittedModel, crowd: Crowd, fitting: Fitting, book: ReleaseBook, weight: float) -> Floats2:
    rank = min(fitting.rank, crowd.items)
    found = spectrum_of(crowd, book, weight, rank, near=model.near, passes=2 if model.steps else 4)
    model.near = found.vectors
    kept = min(rank, found.values.size)
    sizes = found.values[:kept] if fitting.mstep == "keep" else np.maximum(found.values[:kept] - fitting.kappa, 0)
    vectors = np.zeros((crowd.items, rank))
    vectors[:, :kept] = found.vectors[:, :kept] * np.sqrt(sizes)
    if not (weight and book.rows()):
        vectors[model.counts == 0] = (
            0.0  # exactly 0, because the sign of a rounding error would be no fair coin on a device
        )
    return vectors


def _step(before: ItemFeatures, after: Floats2, told: Expected, ratings: int, counts: Floats) -> Iteration:
    old = before.vectors
    trace = float((item_weights(before, counts)[:, None] * np.square(old)).sum())
    size = float(np.square(after.T @ after).sum())
    moved = size + float(np.square(old.T @ old).sum()) - 2 * float(np.square(after.T @ old).sum())
    return Iteration(
        objective=told.error + before.kappa * (told.penalty + trace),
        error=float(np.sqrt(told.error / ratings)),
        change=float(np.sqrt(max(moved, 0.0) / size)) if size > 0 else 0.0,
        seconds=0.0,
    )
