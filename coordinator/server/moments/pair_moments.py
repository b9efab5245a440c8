"""Exact moments of pairwise statistics under the block model: of one answer, and of the matrix they sum up to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.pairwise import AGREEMENTS
from coordinator.server.moments.blocks import BlockParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSignal:
    """Moments of the entries of a symmetric item matrix with zero diagonal, by the clusters of the two items.

    Shapes: ``means``, ``variances`` (L, L); ``sizes`` (L,); ``shared`` (L, L, L).
    """

    means: Floats
    variances: Floats
    sizes: Ints
    shared: Floats

    def __post_init__(self) -> None:
        count = self.sizes.size
        if self.sizes.ndim != 1 or count == 0 or int(self.sizes.min()) < 1:
            raise InputError(f"sizes = {self.sizes.tolist()}; give the items of each cluster, at least 1 each")
        if not (self.means.shape == self.variances.shape == (count, count)):
            raise InputError(f"rates have shape {self.means.shape}; {count} clusters ask for shape {(count, count)}")
        if self.shared.shape != (count, count, count):
            raise InputError(f"shared has shape {self.shared.shape}; {count} clusters ask for {(count,) * 3}")

    @property
    def independent(self) -> Floats:
        """Variance of an entry beyond what it shares with its row and its column, shape (L, L)."""
        row = np.einsum("lmm->lm", self.shared)
        return np.asarray(np.maximum(self.variances - row - row.T, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMoments:
    """Pairwise-Preference's answers."""

    rates: Floats  # shape (L, L); ``P(S = 1)`` by the clusters of the pair; see `pair_agreement`

    @property
    def profile(self) -> Floats:
        """What answers without noise say of each cluster's items, one row a cluster."""
        return self.rates


def pair_agreement(
    parameters: BlockParameters, *, agreement: str, epsilon: float, rated_public: bool = False
) -> Floats:
    """Return P(S = 1) of a device asked about two items, by their clusters."""
    if agreement not in AGREEMENTS:
        raise InputError(f"agreement is {agreement!r}; choose one of {', '.join(AGREEMENTS)}")
    w, items, shares, like = parameters.rated, parameters.items, parameters.class_shares, parameters.like
    if rated_public and w < 2:
        raise InputError(f"rated = {w}; a device asked about two of its own rated items needs at least 2")
    one_rated = 1.0 if rated_public else w / items
    both_rated = 1.0 if rated_public else one_rated * (w - 1) / (items - 1)
    both_liked = np.einsum("k,kl,km->lm", shares, like, like)
    if agreement == "positive":
        private = both_rated * both_liked
    elif agreement == "rated-equal":
        private = both_rated * (both_liked + np.einsum("k,kl,km->lm", shares, 1 - like, 1 - like))
    else:
        liked = one_rated * (shares @ like)
        private = 1 - liked[:, None] - liked[None, :] + 2 * both_rated * both_liked
    contrast = 1.0 if math.isinf(epsilon) else math.tanh(epsilon / 2)
    released: Floats = 0.5 + contrast * (private - 0.5)
    return released


def curator_signal(alike: Floats, sizes: Ints, *, users: int, rated: int) -> BlockSignal:
    """Return the moments of the totals of pairs that a trusted curator adds up, before it adds noise.

    ``A_ij = sum over the users who rated both of (2 [R_ui = R_uj] - 1)``, ``A_ii = 0``.

    Shapes: ``alike`` (L, L); ``sizes`` (L,).
    """
    items = int(sizes.sum())
    if users < 1 or not 2 <= rated <= items:
        raise InputError(f"users = {users}, rated = {rated}; give 1 or more, and 2 to {items}")
    both = rated * (rated - 1) / (items * (items - 1))
    three = both * (rated - 2) / (items - 2) if items > 2 else 0.0
    score = 2 * np.asarray(alike, np.float64) - 1
    mean = both * score
    rows = users * (three * score[None, :, :] - mean[:, :, None] * mean[:, None, :])
    return BlockSignal(
        means=users * mean,
        variances=users * (both - mean**2),
        sizes=sizes,
        shared=np.stack([root @ root for root in map(nearest_root, rows)]),
    )


def nearest_root(matrix: Floats) -> Floats:
    """Return the symmetric root of a covariance matrix, negative eigenvalues of rounding taken as 0."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
