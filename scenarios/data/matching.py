"""The best matching of rows with columns: of clusters that were found with those that are true."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Ints


def best_matching(worth: Floats | Ints) -> tuple[Ints, Ints]:
    """Return the rows and the columns of the pairs whose worth sums to most; of equal ones SciPy's.

    Parameters
    ----------
    worth : array, shape (L, M)
        What it is worth to match a row with a column; each is matched once, as far as there are both.

    Examples
    --------
    >>> best_matching(np.array([[1, 3], [2, 1]]))[1].tolist()
    [1, 0]
    """
    if (
        worth.shape == (2, 2) and np.isfinite(worth).all()
    ):  # nearly always; SciPy's optimizers load in a fifth of a second
        first = 0 if worth[0, 0] >= worth[0, 1] else 1
        other = 1 - first
        stays = worth[1, other] >= worth[1, first] + worth[0, other] - worth[0, first]
        return np.arange(2), np.array([first, other] if stays else [other, first])
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 (only where it is needed)

    rows, columns = linear_sum_assignment(worth, maximize=True)
    return rows.astype(np.int64), columns.astype(np.int64)
