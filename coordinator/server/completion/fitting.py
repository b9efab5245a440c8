"""Trace-norm regularised completion by EM, and folding in second-order releases: every device counts once."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import linalg, sparse

from coordinator.protocol.arrays import Bits2, Floats, Floats2, Ints
from coordinator.protocol.checked import require_array
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, two_tier_mechanism
from coordinator.server.completion.crowd import Expected, PublicUsers, added, merged, product_of, products_of

KEPT_BYTES = 2**28  # Largest total size of decoded rows that are kept in memory
CHUNK = 256  # Decoded rows that are held in memory at once if not all of them fit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    query: SecondOrderQuery
    features: ItemFeatures
    devices: Ints
    payloads: Bits2

    @property
    def rows(self) -> int:
        """How many rows its releases are folded to: moments to as many as there are directions."""
        moment = two_tier_mechanism(self.query.mechanism).moment and self.devices.size
        return self.features.rank if moment else self.devices.size


class ReleaseBook:
    """The server's book of releases, with the number of those that arrived again and were not counted."""

    def __init__(self, items: int, *, clip: bool = False) -> None:
        self._items, self._clip = items, clip
        self._batches: list[_Batch] = []
        self._devices: Ints = np.empty(0, np.int64)
        self._row_blocks: list[Floats2] = []
        self._whole = True  # Whether these are all rows
        self._gram: Floats2 = np.empty((0, 0))
        self.duplicates = 0

    @property
    def devices(self) -> int:
        """Devices whose release is counted."""
        return self._devices.size

    def absorb(self, query: SecondOrderQuery, features: ItemFeatures, devices: Ints, payloads: Bits2) -> None:
        """Add releases of one batch, in the order of their devices; a device's second release is not counted."""
        mechanism = two_tier_mechanism(query.mechanism)
        require_array("releases", payloads, np.uint8, [devices.size, mechanism.size(query, features)])
        mechanism.check(payloads, query, features)
        fresh, places = np.unique(devices, return_index=True)
        new = ~np.isin(fresh, self._devices)
        self.duplicates += devices.size - int(new.sum())
        self._devices = np.concatenate([self._devices, fresh[new]])
        # of a model no more is kept than reads releases: directions only where they are about these
        reading = features if mechanism.moment else replace(features, vectors=np.empty((features.items, 0)))
        batch = _Batch(query=query, features=reading, devices=fresh[new], payloads=payloads[places[new]])
        self._whole = self._whole and 8 * self._items * self.devices <= KEPT_BYTES
        rows = [np.concatenate([*self._decoded(batch), np.empty((0, self._items))])] if self._whole else []
        self._row_blocks = [*self._row_blocks, *rows] if self._whole else []
        self._batches.append(batch)

    def blocks(self) -> Iterator[Floats2]:
        """Yield all rows z, some at a time, float64, shape (some, m), in the order of batches and devices."""
        if self._whole:
            if len(self._row_blocks) > 1:  # products with few rows at a time mostly read and write their sums
                self._row_blocks = [np.concatenate(self._row_blocks)]
            yield from (rows for rows in self._row_blocks if rows.size)
            return
        for batch in self._batches:
            yield from self._decoded(batch)

    def gram(self) -> Floats2:
        """Return all rows' inner products, float64, shape (rows, rows); those of earlier batches are kept."""
        # each is read once, because trials in several threads may share the book
        gram, blocks = self._gram, list(self.blocks())
        done = len(gram)
        rows = np.concatenate([*blocks, np.empty((0, self._items))])
        if done < len(rows):
            whole = np.empty((len(rows), len(rows)))
            whole[:done, :done] = gram
            whole[done:] = rows[done:] @ rows.T
            whole[:done, done:] = whole[done:, :done].T
            self._gram = gram = whole
        return gram

    def rows(self) -> int:
        """Return how many rows `blocks` yields."""
        return sum(batch.rows for batch in self._batches)

    def _decoded(self, batch: _Batch) -> Iterator[Floats2]:
        mechanism, count = two_tier_mechanism(batch.query.mechanism), batch.devices.size
        each = max(count, 1) if mechanism.moment else CHUNK
        for part in (slice(first, first + each) for first in range(0, count, each)):
            rows = mechanism.rows(batch.payloads[part], batch.devices[part], batch.query, batch.features)
            yield _clipped(rows, batch.features) if self._clip else rows


def _clipped(rows: Floats2, features: ItemFeatures) -> Floats2:
    """Return rows clipped to the length of a vector of signs of the public size."""
    longest = features.common_h * np.sqrt(features.items)
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.asarray(rows * np.minimum(1.0, longest / np.maximum(lengths, np.finfo(np.float64).tiny)))


