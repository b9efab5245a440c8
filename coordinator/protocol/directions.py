"""A model's own directions, and symmetric matrices in them as vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures


def basis_of(features: ItemFeatures) -> Floats2:
    """Return the model's own directions: V's columns, which are orthogonal, at length 1, shape (m, r); 0 stays 0."""
    lengths = np.sqrt(np.square(features.vectors).sum(axis=0))
    return features.vectors / np.where(lengths > 0, lengths, 1.0)


def pack_moment(moment: Floats2) -> Floats:
    """Return the lower triangle of a symmetric matrix with its inner product: off the diagonal times sqrt(2)."""
    rows, columns = np.tril_indices(moment.shape[0])
    packed: Floats = moment[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2))
    return packed


def unpack_moment(packed: Floats, rank: int) -> Floats2:
    """Return the symmetric matrix behind `pack_moment`, shape (r, r)."""
    rows, columns = np.tril_indices(rank)
    moment = np.zeros((rank, rank))
    moment[rows, columns] = packed / np.where(rows == columns, 1.0, math.sqrt(2))
    moment[columns, rows] = moment[rows, columns]
    return moment
