"""Directions of taste, which devices apply to their own ratings: how tastes differ, beside how items are liked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.checked import LARGEST, MOST_ITEMS, Checked, require_array, require_range, require_real
from coordinator.protocol.errors import InputError
from coordinator.protocol.rows import Likes

LEAST, MOST_POWER, HALVINGS = 1e-6, 8.0, 30
"""A probability at least; the most that shares are raised to, and how often that is halved to find it."""
MOST_DIRECTIONS = 64
"""Directions at most: a device holds a number for each pair of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tastes(Checked):
    """How many people rate each item, how they like it, and along which directions tastes differ; public.

    A rating counts 1 for a like and -1 for a dislike.

    Attributes
    ----------
    rated : ndarray of float64, shape (N,)
        Estimated share of people who rated each item, above 0 and below 1.
    liked : ndarray of float64, shape (N,)
        Estimated mean rating of each, above -1 and below 1.
    vectors : ndarray of float64, shape (N, k)
        Directions V, in C order: two ratings go together by ``V V^T`` beyond `liked`. There may be none, k = 0.
    ridge : float
        What a rating varies by itself, above 0.

    Raises
    ------
    InputError
        If the arrays do not fit each other, or a number is out of range.
    """

    rated: Floats = field(repr=False)
    liked: Floats = field(repr=False)
    vectors: Floats2 = field(repr=False)
    ridge: float

    def check(self) -> None:
        """Refuse directions that nothing can be scored with; see `Checked.check`."""
        require_array("shares of tastes", self.rated, np.float64, [None])
        if not 1 <= self.rated.size <= MOST_ITEMS:
            raise InputError(f"tastes are of {self.rated.size} items; give 1 to {MOST_ITEMS}")
        require_array("mean ratings of tastes", self.liked, np.float64, self.rated.shape)
        require_array("directions of tastes", self.vectors, np.float64, [self.rated.size, None])
        if (many := self.vectors.shape[1]) > MOST_DIRECTIONS:
            raise InputError(f"tastes have {many} directions; devices take {MOST_DIRECTIONS} at most")
        require_range("shares of tastes", self.rated, LEAST, 1 - LEAST)
        require_range("mean ratings of tastes", self.liked, LEAST - 1, 1 - LEAST)
        require_range("directions of tastes", self.vectors, -LARGEST, LARGEST)
        require_real("ridge", self.ridge, 1 / LARGEST)


def powers(rated: Floats, numbers: Ints) -> Floats:
    """Return the power a for devices with so many ratings: ``sum rated**a`` is their number of ratings.

    A device that rated more than most thinks that every item is more likely among those that it will rate, and one
    that rated less, that it will be one of those that most people rate.

    Parameters
    ----------
    rated : ndarray of float64, shape (N,)
        Shares of people who rated each item, above 0 and below 1.
    numbers : ndarray of int64, shape (devices,)
        Ratings of each device.

    Returns
    -------
    ndarray of float64, shape (devices,)
        From 0 to `MOST_POWER`.

    Examples
    --------
    >>> powers(np.array([0.5, 0.25]), np.array([0, 1, 2])).round(2).tolist()
    [8.0, 0.69, 0.0]
    """
    different, place = np.unique(numbers, return_inverse=True)
    low, high, logs = np.zeros(different.size), np.full(different.size, MOST_POWER), np.log(rated)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        over = np.array([np.exp(one * logs).sum() for one in middle]) > different
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    found: Floats = ((low + high) / 2)[place]
    return found


def likely(tastes: Tastes, rated: Likes) -> Floats2:
    """Return how probable each device thinks that it rates an item and likes it, float64, shape (devices, N).

    The probability of a rating is the public share to the power of `powers`. Its expected value is the public mean and
    the prediction ``V u``, where u is the ridge regression of the device's own ratings, less their means, on V.

    Parameters
    ----------
    tastes : Tastes
        Public.
    rated : Likes
        What each device rated, and whether it liked it; private.
    """
    from coordinator.protocol.completing import tastes_of  # noqa: PLC0415 (compiled)

    centred = np.where(rated.values, 1.0, -1.0) - tastes.liked[rated.items]
    own = tastes_of(tastes.vectors, tastes.ridge, 0.0, rated.starts, rated.items, centred)
    rates = tastes.rated ** powers(tastes.rated, rated.degrees)[:, None]
    found: Floats2 = rates * np.clip((1 + tastes.liked + own @ tastes.vectors.T) / 2, LEAST, 1)
    return found