ROWS = 500  # Up to so many public and released rows, and no more than items, the Gram matrix of the rows is used, k x k
MOMENT_ITEMS = 500  # Otherwise, up to so many items, the second moment itself is added up, m x m
OVERSAMPLE = 10  # Extra columns of subspace iteration beside the wanted ones


# Singular values, descending, and right singular vectors of the rows, orthonormal columns; shapes (q,) and (m, q)
Spectrum = tuple[Floats, Floats2]


def spectrum_of(
    public_users: PublicUsers,
    book: ReleaseBook,
    weight: float,
    rank: int,
    *,
    near: Floats2 | None = None,
    passes: int = 2,
) -> Spectrum:
    """Return at least the ``rank`` largest singular values of ``[R_pub; sqrt(w) Z]``, and their vectors.

    Shapes: ``near`` (m, q).
    """
    with one_thread():
        rows = public_users.users + (book.rows() if weight else 0)
        if rows <= min(ROWS, public_users.items):
            return _of_rows(public_users, book, weight, rank)
        if public_users.items <= MOMENT_ITEMS:
            return _of_moment(public_users, book, weight, rank)
        return _of_subspace(public_users, book, weight, rank, near, passes)


def _of_moment(public_users: PublicUsers, book: ReleaseBook, weight: float, rank: int) -> Spectrum:
    moment = added(public_users.ask("moment"))
    for rows in book.blocks() if weight else ():
        moment += weight * (rows.T @ rows)
    values, vectors = linalg.eigh(moment, subset_by_index=(max(0, public_users.items - rank), public_users.items - 1))
    return np.sqrt(np.maximum(values[::-1], 0)), np.ascontiguousarray(vectors[:, ::-1])


def _of_rows(public_users: PublicUsers, book: ReleaseBook, weight: float, rank: int) -> Spectrum:
    # Rows are U V' + E, E sparse: their products with each other and with others need no row in full
    parts, features = public_users.ask("parts"), public_users.vectors
    tastes, errors = (
        np.concatenate([tastes_part for tastes_part, _ in parts]),
        sparse.vstack([errors_part for _, errors_part in parts], format="csr"),
    )
    blocks = list(book.blocks()) if weight else []
    root = float(np.sqrt(weight))

    def against(block: Floats2) -> Floats2:
        """Return the rows' inner products with others, of shape (some, m)."""
        other = np.ascontiguousarray(block.T)
        products: Floats2 = tastes @ (features.T @ other) + errors @ other
        return products

    across = root * np.concatenate([np.empty((len(tastes), 0)), *map(against, blocks)], axis=1)
    released = weight * book.gram() if blocks else np.empty((0, 0))
    cross = tastes @ (errors @ features).T
    among = tastes @ (features.T @ features) @ tastes.T + cross + cross.T
    among += products_of(errors.indptr.astype(np.int64), errors.indices, errors.data, public_users.items)
    gram = np.block([[among, across], [across.T, released]])
    squares, left = linalg.eigh(gram, subset_by_index=(max(0, len(gram) - rank), len(gram) - 1))
    squares, left = squares[::-1], left[:, ::-1]
    real = squares > max(squares[0], 0.0) * 1e-14
    values, left = np.sqrt(squares[real]), left[:, real]
    at = len(tastes)
    vectors = features @ (tastes.T @ left[:at]) + errors.T @ np.ascontiguousarray(left[:at])
    for block in blocks:
        vectors += root * (block.T @ left[at : at + len(block)])
        at += len(block)
    return values, vectors / values


def _of_subspace(
    public_users: PublicUsers, book: ReleaseBook, weight: float, rank: int, near: Floats2 | None, passes: int
) -> Spectrum:
    width = min(rank + OVERSAMPLE, public_users.items, public_users.users + (book.rows() if weight else 0))
    # columns to start from that ``near`` lacks are the same in every run
    have: Floats2 = np.empty((public_users.items, 0)) if near is None else near[:, :width]
    more = np.random.default_rng(width).standard_normal((public_users.items, width - have.shape[1]))
    block = _orthonormal(np.hstack([have, more]))
    for _ in range(passes - 1):
        block = _orthonormal(_product(public_users, book, weight, block))
    return _nystrom(block, _product(public_users, book, weight, block))


def _orthonormal(columns: Floats2) -> Floats2:
    return np.ascontiguousarray(linalg.qr(columns, mode="economic")[0], np.float64)


