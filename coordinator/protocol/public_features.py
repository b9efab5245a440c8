"""Public features of items, and what they add to advice on the device: nothing is sent for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.checked import MOST_ITEMS, Checked, require_array, require_range, require_whole
from coordinator.protocol.errors import InputError

PRIOR, STRENGTH = 10.0, 0.5
"""Likes that the average profile counts for beside a device's own, and how strongly profiles move scores."""
LIKE_ANY = 0.01
"""Share of likes that are thought to be of any item at random, so that no feature is expected never to be liked."""
DAMPING = 3
LEAST = 1e-6
"""Scores of an item-item model below it count as this one where features multiply them."""
_STEPS = 2.0**32
"""Logarithms are rounded to a fraction of it, so that their sums are exact in any order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicFeatures(Checked):
    """Which items have which feature.

    Attributes
    ----------
    names : tuple of str
        Column and word of each feature, such as ``"genres: Drama"`` or ``"title: 1990s"``.
    has : ndarray of float64, shape (N, features)
        1 where an item has it, else 0.

    Raises
    ------
    InputError
        If the array does not fit the names, or holds something else.
    """

    names: tuple[str, ...]
    has: Floats2 = field(repr=False)

    def check(self) -> None:
        """Refuse features that cannot be meant; see `Checked.check`."""
        if type(self.names) is not tuple or not all(type(name) is str for name in self.names):
            raise InputError("names of features are no tuple of str; give a name for each column")
        require_whole("number of features", len(self.names), 1, MOST_ITEMS)
        require_array("features of items", self.has, np.float64, [None, len(self.names)])
        require_range("features of items", self.has, 0, 1)

    def gains(self, liked: Floats2, likes: Floats, popularity: Floats) -> Floats2:
        """Return what features add to the logarithm of each score on each device, shape (devices, N).

        Parameters
        ----------
        liked : ndarray of float64, shape (devices, features)
            How many of a device's own likes have each feature.
        likes : ndarray of float64, shape (devices,)
            How many it has.
        popularity : ndarray of float64, shape (N,)
            Estimated popularity in any unit; what is below 0 counts as 0.
        """
        positive = np.maximum(popularity, 0)
        catalogue = self.has.mean(axis=0)  # some features may be of no popular item
        liking = positive @ self.has / max(float(positive.sum()), 1e-300)
        rates = (1 - LIKE_ANY) * liking + LIKE_ANY * catalogue
        profile = (liked + PRIOR * rates) / (likes + PRIOR)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            told = np.where(rates > 0, STRENGTH * np.log(profile / rates), 0.0)  # no item has it, none is liked
        found: Floats2 = np.rint(told * _STEPS) / _STEPS @ self.has.T
        return found


def damped(popularity: Floats, noise: float) -> Floats:
    """Return popularity as features multiply it, float64, shape (N,): what is no more than noise nearly vanishes.

    A feature that many items have lifts hundreds of items that nobody likes, some of which noise has lifted already.
    ``f (f / (f + 3 s))^2``, s the standard error, keeps what stands out: found on MovieLens latest-small.
    """
    positive = np.maximum(popularity, 0)
    found: Floats = positive * (positive / np.maximum(positive + DAMPING * noise, 1e-300)) ** 2
    return found


def typical_error(error: Floats) -> float:
    """Return the median standard error of a model's scores; 0 where the server does not know it."""
    middle = float(np.median(error))
    return middle if np.isfinite(middle) else 0.0


def floor_of(noise: float) -> float:
    """Return the score that smaller ones count as, where features multiply estimates of such a standard error."""
    return 1e-9 * max(noise, 1e-9)
