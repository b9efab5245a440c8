"""Public item features of the two-tier model, and completion of ratings from them: equation 4 in low rank; compiled.

The same compiled code runs on the server, for public users, and on private devices.
"""

import hashlib
import itertools
import json
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints, read_only
from coordinator.protocol.checked import LARGEST, MOST_ITEMS, Checked, as_real, require_array, require_real
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.rating_table import Rows


@borrowing
def _solve(matrix: Floats2, right: Floats, size: int) -> None:
    """Overwrite ``right`` with the solution of ``matrix x = right``; the lower triangle is overwritten (Cholesky)."""
    # Where a pivot is 0 or below, as rounding can make it, infinities or no numbers come out, and no error.
    for row in range(size):
        for column in range(row):
            total = matrix[row, column]
            for k in range(column):
                total -= matrix[row, k] * matrix[column, k]
            matrix[row, column] = total / matrix[column, column]
        total = matrix[row, row]
        for k in range(row):
            total -= matrix[row, k] * matrix[row, k]
        matrix[row, row] = np.sqrt(total)
    for row in range(size):
        total = right[row]
        for k in range(row):
            total -= matrix[row, k] * right[k]
        right[row] = total / matrix[row, row]
    for row in range(size - 1, -1, -1):
        total = right[row]
        for k in range(row + 1, size):
            total -= matrix[k, row] * right[k]
        right[row] = total / matrix[row, row]


@borrowing
def _primal(vectors: Floats2, kappa: float, items: Indices, centred: Floats, gram: Floats2, taste: Floats) -> None:
    """Write ``(V_phi^T V_phi + kap I)^-1 V_phi^T y`` into ``taste``."""
    rank = vectors.shape[1]
    for a in range(rank):
        taste[a] = 0.0
        for b in range(a + 1):
            gram[a, b] = 0.0
        gram[a, a] = kappa
    whole = items.size // 4 * 4
    for first in range(0, whole, 4):  # four ratings at a time, added one by one: the same sums, and half the time
        row1, row2, row3, row4 = (
            vectors[items[first]],
            vectors[items[first + 1]],
            vectors[items[first + 2]],
            vectors[items[first + 3]],
        )
        for a in range(rank):
            f1, f2, f3, f4 = row1[a], row2[a], row3[a], row4[a]
            taste[a] = (
                ((taste[a] + centred[first] * f1) + centred[first + 1] * f2) + centred[first + 2] * f3
            ) + centred[first + 3] * f4
            for b in range(a + 1):
                gram[a, b] = (((gram[a, b] + f1 * row1[b]) + f2 * row2[b]) + f3 * row3[b]) + f4 * row4[b]
    for rated in range(whole, items.size):
        vector, value = vectors[items[rated]], centred[rated]
        for a in range(rank):
            front = vector[a]
            taste[a] += value * front
            for b in range(a + 1):
                gram[a, b] += front * vector[b]
    _solve(gram, taste, rank)


@borrowing
def _dual(
    vectors: Floats2, kappa: float, items: Indices, centred: Floats, gram: Floats2, dual: Floats, taste: Floats
) -> None:
    """Write ``V_phi^T (V_phi V_phi^T + kap I)^-1 y``, the same numbers, into ``taste``; for fewer ratings than r."""
    rank = vectors.shape[1]
    for a in range(items.size):
        vector = vectors[items[a]]
        for b in range(a + 1):
            other = vectors[items[b]]
            total = 0.0
            for k in range(rank):
                total += vector[k] * other[k]
            gram[a, b] = total
        gram[a, a] += kappa
        dual[a] = centred[a]
    _solve(gram, dual, items.size)
    for k in range(rank):
        taste[k] = 0.0
    for a in range(items.size):
        vector = vectors[items[a]]
        for k in range(rank):
            taste[k] += dual[a] * vector[k]


@compiled
def tastes_of(vectors: Floats2, kappa: float, share: float, starts: Ints, items: Indices, centred: Floats) -> Floats2:
    """Return every user's u of equation 4, float64, shape (users, r), of V, ``vectors``, shape (m, r)."""
    # ``share`` is 0, or for the weighted trace norm 1 over the mean number of ratings: a user with d ratings has kappa
    # times d times this. ``centred`` are ratings less the items' means.
    rank = vectors.shape[1]
    tastes = np.zeros((starts.size - 1, rank))
    _solve_all(vectors, kappa, share, starts, items, centred, np.empty((rank, rank)), np.empty(rank), tastes)
    return tastes


