"""Scores on real catalogues: whether item clusters reflect popularity or taste, and the worth of devices' advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from actors.advice import recommend
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.messages import Model
from scenarios.data.metrics import RankingScores, adjusted_rand, contingency, ranking_scores
from scenarios.data.rating_split import Split

ADVICE = (
    "hit_rate",
    "hit_rate_error",
    "ndcg",
    "ndcg_error",
    "popularity_hit_rate",
    "popularity_ndcg",
    "random_hit_rate",
    "random_ndcg",
)
"""The scores of advice."""
FEWEST_RATERS = 5
"""Items with fewer ratings do not count for taste."""
NOISE = 0.05
"""Clusters that agree less than this with those of the run without noise (adjusted Rand index) are noise."""
CHANCE, SHUFFLES = 0.001, 1999
"""The largest probability that shuffled labels explain as much, for an explanation to count; number of shuffles."""
LEAST = 0.05
"""The least share of the variance for an explanation to count: among many items chance explains far less."""


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
    if values.size == 0 or (spread := values.var()) == 0:
        return 0.0
    sizes = np.bincount(cluster)
    means = np.bincount(cluster, weights=values) / np.maximum(sizes, 1)
    return float((sizes * (means - values.mean()) ** 2).sum() / values.size / spread)


def chance_of(values: Floats, cluster: Indices) -> float:
    """Return the probability that shuffled labels explain as much of the values' variance, by a permutation test.

    Popularity has a long tail, so that a small cluster of chance explains more of it than an F test allows. The
    shuffles are `SHUFFLES`, of a fixed seed; the labels themselves count as one more, so that the test is valid.
    """
    observed, generator = share_between(values, cluster), np.random.default_rng(0)
    shuffled = (share_between(values, generator.permutation(cluster)) for _ in range(SHUFFLES))
    return (1 + sum(share >= observed * (1 - 1e-9) for share in shuffled)) / (1 + SHUFFLES)


def what_clusters_follow(cluster: Indices, noiseless: Indices, split: Split) -> Following:
    """Say whether clusters follow popularity or taste, against the same run without noise."""
    items = split.train.count
    likes = np.bincount(split.train.items[split.likes], minlength=items)
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
    """Score the devices' own recommendations on held-out likes, beside popularity and chance.

    Shapes: ``advice`` (devices, k).
    """
    devices, k = advice.shape
    user = ratings.user[:devices]
    holdout = split.holdout.of(user)
    sizes = holdout.degrees
    if not sizes.any():
        return {**dict.fromkeys(ADVICE), "evaluated": 0}
    popular = ranking_scores(_by_popularity(ratings, split, devices, k), holdout)
    unrated = split.train.count - split.train.degrees[user]
    hit_rate, ndcg = _by_chance(unrated[sizes > 0], sizes[sizes > 0], k)
    return {
        **_named("", ranking_scores(advice, holdout)),
        "popularity_hit_rate": popular.hit_rate,
        "popularity_ndcg": popular.ndcg,
        "random_hit_rate": hit_rate,
        "random_ndcg": ndcg,
    }


def _named(prefix: str, scores: RankingScores) -> dict[str, Any]:
    names = ("hit_rate", "hit_rate_error", "ndcg", "ndcg_error", "evaluated")
    return {prefix + name: getattr(scores, name) for name in names}


def _by_popularity(ratings: StoredRatings, split: Split, devices: int, k: int) -> Indices:
    items = split.train.count
    likes = np.bincount(split.train.items[split.likes], minlength=items).astype(float)
    one = Model(cluster=np.zeros(items, np.int32), score=likes, error=np.zeros(items), clusters=1)
    return recommend(one, ratings.rated(np.zeros(2, np.uint64), 0, devices), k=k)


def _by_chance(unrated: Ints, holdout: Ints, k: int) -> tuple[float, float]:
    """Return expected hit rate and NDCG of k items at random out of each user's unrated ones."""
    places = np.minimum(k, unrated)
    missed = np.exp(_log_choose(unrated - holdout, places) - _log_choose(unrated, places))
    gains = np.cumsum(1 / np.log2(np.arange(2, k + 2)))
    best = gains[np.minimum(holdout, k) - 1]
    return float(1 - missed.mean()), float((holdout / unrated * gains[places - 1] / best).mean())


def _log_choose(total: Ints, subset: Ints) -> Floats:
    safe_total = np.maximum(total, subset)
    choose: Floats = (
        scipy.special.gammaln(safe_total + 1)
        - scipy.special.gammaln(subset + 1)
        - scipy.special.gammaln(safe_total - subset + 1)
    )
    return np.where(total >= subset, choose, -np.inf)
