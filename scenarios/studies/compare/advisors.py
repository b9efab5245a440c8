"""Item models that a device applies to its own likes: neighbours, a truncated decomposition, EASE, noisy pairs."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import scipy
from numba.extending import get_cython_function_address
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from actors.advice import public_order
from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import LEAST_SCORE, ItemToItem
from coordinator.server.decoding.threads import one_thread
from coordinator.server.mechanisms.sets import LikedPairs
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import LearnedScores, RowRequest, Scorer
from scenarios.studies.compare.sum_laws import add_pairs

CONFIDENCE = 10.0  # The additional weight of a like in alternating least squares
DENSE = 8_000  # Up to this many items weights are a dense matrix where there are fewer people, 256 MB of float32
_BAND = 256  # Columns of a matrix that are copied at a time
_TILE = 64  # Rows and columns of a matrix that are mirrored at a time
_STRIP = 512  # Columns of a matrix that are added at a time
_COLUMNS = 1 << 25  # Number of similarities that are computed at a time


def neighbours(likes: Any, count: int) -> Scorer:
    """Return item kNN of likes (people, N): a score sums the cosines with the liked ones of ``count`` neighbours."""
    sizes = np.sqrt(likes.sum(axis=0))
    scaled = (likes / np.where(sizes > 0, sizes, 1)).tocsr()
    ends, starts = ((one := scaled.T.tocsr()).indptr.astype(np.int64), scaled.indptr.astype(np.int64))
    blocks, items, size = [], likes.shape[1], max(1, _COLUMNS // likes.shape[1])
    for first in range(0, items, size):
        cosines = np.zeros((min(size, items - first), items), np.float32)
        _nearest(ends, one.indices, one.data, starts, scaled.indices, scaled.data, count, first, cosines)
        blocks.append(sparse.csr_array(cosines))
    to_items = sparse.vstack(blocks).T.tocsr()

    def scores(own: Any) -> Any:
        sums = np.zeros(own.shape, np.float32)
        rows = own.indptr.astype(np.int64), own.indices, to_items.indptr.astype(np.int64), to_items.indices
        _add_sparse_rows(*rows, to_items.data.astype(np.float32, copy=False), sums)
        return sums

    return scores


@compiled
def _nearest(
    ends: Ints,
    people: Indices,
    parts: NDArray[np.float32],
    starts: Ints,
    items: Indices,
    scaled: NDArray[np.float32],
    count: int,
    first: int,
    cosines: NDArray[np.float32],
) -> None:
    """Write the cosines of some items with their ``count`` nearest ones, and with all that are as near as the last."""
    positive = np.empty(cosines.shape[1], np.float32)
    for place in range(cosines.shape[0]):
        row, inside = cosines[place], 0
        for owner in range(ends[first + place], ends[first + place + 1]):
            person, part = people[owner], parts[owner]
            for other in range(starts[person], starts[person + 1]):
                row[items[other]] += part * scaled[other]
        row[first + place] = 0
        for value in row:
            if value > 0:
                positive[inside] = value
                inside += 1
        if inside > count:
            least = np.partition(positive[:inside], inside - count)[inside - count]
            for other in range(row.size):
                row[other] = row[other] if row[other] >= least else 0


@compiled
def _add_sparse_rows(
    starts: Ints, items: Indices, ends: Ints, columns: Indices, values: NDArray[np.float32], sums: NDArray[np.float32]
) -> None:
    """Add sparse rows of likes to each person's sums, nearly all of which are above 0."""
    for person in range(sums.shape[0]):
        total = sums[person]
        for place in range(starts[person], starts[person + 1]):
            for other in range(ends[items[place]], ends[items[place] + 1]):
                total[columns[other]] += values[other]


