"""All public users in cohorts, which complete their rows with the current features and return sums; compiled.

A public user's row is ``V u`` with the observed residuals kept: low rank plus sparse. A product with it needs the
user's u and ``e = y - V_phi u`` only.
"""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints, read_only
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, complete, rows_of, tastes
from coordinator.protocol.rating_table import Rows
from coordinator.server.fleet.cohorts import spread_here
from coordinator.server.rounds.conductor import Block, Fleet, Hosts


@compiled
def errors_of(vectors: Floats2, tastes: Floats2, starts: Ints, items: Indices, centred: Floats) -> Floats:
    """Return ``y - V_phi u`` of every observed rating, float64."""
    errors = np.empty(items.size)
    for user in range(tastes.shape[0]):
        taste = tastes[user]
        for at in range(starts[user], starts[user + 1]):
            vector, total = vectors[items[at]], centred[at]
            for k in range(taste.size):
                total -= vector[k] * taste[k]
            errors[at] = total
    return errors


@compiled
def product_of(left: Floats2, right: Floats2) -> Floats2:
    """Return ``left right`` in one order of summation, whatever library or thread."""
    product = np.zeros((left.shape[0], right.shape[1]))
    for row in range(left.shape[0]):
        for k in range(left.shape[1]):
            front = left[row, k]
            for column in range(right.shape[1]):
                product[row, column] += front * right[k, column]
    return product


@borrowing
def _add_users(
    tastes: Floats2,
    inner: Floats2,
    outer: Floats2,
    starts: Ints,
    items: Indices,
    errors: Floats,
    block: Floats2,
    sums: Floats2,
    seen: Floats,
) -> None:
    """Add every user's ``r (r^T Q)``: its dense part to ``outer``, in tastes, and its sparse part to ``sums``."""
    for user in range(tastes.shape[0]):
        taste, places = tastes[user], range(starts[user], starts[user + 1])
        seen[:] = 0.0  # r^T Q
        for k in range(taste.size):
            for column in range(seen.size):
                seen[column] += taste[k] * inner[k, column]
        for at in places:
            error, row = errors[at], block[items[at]]
            for column in range(seen.size):
                seen[column] += error * row[column]
        for k in range(taste.size):
            for column in range(seen.size):
                outer[k, column] += taste[k] * seen[column]
        for at in places:
            error, target = errors[at], sums[items[at]]
            for column in range(seen.size):
                target[column] += error * seen[column]


@compiled
def sweep_of(
    inner: Floats2, tastes: Floats2, starts: Ints, items: Indices, errors: Floats, block: Floats2
) -> tuple[Floats2, Floats2]:
    """Return the sparse part of ``sum_i r_i (r_i^T Q)`` over users' rows, and its dense part in tastes.

    Shapes: Q and the sparse part (m, q); ``inner``, which is ``V^T Q``, and the dense part (r, q).
    """
    outer, sums, seen = np.zeros(inner.shape), np.zeros(block.shape), np.empty(block.shape[1])
    _add_users(tastes, inner, outer, starts, items, errors, block, sums, seen)
    return sums, outer


@compiled
def crossed_of(tastes: Floats2, starts: Ints, items: Indices, errors: Floats, count: int) -> Floats2:
    """Return ``sum_i e_i u_i^T``, float64, shape (m, r): completed rows times tastes are V (sum u u^T) plus this."""
    rank = tastes.shape[1]
    sums = np.zeros((count, rank))
    for user in range(tastes.shape[0]):
        for at in range(starts[user], starts[user + 1]):
            error, target = errors[at], sums[items[at]]
            for k in range(rank):
                target[k] += error * tastes[user, k]
    return sums


@compiled
def products_of(starts: Ints, items: Indices, values: Floats, count: int) -> Floats2:
    """Return the inner products of sparse rows, float64, shape (users, users): E E^T."""
    users = starts.size - 1
    ends, owners, errors = np.zeros(count + 1, np.int64), np.empty(items.size, np.int64), np.empty(items.size)
    for item in items:
        ends[item + 1] += 1
    ends = np.cumsum(ends)
    firsts = ends.copy()
    for user in range(users):
        for rating in range(starts[user], starts[user + 1]):
            at = ends[items[rating]]
            owners[at], errors[at] = user, values[rating]
            ends[items[rating]] += 1
    products = np.zeros((users, users))
    for item in range(count):
        for a in range(firsts[item], firsts[item + 1]):
            row, value = products[owners[a]], errors[a]
            for b in range(firsts[item], a + 1):
                row[owners[b]] += value * errors[b]
    for a in range(users):
        for b in range(a):
            products[b, a] = products[a, b]
    return products


