"""Scores of results: item clusterings against the truth, lists against likes, and the worth of devices' advice."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats, Floats2, Indices, Indices2, Ints
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.rating_table import RowTable, starts_of
from scenarios.data.rating_split import Split


def best_matching(worth: Floats | Ints) -> tuple[Ints, Ints]:
    """Return the rows and the columns of the pairs whose worth sums to most; of equal ones SciPy's.

    Shapes: ``worth`` (L, M).

    >>> best_matching(np.array([[1, 3], [2, 1]]))[1].tolist()
    [1, 0]
    """
    # nearly always two and two; SciPy's optimizers load in a fifth of a second
    if worth.shape == (2, 2) and np.isfinite(worth).all():
        first = 0 if worth[0, 0] >= worth[0, 1] else 1
        other = 1 - first
        stays = worth[1, other] >= worth[1, first] + worth[0, other] - worth[0, first]
        return np.arange(2), np.array([first, other] if stays else [other, first])
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 (only where it is needed)

    rows, columns = linear_sum_assignment(worth, maximize=True)
    return rows.astype(np.int64), columns.astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringScores:
    """Agreement of two clusterings of the same items."""

    accuracy: float
    exact: bool
    ari: float
    nmi: float


@dataclass(frozen=True, slots=True)
class RankingScores:
    """Quality of top-k recommendations over the evaluated users: those with at least one held-out item."""

    hit_rate: float
    hit_rate_error: float
    ndcg: float
    ndcg_error: float
    evaluated: int


def contingency(predicted: Ints | Indices, truth: Ints | Indices) -> Ints:
    """Return how many items have each predicted label (rows) and each true one (columns), labels in ascending order."""
    rows, row = np.unique(predicted, return_inverse=True)
    columns, column = np.unique(truth, return_inverse=True)
    counts = np.bincount(row * columns.size + column, minlength=rows.size * columns.size)
    return counts.reshape(rows.size, columns.size).astype(np.int64)


def adjusted_rand(counts: Ints) -> float:
    """Return the adjusted Rand index of two clusterings (Hubert and Arabie, 1985) from their `contingency`."""
    total = int(counts.sum())
    cells = (counts.ravel(), counts.sum(axis=1), counts.sum(axis=0))
    both, in_rows, in_columns = (sum(count * (count - 1) for count in numbers.tolist()) for numbers in cells)
    expected, most = in_rows * in_columns, (in_rows + in_columns) * total * (total - 1)
    return 1.0 if most == 2 * expected else 2 * (both * total * (total - 1) - expected) / (most - 2 * expected)


def normalized_information(counts: Ints) -> float:
    """Return the mutual information of two clusterings over the mean of their entropies, from their `contingency`."""
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    if rows.size == columns.size == 1:
        return 1.0
    shares = counts / counts.sum()
    filled = shares > 0
    apart = np.outer(rows, columns)[filled] / counts.sum() ** 2
    information = float((shares[filled] * np.log(shares[filled] / apart)).sum())
    return max(0.0, 2 * information / (_entropy(rows) + _entropy(columns)))


def _entropy(counts: Ints) -> float:
    shares = counts[counts > 0] / counts.sum()
    return -float((shares * np.log(shares)).sum())


def clustering_scores(predicted: Ints | Indices, truth: Ints | Indices) -> ClusteringScores:
    """Score a clustering of the items against the true one.

    Shapes: ``predicted`` (N,); ``truth`` (N,).

    >>> clustering_scores(np.array([7, 7, 3, 3]), np.array([0, 0, 1, 0])).accuracy
    0.75
    """
    if predicted.shape != truth.shape or predicted.ndim != 1 or predicted.size == 0:
        raise InputError(f"labels of shape {predicted.shape} against {truth.shape}; give one label an item in both")
    counts = contingency(predicted, truth)
    right = int(counts[best_matching(counts)].sum())
    return ClusteringScores(
        accuracy=right / predicted.size,
        exact=right == predicted.size,
        ari=adjusted_rand(counts),
        nmi=normalized_information(counts),
    )


def ranking_scores(recommended: Ints | Indices, holdout: RowTable[Any]) -> RankingScores:
    """Score top-k recommendations against held-out items.

    Shapes: ``recommended`` (users, k).

    ``DCG = sum of 1 / log2(1 + rank)`` over the hits, ranks from 1, divided by its largest value for
    ``min(k, held-out items)`` hits (Järvelin and Kekäläinen, 2002).

    >>> holdout = RowTable(starts=np.array([0, 1, 2]), items=np.array([2, 3], np.int32), values=None, count=5)
    >>> scores = ranking_scores(np.array([[4, 2], [1, -1]]), holdout)
    >>> scores.hit_rate, round(scores.ndcg, 3)
    (0.5, 0.315)
    """
    _check_ranking(recommended, holdout)
    evaluated = np.flatnonzero(holdout.degrees)
    if not evaluated.size:
        raise InputError(f"none of the {holdout.users} users has a held-out item; hold out at least one")
    stride = 1 + int(holdout.items.max())
    once = np.unique(holdout.owners * stride + holdout.items)  # whatever is named twice counts once
    starts = starts_of(np.bincount(once // stride, minlength=holdout.users))
    rows = RowTable(starts=starts, items=(once % stride).astype(np.int32), values=None, count=holdout.count)
    per_person = scores_per_person(recommended[evaluated], rows.of(evaluated))
    hit_rate, ndcg = (_mean_and_error(per_person[name]) for name in ("hit_rate", "ndcg"))
    return RankingScores(*hit_rate, *ndcg, evaluated.size)


def scores_per_person(lists: Ints | Indices, holdout: RowTable[Any]) -> dict[str, Floats]:
    """Return hit, NDCG and recall of each person, by lists of shape (people, k), best first, filled up with -1."""
    people, places = lists.shape
    relevant, hits = holdout.degrees, np.zeros((people, places))
    _hits(holdout.starts, holdout.items, lists.astype(np.int32).reshape(people, places), hits)
    gains = 1 / np.log2(np.arange(2, places + 2))
    ideal = np.cumsum(gains)[np.minimum(relevant, places) - 1]
    return {"hit_rate": hits.max(axis=1), "ndcg": hits @ gains / ideal, "recall": hits.sum(axis=1) / relevant}


@compiled
def _hits(starts: Ints, items: Indices, lists: Indices2, hits: Floats2) -> None:
    """Write 1 where a list's item is among those that its person held out."""
    for row in range(lists.shape[0]):
        for position in range(lists.shape[1]):
            for relevant in items[starts[row] : starts[row + 1]]:
                if relevant == lists[row, position]:
                    hits[row, position] = 1.0