def _product(public_users: PublicUsers, book: ReleaseBook, weight: float, block: Floats2) -> Floats2:
    block = np.ascontiguousarray(block)
    parts = public_users.ask("sweep", block, product_of(np.ascontiguousarray(public_users.vectors.T), block))
    total = added([part for part, _ in parts]) + product_of(public_users.vectors, added([part for _, part in parts]))
    across = np.ascontiguousarray(block.T)  # few rows times many are twice as fast as many times few columns
    for rows in book.blocks() if weight else ():
        total += weight * ((across @ rows.T) @ rows).T
    return total


def _nystrom(block: Floats2, product: Floats2) -> Spectrum:
    """Return the spectrum of the Nyström approximation ``W (Q^T W)^-1 W^T`` of a second moment, W its product."""
    shift = np.finfo(float).eps * max(float(np.linalg.norm(product)), 1e-300)
    shifted = product + shift * block
    inner = block.T @ shifted
    # numpy's own are the same routines, and let other threads run
    root = np.linalg.cholesky((inner + inner.T) / 2)
    left, values, _ = np.linalg.svd(linalg.solve_triangular(root, shifted.T, lower=True).T, full_matrices=False)
    return np.sqrt(np.maximum(np.square(values) - shift, 0)), left


def alternate(
    features: ItemFeatures,
    counts: Floats,
    expected: Expected,
    public_users: PublicUsers,
    book: ReleaseBook,
    weight: float,
) -> Floats2:
    """Return V of ``min sum_i |r_i - V u_i|^2 + kap sum_j w_j |v_j|^2`` over completed rows r, tastes u held.

    It majorises the error of observed ratings, so ``sum error^2 + kap (sum_i w_i |u_i|^2 + sum_j w_j |v_j|^2)`` never
    rises. A release is a fully observed row.

    Shapes: ``counts`` (m,).
    """
    old, kappa = features.vectors, features.kappa
    with one_thread():
        crossed = old @ expected.tastes + added(public_users.ask("crossed"))
        gram, weighted = expected.tastes.copy(), expected.weighted_tastes.copy()
        full = features.items / (features.mean_degree or 1.0)
        for rows in book.blocks() if weight else ():
            tastes = np.linalg.solve(old.T @ old + kappa * full * np.eye(old.shape[1]), old.T @ rows.T).T
            crossed += weight * (rows.T @ tastes)
            gram += weight * (tastes.T @ tastes)
            weighted += weight * full * (tastes.T @ tastes)
        weights = (counts + 1) / (counts + 1).mean()
        values, directions = np.linalg.eigh(gram)
        vectors = ((crossed @ directions) / (np.maximum(values, 0) + kappa * weights[:, None])) @ directions.T
        return np.asarray(vectors @ _balance(weighted, (weights[:, None] * vectors).T @ vectors))


def _balance(tastes: Floats2, items: Floats2) -> Floats2:
    """Return T for which ``T^-1 G_u T^-T`` and ``T^T G_v T`` are one diagonal matrix: the smallest penalty for UV^T.

    With roots A of G_u and B of G_v, and ``A^T B = P S Z^T``, it is ``A P S^(-1/2)``. The product of both moments would
    square what is lost of small directions: they would be noise from a ten-thousandth of the largest length on.
    """
    root = _root(tastes)
    turns, sizes, _ = np.linalg.svd(root.T @ _root(items))
    significant = sizes > sizes[0] * 1e-14
    transform = np.zeros_like(items)
    transform[:, significant] = root @ (turns[:, significant] / np.sqrt(sizes[significant]))
    return transform


def _root(moment: Floats2) -> Floats2:
    """Return A with ``A A^T`` the moment, which is brought to diagonal 1 first: small directions keep their digits."""
    lengths = np.sqrt(np.diag(moment))
    units = np.where(lengths > 0, lengths, 1.0)
    values, directions = np.linalg.eigh(moment / units[:, None] / units)
    return np.asarray(lengths[:, None] * directions * np.sqrt(np.maximum(values, 0)))


