"""Lies about a mechanism of one's own: its worst release is searched for, given its public half and channel.

How much a release speaks for an item is the difference of its probabilities for a device that rated only this item: if
it likes it, and if it dislikes it. The worst release has the largest sum of these differences over the wished items.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from actors.coins import Coins
from actors.lying.lie import Asked, Lie, as_bits, largest, picks
from actors.own import device_half
from coordinator.protocol.admitted import Own
from coordinator.protocol.arrays import Bits2, Floats2, Indices2, Words
from coordinator.protocol.channels import COIN, IndependentBits, Likelihood, MatrixChannel
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.rows import Likes, RowTable

DUST = 1e-12
"""Differences of probabilities below it count as none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnlyOne:
    """Ratings of devices of which each rated one item only, and all the same one."""

    item: int
    liked: bool
    items: int
    users: int
    rated_public: bool = field(default=False)

    def opinions(self, master: Words, first: int, items: Indices2) -> Bits2:
        """Refuse; own mechanisms read rows."""
        raise NotImplementedError

    def rated(self, master: Words, first: int, count: int) -> Likes:  # noqa: ARG002 (all the same)
        """Return rated items and likes; see `actors.ratings.Ratings.rated`."""
        items, likes = np.full(count, self.item, np.int32), np.full(count, self.liked)
        return RowTable(starts=np.arange(count + 1, dtype=np.int64), items=items, values=likes, count=self.items)


class Search(Lie):
    """What liars answer to one mechanism of one's own.

    Parameters
    ----------
    own : Own
        As it was admitted.
    """

    def __init__(self, own: Own) -> None:
        self.names, self._half = (own.name,), device_half(own)

    def _sketch(self, asked: Asked, item: int, coins: Coins, *, liked: bool) -> Bits2 | Indices2:
        ratings = _OnlyOne(item=item, liked=liked, items=asked.query.items, users=coins.first + coins.devices)
        return self._half.sketch(asked.query, ratings, coins).private[asked.which]

    def _sway(self, asked: Asked) -> Floats2:
        """Return by how much each output, or each bit, speaks for the wishes: shape (n, outputs or bits)."""
        channel, streams = half_of(asked.query.design).channel(asked.query), asked.streams
        total: Floats2 = np.zeros((len(streams), 1))
        for item in np.flatnonzero(asked.plot.wishes).tolist():
            liked, disliked = (
                _chances(channel, self._sketch(asked, item, asked.coins, liked=liked), streams)
                for liked in (True, False)
            )
            total = total + int(asked.plot.wishes[item]) * (liked - disliked)
        return total

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return an output of the largest sway; or every bit that has some as it speaks for the wishes."""
        sway = self._sway(asked)
        if isinstance(half_of(asked.query.design).channel(asked.query), IndependentBits):
            return np.where(np.abs(sway) > DUST, sway > 0, honest).astype(np.uint8)
        return as_bits(largest(np.round(sway / DUST), asked.choices), honest.shape[1])

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Bits2 | Indices2:
        """Return the sketch of a device that rated only one of the wished items, as wished; a random one each."""
        wished = np.flatnonzero(asked.plot.wishes)
        mine, found = np.empty(asked.which.size, np.int64), honest.copy()
        picks(asked.choices, wished.size, mine)
        for place in np.unique(mine).tolist():
            item = int(wished[place])
            told = self._sketch(asked, item, asked.coins, liked=bool(asked.plot.wishes[item] > 0))
            found[mine == place] = told[mine == place]
        return found


def _chances(channel: object, private: Bits2 | Indices2, streams: Words) -> Floats2:
    """Return the probability of each output, or that each bit is 1, for every device."""
    if isinstance(channel, IndependentBits):
        return np.where(private == 1, channel.if_one / COIN, channel.if_zero / COIN)
    if isinstance(channel, MatrixChannel):
        rows = np.array([[coins / COIN for coins in row] for row in channel.rows])
        found: Floats2 = rows[np.ravel(private)]
        return found
    assert isinstance(channel, Likelihood)  # there is no other
    pairs = zip(private.astype(np.int64), streams, strict=True)
    return np.array([[float(chance) for chance in channel.chances(row, stream)] for row, stream in pairs])
