"""Draws from public users' ratings that follow from the run's seed, which the server never gets."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.rows import Rows
from coordinator.server.completion.fitting import Fitting
from coordinator.server.completion.weighing import Fold, Weighing
from scenarios.data.rating_split import draw_ratings

OBSERVED = 60
"""Ratings that a held-out user shows at most, and never more than half of its own."""
SHARE, MOST, DRAWS = 0.2, 100, 4
"""Validation users: their share of public users, how many there are at most, and draws of the ratings they show."""


def fold_of(public: Rows, held: Ints, seed: int, purpose: str = "two-tier shown ratings") -> Fold:
    """Hold some public users out, given by their numbers; seed and purpose draw which of their ratings are shown."""
    users, rest = public.of(np.sort(held)), np.setdiff1d(np.arange(public.users), held)
    shown = draw_ratings(users, np.minimum(OBSERVED, users.degrees // 2), seed, purpose)
    return Fold(train=public.of(rest), seen=users.where(shown), asked=users.where(~shown))


def weighing_of(public: Rows, fitting: Fitting, seed: int) -> Weighing:
    """Draw the validation users; a function of the seed and the public ratings.

    Raises
    ------
    InputError
        If there is one public user only.
    """
    if public.users < 2:
        raise InputError(f"public is {public.users}; validation holds public users out, give --weight")
    coins = np.random.default_rng(as_words(derive(seed, "two-tier validation users")))
    held = coins.permutation(public.users)[: min(MOST, max(1, round(SHARE * public.users)))]
    folds = [fold_of(public, held, seed, f"two-tier validation ratings {draw}") for draw in range(DRAWS)]
    return Weighing(folds=folds, fitting=fitting)