@borrowing
def _solve_all(
    vectors: Floats2,
    kappa: float,
    share: float,
    starts: Ints,
    items: Indices,
    centred: Floats,
    gram: Floats2,
    dual: Floats,
    tastes: Floats2,
) -> None:
    """Write every user's u; see `tastes_of`."""
    for user in range(len(tastes)):
        start, stop = starts[user], starts[user + 1]
        ridge = kappa if share == 0.0 else kappa * share * (stop - start)
        if stop - start >= vectors.shape[1]:
            _primal(vectors, ridge, items[start:stop], centred[start:stop], gram, tastes[user])
        elif stop > start:
            _dual(vectors, ridge, items[start:stop], centred[start:stop], gram, dual, tastes[user])


@compiled
def weigh_chances(predictions: Floats2, means: Floats, rates: Floats2, rate_rows: Ints, least: float) -> None:
    """Turn predictions from -1 to 1, less their means, into chances of a like times the rates of each user's place."""
    for user in range(predictions.shape[0]):
        row, rated = predictions[user], rates[rate_rows[user]]
        for item in range(row.size):
            row[item] = rated[item] * min(max((means[item] + row[item]) / 2, least), 1.0)


@borrowing
def complete(row: Floats, taste: Floats, across: Floats2, items: Indices, centred: Floats) -> None:
    """Write a user's completed residuals ``V u``, the observed ones kept, in a row of zeros; ``across`` is ``V'``."""
    for k in range(taste.size):
        for item in range(row.size):
            row[item] += taste[k] * across[k, item]
    for index in range(items.size):
        row[items[index]] = centred[index]


@compiled
def rows_of(vectors: Floats2, tastes: Floats2, starts: Ints, items: Indices, centred: Floats) -> Floats2:
    """Return completed residuals ``V u`` with the observed ones kept, float64, shape (users, m)."""
    rows, across = np.zeros((tastes.shape[0], vectors.shape[0])), np.ascontiguousarray(vectors.T)
    for user in range(len(rows)):
        first, stop = starts[user], starts[user + 1]
        complete(rows[user], tastes[user], across, items[first:stop], centred[first:stop])
    return rows


@compiled
def predictions_of(
    vectors: Floats2, mean: Floats, tastes: Floats2, starts: Ints, items: Indices, lowest: float, highest: float
) -> Floats:
    """Return ``mu + V u`` for users' items in compressed sparse rows, clipped to the range of ratings."""
    predictions = np.empty(items.size)
    for user in range(tastes.shape[0]):
        taste = tastes[user]
        for index in range(starts[user], starts[user + 1]):
            item = items[index]
            total = mean[item]
            for k in range(vectors.shape[1]):
                total += vectors[item, k] * taste[k]
            predictions[index] = min(max(total, lowest), highest)
    return predictions


