"""What a liar answers to one kind of query: the worst answer for the items that it wants to move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numba import int64

from actors.coins import Coins
from actors.lying.plot import Plot
from coordinator.protocol.arrays import Bits2, Bools, Floats2, Indices, Indices2, Ints, Ints2, Words
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Query
from coordinator.protocol.streams import device_streams
from coordinator.protocol.uniform import below


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A query, as the liars of a block of devices meet it.

    Attributes
    ----------
    query : Query
        Public.
    plot : Plot
        What liars agreed on.
    coins : Coins
        Of the whole block.
    which : ndarray of int64, shape (n,)
        Places of the liars in it, ascending.
    pairs : ndarray of int32, shape (n, 2), or None
        Public pairs that the liars' answers are about, where they follow from public ratings.
    """

    query: Query
    plot: Plot
    coins: Coins = field(repr=False)
    which: Ints = field(repr=False)
    pairs: Indices2 | None = field(default=None, repr=False)

    @property
    def key(self) -> Words:
        """The round's public key."""
        return round_key(self.query.public_seed, self.query.round)

    @property
    def streams(self) -> Words:
        """The liars' public streams, uint64, shape (n,)."""
        found: Words = device_streams(self.key, self.coins.first, self.coins.devices)[self.which]
        return found

    @property
    def choices(self) -> Words:
        """The liars' private streams for picks among answers that are equally bad, uint64, shape (n,)."""
        found: Words = self.coins.choices()[self.which]
        return found

    @property
    def wishes(self) -> Indices:
        """The wishes for the items that are asked about, by their places in the pool; int32, shape (M,)."""
        return self.plot.wishes if self.query.pool is None else self.plot.wishes[self.query.pool]


class Lie:
    """What liars do with one kind of query, or several.

    Attributes
    ----------
    names : tuple of str
        The designs of these queries.
    both_ways : bool
        Whether it is as easy to make items seem liked less as to make them seem liked more.
    sketched : bool
        Whether `sketches` is defined. If not, liars who stick to the local randomizer make up their ratings.
    """

    names: tuple[str, ...]
    both_ways: ClassVar[bool] = False
    sketched: ClassVar[bool] = True

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return the worst answers, uint8, shape (n, query.bits).

        Parameters
        ----------
        asked : Asked
            The query and the liars.
        honest : ndarray of uint8, shape (n, query.bits)
            What they would have released; they keep it where the answer moves none of their items.
        """
        raise NotImplementedError

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Bits2 | Indices2:
        """Return the worst sketches, which the local randomizer then treats as honest ones.

        ``honest`` holds what they would have sketched, shape (n, k).
        """
        raise NotImplementedError

    def suits(self, asked: Asked) -> Bools:
        """Return which liars' public coins let one answer move all their items at once; for liars who chose their id.

        Raises
        ------
        NotImplementedError
            If ids cannot be chosen to advantage.
        """
        raise NotImplementedError(f"no id is better than another one for lies about {self.names[0]}")


def as_bits(numbers: Ints | Indices, width: int) -> Bits2:
    """Return whole numbers as bits, most significant first, uint8, shape (n, width)."""
    return ((numbers[:, None].astype(np.int64) >> np.arange(width)[::-1]) & 1).astype(np.uint8)


@compiled
def picks(streams: Words, many: int, found: Ints) -> None:
    """Write a uniform whole number below ``many`` for each stream, int64."""
    for k in range(streams.size):
        found[k] = int64(below(streams[k], 0, many))


def largest(scores: Ints2 | Floats2, streams: Words) -> Ints:
    """Return for each stream the place of the largest score in its row, int64; each of several alike is as likely.

    Parameters
    ----------
    scores : ndarray, shape (n, places)
    streams : ndarray of uint64, shape (n,)
    """
    best = scores == scores.max(axis=1, keepdims=True)
    ties, rank, drawn = best.sum(axis=1), np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
    for many in np.unique(ties).tolist():
        picks(streams, many, drawn)
        rank[ties == many] = drawn[ties == many]
    found: Ints = (best.cumsum(axis=1) > rank[:, None]).argmax(axis=1)
    return found
