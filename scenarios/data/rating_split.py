"""Likes: ratings judged as liked or not, liked ratings held out for evaluation, and a description of a table."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints, Words
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import draw, siphash1
from coordinator.protocol.rating_table import Held, Likes, Rows, RowTable, starts_of
from scenarios.data.datasets import RatingTable
from scenarios.log import counted_step

PEOPLE = 1 << 16  # Users whose ratings are judged at a time
_ROUNDING = 1e-9  # of the user's mean absolute rating; this close to the mean counts as equal to it


RANDOM, BY_TIME, GLOBAL_TIME = "random", "time", "global-time"
"""Ways to choose what is held out: at random, everybody's latest, or everything after one date."""
TEST, LIKES = "two-tier test ratings", "held-out likes"
"""Purposes of the coins that draw every person's held-out ratings or likes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Ratings to learn from, and ratings that are held out; its text form shows no rating and no id."""

    train: RatingTable  # The ratings that were not held out; users and items keep their numbers
    likes: Bools  # bool[train.ratings], judged on `train` alone
    holdout: Held  # Held-out likes, judged on `train` alone, ascending within each user
    test: Rows  # Everything that is held out, liked or not
    held_out: float = 0  # As `hold_out` was asked; of a split of somebody's own the share of all ratings
    split_by: str = RANDOM
    seed: int = 0  # The split's seed, by which lists of equally popular items are ordered
    left_out: int = 0  # People of the file who rated nothing before the date; they are not in the tables
    unseen: int = 0  # Items of the file that nobody had rated before it; they stay in the catalogue

    @property
    def evaluated(self) -> Ints:
        """The users with held-out likes, int64, ascending."""
        return np.flatnonzero(self.holdout.degrees)

    @property
    def popularity(self) -> Ints:
        """How many people like each item in training, int64, shape (N,): the one popularity of every command."""
        return np.bincount(self.train.items[self.likes], minlength=self.train.count)

    @property
    def popular(self) -> Indices:
        """All items, the most popular first, equal ones as the comparison's row of popularity ranks them."""
        # the coins of scenarios.studies.compare.row.RowRequest for that row, so that all commands print one number
        coins = derive(self.seed, f"comparison None {self.train.users} 0.0")
        ties = np.random.default_rng(int.from_bytes(coins)).permutation(self.train.count)
        return np.asarray(ties[np.argsort(-self.popularity[ties], kind="stable")].astype(np.int32))

    @property
    def protocol(self) -> dict[str, Any]:
        """What a result reports besides scores: how ratings were held out, and what a split by date leaves out."""
        dated = {"people_left_out": self.left_out, "items_unseen": self.unseen} if self.split_by == GLOBAL_TIME else {}
        return {"held_out": self.held_out, "split_by": self.split_by, **dated}

    def __repr__(self) -> str:
        return f"Split(train={self.train!r}, evaluated={len(self.evaluated)}, holdout={self.holdout.items.size})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LikesFold:
    """A split as rows of a comparison see it: what they learn from, and likes that are held out."""

    train: Likes = field(repr=False)  # What every person rated, without what is held out, and whether it was liked
    liked: Held = field(repr=False)  # The likes among these
    # Likes that are held out. Dislikes that are held out count as not rated, so that they are candidates, too
    holdout: Held = field(repr=False)

    @property
    def evaluated(self) -> Ints:
        """People with a like that is held out, int64, ascending."""
        return np.flatnonzero(self.holdout.degrees)


def fold_of(split: Split) -> LikesFold:
    """Return the likes of a split that evaluates somebody."""
    if not split.evaluated.size:
        nobody = "two likes, or a held-out rating above the mean of its others"
        raise InputError(f"of the {split.train.users} people none has {nobody}; lower or name --like-from")
    train = split.train.valued(split.likes)
    return LikesFold(train=train, liked=train.where(train.values).valued(None), holdout=split.holdout)


def judge_likes(table: RatingTable, like_from: float | None = None, training: Bools | None = None) -> Bools:
    """Judge every rating as a like or not."""
    if like_from is not None:
        if not math.isfinite(like_from):
            raise InputError(f"like_from={like_from}: give a finite rating, or none for each user's own mean")
        return table.values >= like_from
    likes = np.empty(table.ratings, np.bool_)
    for first, stop in table.blocks(PEOPLE):
        people, here = table.block(first, stop), slice(table.starts[first], table.starts[stop])
        judges = people if training is None else people.where(training[here])
        sums = np.bincount(judges.owners, weights=judges.values, minlength=people.users)
        sizes = np.bincount(judges.owners, weights=np.abs(judges.values), minlength=people.users)
        bars: Floats = (sums + _ROUNDING * sizes) / np.maximum(judges.degrees, 1)
        likes[here] = people.values > np.repeat(bars, people.degrees)
    return likes