@compiled
def moment_of(rows: Floats2) -> Floats2:
    """Return ``sum_i r_i r_i^T`` of dense rows, float64, shape (m, m); for few items only."""
    count = rows.shape[1]
    moment = np.zeros((count, count))
    for user in range(rows.shape[0]):
        row = rows[user]
        for a in range(count):
            front = row[a]
            for b in range(a + 1):
                moment[a, b] += front * row[b]
    for a in range(count):
        for b in range(a):
            moment[b, a] = moment[a, b]
    return moment


@compiled
def sizes_of(vectors: Floats2, tastes: Floats2, starts: Ints, items: Indices, centred: Floats) -> float:
    """Return the sum of all absolute completed residuals, user by user: no row but one is in memory."""
    count, across, total = vectors.shape[0], np.ascontiguousarray(vectors.T), 0.0
    row, parts, whole = np.empty(count), np.zeros(8), count // 8 * 8
    for user in range(tastes.shape[0]):
        row[:] = 0.0
        first, stop = starts[user], starts[user + 1]
        complete(row, tastes[user], across, items[first:stop], centred[first:stop])
        for at in range(0, whole, 8):
            for k in range(8):  # a number of them that is known becomes vector code
                parts[k] += abs(row[at + k])
        for item in range(whole, count):
            total += abs(row[item])
    return float(total + parts.sum())


class Expected(NamedTuple):
    """Sums of an E-step."""

    error: float  # ``sum_i |y_i - V_phi u_i|^2`` over observed ratings
    penalty: float  # ``sum_i w_i |u_i|^2``, w = 1 or, with the weighted trace norm, ``d_i / mean degree``
    tastes: Floats2  # shape (r, r); ``sum_i u_i u_i^T``
    weighted_tastes: Floats2  # shape (r, r); ``sum_i w_i u_i u_i^T``


def merged(parts: Sequence[Expected]) -> Expected:
    """Add the sums up in the given order, so that every layout gives the same bits."""
    return Expected(*(reduce(add, values) for values in zip(*parts, strict=True)))


def added(parts: Sequence[Floats2]) -> Floats2:
    """Add arrays up in the given order."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


RATINGS_A_COHORT = 20_000
MOST_COHORTS = 32  # Fewest ratings of a cohort, and most cohorts; they must not depend on the number of workers
MOMENT_USERS = 256  # Rows that are held in memory at once while a second moment is added up


class PublicCohort:
    """Public users' ratings, and what the last E-step found for them."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self._starts, self._items = rows, rows.starts, read_only(rows.items)
        self._vectors: Floats2 = np.zeros((rows.count, 0))
        self._tastes: Floats2 = np.zeros((rows.users, 0))
        self._centred: Floats = rows.values
        self._errors: Floats = rows.values

    def first_order(self) -> Floats2:
        """Return numbers and sums of the items' ratings, shape (2, m)."""
        sums = np.bincount(self._items, weights=self._rows.values, minlength=self._rows.count)
        return np.stack([self._rows.raters, sums])

    def expect(self, features: ItemFeatures) -> Expected:
        """Complete all users (E-step, equation 4) and keep the result for the M-step."""
        self._vectors = read_only(features.vectors)
        self._centred = self._rows.values - features.mean[self._items]
        self._tastes = tastes(features, self._starts, self._items, self._centred)
        self._errors = errors_of(self._vectors, self._tastes, self._starts, self._items, self._centred)
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

    def parts(self) -> tuple[Floats2, Any]:
        """Return users' tastes u, and their errors e, sparse, shape (users, m): rows are ``V u`` plus these."""
        shape = (self._rows.users, self._rows.count)
        return self._tastes, sparse.csr_array((self._errors, self._items, self._starts), shape)

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

    def sweep(self, block: Floats2, inner: Floats2) -> tuple[Floats2, Floats2]:
        """Return the second moment times ``block`` without forming rows, in two parts; see `sweep_of`."""
        return sweep_of(inner, self._tastes, self._starts, self._items, self._errors, block)

    def crossed(self) -> Floats2:
        """Return ``sum_i e_i u_i^T``, float64, shape (m, r); see `crossed_of`."""
        return crossed_of(self._tastes, self._starts, self._items, self._errors, self._rows.count)

    def sizes(self, features: ItemFeatures, every: int) -> tuple[float, int]:
        """Return the sum over every ``every``-th user of the mean absolute residual, and their number."""
        rows = self._rows.of(np.arange(0, self._rows.users, every))
        centred = rows.values - features.mean[rows.items]
        user_tastes = tastes(features, rows.starts, rows.items, centred)
        sizes = sizes_of(read_only(features.vectors), user_tastes, rows.starts, read_only(rows.items), centred)
        return sizes / features.items, rows.users