MOST_LEVELS = 256  # Ratings of a scale at most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ItemFeatures(Checked):
    """The public model (mu, V) that private devices complete their vectors with, with what mechanisms take from it."""

    mean: Floats = field(repr=False)  # shape (m,); Shrunken mean rating mu of every item, over public users
    vectors: Floats2 = field(repr=False)  # shape (m, r); V, in C order, with ``V V^T = (X^T X)^(1/2)``
    kappa: float  # Regularisation kap, above 0
    lowest: float  # Range of ratings
    highest: float
    scale: tuple[float, ...] | None  # The set S of ratings that there are, ascending; None where ratings are continuous
    common_h: float  # Mean absolute residual of public users' completed vectors: PMC's h, the same for every device
    # Weighted trace norm: mean number of ratings of public users; a user with d ratings takes ``kappa * d /
    # mean_degree``. None: uniform
    mean_degree: float | None = None

    def reals(self) -> dict[str, object]:
        """Return all numbers but the arrays as floats; see `Checked.reals`."""
        names = ("kappa", "lowest", "highest", "common_h", "mean_degree")
        numbers: dict[str, object] = {name: as_real(getattr(self, name)) for name in names}
        if type(self.scale) is tuple:
            numbers["scale"] = tuple(as_real(level) for level in self.scale)
        return numbers

    def check(self) -> None:
        """Refuse a model that nothing can be completed with; see `Checked.check`."""
        require_array("means of a model", self.mean, np.float64, [None], -LARGEST, LARGEST)
        if not 1 <= self.mean.size <= MOST_ITEMS:
            raise InputError(f"model has {self.mean.size} items; give 1 to {MOST_ITEMS}")
        require_array("vectors of a model", self.vectors, np.float64, [self.mean.size, None], -LARGEST, LARGEST)
        if self.rank > self.items:
            raise InputError(f"model has rank {self.rank} with {self.items} items; give at most as many directions")
        require_real("kappa", self.kappa, 1 / LARGEST)
        require_real("lowest rating", self.lowest, -LARGEST)
        require_real("highest rating", self.highest, self.lowest)
        require_real("common h", self.common_h, 0)
        if self.mean_degree is not None:
            require_real("mean degree", self.mean_degree, 1 / LARGEST)
        if self.scale is not None:
            self._check_scale(self.scale)

    def _check_scale(self, scale: tuple[float, ...]) -> None:
        if type(scale) is not tuple or not 1 <= len(scale) <= MOST_LEVELS:
            raise InputError(f"scale is no tuple of 1 to {MOST_LEVELS} ratings")
        for level in scale:
            require_real("rating of the scale", level, self.lowest, self.highest)
        if any(after <= before for before, after in itertools.pairwise(scale)):
            raise InputError("scale does not ascend; name every rating once, the lowest first")

    @property
    def items(self) -> int:
        """Number of items m."""
        return int(self.mean.size)

    @property
    def rank(self) -> int:
        """Number of columns r of V."""
        return int(self.vectors.shape[1])

    @property
    def moments(self) -> int:
        """Numbers of a symmetric r x r moment: ``r (r + 1) / 2``."""
        return self.rank * (self.rank + 1) // 2

    @property
    def digest(self) -> bytes:
        """Sixteen bytes over the whole content; what is pinned. It is computed at each look, never carried along."""
        numbers = {
            "items": self.items,
            "rank": self.rank,
            "scale": None if self.scale is None else [float(value).hex() for value in self.scale],
            "mean_degree": None if self.mean_degree is None else float(self.mean_degree).hex(),
            **{name: float(getattr(self, name)).hex() for name in ("kappa", "lowest", "highest", "common_h")},
        }
        hasher = hashlib.blake2b(json.dumps(numbers, sort_keys=True).encode(), digest_size=16)
        for array in (self.mean, self.vectors):
            hasher.update(np.ascontiguousarray(array, "<f8").tobytes())
        return hasher.digest()


def residuals(features: ItemFeatures, rows: Rows) -> Floats2:
    """Return r' = r - mu, users' ratings completed by equation 4 in low rank less the items' means, not clipped.

    >>> one = ItemFeatures(mean=np.zeros(2), vectors=np.array([[1.0], [2.0]]), kappa=1.0, lowest=-1, highest=1,
    ...     scale=None, common_h=1.0)
    >>> residuals(one, Rows(starts=np.array([0, 1]), items=np.array([0], np.int32), values=np.array([1.0]), count=2))
    array([[1., 1.]])
    """
    # Observed ratings stay; shape (users, m).
    centred = rows.values - features.mean[rows.items]
    user_tastes = tastes(features, rows.starts, rows.items, centred)
    return rows_of(read_only(features.vectors), user_tastes, rows.starts, read_only(rows.items), centred)


def tastes(features: ItemFeatures, starts: Ints, items: Indices, centred: Floats) -> Floats2:
    """Return the coefficients u of users, float64, shape (users, r): predictions are ``mu + V u``."""
    share = 0.0 if features.mean_degree is None else 1.0 / features.mean_degree
    return tastes_of(read_only(features.vectors), features.kappa, share, starts, read_only(items), centred)


def basis_of(features: ItemFeatures) -> Floats2:
    """Return the model's own directions: V's columns, which are orthogonal, at length 1, shape (m, r); 0 stays 0."""
    lengths = np.sqrt(np.square(features.vectors).sum(axis=0))
    return features.vectors / np.where(lengths > 0, lengths, 1.0)
