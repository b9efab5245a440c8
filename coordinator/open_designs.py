"""Designs in which ratings are told in the open: the paper's toys, which are not private, and the trusted curator's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coordinator.pair_statistics import check_items
from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuery:
    """Item query: "is (i, z) your rating?", one bit about one item of the pool and one value. Not private.

    Source: Banerjee, Hegde, Massoulié, after Theorem 10 [4.3].

    Attributes
    ----------
    items : int
        Number of items N.
    """

    items: int

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None = None) -> Query:
        """Return the query of one round; ``pool`` holds the items still to be learned, by default all."""
        return Query(
            design="item-query",
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            pool=np.arange(self.items, dtype=np.int32) if pool is None else pool,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reveal:
    """Devices tell their ratings as they are: not private towards whoever asks.

    Source: Banerjee, Hegde, Massoulié, section 1.1 (``full-reveal``); the authors' slides, page 11 (the curator).

    Attributes
    ----------
    name : {"full-reveal", "curator-items", "curator-pairs"}
        The toy; a trusted curator who will publish noisy totals of items, or of pairs of items.
    items : int
        Number of items N.
    most : int
        Ratings that a device tells at most, w: what bounds a user's share in the curator's totals.
    share : float
        Probability that a device tells anything at all, in (0, 1]; in the toy ``1 / log2 N``.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    name: str
    items: int
    most: int
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.name == "curator-pairs":
            check_items(self.items)
        if not 1 <= self.most <= self.items:
            raise InputError(f"rated is {self.most}; it must lie between 1 and the number of items, {self.items}")
        if not 0 < self.share <= 1:
            raise InputError(f"reveal_share is {self.share}; it must lie in (0, 1]")

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return the query of one round."""
        return Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            questions=2 * self.items,
            parameters={"share": self.share, "most": self.most},
        )


def toy_share(items: int) -> float:
    """Return the toy's probability of a full reveal, ``1 / log2 N``: one bit a user on average."""
    return 1.0 if items <= 2 else 1 / math.log2(items)
