"""A cohort of public users, which completes their rows with the current features and returns sums of them."""

from __future__ import annotations

import itertools

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.completing import rows_of
from coordinator.protocol.features import ItemFeatures, residuals, tastes
from coordinator.protocol.rows import Rows
from coordinator.server.completion.kernels import crossed_of, errors_of, moment_of, sweep_of
from coordinator.server.completion.statistics import Expected, FirstOrder

RATINGS_A_COHORT = 20_000
MOST_COHORTS = 32
"""Fewest ratings of a cohort, and most cohorts; they must not depend on the number of workers."""
MOMENT_USERS = 256
"""Rows that are held in memory at once while a second moment is added up."""


class PublicCohort:
    """Public users' ratings, and what the last E-step found for them.

    Parameters
    ----------
    rows : Rows
        Their ratings.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows, self._starts, self._items = rows, rows.starts, rows.items
        self._vectors: Floats2 = np.zeros((rows.count, 0))
        self._tastes: Floats2 = np.zeros((rows.users, 0))
        self._centred: Floats = rows.values
        self._errors: Floats = rows.values

    def first_order(self) -> FirstOrder:
        """Return counts and sums of the items' ratings."""
        return FirstOrder(
            counts=self._rows.raters,
            sums=np.bincount(self._items, weights=self._rows.values, minlength=self._rows.count).astype(np.float64),
            users=self._rows.users,
        )

    def expect(self, features: ItemFeatures) -> Expected:
        """Complete all users (E-step, equation 4) and keep the result for the M-step."""
        self._vectors = features.vectors
        self._centred = self._rows.values - features.mean[self._items]
        self._tastes = tastes(features, self._starts, self._items, self._centred)
        self._errors = errors_of(features.vectors, self._tastes, self._starts, self._items, self._centred)
        weights = np.ones(self._rows.users)
        if features.mean_degree is not None:
            weights = self._rows.degrees / features.mean_degree
        outer = np.einsum("ia,ib->ab", self._tastes, self._tastes)
        return Expected(
            error=float(np.square(self._errors).sum()),
            penalty=float((weights * np.square(self._tastes).sum(axis=1)).sum()),
            tastes=outer,
            weighted_tastes=np.einsum("i,ia,ib->ab", weights, self._tastes, self._tastes),
        )

    def rows(self) -> Floats2:
        """Return the completed residual rows, observed ones kept, float64, shape (users, m); for few users."""
        return rows_of(self._vectors, self._tastes, self._starts, self._items, self._centred)

    def moment(self) -> Floats2:
        """Return the second moment of the completed rows, float64, shape (m, m); for few items."""
        total = np.zeros((self._rows.count, self._rows.count))
        for first, stop in self._rows.blocks(MOMENT_USERS):
            starts = self._starts[first : stop + 1]
            here = slice(int(starts[0]), int(starts[-1]))
            total += moment_of(
                rows_of(
                    self._vectors, self._tastes[first:stop], starts - starts[0], self._items[here], self._centred[here]
                )
            )
        return total

    def sweep(self, block: Floats2) -> Floats2:
        """Return the second moment times ``block``, float64, shape (m, q), without forming rows."""
        return sweep_of(self._vectors, self._tastes, self._starts, self._items, self._errors, block)

    def crossed(self) -> Floats2:
        """Return ``sum_i e_i u_i^T``, float64, shape (m, r); see `coordinator.server.completion.kernels.crossed_of`."""
        return crossed_of(self._tastes, self._starts, self._items, self._errors, self._rows.count)

    def sizes(self, features: ItemFeatures, every: int) -> tuple[float, int]:
        """Return the sum over every ``every``-th user of the mean absolute residual, and their number."""
        total, seen = 0.0, 0
        for user in range(0, self._rows.users, every):
            total += float(np.abs(residuals(features, self._rows.block(user, user + 1))).mean())
            seen += 1
        return total, seen


def cut_users(rows: Rows) -> list[tuple[int, int]]:
    """Cut users into cohorts ``[first, stop)`` of about as many ratings each; a function of the ratings alone."""
    users, ratings = rows.users, rows.items.size
    count = max(1, min(MOST_COHORTS, ratings // RATINGS_A_COHORT, users))
    wanted = [ratings * k // count for k in range(1, count)]
    inner = np.clip(np.searchsorted(rows.starts, wanted), 0, users)
    bounds = sorted({0, *(int(cut) for cut in inner), users})
    return list(itertools.pairwise(bounds)) or [(0, 0)]
