"""What an honest but curious server makes of one release: clues about its sign, and about every rating behind it.

The server knows the public model, the mechanism, and a few ratings of the device's user. All clues are numbers that
any of the vector mechanisms allows; `scenarios.two_tier.attack` learns on public users what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices, Ints
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.features import ItemFeatures, residuals, tastes
from coordinator.protocol.rows import Rows

Singles: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]
"""Rows of releases; half the memory."""
NEARBY = 5
"""Ranks of popularity that an unrated item lies away from the rated one that it is held against, at most."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dealt:
    """Users' ratings as an attack deals them out: the first of a random order may be known, the last are targets.

    Attributes
    ----------
    rows : Rows
        Ratings, every user's in random order.
    targets : ndarray of int64
        Places in ``rows`` of ratings that are guessed.
    owner : ndarray of int64
        The user of every target.
    known : ndarray of int64, shape (users,)
        Ratings of every user before the first target: most that may be known.
    decoys : ndarray of int32
        For every target an item that the user did not rate, about as popular; -1 where there is none.
    """

    rows: Rows = field(repr=False)
    targets: Ints = field(repr=False)
    owner: Ints = field(repr=False)
    known: Ints = field(repr=False)
    decoys: Indices = field(repr=False)

    @property
    def items(self) -> Indices:
        """The targets' items."""
        return self.rows.items[self.targets]

    @property
    def values(self) -> Floats:
        """The targets' ratings."""
        return self.rows.values[self.targets]

    def first(self, count: int) -> Rows:
        """Return what the server knows: the first ``count`` ratings of every user, or as many as are no targets."""
        rank = np.arange(self.rows.items.size) - np.repeat(self.rows.starts[:-1], self.rows.degrees)
        return self.rows.where(rank < np.repeat(np.minimum(self.known, count), self.rows.degrees))