@compiled
def first_unrated(order: Indices, starts: Ints, rated: Indices, k: int) -> Indices2:
    """Return everybody's first ``k`` items of an order without those that they rated, int32; -1 fills them up."""
    lists = np.full((starts.size - 1, k), -1, np.int32)
    hidden = np.zeros(order.size, np.bool_)
    for person in range(starts.size - 1):
        rated_items = rated[starts[person] : starts[person + 1]]
        hidden[rated_items] = True
        size = 0
        for item in order:
            if size == k:
                break
            if not hidden[item]:
                lists[person, size] = item
                size += 1
        hidden[rated_items] = False
    return lists


def _check_ranking(recommended: Ints | Indices, holdout: RowTable[Any]) -> None:
    """Refuse arrays that do not fit together."""
    if recommended.ndim != 2 or recommended.shape[1] == 0:
        raise InputError(f"recommended has shape {recommended.shape}; give (users, k) with k at least 1")
    if holdout.users != len(recommended):
        raise InputError(
            f"{len(recommended)} users have lists and {holdout.users} held-out items; give lists to the same users"
        )
    ranked: Ints = np.sort(recommended.astype(np.int64), axis=1)
    twice = np.any((np.diff(ranked, axis=1) == 0) & (ranked[:, 1:] >= 0), axis=1)
    if bool(twice.any()):
        raise InputError(f"user {int(twice.argmax())} is recommended an item twice; drop repeats")


def _mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(values.mean()), float(values.std()) / math.sqrt(values.size)


ADVICE = (
    "hit_rate", "hit_rate_error", "ndcg", "ndcg_error", "popularity_hit_rate", "popularity_ndcg", "random_hit_rate",
    "random_ndcg",
)  # fmt: skip
"""The scores of advice."""
FEWEST_RATERS = 5  # Items with fewer ratings do not count for taste
NOISE = 0.05  # Clusters that agree less than this with those of the run without noise (adjusted Rand index) are noise
CHANCE, SHUFFLES = 0.001, 1999
"""The largest probability that shuffled labels explain as much, for an explanation to count; number of shuffles."""
_AT_ONCE = 1 << 14  # Shuffled labels that are looked at together
LEAST = 0.05  # The least share of the variance for an explanation to count: among many items chance explains far less


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How far item clusters reflect popularity and taste."""

    popularity: float  # Share of the variance of the items' numbers of ratings that lies between clusters, 0 to 1
    taste: float  # The same for the share of likes among an item's ratings, items with five ratings or more
    noiseless_ari: float  # Adjusted Rand index with the clusters of the same run at epsilon infinity
    by_chance: tuple[float, float]  # Probability that shuffled labels explain as much of popularity, and of taste

    @property
    def verdict(self) -> str:
        """``"noise"``, ``"popularity"`` or ``"taste"``: whichever they explain best, if it counts."""
        shares = {"taste": self.taste, "popularity": self.popularity}
        chances = {"taste": self.by_chance[1], "popularity": self.by_chance[0]}
        strong = [name for name in shares if shares[name] >= LEAST and chances[name] <= CHANCE]
        return max(strong, key=shares.__getitem__) if strong and self.noiseless_ari >= NOISE else "noise"


def share_between(values: Floats, cluster: Indices) -> float:
    """Return the share of the values' variance that lies between clusters (eta squared); 0 where there is none."""
    return float(_shares_of(values, cluster[None])[0])


