"""Public users that are held out whole: some of their ratings are shown, the others are predicted from these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.server.completion.rows import Rows, draw_ratings

OBSERVED = 60
"""Ratings that a held-out user shows at most, and never more than half of its own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold:
    """Public users to learn from, and others whose ``asked`` ratings are predicted from ``seen`` ones."""

    train: Rows
    seen: Rows
    asked: Rows


def fold_of(public: Rows, held: Ints, seed: int, purpose: str = "two-tier shown ratings") -> Fold:
    """Hold some public users out, given by their numbers; seed and purpose draw which of their ratings are shown."""
    users, rest = public.of(np.sort(held)), np.setdiff1d(np.arange(public.users), held)
    shown = draw_ratings(users, np.minimum(OBSERVED, users.degrees // 2), seed, purpose)
    return Fold(train=public.of(rest), seen=users.where(shown), asked=users.where(~shown))