def deal(rows: Rows, popularity: Ints, seed: int, purpose: str, *, targets: int) -> Dealt:
    """Deal out users' ratings.

    Parameters
    ----------
    rows : Rows
    popularity : ndarray of int64, shape (m,)
        Public ratings of every item.
    seed : int
    purpose : str
        With the seed it settles the order.
    targets : int
        Targets a user, at most; never more than half of the ratings, rounded up.
    """
    coins = np.random.default_rng(as_words(derive(seed, purpose)))
    owners = rows.owners
    order = np.lexsort((coins.random(owners.size), owners))
    mixed = replace(rows, items=rows.items[order], values=rows.values[order])
    known = rows.degrees - np.minimum(targets, -(-rows.degrees // 2))
    rank = np.arange(owners.size) - np.repeat(rows.starts[:-1], rows.degrees)
    chosen = np.flatnonzero(rank >= np.repeat(known, rows.degrees))
    decoys = _decoys(rows, owners[chosen], mixed.items[chosen], popularity, coins)
    return Dealt(rows=mixed, targets=chosen, owner=owners[chosen], known=known, decoys=decoys)


def _decoys(rows: Rows, owner: Ints, items: Indices, popularity: Ints, coins: np.random.Generator) -> Indices:
    """Return for every rated item an unrated one of the same user, near in the order of popularity, or -1."""
    order = np.lexsort((coins.random(rows.count), popularity))
    rank = np.empty(rows.count, np.int64)
    rank[order] = np.arange(rows.count)
    taken = np.unique(rows.owners * rows.count + rows.items)
    found = np.full(items.size, -1, np.int32)
    steps = np.array([step * sign for step in range(1, NEARBY + 1) for sign in (1, -1)])
    for step in steps[coins.permuted(np.tile(np.arange(steps.size), (items.size, 1)), axis=1)].T:
        place = rank[items] + step
        near = order[np.clip(place, 0, rows.count - 1)]
        free = (found < 0) & (place >= 0) & (place < rows.count) & ~np.isin(owner * rows.count + near, taken)
        found[free] = near[free]
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Releases of users as rows z, as the server reads them, and what it computes from them alone.

    Attributes
    ----------
    rows : ndarray of float32, shape (users, m)
        z.
    fits : ndarray of float64, shape (users, r)
        Coefficients of z on V, ridge regression with kappa.
    side : ndarray of bool, shape (users,)
        The truth: whether z lies on the completed vector's side. The server has it of public users only.
    prior : ndarray of float64, shape (users,)
        Whether z lies on the side of the sum of public users' r', 1 or -1. More than the sign would look better among
        these users, whose own vectors are in the sum, than it is among others.
    """

    rows: Singles = field(repr=False)
    fits: Floats2 = field(repr=False)
    side: Bools = field(repr=False)
    prior: Floats = field(repr=False)


def seen(features: ItemFeatures, released: Singles, truth: Rows, total: Floats) -> Seen:
    """Return what the server sees of some users' releases.

    Parameters
    ----------
    features : ItemFeatures
    released : ndarray of float32, shape (users, m)
        z; zeros where nothing was released.
    truth : Rows
        The users' ratings, for the true side.
    total : ndarray of float64, shape (m,)
        Sum of public users' r'.
    """
    vectors = features.vectors
    gram = vectors.T @ vectors + features.kappa * np.eye(features.rank)
    fits: Floats2 = np.asarray(np.linalg.solve(gram, (released @ vectors).T).T, np.float64)
    side, prior = np.zeros(truth.users, np.bool_), np.zeros(truth.users)
    for user in range(truth.users):
        one, row = truth.block(user, user + 1), released[user].astype(np.float64)
        own = residuals(features, one)[0]
        side[user], prior[user] = float(own @ row) > 0, np.sign(total @ row)
    return Seen(rows=released, fits=fits, side=side, prior=prior)


def side_clues(features: ItemFeatures, seen: Seen, known: Rows) -> Floats2:
    """Return what tells a release's side: agreement with known ratings, with their completion, and with the prior.

    Returns
    -------
    ndarray of float64, shape (users, 3)
        All change their sign with the release.
    """
    centred = known.values - features.mean[known.items]
    owners = known.owners
    agreement = seen.rows[owners, known.items] * centred
    total = np.bincount(owners, agreement, known.users)
    size = np.bincount(owners, np.abs(agreement), known.users)
    taste = tastes(features, known.starts, known.items, centred)
    gram = features.vectors.T @ features.vectors
    inner = np.einsum("ua,ab,ub->u", taste, gram + features.kappa * np.eye(features.rank), seen.fits)
    lengths = np.linalg.norm(seen.rows, axis=1) * np.sqrt(np.einsum("ua,ab,ub->u", taste, gram, taste))
    return np.stack(
        [total / np.where(size > 0, size, 1.0), inner / np.where(lengths > 0, lengths, 1.0), seen.prior], axis=1
    )


def rating_clues(features: ItemFeatures, seen: Seen, dealt: Dealt, known: Rows, belief: Floats) -> Floats2:
    """Return what tells the targets' ratings, given the side that the server believes in, -1 to 1, a user.

    Returns
    -------
    ndarray of float64, shape (targets, 5)
        Prediction from the known ratings; the release and its fit, turned to the believed side; how sure that is; the
        item's mean.
    """
    centred = known.values - features.mean[known.items]
    taste = tastes(features, known.starts, known.items, centred)
    vectors, owner = features.vectors[dealt.items], dealt.owner
    return np.stack(
        [
            (vectors * taste[owner]).sum(axis=1),
            seen.rows[owner, dealt.items] * belief[owner],
            (vectors * seen.fits[owner]).sum(axis=1) * belief[owner],
            np.abs(belief[owner]),
            features.mean[dealt.items],
        ],
        axis=1,
    )


def rated_clues(features: ItemFeatures, seen: Seen, owner: Ints, items: Indices, popularity: Ints) -> Floats2:
    """Return what tells whether items were rated: how far the release lies from its own fit there.

    Returns
    -------
    ndarray of float64, shape (items, 5)
    """
    told = seen.rows[owner, items].astype(np.float64)
    fit = (features.vectors[items] * seen.fits[owner]).sum(axis=1)
    return np.stack([told * fit, np.abs(told - fit), np.abs(told), np.abs(fit), popularity[items]], axis=1)