def alternating(likes: Any, rank: int, ridge: float) -> Scorer:
    """Return weighted matrix factorisation of likes (people, N) by alternating least squares, by `implicit`."""
    from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415 (an extra)

    def weighed(of: Any) -> Any:
        return sparse.csr_matrix((of.data * (1 + CONFIDENCE), of.indices, of.indptr), of.shape, np.float32)

    with threadpool_limits(limits=1, user_api="blas"):
        model = AlternatingLeastSquares(
            factors=rank, regularization=ridge, num_threads=1, random_state=0, calculate_training_loss=False
        )
        model.fit(weighed(likes), show_progress=False)

    def scores(own: Any) -> Floats2:
        with threadpool_limits(limits=1, user_api="blas"):
            tastes = model.recalculate_user(np.arange(own.shape[0]), weighed(own))
        item_scores: Floats2 = np.asarray(tastes, np.float64) @ np.asarray(model.item_factors, np.float64).T
        return item_scores

    return scores


def decomposed(likes: Any, rank: int) -> Scorer:
    """Return the projection on the first right singular vectors of the likes."""
    *_, right = sparse.linalg.svds(likes.astype(np.float64), k=min(rank, min(likes.shape) - 1), random_state=0)
    return lambda own: (own @ right.T) @ right


def ease(likes: Any, ridge: float, counts: Floats2 | None = None) -> Scorer:
    """Return EASE of likes X (people, N): the ridge regression of every item on all others (Steck, WWW 2019).

    Where there are fewer people than items the inverse is taken among people, by Woodbury's identity:
    ``P = (X'X + r I)^-1 = (I - X'(XX' + r I)^-1 X) / r``. A device's scores are ``x - x P / diag P``. ``counts`` are
    `ease_counts` where several ridges share them.
    """
    people, items = likes.shape
    if people >= items > DENSE:
        of_many = of_many_items(likes, ridge)
        return lambda own: own @ of_many
    own_counts = counts is None
    counts = ease_counts(likes) if counts is None else counts
    if people >= items:
        return partial(sums_of_rows, of_gram(counts, ridge, overwrite=own_counts).astype(np.float32, copy=False))
    with one_thread():
        among = inverse_of(counts, ridge, overwrite=own_counts).astype(np.float32, copy=False)
    transposed = likes.T.tocsr()
    solved = sums_of_rows(among, transposed).T
    diagonal = 1 - likes.multiply(solved).sum(axis=0)
    if items <= DENSE:
        # A person's row of XX' is hardly sparse: by it scores take long. With a diagonal of 0 these are the same scores
        of_items = sums_of_rows(np.ascontiguousarray(solved / diagonal), transposed)
        np.fill_diagonal(of_items, 0)
        return partial(sums_of_rows, of_items)

    def scores(own: Any) -> Floats2:
        dense = own.toarray()
        item_scores: Floats2 = dense - (dense - (own @ likes.T) @ solved) / diagonal
        return item_scores

    return scores


def ease_counts(likes: Any) -> Floats2:
    """Return the matrix to which EASE adds a ridge: of items, or of people where there are fewer of them."""
    people, items = likes.shape
    return co_liked(likes if people >= items else likes.T.tocsr())


def _narrow_counts(likes: Any) -> Any:
    """Return `ease_counts` for choosing a ridge, which single precision tells in half the time."""
    return ease_counts(likes).astype(np.float32)


def sums_of_rows(weights: NDArray[np.float32], own: Any) -> Any:
    """Return ``own @ weights`` of people's likes, ones alone, float32, shape (people, N)."""
    sums = np.zeros((own.shape[0], weights.shape[1]), np.float32)
    _add_rows(own.indptr.astype(np.int64), own.indices, weights, sums)
    return sums


@compiled
def _add_rows(starts: Ints, items: Indices, weights: NDArray[np.float32], sums: NDArray[np.float32]) -> None:
    """Add rows of weights to each person's sums, some columns at a time: those of all rows stay near in the cache."""
    for first in range(0, sums.shape[1], _STRIP):
        _add_strip(starts, items, weights, sums, first, min(first + _STRIP, sums.shape[1]))


