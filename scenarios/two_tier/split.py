"""Who is public and who is private, which ratings are held out, and draws that follow from the run's seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.rows import Rows
from coordinator.server.completion.fitting import Fitting
from coordinator.server.completion.weighing import Fold, Weighing
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import draw_ratings
from scenarios.two_tier.config import PRIVATE

OBSERVED = 60
"""Ratings that a held-out user shows at most, and never more than half of its own."""
SHARE, MOST, DRAWS = 0.2, 100, 4
"""Validation users: their share of public users, how many there are at most, and draws of the ratings they show."""


def fold_of(public: Rows, holdout: Ints, seed: int, purpose: str = "two-tier shown ratings") -> Fold:
    """Hold some public users out, given by their numbers; seed and purpose draw which of their ratings are shown."""
    users, rest = public.of(np.sort(holdout)), np.setdiff1d(np.arange(public.users), holdout)
    shown = draw_ratings(users, np.minimum(OBSERVED, users.degrees // 2), seed, purpose)
    return Fold(train=public.of(rest), seen=users.where(shown), targets=users.where(~shown))


def weighing_of(public: Rows, fitting: Fitting, seed: int) -> Weighing:
    """Draw the validation users; a function of the seed and the public ratings."""
    if public.users < 2:
        raise InputError(f"public is {public.users}; validation holds public users out, give --weight")
    coins = np.random.default_rng(as_words(derive(seed, "two-tier validation users")))
    holdout = coins.permutation(public.users)[: min(MOST, max(1, round(SHARE * public.users)))]
    folds = [fold_of(public, holdout, seed, f"two-tier validation ratings {draw}") for draw in range(DRAWS)]
    return Weighing(folds=folds, fitting=fitting)


TEST = "two-tier test ratings"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserSplit:
    """Users and ratings as one experiment deals them out."""

    train: Rows  # Every user's ratings to learn from, and those held out
    test: Rows
    public: Ints  # Users of both kinds, in the order in which they join; the others only receive the model
    private: Ints

    @property
    def public_rows(self) -> Rows:
        """What the server sees."""
        return self.train.of(self.public)

    @property
    def private_rows(self) -> Rows:
        """What private devices hold."""
        return self.train.of(self.private)


def split_users(
    table: RatingTable, *, public: float, private: int | None, public_by: str, private_by: str, holdout: int, seed: int
) -> UserSplit:
    """Deal out users and ratings."""
    rows = table.valued(table.values)
    if rows.users and int(rows.degrees.min()) < holdout:
        poor = int(np.argmin(rows.degrees))
        raise InputError(
            f"user {table.user_labels[poor]!r} has {rows.degrees[poor]} ratings, fewer than the {holdout} that are "
            "held out; lower --holdout or leave such users out"
        )
    in_holdout = draw_ratings(rows, np.full(rows.users, holdout, np.int64), seed, TEST)
    train = rows.where(~in_holdout)
    public_count = how_many(public, rows.users)
    private = max(0, min(PRIVATE, rows.users - public_count)) if private is None else private
    if public_count + private > rows.users:
        raise InputError(
            f"public is {public_count} and private is {private}, but there are {rows.users} users; lower one of them"
        )
    order = _order(train, public_by, seed, "two-tier public users")
    rest = _order(train, private_by, seed, "two-tier private users")
    rest = rest[~np.isin(rest, order[:public_count])]
    return UserSplit(train=train, test=rows.where(in_holdout), public=order[:public_count], private=rest[:private])


def how_many(public: float, users: int) -> int:
    """Return the number of public users: a share below 1 of all of them, at least one, or the number itself."""
    return max(1, round(public * users)) if public < 1 else int(public)


def _order(rows: Rows, by: str, seed: int, purpose: str) -> Ints:
    if by == "most":
        return np.argsort(-rows.degrees, kind="stable")
    return np.random.default_rng(as_words(derive(seed, purpose))).permutation(rows.users)