SHRINK = 3.0  # Number of ratings at the overall mean that are added to every item's ratings before its mean is taken
MStep = Literal["keep", "prox"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """How features are fitted."""

    rank: int  # Largest number of columns of V
    kappa: float  # Regularisation kap, above 0: half of equation 2's lambda' = lambda N / sqrt(n m)
    # one of "keep", "prox"; ``S~ = (sum r r^T)^(1/2)``, cut at the rank, as in the paper; or its singular values less
    # kappa, which goes to the optimum of equation 2
    mstep: MStep = "keep"
    # Weighted trace norm: users and items in proportion to their ratings. Its M-step is alternating least squares on
    # completed rows, with either ``mstep``
    weighted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One EM iteration as it is reported."""

    # Corrected equation 3, ``kap [sum_i y_i^T (kap I + S~)^-1 y_i + tr S~]``, of the features before the M-step; it is
    # equation 2's objective at its minimum. With releases it counts public users only
    objective: float
    error: float  # Root mean squared error of the public users' observed ratings
    change: float  # ``|S~_new - S~| / |S~_new|``, Frobenius
    seconds: float  # Duration of the iteration


def centre(public_users: PublicUsers, shrink: float = SHRINK) -> tuple[Floats, Floats]:
    """Return every item's shrunken mean over public ratings, and the number of its ratings, shape (m,) each."""
    counts, sums = added(public_users.ask("first_order"))
    if not counts.any():
        raise InputError("public users have 0 ratings to learn from; make more users public")
    overall = sums.sum() / counts.sum()
    return (sums + shrink * overall) / (counts + shrink), counts


@dataclass(slots=True, kw_only=True)
class FittedModel:
    """Features during fitting, and what the next iteration starts from."""

    features: ItemFeatures  # The current ones
    counts: Floats  # shape (m,); Public ratings of every item
    near: Floats2 | None  # Singular vectors of the last iteration
    steps: list[Iteration]  # Every iteration so far


def begin(
    public_users: PublicUsers, fitting: Fitting, *, lowest: float, highest: float, scale: tuple[float, ...] | None
) -> FittedModel:
    """Return a model before the first iteration: item means and V = 0."""
    mean, counts = centre(public_users)
    degree = public_users.ratings / max(public_users.users, 1)
    features = ItemFeatures(
        mean=mean,
        vectors=np.zeros((public_users.items, min(fitting.rank, public_users.items))),
        kappa=fitting.kappa,
        lowest=lowest,
        highest=highest,
        scale=scale,
        common_h=0.0,
        mean_degree=degree if fitting.weighted else None,
    )
    return FittedModel(features=features, counts=counts, near=None, steps=[])


def iterate(
    model: FittedModel,
    public_users: PublicUsers,
    fitting: Fitting,
    iterations: int,
    *,
    book: ReleaseBook | None = None,
    weight: float = 0.5,
) -> FittedModel:
    """Return the model after further iterations of EM."""
    book = book or ReleaseBook(public_users.items)
    model = replace(model, features=replace(model.features, kappa=fitting.kappa), steps=list(model.steps))
    for _ in range(iterations):
        start = time.perf_counter()
        expected = merged(public_users.ask("expect", model.features))
        if fitting.weighted and model.steps:
            vectors = alternate(model.features, model.counts, expected, public_users, book, weight)
        else:
            vectors = _maximise(model, public_users, fitting, book, weight)
        step = _step(model.features, vectors, expected, public_users.ratings, model.counts)
        model.steps.append(replace(step, seconds=time.perf_counter() - start))
        model.features = replace(model.features, vectors=vectors)
    return model


def item_weights(features: ItemFeatures, counts: Floats) -> Floats:
    """Return the weight of every item's ``|v_j|^2``: 1, or ``(c_j + 1) / mean`` with the weighted trace norm."""
    return np.ones(counts.size) if features.mean_degree is None else (counts + 1) / (counts + 1).mean()


def _maximise(
    model: FittedModel, public_users: PublicUsers, fitting: Fitting, book: ReleaseBook, weight: float
) -> Floats2:
    rank = min(fitting.rank, public_users.items)
    values, model.near = spectrum_of(public_users, book, weight, rank, near=model.near, passes=2 if model.steps else 4)
    sizes = values[:rank] if fitting.mstep == "keep" else np.maximum(values[:rank] - fitting.kappa, 0)
    vectors = np.zeros((public_users.items, rank))
    vectors[:, : sizes.size] = model.near[:, : sizes.size] * np.sqrt(sizes)
    if not (weight and book.rows()):  # exactly 0: the sign of a rounding error would be no fair coin on a device
        vectors[model.counts == 0] = 0.0
    return vectors


@one_thread()
def _step(before: ItemFeatures, after: Floats2, expected: Expected, ratings: int, counts: Floats) -> Iteration:
    old = before.vectors
    trace = float((item_weights(before, counts)[:, None] * np.square(old)).sum())
    size = float(np.square(after.T @ after).sum())
    moved = size + float(np.square(old.T @ old).sum()) - 2 * float(np.square(after.T @ old).sum())
    return Iteration(
        objective=expected.error + before.kappa * (expected.penalty + trace),
        error=float(np.sqrt(expected.error / ratings)),
        change=float(np.sqrt(max(moved, 0.0) / size)) if size > 0 else 0.0,
        seconds=0.0,
    )
