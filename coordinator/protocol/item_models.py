"""What devices apply to their own ratings: item-item models, directions of taste, and public features of items."""

from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol import checked
from coordinator.protocol.arrays import Bools2, Floats, Floats2, Indices, Ints, read_only
from coordinator.protocol.checked import LARGEST, MOST_ITEMS, Checked
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import tastes_of, weigh_chances
from coordinator.protocol.rating_table import Likes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ItemToItem(Checked):
    """What one like says for each other item, among some items of the catalogue; public."""

    pool: Indices  # shape (M,); The items, ascending
    # shape (M,); Estimated share of devices that like each; it orders items that a device's likes say nothing of
    liked: Floats = field(repr=False)
    # shape (M, M); What a like of the row's item adds to the score of the column's item
    weights: Floats2 = field(repr=False)

    def check(self) -> None:
        """Refuse a model that does not hold together; see `Checked.check`."""
        checked.require_array("items of a model", self.pool, np.int32, [None])
        checked.require_ascending("items of a model", self.pool, 0, MOST_ITEMS)
        size = self.pool.size
        checked.require_array("shares of a model", self.liked, np.float64, [size], -LARGEST, LARGEST)
        checked.require_array("weights of a model", self.weights, np.float64, [size, size], -LARGEST, LARGEST)


def scores(model: ItemToItem, likes: Bools2) -> Floats2:
    """Return every device's scores of the model's items: the sum of the weights of its likes.

    >>> model = ItemToItem(
    ...     pool=np.array([0, 3], np.int32), liked=np.array([0.2, 0.1]), weights=np.array([[0.0, 0.5], [0.25, 0.0]])
    ... )
    >>> scores(model, np.array([[True, False]])).tolist()
    [[0.0, 0.5]]
    """
    # Weights on the public grid make it exact, whatever the order in which they are added.
    # Shapes: ``likes`` (devices, M).
    return likes.astype(np.float64) @ model.weights


LEAST_SPREAD, MOST_POWER, HALVINGS = 1e-6, 8.0, 30
"""A probability at least; the most that shares are raised to, and how often that is halved to find it."""
_CLOSE = 1e-10  # A last step of Newton's method, after which the next is nothing
MOST_DIRECTIONS = 64  # Directions at most: a device holds a number for each pair of them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tastes(Checked):
    """How many people rate each item, how they like it, and along which directions tastes differ; public.

    A rating counts 1 for a like and -1 for a dislike.
    """

    rated: Floats = field(repr=False)  # shape (N,); Estimated share of people who rated each item, above 0 and below 1
    liked: Floats = field(repr=False)  # shape (N,); Estimated mean rating of each, above -1 and below 1
    # shape (N, k); Directions V, in C order, or none: two ratings go together by ``V V^T`` beyond `liked`
    vectors: Floats2 = field(repr=False)
    ridge: float  # What a rating varies by itself, above 0

    def check(self) -> None:
        """Refuse directions that nothing can be scored with; see `Checked.check`."""
        checked.require_array("shares of tastes", self.rated, np.float64, [None], LEAST_SPREAD, 1 - LEAST_SPREAD)
        if not 1 <= self.rated.size <= MOST_ITEMS:
            raise InputError(f"tastes are of {self.rated.size} items; give 1 to {MOST_ITEMS}")
        size, most = self.rated.size, 1 - LEAST_SPREAD
        checked.require_array("mean ratings of tastes", self.liked, np.float64, [size], -most, most)
        checked.require_array("directions of tastes", self.vectors, np.float64, [size, None], -LARGEST, LARGEST)
        if (count := self.vectors.shape[1]) > MOST_DIRECTIONS:
            raise InputError(f"tastes have {count} directions; devices take {MOST_DIRECTIONS} at most")
        checked.require_real("ridge", self.ridge, 1 / LARGEST)


def powers(rated: Floats, numbers: Ints) -> Floats:
    """Return the power a for devices with so many ratings: ``sum rated**a`` is their number of ratings.

    >>> powers(np.array([0.5, 0.25]), np.array([0, 1, 2])).round(2).tolist()
    [8.0, 0.69, 0.0]
    """
    # A device that rated more than most thinks that every item is more likely among those that it will rate, and one
    # that rated less, that it will be one of those that most people rate.
    # Shapes: ``rated`` (N,); ``numbers`` (devices,).
    different, inverse = np.unique(numbers, return_inverse=True)
    roots, moves = np.where(different > 0, 0.0, MOST_POWER), np.ones(different.size)
    logs, targets = np.log(rated), np.log(np.maximum(different, 1))
    # Newton's method on the logarithm of the sum, which is convex and falls: from 0 on it never passes the root
    while (open_ones := np.flatnonzero((moves > _CLOSE) & (roots < MOST_POWER))).size:
        for row in open_ones:
            weights = np.exp(roots[row] * logs)
            total = weights.sum()
            moves[row] = (np.log(total) - targets[row]) * total / -(weights @ logs)
        roots[open_ones] += np.maximum(moves[open_ones], 0)
    cells = 2.0**HALVINGS / MOST_POWER  # on a grid, so that last bits decide nothing
    exponents: Floats = ((np.floor(np.clip(roots * cells, 0, 2.0**HALVINGS - 1)) + 0.5) / cells)[inverse]
    return exponents