def needs_times(split_by: str) -> bool:
    """Return whether a way to split asks when ratings were given."""
    return split_by != RANDOM


def earlier(table: RatingTable, held_out: float) -> tuple[RatingTable, float]:
    """Return the people with a rating up to the date after which a share of all ratings lies, and the date."""
    # The share is the nearest that a date can cut off: ratings of one second stand or go together.
    times = np.sort(_times(table))
    target = (1 - held_out) * times.size
    ends = np.searchsorted(times, times, side="right")  # ratings up to each time
    date = float(times[np.argmin(np.abs(ends - target))])
    active = table.degrees_among(_times(table) <= date) > 0
    if active.all():
        return table, date
    rows = table.where(np.repeat(active, table.degrees))
    return replace(rows, starts=starts_of(rows.degrees[active]), user_labels=table.user_labels[active]), date


def _times(table: RatingTable) -> Floats:
    if table.times is None:
        raise InputError("split_by asks for times, but the file has no column of times; name it last in --columns")
    return table.times


def hold_out(
    table: RatingTable,
    *,
    held_out: float | Bools,
    like_from: float | None,
    seed: int,
    split_by: str = RANDOM,
    purpose: str = LIKES,
) -> Split:
    """Hold ratings out: the one protocol of every command that evaluates lists."""
    # An array marks the ratings themselves, bool[table.ratings]: a split of somebody's own, the same for every seed.
    # ``held_out`` below 1 is a share. Where ``like_from`` is set, a rating's label is its own alone: of a person's
    # likes, and of its dislikes, the share is held out, rounded down, but at least one of two or more. Where it is not,
    # a label depends on the person's mean, which nobody may know before the split: the share of its ratings is held out
    # in the same way, whatever they are. By ``global-time`` it is the share of all ratings, those after one date, and
    # people who rated nothing before are left out. A whole number is so many likes of every person with more of them
    # or, for `TEST`, so many ratings. Training labels are judged by training ratings alone, and so are those of what is
    # held out. (A like that is chosen among likes by the mean of all ratings is one by the mean of the rest, too, which
    # is lower without it.)
    if not isinstance(held_out, np.ndarray) and (held_out < 0 or (held_out >= 1 and held_out != round(held_out))):
        raise InputError(f"held_out is {held_out:g}; give a share below 1, or a whole number of ratings of a person")
    with counted_step(f"splitting by seed {seed}", 4) as on_progress:
        return _hold_out(table, held_out, like_from, seed, split_by, purpose, on_progress)


def _hold_out(
    table: RatingTable,
    held_out: float | Bools,
    like_from: float | None,
    seed: int,
    split_by: str,
    purpose: str,
    on_progress: Callable[[], None],
) -> Split:
    """Hold ratings out, and say after each quarter of the work that it is over."""
    people, items = table.users, table.count
    if isinstance(held_out, np.ndarray):
        holdout: Bools = held_out
    elif split_by == GLOBAL_TIME:
        if held_out >= 1:
            raise InputError(f"held_out is {held_out:g}, but a date holds out a share of all ratings; give one below 1")
        table, date = earlier(table, held_out)
        holdout = _times(table) > date
    elif 0 < held_out < 1:
        late = _numbered(table, seed, split_by)
        on_progress()
        likes = judge_likes(table, like_from) if like_from is not None else None
        kinds = [np.ones(table.ratings, np.bool_)] if likes is None else [likes, ~likes]

        def takes(counts: Ints) -> Ints:  # of one rating none, of more at least one
            return np.where(counts >= 2, np.maximum(1, np.floor(held_out * counts + 1e-9)), 0).astype(np.int64)

        holdout = np.logical_or.reduce([_latest(table, kind, late, takes) for kind in kinds])
    else:
        holdout = _so_many(table, int(held_out), like_from, seed, split_by, purpose)
    on_progress()
    train = table.where(~holdout)
    on_progress()
    liked = judge_likes(table, like_from, ~holdout) & np.repeat(train.degrees > 0, table.degrees)
    return Split(
        train=train,
        likes=liked[~holdout],
        holdout=table.where(holdout & liked).valued(None),
        test=table.where(holdout).valued(table.values[holdout]),
        held_out=float(held_out.mean()) if isinstance(held_out, np.ndarray) else held_out,
        split_by=split_by,
        seed=seed,
        left_out=people - table.users,
        unseen=items - int(np.count_nonzero(train.raters)) if split_by == GLOBAL_TIME else 0,
    )


