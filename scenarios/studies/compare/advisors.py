"""Item models that a device applies to its own likes: neighbours, a truncated decomposition, EASE, noisy pairs."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from actors.advice import public_order
from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import LEAST_SCORE, ItemToItem
from coordinator.protocol.mechanisms.sets import LikedPairs
from scenarios.data.people import add_pairs
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import LearnedScores, RowRequest, Scorer

CONFIDENCE = 10.0  # The additional weight of a like in alternating least squares
DENSE = 8_000  # Up to this many items EASE's matrix is in double precision, and of items though people are fewer
_BAND = 256  # Rows of a matrix that are mirrored at a time
_STRIP = 512  # Columns of a matrix that are added at a time
_COLUMNS = 1 << 25  # Number of similarities that are computed at a time
Matrix = NDArray[Any]  # In single or double precision


def neighbours(likes: Any, count: int) -> Scorer:
    """Return item kNN of likes (people, N): a score sums the cosines with the liked ones of ``count`` neighbours."""
    sizes = np.sqrt(likes.sum(axis=0))
    scaled = (likes / np.where(sizes > 0, sizes, 1)).tocsr().astype(np.float32)
    blocks, items, size = [], likes.shape[1], max(1, _COLUMNS // likes.shape[1])
    for first in range(0, items, size):
        cosines = (scaled[:, first : first + size].T @ scaled).tocsr()
        near = cosines.indices != np.repeat(np.arange(first, first + cosines.shape[0]), np.diff(cosines.indptr))
        for start, stop in pairwise(cosines.indptr):
            # And all that are as near as the last
            row, there = cosines.data[start:stop], near[start:stop]
            if (number := np.count_nonzero(there)) > count:
                there &= row >= np.partition(row[there], number - count)[number - count]
        cosines.data[~near] = 0
        cosines.eliminate_zeros()
        blocks.append(cosines)
    to_items = sparse.vstack(blocks).T.tocsr()
    return lambda ratings: (ratings @ to_items).toarray()


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

    def scores(ratings: Any) -> Floats2:
        with threadpool_limits(limits=1, user_api="blas"):
            tastes = model.recalculate_user(np.arange(ratings.shape[0]), weighed(ratings))
        item_scores: Floats2 = np.asarray(tastes, np.float64) @ np.asarray(model.item_factors, np.float64).T
        return item_scores

    return scores


def decomposed(likes: Any, rank: int) -> Scorer:
    """Return the projection on the first right singular vectors of the likes."""
    *_, right = sparse.linalg.svds(likes.astype(np.float64), k=min(rank, min(likes.shape) - 1), random_state=0)
    return lambda ratings: (ratings @ right.T) @ right


def ease_of_likes(likes: Any, ridge: float, counts: Matrix | None = None) -> Scorer:
    """Return EASE of likes X (people, N): the ridge regression of every item on all others (Steck, WWW 2019).

    A device's scores are ``x - x P / diag P`` of ``P = (X'X + r I)^-1``. Where there are fewer people than items the
    inverse is taken among people, by Woodbury's identity ``P = (I - X'(XX' + r I)^-1 X) / r``. ``counts`` are
    `ease_counts` where several ridges share them.
    """
    people, items = likes.shape
    counts = ease_counts(likes) if counts is None else counts.copy()
    if people >= items:
        return partial(sums_of_rows, of_gram(counts, ridge).astype(np.float32, copy=False))
    with one_thread():
        among = inverse_of(counts, ridge).astype(np.float32, copy=False)
    transposed = likes.T.tocsr()
    solved = sums_of_rows(among, transposed).T
    diagonal = 1 - likes.multiply(solved).sum(axis=0)
    if items <= DENSE:
        # A person's row of XX' is hardly sparse: by it scores take long. With a diagonal of 0 these are the same scores
        of_items = sums_of_rows(np.ascontiguousarray(solved / diagonal), transposed)
        np.fill_diagonal(of_items, 0)
        return partial(sums_of_rows, of_items)

    def scores(ratings: Any) -> Floats2:
        dense = ratings.toarray()
        item_scores: Floats2 = dense - (dense - (ratings @ likes.T).toarray() @ solved) / diagonal
        return item_scores

    return scores


def ease_counts(likes: Any) -> Matrix:
    """Return the matrix to which EASE adds a ridge: of items, or of people where there are fewer of them."""
    people, items = likes.shape
    return co_liked(likes if people >= items else likes.T.tocsr())


def sums_of_rows(weights: NDArray[np.float32], ratings: Any) -> Any:
    """Return ``own @ weights`` of people's likes, ones alone, float32, shape (people, N)."""
    sums = np.zeros((ratings.shape[0], weights.shape[1]), np.float32)
    _add_rows(ratings.indptr.astype(np.int64), ratings.indices, weights, sums)
    return sums


@compiled
def _add_rows(starts: Ints, items: Indices, weights: NDArray[np.float32], sums: NDArray[np.float32]) -> None:
    """Add rows of weights to each person's sums, as scipy does, in half its time: strips of rows stay in the cache."""
    for first in range(0, sums.shape[1], _STRIP):
        stop = min(first + _STRIP, sums.shape[1])
        for person in range(sums.shape[0]):
            total = sums[person, first:stop]
            for at in range(starts[person], starts[person + 1]):
                row = weights[items[at], first:stop]
                for column in range(total.size):
                    total[column] += row[column]


def co_liked(likes: Any) -> Matrix:
    """Return how many people like each two items, shape (N, N); single precision, too, holds every count exactly."""
    counts: Any = np.zeros((likes.shape[1],) * 2, np.float32 if likes.shape[1] > DENSE else np.float64)
    likes = likes.sorted_indices()
    add_pairs(likes.indptr.astype(np.int64), likes.indices.astype(np.int32), np.ones(likes.shape[0]), counts)
    _mirror(counts.T)  # they are above the diagonal
    np.fill_diagonal(counts, likes.sum(axis=0))
    return np.asarray(counts)


def inverse_of(gram: Matrix, ridge: float) -> Matrix:
    """Return the inverse of a symmetric matrix plus a ridge, in its place; by Cholesky where it is positive."""
    gram = np.ascontiguousarray(gram)
    np.fill_diagonal(gram, diagonal := np.diag(gram) + gram.dtype.type(ridge))
    lapack: Any = scipy.linalg.lapack.get_lapack_funcs(("potrf", "potri"), (gram,))
    factor, invert = lapack
    # LAPACK reads it column by column, so that its lower part is our upper one
    _, failure = factor(gram.T, lower=1, overwrite_a=1, clean=0)
    if failure:  # what is below our diagonal was not written
        _mirror(gram)
        np.fill_diagonal(gram, diagonal)
        if len(gram) > DENSE:
            raise InputError(f"ridge is {ridge:g}, too little in single precision; raise --ridge")
        return np.asarray(scipy.linalg.inv(gram))
    invert(gram.T, lower=1, overwrite_c=1)
    _mirror(gram.T)
    return gram


def _mirror(lower: Matrix) -> None:
    """Make a matrix symmetric by what is below its diagonal, in place: a large one has no room beside it."""
    for first in range(0, len(lower), _BAND):
        band = slice(first, first + _BAND)
        lower[band, first + _BAND :] = lower[first + _BAND :, band].T
        square = np.tril(lower[band, band])
        lower[band, band] = square + np.tril(square, -1).T


def ease_memory(people: int, items: int) -> int:
    """Return how many bytes EASE's matrices take, about."""
    if people >= items:
        return 4 * items**2 if items > DENSE else 16 * items**2
    return 24 * people**2 + 8 * people * items + (16 * items**2 if items <= DENSE else 0)


@one_thread()  # with two the last digits are others, and threads wait for each other
def of_gram(gram: Matrix, ridge: float) -> Matrix:
    """Return EASE's weights from co-occurrences, shape (N, N), in their place: from the liked item (row)."""
    weights = inverse_of(gram, ridge)
    weights /= -np.diag(weights).copy()
    np.fill_diagonal(weights, 0)
    return weights


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
    "EASE": TunableModel(ease_of_likes, "ridge", RIDGES, RIDGE, lambda likes: (ease_counts(likes).astype(np.float32),)),
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
    def share(index: int) -> float:
        return _share_of_hidden(model.fit(shown, model.values[index], *shared), shown[people], masked[people])

    index = model.values.index(model.otherwise)
    while True:
        near = [neighbour for neighbour in (index, index - 1, index + 1) if 0 <= neighbour < len(model.values)]
        best = max(near, key=share)  # of equal ones the first: where nothing is better it stays
        if best == index:
            return model.values[index]
        index = best


def _share_of_hidden(scorer: Scorer, shown: Any, masked: Any) -> float:
    """Return the mean share of hidden likes, of ten at most, that lists of ten have."""
    rows = max(1, _COLUMNS // shown.shape[1])
    shares = []
    for first in range(0, shown.shape[0], rows):
        ratings, hidden = shown[first : first + rows], masked[first : first + rows].toarray() > 0
        scores = np.where(ratings.toarray() > 0, -np.inf, scorer(ratings))
        length = min(10, scores.shape[1])
        top = np.argpartition(-scores, length - 1, axis=1)[:, :length]
        hits = np.take_along_axis(hidden, top, axis=1).sum(axis=1)
        shares.append(hits / np.minimum(hidden.sum(axis=1), length))
    return float(np.concatenate(shares).mean())


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

    def inside_pool(ratings: Any) -> Floats2:
        inside: Floats2 = ratings[:, model.pool] @ model.weights
        return inside

    def scores(ratings: Any) -> Floats2:
        inside = inside_pool(ratings)
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