def cut_users(rows: Rows) -> list[tuple[int, int]]:
    """Cut users into cohorts ``[first, stop)`` of about as many ratings each; a function of the ratings alone."""
    users, ratings = rows.users, rows.items.size
    count = max(1, min(MOST_COHORTS, ratings // RATINGS_A_COHORT, users))
    targets = [ratings * k // count for k in range(1, count)]
    inner = np.clip(np.searchsorted(rows.starts, targets), 0, users)
    bounds = sorted({0, *(int(cut) for cut in inner), users})
    return list(itertools.pairwise(bounds)) or [(0, 0)]


EXPECT = "expect"  # The E-step: the one call that changes what cohorts hold


class PublicHost:
    """Some cohorts of public users in one process."""

    def __init__(self, rows: Rows, bounds: list[tuple[int, int]]) -> None:
        self._cohorts = [PublicCohort(rows.block(*ends)) for ends in bounds]
        self._step = 0

    def ask(
        self, method: str, _first: int, _stop: int, step: int, features: ItemFeatures | None, *arguments: Any
    ) -> list[Any]:
        """Call a method of every cohort; return the answers in order."""
        if method == EXPECT:
            self._step = step
            return [cohort.expect(features) for cohort in self._cohorts]  # type: ignore[arg-type] # an E-step has them
        # a process that was restarted, or that an old call reached late, repeats the last E-step first
        if step != self._step and features is not None:
            self.ask(EXPECT, _first, _stop, step, features)
        return [getattr(cohort, method)(*arguments) for cohort in self._cohorts]


class PublicUsers:
    """All public users: their number, and those of the m items and of their ratings."""

    def __init__(self, hosts: Hosts, rows: Rows) -> None:
        self.items, self.users, self.ratings = rows.count, rows.users, int(rows.items.size)
        self._hosts, self._blocks = hosts, hosts.blocks(0, rows.users)
        self._step = 0
        self._features: ItemFeatures | None = None

    @property
    def vectors(self) -> Floats2:
        """V of the last E-step, float64, shape (m, r)."""
        assert self._features is not None  # there was one
        return self._features.vectors

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every `PublicCohort`; return the answers in the cohorts' order."""
        if method == EXPECT:
            self._step, (self._features,), arguments = self._step + 1, arguments, ()
        blocks = [block._replace(public=(self._step,)) for block in self._blocks]
        answers = self._hosts.ask(method, blocks, _check, self._features, *arguments)
        return [part for answer in answers for part in answer]


def _check(_: Block, answer: Any) -> None:
    if type(answer) is not list:
        raise InputError("cohorts of public users answer with a list")


def spread_public_users(rows: Rows, fleet: Fleet) -> PublicUsers:
    """Return public users in cohorts, in processes of a fleet."""
    return PublicUsers(fleet.spread(PublicHost, (rows,), cut_users(rows)), rows)


def local_public_users(rows: Rows, threads: ThreadPoolExecutor | None = None, workers: int = 1) -> PublicUsers:
    """Return public users in cohorts in this process, in as many parts as there are workers."""
    return PublicUsers(spread_here(PublicHost, (rows,), cut_users(rows), threads, workers), rows)