@borrowing
def _add_strip(
    starts: Ints, items: Indices, weights: NDArray[np.float32], sums: NDArray[np.float32], first: int, stop: int
) -> None:
    for person in range(sums.shape[0]):
        total, place, end = sums[person, first:stop], starts[person], starts[person + 1]
        while place + 4 <= end:  # four at a time, added one by one: the same sums, and half the time
            one, two = weights[items[place], first:stop], weights[items[place + 1], first:stop]
            three, four = weights[items[place + 2], first:stop], weights[items[place + 3], first:stop]
            for column in range(total.size):
                total[column] = (((total[column] + one[column]) + two[column]) + three[column]) + four[column]
            place += 4
        for rest in range(place, end):
            row = weights[items[rest], first:stop]
            for column in range(total.size):
                total[column] += row[column]


def co_liked(likes: Any) -> Floats2:
    """Return how many people like each two items, float64, shape (N, N)."""
    both = np.zeros((likes.shape[1], likes.shape[1]))
    add_pairs(
        likes.indptr.astype(np.int64), likes.indices.astype(np.int32), np.ones(likes.shape[0]), both
    )  # above the diagonal
    _mirror(both.T)
    np.fill_diagonal(both, likes.sum(axis=0))
    return both


def _mirror(lower: Floats2) -> None:
    """Make a matrix symmetric by what is below its diagonal, in place: a large one has no room beside it."""
    for first in range(0, len(lower), _BAND):
        band = slice(first, first + _BAND)
        lower[band, first + _BAND :] = lower[first + _BAND :, band].T
        square = np.tril(lower[band, band])
        lower[band, band] = square + np.tril(square, -1).T


def inverse_of(gram: Floats2, ridge: float, *, overwrite: bool = False) -> Floats2:
    """Return the inverse of a symmetric matrix plus a ridge; by Cholesky, in half the time, where it is positive."""
    whole = gram if overwrite else np.array(gram, order="C")
    np.fill_diagonal(whole, diagonal := np.diag(whole) + whole.dtype.type(ridge))
    if not _invert(whole):  # what is below its diagonal was not written
        _mirror(whole)
        np.fill_diagonal(whole, diagonal)
        return np.asarray(scipy.linalg.inv(whole))
    _mirror(whole.T)
    return whole


def _invert(matrix: Floats2 | NDArray[np.float32]) -> bool:
    """Write a symmetric matrix' inverse in the place of what is above its diagonal, if it is positive; return that."""
    assert matrix.flags.c_contiguous  # LAPACK reads it column by column, so that its lower part is our upper one
    size, failure = ctypes.c_int(len(matrix)), ctypes.c_int()
    for step in ("potrf", "potri"):
        if not failure.value:
            routine = _lapack(("s" if matrix.dtype == np.float32 else "d") + step)
            routine(b"L", ctypes.byref(size), matrix.ctypes.data, ctypes.byref(size), ctypes.byref(failure))
    return not failure.value


@cache
def _lapack(name: str) -> Any:
    """Return a function of LAPACK: ``scipy.linalg.lapack`` would hold the interpreter's lock for seconds."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(
        get_cython_function_address("scipy.linalg.cython_lapack", name)
    )


def ease_memory(people: int, items: int) -> int:
    """Return how many bytes EASE's matrices take, about."""
    if people >= items:
        return 4 * items**2 if items > DENSE else 16 * items**2
    return 24 * people**2 + 8 * people * items + (16 * items**2 if items <= DENSE else 0)


