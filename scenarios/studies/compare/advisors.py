"""Item models that a device applies to its own likes: neighbours, a truncated decomposition, EASE, noisy pairs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from scipy import sparse
from threadpoolctl import threadpool_limits

from actors.advice import public_order
from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.item_models import LEAST_SCORE, ItemToItem
from coordinator.server.decoding.threads import one_thread
from coordinator.server.mechanisms.sets import LikedPairs
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import LearnedScores, Scorer

CONFIDENCE = 10.0  # The additional weight of a like in alternating least squares
DENSE = 8_000  # Up to this many items weights are a dense matrix where there are fewer people, 256 MB of float32
_COLUMNS = 1 << 25  # Number of similarities that are computed at a time


def neighbours(likes: Any, count: int) -> Scorer:
    """Return item kNN of likes (people, N): a score sums the cosines with the liked ones of ``count`` neighbours."""
    sizes = np.sqrt(likes.sum(axis=0))
    scaled = (likes / np.where(sizes > 0, sizes, 1)).tocsc()
    blocks, items = [], likes.shape[1]
    for first in range(0, items, max(1, _COLUMNS // items)):
        stop = min(first + max(1, _COLUMNS // items), items)
        cosines = (scaled[:, first:stop].T @ scaled).tocsr()
        cosines.data[cosines.indices == np.repeat(np.arange(first, stop), np.diff(cosines.indptr))] = 0
        for row in np.flatnonzero(np.diff(cosines.indptr) > count):
            cosines_of_row = cosines.data[cosines.indptr[row] : cosines.indptr[row + 1]]  # shares memory
            cosines_of_row[
                cosines_of_row < np.partition(cosines_of_row, cosines_of_row.size - count)[cosines_of_row.size - count]
            ] = 0
        cosines.eliminate_zeros()
        blocks.append(cosines)
    to_items = sparse.vstack(blocks).T.tocsr()
    return lambda own: (own @ to_items).toarray()


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


@one_thread()
def ease(likes: Any, ridge: float) -> Scorer:
    """Return EASE of likes X (people, N): the ridge regression of every item on all others (Steck, WWW 2019).

    Where there are fewer people than items the inverse is taken among people, by Woodbury's identity:
    ``P = (X'X + r I)^-1 = (I - X'(XX' + r I)^-1 X) / r``. A device's scores are ``x - x P / diag P``.
    """
    people, items = likes.shape
    if people >= items:
        weights = of_gram((likes.T @ likes).toarray().astype(np.float64), ridge)
        return lambda own: own @ weights
    among = scipy.linalg.inv((likes @ likes.T).toarray() + ridge * np.eye(people))
    solved = likes.T.dot(among.astype(np.float32)).T
    diagonal = 1 - likes.multiply(solved).sum(axis=0)
    if items <= DENSE:
        # A person's row of XX' is hardly sparse: by it scores take long. With a diagonal of 0 these are the same scores
        of_items: Floats2 = likes.T @ (solved / diagonal)
        np.fill_diagonal(of_items, 0)
        return lambda own: own @ of_items

    def scores(own: Any) -> Floats2:
        dense = own.toarray()
        item_scores: Floats2 = dense - (dense - (own @ likes.T) @ solved) / diagonal
        return item_scores

    return scores


MODELS: dict[str, Callable[[Any, Comparison], Scorer]] = {
    "item kNN": lambda likes, settings: neighbours(likes, settings.neighbours),
    "SVD": lambda likes, settings: decomposed(likes, settings.rank),
    "EASE": lambda likes, settings: ease(likes, settings.ridge),
    "ALS": lambda likes, settings: alternating(likes, settings.rank, 1.0),
}
"""Models of items that are fitted to likes with the constants, by their names in tables."""


@one_thread()  # with two the last digits are others, and threads wait for each other
def of_gram(gram: Floats2, ridge: float) -> Floats2:
    """Return EASE's weights from co-occurrences, shape (N, N): from the liked item (row) to the scored one."""
    inverse = scipy.linalg.inv(gram + ridge * np.eye(len(gram)))
    weights: Floats2 = -inverse / np.diag(inverse)
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