def likely(tastes: Tastes, rated: Likes, exponents: dict[int, float] | None = None) -> Floats2:
    """Return how probable each device thinks that it rates an item and likes it, float64, shape (devices, N)."""
    # The probability of a rating is the public share to the power of `powers`. Its expected value is the public mean
    # and the prediction ``V u``, where u is the ridge regression of the device's own ratings, less their means, on V.
    # ``exponents`` keeps the powers by numbers of ratings, where more devices follow.
    centred = np.where(rated.values, 1.0, -1.0) - tastes.liked[rated.items]
    user_tastes = tastes_of(read_only(tastes.vectors), tastes.ridge, 0.0, rated.starts, read_only(rated.items), centred)
    different, inverse = np.unique(rated.degrees, return_inverse=True)  # powers of these alone: they took half the time
    exponents = {} if exponents is None else exponents
    if new := [number for number in different.tolist() if number not in exponents]:
        exponents |= zip(new, powers(tastes.rated, np.array(new)).tolist(), strict=True)
    rates = tastes.rated ** np.array([exponents[number] for number in different.tolist()])[:, None]
    probabilities: Floats2 = user_tastes @ tastes.vectors.T
    weigh_chances(probabilities, 1 + tastes.liked, rates, inverse, LEAST_SPREAD)
    return probabilities


PRIOR, STRENGTH = 10.0, 0.5
"""Likes that the average profile counts for beside a device's own, and how strongly profiles move scores."""
LIKE_ANY = 0.01
"""Share of likes that are thought to be of any item at random, so that no feature is expected never to be liked."""
DAMPING = 3
LEAST_SCORE = 1e-6  # Scores of an item-item model below it count as this one where features multiply them
_STEPS = 2.0**32  # Logarithms are rounded to a fraction of it, so that their sums are exact in any order


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicFeatures(Checked):
    """Which items have which feature."""

    names: tuple[str, ...]  # Column and word of each feature, such as ``"genres: Drama"`` or ``"title: 1990s"``
    has: Floats2 = field(repr=False)  # shape (N, features); 1 where an item has it, else 0

    def check(self) -> None:
        """Refuse features that cannot be meant; see `Checked.check`."""
        if type(self.names) is not tuple or not all(type(name) is str for name in self.names):
            raise InputError("names of features are no tuple of str; give a name for each column")
        checked.require_whole("number of features", len(self.names), 1, MOST_ITEMS)
        checked.require_array("features of items", self.has, np.float64, [None, len(self.names)], 0, 1)

    def gains(self, liked: Floats2, likes: Floats, popularity: Floats) -> Floats2:
        """Return what features add to the logarithm of each score on each device, shape (devices, N)."""
        # Shapes: ``liked`` (devices, features); ``likes`` (devices,); ``popularity`` (N,).
        positive = np.maximum(popularity, 0)
        catalogue = self.has.mean(axis=0)  # some features may be of no popular item
        liking = positive @ self.has / max(float(positive.sum()), 1e-300)
        rates = (1 - LIKE_ANY) * liking + LIKE_ANY * catalogue
        profile = (liked + PRIOR * rates) / (likes + PRIOR)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratios = np.where(rates > 0, STRENGTH * np.log(profile / rates), 0.0)  # no item has it, none is liked
        return np.rint(log_ratios * _STEPS) / _STEPS @ self.has.T


def damped(popularity: Floats, noise: float) -> Floats:
    """Return popularity as features multiply it, float64, shape (N,): what is no more than noise nearly vanishes."""
    # A feature that many items have lifts hundreds of items that nobody likes, some of which noise has lifted already.
    # ``f (f / (f + 3 s))^2``, s the standard error, keeps what stands out: found on MovieLens latest-small.
    positive = np.maximum(popularity, 0)
    return positive * (positive / np.maximum(positive + DAMPING * noise, 1e-300)) ** 2


def typical_error(error: Floats) -> float:
    """Return the median standard error of a model's scores; 0 where the server does not know it."""
    middle = float(np.median(error))
    return middle if np.isfinite(middle) else 0.0


def floor_of(noise: float) -> float:
    """Return the score that smaller ones count as, where features multiply estimates of such a standard error."""
    return 1e-9 * max(noise, 1e-9)
