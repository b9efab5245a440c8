"""The direction of a private device's residual in the public model's basis, compiled."""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.compiled import compiled


@compiled
def directions(residuals: Floats2, basis: Floats2) -> Floats2:
    """Return ``u u^T / |u|^2`` of every device, packed to a vector of length 1 or 0, where ``u = basis^T r'``.

    Parameters
    ----------
    residuals : ndarray of float64, shape (devices, m)
        Private: r'.
    basis : ndarray of float64, shape (m, r)
        Public, columns of length 1; see `coordinator.protocol.directions.basis_of`.

    Returns
    -------
    ndarray of float64, shape (devices, r (r + 1) / 2)
        As `coordinator.protocol.directions.pack_moment`; 0 of a device without any part in the basis.
    """
    rank = basis.shape[1]
    told, taste = np.empty((residuals.shape[0], rank * (rank + 1) // 2)), np.empty(rank)
    for k in range(residuals.shape[0]):
        taste[:] = 0.0
        for item in range(basis.shape[0]):
            residual = residuals[k, item]
            for a in range(rank):
                taste[a] += residual * basis[item, a]
        energy = 0.0
        for a in range(rank):
            energy += taste[a] * taste[a]
        place, share = 0, 1.0 / energy if energy > 0.0 else 0.0
        for a in range(rank):
            for b in range(a + 1):
                told[k, place] = taste[a] * taste[b] * share * (1.0 if a == b else math.sqrt(2.0))
                place += 1
    return told
