"""One split for all rows: of everybody's likes and dislikes a share is held out, and the rest is learned from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.rows import Held, Likes
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import judge_likes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What is learned from, and what is held out.

    Attributes
    ----------
    train : Likes
        What every person rated, without what is held out, and whether it was liked.
    liked : Held
        The likes among these.
    held : Held
        Likes that are held out. Dislikes that are held out count as not rated, so that they are candidates, too.
    """

    train: Likes = field(repr=False)
    liked: Held = field(repr=False)
    held: Held = field(repr=False)

    @property
    def evaluated(self) -> Ints:
        """People with a like that is held out, int64, ascending."""
        return np.flatnonzero(self.held.degrees)


def fold_of(
    table: RatingTable, *, like_from: float | None, share: float, seed: int, times: Floats | None = None
) -> Fold:
    """Split a table of ratings, at random or by time.

    Of a person's likes, and of its dislikes, ``share`` is held out, rounded down, but at least one of two or more.

    Parameters
    ----------
    table : RatingTable
    like_from : float or None
        As in `scenarios.data.rating_split.judge_likes`, on all ratings.
    share : float
        In (0, 1).
    seed : int
        Which ratings are drawn.
    times : ndarray of float64, shape (ratings,), optional
        The latest ones are held out, at random where several are of one time; default: all are.

    Raises
    ------
    InputError
        If nobody has two likes, so that nothing could be scored.
    """
    likes = judge_likes(table, like_from)
    drawn = np.random.default_rng(int.from_bytes(derive(seed, "comparison split"))).permutation(table.ratings)
    order = drawn if times is None else drawn[np.argsort(times[drawn], kind="stable")]
    late = np.empty(table.ratings, np.int64)
    late[order] = np.arange(table.ratings)
    held = _latest(table, likes, late, share) | _latest(table, ~likes, late, share)
    if not (held & likes).any():
        raise InputError(
            f"none of the {table.users} people has two likes, so that none can be held out; lower --like-from"
        )
    rated = table.valued(likes)
    train = rated.where(~held)
    return Fold(train=train, liked=train.where(train.values).valued(None), held=rated.where(held & likes).valued(None))


def _latest(table: RatingTable, among: Bools, late: Ints, share: float) -> Bools:
    """Return the last ratings of every person among some of them, by a number of each rating."""
    places = np.flatnonzero(among)
    owners = table.owners[places]
    places = places[np.argsort((owners + 1) * table.ratings - late[places])]  # no two are equal, so any sort will do
    many = np.bincount(owners, minlength=table.users)
    takes = np.where(many >= 2, np.maximum(1, np.floor(share * many + 1e-9)), 0)
    rank = np.arange(places.size) - np.repeat(np.cumsum(many) - many, many)
    held = np.zeros(table.ratings, np.bool_)
    held[places[rank < np.repeat(takes, many)]] = True
    return held
