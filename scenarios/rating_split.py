"""Likes: ratings judged as liked or not, liked ratings held out for evaluation, and a description of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints, Words
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import draw, siphash1
from scenarios.datasets import RatingTable

_ROUNDING = 1e-9  # of the user's mean absolute rating; this close to the mean counts as equal to it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Ratings to learn from, and liked items held out; its text form shows no rating and no id.

    Attributes
    ----------
    train : RatingTable
        The ratings that were not held out; users and items keep their numbers.
    likes : Bools
        bool[train.ratings], judged on `train` alone.
    held_indptr : Ints
        int64[users + 1]; user u's held-out items stand at ``held_indptr[u]`` to ``held_indptr[u + 1] - 1``.
    held_items : Indices
        int32[held], liked items, ascending within each user.
    """

    train: RatingTable
    likes: Bools
    held_indptr: Ints
    held_items: Indices

    @property
    def evaluated(self) -> Ints:
        """The users with held-out items, int64, ascending."""
        return np.flatnonzero(np.diff(self.held_indptr))

    def __repr__(self) -> str:
        return f"Split(train={self.train!r}, evaluated={len(self.evaluated)}, held={len(self.held_items)})"


def judge_likes(table: RatingTable, like_from: float | None = None) -> Bools:
    """Judge every rating as a like or not.

    Parameters
    ----------
    table : RatingTable
        The ratings.
    like_from : float or None
        A rating from this value on is a like. None: a rating above the mean of its own user's ratings in `table`, by
        more than rounding (10^-9 of the mean absolute rating); so equal ratings are never likes.

    Returns
    -------
    Bools
        bool[ratings].

    Raises
    ------
    InputError
        If `like_from` is not finite.
    """
    if like_from is not None:
        if not math.isfinite(like_from):
            raise InputError(f"like_from={like_from}: give a finite rating, or none for each user's own mean")
        return table.values >= like_from
    owners = table.rating_users
    sums = np.bincount(owners, weights=table.values, minlength=table.users)
    sizes = np.bincount(owners, weights=np.abs(table.values), minlength=table.users)
    counts = np.maximum(table.ratings_per_user, 1)
    bars: Floats = (sums + _ROUNDING * sizes) / counts
    return table.values > bars[owners]


def hold_out(table: RatingTable, *, per_user: int, like_from: float | None, seed: int) -> Split:
    """Hold out liked ratings of every user who has enough of them.

    Parameters
    ----------
    table : RatingTable
        All ratings.
    per_user : int
        How many likes to hold out of a user, 0 for none. Likes are judged on all of the user's ratings, and a user
        with at most `per_user` of them keeps all and is not evaluated.
    like_from : float or None
        As in `judge_likes`.
    seed : int
        Any whole number. Which of a user's likes are drawn, uniformly without replacement, is a function of `seed`,
        the user's number and the user's own likes.

    Returns
    -------
    Split
        The likes in it are judged anew, without the held-out ratings: a user's mean knows nothing of them.

    Raises
    ------
    InputError
        If `per_user` is negative or `like_from` is not finite.
    """
    if per_user < 0:
        raise InputError(f"per_user={per_user}: hold out 0 or more likes of a user")
    owners = table.rating_users
    likes = np.flatnonzero(judge_likes(table, like_from))
    per_owner = np.bincount(owners[likes], minlength=table.users)
    likes = likes[per_owner[owners[likes]] > per_user]
    drawn = _draw(as_words(derive(seed, "held-out likes")), _indptr(owners[likes], table.users), per_user)
    kept = np.ones(table.ratings, dtype=np.bool_)
    kept[likes[drawn]] = False
    train = replace(
        table, indptr=_indptr(owners[kept], table.users), items=table.items[kept], values=table.values[kept]
    )
    gone = ~kept
    return Split(
        train=train,
        likes=judge_likes(train, like_from),
        held_indptr=_indptr(owners[gone], table.users),
        held_items=table.items[gone],
    )


def describe(table: RatingTable, like_from: float | None = None) -> dict[str, Any]:
    """Describe a table in numbers that hold no rating of a single user.

    Parameters
    ----------
    table : RatingTable
        The ratings.
    like_from : float or None
        As in `judge_likes`.

    Returns
    -------
    dict
        JSON values: ``format``, ``users``, ``items``, ``ratings``, ``density``; ``ratings_per_user`` and
        ``ratings_per_item`` (each ``min``, ``lower_quartile``, ``median``, ``mean``, ``upper_quartile``, ``max``);
        ``rating`` (``min``, ``mean``, ``max``); ``like_from`` (None: each user's own mean), ``likes``,
        ``share_of_likes`` (of the ratings) and ``users_without_like``.
    """
    likes = judge_likes(table, like_from)
    likes_per_user = np.bincount(table.rating_users[likes], minlength=table.users)
    return {
        "format": table.source,
        "users": table.users,
        "items": table.items_count,
        "ratings": table.ratings,
        "density": table.density,
        "ratings_per_user": _spread(table.ratings_per_user),
        "ratings_per_item": _spread(np.bincount(table.items, minlength=table.items_count)),
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
    low, lower, median, upper, high = (float(part) for part in np.quantile(counts, [0, 0.25, 0.5, 0.75, 1]))
    return {
        "min": low,
        "lower_quartile": lower,
        "median": median,
        "mean": float(counts.mean()),
        "upper_quartile": upper,
        "max": high,
    }


def _indptr(owners: Indices, users: int) -> Ints:
    counts = np.bincount(owners, minlength=users)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


@compiled
def _draw(key: Words, indptr: Ints, take: int) -> Bools:
    """Draw `take` entries of every user that has any, uniformly without replacement (Knuth's Algorithm S).

    An entry is taken with probability (still to take) / (entries left); its coin is a function of the key, the user
    and the entry's rank there.
    """
    drawn = np.zeros(indptr[-1], dtype=np.bool_)
    for user in range(len(indptr) - 1):
        stream = siphash1(key[0], key[1], np.uint64(user))
        missing = take
        for entry in range(indptr[user], indptr[user + 1]):
            coin = (draw(stream, np.uint64(entry - indptr[user])) >> np.uint64(11)) * 2.0**-53
            if (indptr[user + 1] - entry) * coin < missing:
                drawn[entry] = True
                missing -= 1
    return drawn
