"""How the curious server learns on public users what clues mean, and how well it then guesses private ones'."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from coordinator.protocol.arrays import Bools, Floats, Floats2, Ints
from coordinator.protocol.features import ItemFeatures
from scenarios.two_tier.clues import Dealt, Seen, rated_clues, rating_clues, side_clues

TREES = {"max_iter": 100, "max_leaf_nodes": 15, "min_samples_leaf": 50, "early_stopping": False, "random_state": 0}
"""Boosted trees, of clues to ratings and to rated items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """How well ratings were guessed.

    Attributes
    ----------
    flip_found : float or None
        Share of releases whose side of +-r' was found; None where they have one only.
    like_right, like_error : float
        Share of ratings rightly told to be above the item's mean or not, and its standard error over users.
    exact_right : float or None
        Share of ratings that were guessed exactly; None without a scale.
    rmse : float
        Root mean squared error of the guesses.
    """

    flip_found: float | None
    like_right: float
    like_error: float
    exact_right: float | None
    rmse: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lesson:
    """Users, what they released, and the ratings that are guessed.

    Attributes
    ----------
    seen : Seen
    dealt : Dealt
    """

    seen: Seen = field(repr=False)
    dealt: Dealt = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spy:
    """A server that plays a mechanism on its public users.

    Attributes
    ----------
    features : ItemFeatures
    popularity : ndarray of int64, shape (m,)
        Public ratings of every item.
    played : Lesson
        Of public users; everything in it is known.
    sided : bool
        Whether a release may lie on either side of +-r'.
    """

    features: ItemFeatures
    popularity: Ints = field(repr=False)
    played: Lesson = field(repr=False)
    sided: bool

    def guess(self, target: Lesson, known: int) -> Scores:
        """Guess the targets' ratings, knowing so many ratings of each user."""
        trees, own = HistGradientBoostingRegressor(**TREES), self.played.dealt
        with threadpool_limits(limits=1):  # sums in one order; and threads do not wait for each other on busy cores
            belief, found = self._beliefs(target, known)
            trees.fit(self._clues(self.played, known, belief[0]), own.values - self.features.mean[own.items])
            guessed = trees.predict(self._clues(target, known, belief[1]))
        return self._score(target.dealt, guessed, found)

    def tells_rated(self, target: Lesson) -> float:
        """Return how often a rated item is told from its decoy, ties counted half."""
        own = self._rated(self.played)
        trees = HistGradientBoostingClassifier(**TREES)
        with threadpool_limits(limits=1):
            trees.fit(np.concatenate(own), np.repeat([1, 0], len(own[0])))
            rated, decoy = (trees.decision_function(clues) for clues in self._rated(target))
        return float((rated > decoy).mean() + (rated == decoy).mean() / 2)

    def _rated(self, of: Lesson) -> tuple[Floats2, Floats2]:
        dealt, paired = of.dealt, of.dealt.decoys >= 0
        rated, decoy = (
            rated_clues(self.features, of.seen, dealt.owner[paired], items[paired], self.popularity)
            for items in (dealt.items, dealt.decoys)
        )
        return rated, decoy

    def _clues(self, of: Lesson, known: int, belief: Floats) -> Floats2:
        return rating_clues(self.features, of.seen, of.dealt, of.dealt.first(known), belief)

    def _beliefs(self, target: Lesson, known: int) -> tuple[tuple[Floats, Floats], float | None]:
        """Return the believed side of every played and every target's release, -1 to 1, and the share that is right."""
        if not self.sided:
            return (np.ones(len(self.played.seen.side)), np.ones(len(target.seen.side))), None
        own, other = (side_clues(self.features, of.seen, of.dealt.first(known)) for of in (self.played, target))
        size = np.sqrt(np.square(own).mean(axis=0))
        size[size == 0] = 1.0
        model = LogisticRegression(C=100.0, fit_intercept=False, max_iter=1000)
        sides = self.played.seen.side
        model.fit(np.concatenate([own, -own]) / size, np.concatenate([sides, ~sides]))
        believed = tuple(2 * model.predict_proba(clues / size)[:, 1] - 1 for clues in (own, other))
        right = np.where(believed[1] == 0, 0.5, (believed[1] > 0) == target.seen.side)
        return (believed[0], believed[1]), float(right.mean())

    def _score(self, dealt: Dealt, guessed: Floats, found: float | None) -> Scores:
        features, mean = self.features, self.features.mean[dealt.items]
        right = (guessed > 0) == (dealt.values > mean)
        ratings = np.clip(mean + guessed, features.lowest, features.highest)
        exact = None
        if features.scale is not None:
            scale = np.array(features.scale)
            nearest = scale[np.searchsorted((scale[1:] + scale[:-1]) / 2, ratings)]
            exact = float((nearest == dealt.values).mean())
        return Scores(
            flip_found=found,
            like_right=float(right.mean()),
            like_error=clustered_error(right, dealt.owner),
            exact_right=exact,
            rmse=float(np.sqrt(np.square(ratings - dealt.values).mean())),
        )


def clustered_error(right: Bools, owner: Ints) -> float:
    """Return the standard error of a share over ratings, where users are independent and their ratings are not."""
    off = np.bincount(owner, right - right.mean())
    return float(np.sqrt(np.square(off).sum()) / right.size)
