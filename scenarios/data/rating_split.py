"""Likes: ratings judged as liked or not, liked ratings held out for evaluation, and a description of a table."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Ints, Words
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import draw, siphash1
from coordinator.protocol.rating_table import Held, RowTable
from scenarios.data.datasets import RatingTable

_ROUNDING = 1e-9  # of the user's mean absolute rating; this close to the mean counts as equal to it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Ratings to learn from, and liked items held out; its text form shows no rating and no id."""

    train: RatingTable  # The ratings that were not held out; users and items keep their numbers
    likes: Bools  # bool[train.ratings], judged on `train` alone
    holdout: Held  # Liked items, ascending within each user

    @property
    def evaluated(self) -> Ints:
        """The users with held-out items, int64, ascending."""
        return np.flatnonzero(self.holdout.degrees)

    def __repr__(self) -> str:
        return f"Split(train={self.train!r}, evaluated={len(self.evaluated)}, holdout={self.holdout.items.size})"


def judge_likes(table: RatingTable, like_from: float | None = None, training: Bools | None = None) -> Bools:
    """Judge every rating as a like or not."""
    if like_from is not None:
        if not math.isfinite(like_from):
            raise InputError(f"like_from={like_from}: give a finite rating, or none for each user's own mean")
        return table.values >= like_from
    owners, judges = table.owners, table if training is None else table.where(training)
    sums = np.bincount(judges.owners, weights=judges.values, minlength=table.users)
    sizes = np.bincount(judges.owners, weights=np.abs(judges.values), minlength=table.users)
    bars: Floats = (sums + _ROUNDING * sizes) / np.maximum(judges.degrees, 1)
    return table.values > bars[owners]


def hold_out(table: RatingTable, *, per_user: int, like_from: float | None, seed: int) -> Split:
    """Hold out liked ratings of every user who has enough of them."""
    if per_user < 0:
        raise InputError(f"per_user={per_user}: hold out 0 or more likes of a user")
    liked = judge_likes(table, like_from)
    liked &= (np.bincount(table.owners[liked], minlength=table.users) > per_user)[table.owners]
    sample = draw_ratings(table.where(liked), np.full(table.users, per_user, np.int64), seed, "held-out likes")
    holdout = np.zeros(table.ratings, np.bool_)
    holdout[np.flatnonzero(liked)[sample]] = True
    likes = judge_likes(table, like_from, ~holdout)[~holdout]
    return Split(train=table.where(~holdout), likes=likes, holdout=table.where(holdout).valued(None))


def describe(table: RatingTable, like_from: float | None = None) -> dict[str, Any]:
    """Describe a table in numbers that hold no rating of a single user."""
    likes = judge_likes(table, like_from)
    likes_per_user = np.bincount(table.owners[likes], minlength=table.users)
    return {
        "format": table.source,
        "users": table.users,
        "items": table.count,
        "ratings": table.ratings,
        **({"lines_skipped": table.skipped} if table.skipped else {}),
        "density": table.density,
        "ratings_per_user": _spread(table.degrees),
        "ratings_per_item": _spread(table.raters),
        "rating": {
            "min": float(table.values.min()),
            "mean": float(table.values.mean()),
            "max": float(table.values.max()),
        },
        "like_from": like_from,
        "likes": int(likes.sum()),
        "share_of_likes": float(likes.mean()),
        "users_without_like": int(np.count_nonzero(likes_per_user == 0)),
    }


def _spread(counts: Ints) -> dict[str, float]:
    low, lower, median, upper, high = map(float, np.quantile(counts, [0, 0.25, 0.5, 0.75, 1]))
    spread = {"min": low, "lower_quartile": lower, "median": median, "mean": float(counts.mean())}
    return {**spread, "upper_quartile": upper, "max": high}


def draw_ratings(rows: RowTable[Any], takes: Ints, seed: int | bytes, purpose: str) -> Bools:
    """Draw so many ratings of every user, ``takes`` of shape (users,), uniformly without replacement."""
    return _draw(as_words(derive(seed, purpose)), rows.starts, takes)


@compiled
def _draw(key: Words, starts: Ints, takes: Ints) -> Bools:
    """Draw by Knuth's Algorithm S: a rating is taken with probability (still to take) / (ratings left)."""
    sample = np.zeros(starts[-1], np.bool_)
    for user in range(starts.size - 1):
        stream, missing = siphash1(key[0], key[1], np.uint64(user)), takes[user]
        for place in range(starts[user], starts[user + 1]):
            coin = (draw(stream, np.uint64(place - starts[user])) >> np.uint64(11)) * 2.0**-53
            if (starts[user + 1] - place) * coin < missing:
                sample[place] = True
                missing -= 1
    return sample