def _shares_of(values: Floats, labellings: Indices2) -> Floats:
    """Return the share of every row of labels, which are the same ones in another order."""
    if values.size == 0 or (spread := values.var()) == 0:
        return np.zeros(len(labellings))
    sizes, rows = np.bincount(labellings[0]), len(labellings)
    keys = labellings + (sizes.size * np.arange(rows))[:, None]
    sums = np.bincount(keys.ravel(), np.tile(values, rows), sizes.size * rows).reshape(rows, sizes.size)
    means = sums / np.maximum(sizes, 1)
    return np.asarray((sizes * (means - values.mean()) ** 2).sum(axis=1) / values.size / spread)


def chance_of(values: Floats, cluster: Indices) -> float:
    """Return the probability that shuffled labels explain as much of the values' variance, by a permutation test."""
    # Popularity has a long tail, so that a small cluster of chance explains more of it than an F test allows. The
    # labels count as one more shuffle, so that the test is valid.
    observed, generator, above = share_between(values, cluster), np.random.default_rng(0), 0
    most = max(1, _AT_ONCE // max(1, values.size))
    for first in range(0, SHUFFLES, most):
        shuffled = [generator.permutation(cluster) for _ in range(min(most, SHUFFLES - first))]
        above += int((_shares_of(values, np.array(shuffled)) >= observed * (1 - 1e-9)).sum())
    return (1 + above) / (1 + SHUFFLES)


def what_clusters_follow(cluster: Indices, noiseless: Indices, split: Split) -> Following:
    """Say whether clusters follow popularity or taste, against the same run without noise."""
    likes = split.popularity
    raters = split.train.raters
    rated_items = raters >= FEWEST_RATERS
    popularity = raters.astype(float), cluster
    taste = (likes / np.maximum(raters, 1))[rated_items], cluster[rated_items]
    return Following(
        popularity=share_between(*popularity),
        taste=share_between(*taste),
        noiseless_ari=adjusted_rand(contingency(cluster, noiseless)),
        by_chance=(chance_of(*popularity), chance_of(*taste)),
    )


def score_advice(advice: Indices, ratings: StoredRatings, split: Split) -> dict[str, Any]:
    """Score the devices' own recommendations, shape (devices, k), on held-out likes, beside popularity and chance."""
    devices, k = advice.shape
    user = ratings.user[:devices]
    holdout = split.holdout.of(user)
    sizes = holdout.degrees
    if not sizes.any():
        return {**dict.fromkeys(ADVICE), "evaluated": 0}
    rated = split.train.of(user)
    popular = ranking_scores(first_unrated(split.popular, rated.starts, rated.items, k), holdout)
    unrated = split.train.count - split.train.degrees[user]
    hit_rate, ndcg = _by_chance(unrated[sizes > 0], sizes[sizes > 0], k)
    return {
        **asdict(ranking_scores(advice, holdout)),
        "popularity_hit_rate": popular.hit_rate,
        "popularity_ndcg": popular.ndcg,
        "random_hit_rate": hit_rate,
        "random_ndcg": ndcg,
    }


def _by_chance(unrated: Ints, holdout: Ints, k: int) -> tuple[float, float]:
    """Return expected hit rate and NDCG of k items at random out of each user's unrated ones."""
    places = np.minimum(k, unrated)
    missed = np.exp(_log_choose(unrated - holdout, places) - _log_choose(unrated, places))
    gains = np.cumsum(1 / np.log2(np.arange(2, k + 2)))
    best = gains[np.minimum(holdout, k) - 1]
    return float(1 - missed.mean()), float((holdout / unrated * gains[places - 1] / best).mean())


def _log_choose(total: Ints, subset: Ints) -> Floats:
    chances = scipy.special.betaln(subset + 1.0, np.maximum(total - subset, 0) + 1.0)
    return np.where(total >= subset, -np.log1p(total) - chances, -np.inf)
