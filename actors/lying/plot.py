"""What liars agreed on before a run. The experimenter tells them with the population; the server never learns it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from actors.coins import Coins
from actors.seeds import LIARS, private_coins
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.checked import require_array, require_range, require_whole
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query

ANSWERS, SKETCHES, RATINGS = "answers", "sketches", "ratings"
"""What a liar makes up: its answer; or its sketch once it knows the query; or its ratings before any query."""
_COINS = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What liars agreed on.

    Attributes
    ----------
    shares : ndarray of float64, shape (N + 1,)
        Share of the devices that lies in a query about M items, at place M; 0 to 1.
    wishes : ndarray of int32, shape (N,)
        1 for items that should seem liked more than they are, -1 for those that should seem liked less, 0 for others.
    truth : ndarray of int32, shape (N,)
        1 for items that are liked more than usual, else -1. The spec lets liars know it, which is an upper bound.
    ordered : bool
        Whether a cluster is liked more than the other. If none is, 1 and -1 are sides: a truth of 1 means the first
        cluster, and a wish that an item should seem to be of it.
    makes_up : str
        `ANSWERS`, `SKETCHES` or `RATINGS`. Only the first gets around the local randomizer.
    rated : int
        How many items a liar claims to have rated, where it makes up its ratings.
    grinds : bool
        Whether liars chose their ids by the public coins: one whose coins do not suit is silent.
    came : (int, int) or None
        The first device that lies and the one after the last, where liars came together; None if they come throughout.

    Raises
    ------
    InputError
        If the arrays do not fit each other.
    """

    shares: Floats = field(repr=False)
    wishes: Indices = field(repr=False)
    truth: Indices = field(repr=False)
    ordered: bool = True
    makes_up: str = ANSWERS
    rated: int = 1
    grinds: bool = False
    came: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require_array("wishes of liars", self.wishes, np.int32, [None])
        require_range("wishes of liars", self.wishes, -1, 1)
        require_array("truth of liars", self.truth, np.int32, self.wishes.shape)
        require_array("shares of liars", self.shares, np.float64, [self.wishes.size + 1])
        require_range("shares of liars", self.shares, 0.0, 1.0)
        require_whole("rated items of a liar", self.rated, 1, self.wishes.size)
        if self.came is not None:
            require_whole("first device that lies", self.came[0], 0, self.came[1])
        if self.makes_up not in (ANSWERS, SKETCHES, RATINGS):
            raise InputError(f"liars make up {self.makes_up!r}; choose {ANSWERS}, {SKETCHES} or {RATINGS}")

    @property
    def claims(self) -> Indices:
        """What liars say of every item, 1 or -1: their wish, and the truth where they have none."""
        return np.where(self.wishes == 0, self.truth, self.wishes)

    def liars(self, query: Query, coins: Coins) -> Ints:
        """Return which devices of a block lie, ascending places in it.

        A device has one coin for all queries, so that those who lie at a share also lie at every larger one.
        """
        share = float(self.shares[query.items if query.pool is None else query.pool.size])
        found = liars_among(coins, share)
        if self.came is None:
            return found
        first, stop = self.came
        return found[(found + coins.first >= first) & (found + coins.first < stop)]


def liars_among(coins: Coins, share: float) -> Ints:
    """Return which devices of a block lie, ascending places in it, by a coin of each, the same in all queries."""
    if share == 0:
        return np.empty(0, np.int64)
    mine = private_coins(coins.master, coins.first, coins.devices, LIARS, np.zeros(2, np.uint64), 0)
    return np.flatnonzero(mine <= np.uint64(min(int(share * _COINS), _COINS - 1)))
