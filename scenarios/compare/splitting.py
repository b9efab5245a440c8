"""One split for all rows: of what everybody rated a share is held out, and the rest is learned from."""

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
    """Split a table of ratings, at random or by time, so that nothing held out says what is a like in training.

    Where ``like_from`` is given, a rating's label is its own alone: of a person's likes, and of its dislikes, ``share``
    is held out, rounded down, but at least one of two or more. Where it is not, a label depends on the person's mean,
    which nobody may know before the split: ``share`` of its ratings is held out in the same way, whatever they are,
    and both what is left and what is held out are judged by the mean of what is left. Training items and labels are
    then bit for bit the same, whatever the values of ratings that are held out.

    Parameters
    ----------
    table : RatingTable
    like_from : float or None
        As in `scenarios.data.rating_split.judge_likes`, with training ratings for means.
    share : float
        In (0, 1).
    seed : int
        Which ratings are drawn.
    times : ndarray of float64, shape (ratings,), optional
        The latest ones are held out, at random where several are of one time; default: all are.

    Raises
    ------
    InputError
        If no like is held out, so that nothing could be scored.
    """
    permutation = np.random.default_rng(int.from_bytes(derive(seed, "comparison split"))).permutation(table.ratings)
    order = permutation if times is None else permutation[np.argsort(times[permutation], kind="stable")]
    late = np.empty(table.ratings, np.int64)
    late[order] = np.arange(table.ratings)
    if like_from is None:
        holdout = _latest(table, np.ones(table.ratings, np.bool_), late, share)
        likes = judge_likes(table, None, ~holdout)
        remedy = "none of what is held out is above its person's mean of the rest; name --like-from"
    else:
        likes = judge_likes(table, like_from)
        holdout = _latest(table, likes, late, share) | _latest(table, ~likes, late, share)
        remedy = "none has two likes, so that none can be held out; lower --like-from"
    if not (holdout & likes).any():
        raise InputError(f"of the {table.users} people {remedy}")
    rated = table.valued(likes)
    train, test = rated.where(~holdout), rated.where(holdout & likes).valued(None)
    return Fold(train=train, liked=train.where(train.values).valued(None), held=test)


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