def _numbered(table: RatingTable, seed: int, split_by: str) -> Indices | Ints:
    """Return the place of each rating by time, or at random, which also orders those of one time."""
    numbers: Any = np.arange(table.ratings, dtype=np.int32 if table.ratings < 1 << 31 else np.int64)
    permutation = np.random.default_rng(int.from_bytes(derive(seed, "comparison split"))).permutation(numbers)
    if needs_times(split_by):
        permutation = permutation[np.argsort(_times(table)[permutation], kind="stable")]
    late: Indices | Ints = np.empty_like(numbers)
    late[permutation] = numbers
    return late


def _latest(table: RatingTable, among: Bools, late: Indices | Ints, count: Callable[[Ints], Ints]) -> Bools:
    """Mark the latest of every person's ratings among some of them, where ``late`` numbers ratings by time."""
    latest = np.zeros(table.ratings, np.bool_)
    _mark_latest(table.starts, among, late, count(table.degrees_among(among)), latest)
    return latest


@compiled
def _mark_latest(starts: Ints, among: Bools, late: Indices | Ints, takes: Ints, latest: Bools) -> None:
    """Mark each person's ``takes`` ratings with the largest values of ``late``, which are all different."""
    for user in range(takes.size):
        first, stop = starts[user], starts[user + 1]
        if takes[user] > 0:
            bar = np.sort(late[first:stop][among[first:stop]])[-takes[user]]
            for at in range(first, stop):
                latest[at] = among[at] and late[at] >= bar


def _so_many(table: RatingTable, number: int, like_from: float | None, seed: int, split_by: str, purpose: str) -> Bools:
    """Mark ``number`` likes of every person who has more or, for `TEST`, ``number`` ratings of everybody."""
    among = np.ones(table.ratings, np.bool_)
    if purpose == LIKES:
        among = judge_likes(table, like_from)
        among &= np.repeat(table.degrees_among(among) > number, table.degrees)
    if needs_times(split_by):
        return _latest(table, among, _numbered(table, seed, split_by), lambda counts: np.minimum(counts, number))
    sample = draw_ratings(table.where(among), np.full(table.users, number, np.int64), seed, purpose)
    holdout = np.zeros(table.ratings, np.bool_)
    holdout[np.flatnonzero(among)[sample]] = True
    return holdout


def describe(table: RatingTable, like_from: float | None = None) -> dict[str, Any]:
    """Describe a table in numbers that hold no rating of a single user."""
    likes = judge_likes(table, like_from)
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
        "users_without_like": int(np.count_nonzero(table.degrees_among(likes) == 0)),
    }


def _spread(counts: Ints) -> dict[str, float]:
    low, lower, median, upper, high = map(float, np.quantile(counts, [0, 0.25, 0.5, 0.75, 1]))
    spread = {"min": low, "lower_quartile": lower, "median": median, "mean": float(counts.mean())}
    return {**spread, "upper_quartile": upper, "max": high}


def draw_ratings(rows: RowTable[Any], takes: Ints, seed: int | bytes, purpose: str) -> Bools:
    """Draw ``takes`` ratings of each user, shape (users,), uniformly without replacement."""
    return _draw(as_words(derive(seed, purpose)), rows.starts, takes)


@compiled
def _draw(key: Words, starts: Ints, takes: Ints) -> Bools:
    """Draw by Knuth's Algorithm S: a rating is taken with probability (still to take) / (ratings left)."""
    sample = np.zeros(starts[-1], np.bool_)
    for user in range(starts.size - 1):
        stream, missing = siphash1(key[0], key[1], np.uint64(user)), takes[user]
        for at in range(starts[user], starts[user + 1]):
            coin = (draw(stream, np.uint64(at - starts[user])) >> np.uint64(11)) * 2.0**-53
            if (starts[user + 1] - at) * coin < missing:
                sample[at] = True
                missing -= 1
    return sample