def of_many_items(likes: Any, ridge: float) -> NDArray[np.float32]:
    """Return EASE's weights of more than `DENSE` items: counts, their inverse and weights in turn in one matrix.

    A like counts once, so that single precision holds every count up to 2^24 exactly.
    """
    weights: NDArray[np.float32] = np.zeros((likes.shape[1], likes.shape[1]), np.float32)
    narrow: Any = weights  # the kernel takes either precision
    add_pairs(
        likes.indptr.astype(np.int64), likes.indices.astype(np.int32), np.ones(likes.shape[0]), narrow
    )  # above the diagonal
    weights.flat[:: len(weights) + 1] = likes.sum(axis=0) + ridge
    if not _invert(weights):
        raise InputError(f"ridge is {ridge:g}, too little in single precision; raise --ridge")
    _divide(weights, weights.diagonal().copy())
    return weights


@compiled
def _divide(inverse: NDArray[np.float32], diagonal: NDArray[np.float32]) -> None:
    """Make weights of an inverse's upper triangle in its place: the negative columns over the diagonal, and 0 there."""
    for first in range(0, diagonal.size, _TILE):
        for second in range(first, diagonal.size, _TILE):  # a tile and its mirror image fit into the cache
            for i in range(first, min(first + _TILE, diagonal.size)):
                for j in range(max(second, i + 1), min(second + _TILE, diagonal.size)):
                    value = -inverse[i, j]
                    inverse[i, j], inverse[j, i] = value / diagonal[j], value / diagonal[i]
    for i in range(diagonal.size):
        inverse[i, i] = 0


RIDGE, RANK = 200.0, 16  # Where nothing is chosen
RIDGES = tuple(RIDGE * 2.0**power for power in range(-5, 6))
RANKS = (2, 4, 8, RANK, 32, 64, 128)
VALIDATED = 0.2  # Share of likes on which a constant is chosen
_CHOOSERS, _CHOOSABLE = 1_000, 8_000  # People whose lists are looked at; of a larger matrix nothing is chosen
_LIKED = 2_000  # The most liked items, on which constants are chosen where there are more of them, and of people


class TunableModel(NamedTuple):
    """A model of items that is fitted to likes."""

    fit: Callable[..., Scorer]  # From likes (people, N), its one constant, and what `shared` makes of these likes
    constant: str  # Which setting that is
    values: Sequence[float] = ()  # Among which it is chosen where the setting leaves it open
    otherwise: float = 0.0  # What it is where there are too many people and items to try several
    shared: Callable[[Any], tuple[Any, ...]] = lambda _: ()  # What fits with several constants have in common


MODELS = {
    "item kNN": TunableModel(lambda likes, count: neighbours(likes, int(count)), "neighbours"),
    "SVD": TunableModel(lambda likes, rank: decomposed(likes, int(rank)), "rank", RANKS, RANK),
    "EASE": TunableModel(ease, "ridge", RIDGES, RIDGE, lambda likes: (_narrow_counts(likes),)),
    "ALS": TunableModel(lambda likes, rank: alternating(likes, int(rank), 1.0), "rank", (), RANK),
}
"""Models by their names in tables."""
LIFTS = "lifts with set"  # The row whose kappa is chosen likewise


def fit_model(name: str, likes: Any, request: RowRequest) -> tuple[Scorer, float]:
    """Return a model of likes (people, N), and its constant: as declared, or as a part of these likes chooses it."""
    model = MODELS[name]
    value = getattr(request.settings, model.constant)
    if value is None:
        tunable = model.values and 1 < min(likes.shape) <= _CHOOSABLE
        value = chosen_constant(model, likes, request.seed) if tunable else model.otherwise
    return model.fit(likes, value), float(value)


