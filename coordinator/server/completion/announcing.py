"""Announcing a model: its numbers are rounded to the public grid, in an order and with signs that we fix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.grid import on_grid, significant, step_of
from coordinator.server.completion.crowd import Crowd
from coordinator.server.completion.fitting import FittedModel

SIZED_USERS = 1000
"""Most public users over whom the common h is averaged; they are taken evenly."""
VECTOR_BITS = 16
"""Significant bits of the largest entry of V; the others lie on the same grid and have fewer."""


def announced(model: FittedModel, crowd: Crowd) -> FittedModel:
    """Return a model as it is announced to private devices, with all its numbers on the public grid and with common h.

    EM continues from the announced model, so that processors which differed in last bits agree again.

    Parameters
    ----------
    model : FittedModel
        The model after some iterations; it is not changed.
    crowd : Crowd
        Public users, whose completed vectors' mean absolute residual is common h.
    """
    told = gridded(model.features)
    every = max(1, -(-crowd.users // SIZED_USERS))
    sizes = crowd.ask("sizes", told, every)
    common = sum(total for total, _ in sizes) / max(1, sum(count for _, count in sizes))
    return replace(model, features=replace(told, common_h=significant(common)), steps=list(model.steps))


def gridded(features: ItemFeatures) -> ItemFeatures:
    """Return features with mean, vectors, kappa and mean degree on the public grid.

    The range and the scale of ratings are not computed, so they need no rounding.
    """
    return replace(
        features,
        mean=on_grid(features.mean),
        vectors=canonical(features.vectors),
        kappa=significant(features.kappa),
        mean_degree=None if features.mean_degree is None else significant(features.mean_degree),
    )


def canonical(vectors: Floats2) -> Floats2:
    """Return V on the grid, its columns in a fixed order and with fixed signs; both follow from the rounded numbers.

    A column's squared length is its singular value of S~. The longest column comes first; columns of equal length are
    ordered by their bytes. The largest entry of a column (the first one, if several are as large) is positive.

    Parameters
    ----------
    vectors : ndarray of float64, shape (m, r)

    Returns
    -------
    ndarray of float64, shape (m, r)
        In C order; multiples of one power of two.
    """
    step = step_of(float(np.abs(vectors).max(initial=0.0)), VECTOR_BITS)
    steps = np.rint(vectors / step).astype(np.int64)
    if steps.size:
        leads = np.take_along_axis(steps, np.abs(steps).argmax(axis=0)[None], axis=0)
        steps *= np.where(leads < 0, -1, 1)
    lengths = np.square(steps).sum(axis=0).tolist()
    order = sorted(range(steps.shape[1]), key=lambda k: (-lengths[k], steps[:, k].astype("<i8").tobytes()))
    return np.ascontiguousarray(steps[:, order] * step)