def chosen_constant(model: TunableModel, likes: Any, seed: int) -> float:
    """Return the constant whose lists have most of the likes that are hidden from them: a fifth of those given.

    It goes from the usual value to better neighbours among the values until both are worse.
    """
    coins = np.random.default_rng(int.from_bytes(derive(seed, f"constant {model.constant}")))
    if min(likes.shape) > _LIKED:  # the time goes with the third power of items, and most likes are of these
        likes = likes[:, np.sort(np.argsort(-likes.sum(axis=0), kind="stable")[:_LIKED])]
    hidden = coins.random(likes.nnz) < VALIDATED
    shown, masked = likes.copy(), likes.copy()
    shown.data, masked.data = np.where(hidden, 0, likes.data), np.where(hidden, 1, 0)
    shown.eliminate_zeros()
    masked.eliminate_zeros()
    people = np.flatnonzero((np.diff(masked.indptr) > 0) & (np.diff(shown.indptr) > 0))
    people = np.sort(coins.permutation(people)[:_CHOOSERS])
    if not people.size or not shown.nnz:
        return model.otherwise

    shared = model.shared(shown)

    @cache
    def share(place: int) -> float:
        return _share_of_hidden(model.fit(shown, model.values[place], *shared), shown[people], masked[people])

    place = model.values.index(model.otherwise)
    while True:
        near = [one for one in (place, place - 1, place + 1) if 0 <= one < len(model.values)]
        best = max(near, key=share)  # of equal ones the first: where nothing is better it stays
        if best == place:
            return model.values[place]
        place = best


def _share_of_hidden(scorer: Scorer, shown: Any, masked: Any) -> float:
    """Return the mean share of hidden likes, of ten at most, that lists of ten have."""
    rows = max(1, _COLUMNS // shown.shape[1])
    shares = []
    for first in range(0, shown.shape[0], rows):
        own, hidden = shown[first : first + rows], masked[first : first + rows].toarray() > 0
        scores = np.where(own.toarray() > 0, -np.inf, scorer(own))
        length = min(10, scores.shape[1])
        top = np.argpartition(-scores, length - 1, axis=1)[:, :length]
        hits = np.take_along_axis(hidden, top, axis=1).sum(axis=1)
        shares.append(hits / np.minimum(hidden.sum(axis=1), length))
    return float(np.concatenate(shares).mean())


@one_thread()  # with two the last digits are others, and threads wait for each other
def of_gram(gram: Floats2, ridge: float, *, overwrite: bool = False) -> Floats2:
    """Return EASE's weights from co-occurrences, shape (N, N): from the liked item (row) to the scored one."""
    weights = inverse_of(gram, ridge, overwrite=overwrite)
    weights /= -np.diag(weights).copy()
    np.fill_diagonal(weights, 0)
    return weights


def pair_constants(settings: Comparison, items: int) -> dict[str, int]:
    """Return how many items' pairs, and how many of a person's likes, are counted, by curators and devices alike."""
    return {"pair_items": settings.top, "pair_likes": min(settings.co_liked, settings.top, items)}


def pair_design(settings: Comparison, items: int) -> LikedPairs:
    """Return the design of queries about pairs, whose M and w a curator uses, too."""
    return LikedPairs(items=items, rated=min(settings.likes, items), **pair_constants(settings, items))


def pair_advice(
    model: ItemToItem, popularity: Floats, ties: Ints, *, noise: float, simulated: str | None = None
) -> LearnedScores:
    """Return scores by a model of noisy pairs: first the model's items, then all others by popularity.

    ``ties`` is a permutation of all items: many shares are equal where few people answered, and by number they would
    come as the file has its items. ``noise`` is the standard error of popularity.
    """
    behind = popularity - popularity.max() - 1

    def inside_pool(own: Any) -> Floats2:
        inside: Floats2 = own[:, model.pool] @ model.weights
        return inside

    def scores(own: Any) -> Floats2:
        inside = inside_pool(own)
        everything: Floats2 = inside.min(axis=1)[:, None] + np.broadcast_to(behind, (len(inside), popularity.size))
        everything[:, model.pool] = inside
        return everything

    order = public_order(model, popularity, ties)
    return LearnedScores(
        popularity=popularity,
        floor=LEAST_SCORE,
        noise=noise,
        scorer=scores,
        order=order,
        simulated=simulated,
        before=(model.pool, inside_pool),
    )
