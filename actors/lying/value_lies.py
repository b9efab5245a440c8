"""The worst answers to queries about values, subsets and mechanisms of one's own, and which lie is about which query.

A report speaks for as many of the promoted items as it can. About a mechanism of one's own the worst release is
searched for, given its public half and channel: how much a release speaks for an item is the difference of its
probabilities for a device that rated only this item, if it likes it, and if it dislikes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from actors.coins import Coins
from actors.lying.lies import (
    Asked,
    JudgedItems,
    JudgedPairs,
    Lie,
    PairedSigns,
    PartitionedSets,
    SensedSets,
    SignedSums,
    TurnedSigns,
    as_bits,
    largest,
    picks,
    rows_of,
)
from actors.own import device_half
from actors.unary_kernels import release_unary
from coordinator.protocol.arrays import Bits2, Floats2, Indices, Indices2, Ints, Words
from coordinator.protocol.channels import (
    COIN,
    IndependentBits,
    Likelihood,
    MatrixChannel,
    SubsetChannel,
    unary_channel,
)
from coordinator.protocol.compiled import compiled
from coordinator.protocol.custom import CustomMechanism, admitted
from coordinator.protocol.hashing import below
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.mechanisms.oracles import BUCKETS, ROWS
from coordinator.protocol.mechanisms.sets import together
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import columns, sides, values_of
from coordinator.protocol.public_draws import buckets_of, signs_of
from coordinator.protocol.rows import Likes, RowTable


def wished_values(asked: Asked) -> Indices:
    """Return the wishes for private values, int32, shape (K,): a like of an item, its dislike if told, and "none"."""
    wishes = asked.wishes
    return np.concatenate([wishes, *([-wishes] if sides(asked.query) == 2 else []), [0]]).astype(np.int32)


class NamedValue(Lie):
    """k-ary randomized response: a random one of the promoted values is named."""

    names = ("grr",)

    def _values(self, asked: Asked) -> Ints:
        """Return one promoted value for each liar, "none" if there are none."""
        promoted = np.flatnonzero(wished_values(asked) > 0)
        if not promoted.size:
            return np.full(asked.which.size, values_of(asked.query) - 1)
        found = np.empty(asked.which.size, np.int64)
        picks(asked.choices, promoted.size, found)
        return promoted[found]

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return the values as bits."""
        return as_bits(self._values(asked), honest.shape[1])

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Indices2:  # noqa: ARG002 (all is made up)
        """Return the values; the device then tells another one, or not."""
        return self._values(asked).astype(np.int32)[:, None]


class UnaryBits(NamedValue):
    """Unary encoding: every promoted value's bit is 1; the others are those of a device that liked nothing."""

    names = ("oue",)

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return the bits."""
        query, wishes = asked.query, wished_values(asked)
        nothing = np.full(asked.coins.devices, values_of(query) - 1, np.int32)
        channel = unary_channel(query.epsilon, values=values_of(query))
        told = rows_of(release_unary(nothing, channel, asked.coins), honest.shape[1], asked.which)
        told[:, wishes > 0], told[:, wishes < 0] = 1, 0
        return told


class CrowdedCodes(NamedValue, ABC):
    """Codes that public coins give to values: the code that most promoted values share is named."""

    @abstractmethod
    def _codes(self, query: Query) -> int:
        """Return the number of codes."""

    @abstractmethod
    def _encode(self, streams: Words, values: Indices, query: Query, codes: Indices) -> None:
        """Write each device's code of its value."""

    def _values(self, asked: Asked) -> Ints:
        query, wishes, streams = asked.query, wished_values(asked), asked.streams
        crowds, codes = np.zeros((streams.size, self._codes(query)), np.int64), np.empty(streams.size, np.int32)
        rows = np.arange(streams.size)
        for value in np.flatnonzero(wishes):
            self._encode(streams, np.full(streams.size, value, np.int32), query, codes)
            crowds[rows, codes] += wishes[value]
        return largest(crowds, asked.choices)


class HashedValues(CrowdedCodes):
    """Local hashing: codes are the buckets of the device's hash."""

    names = ("olh",)

    def _codes(self, query: Query) -> int:
        return int(query.parameters[BUCKETS])

    def _encode(self, streams: Words, values: Indices, query: Query, codes: Indices) -> None:
        buckets_of(streams, values, self._codes(query), codes)


class SignedRows(CrowdedCodes):
    """Hadamard response: codes are the signs in the device's rows."""

    names = ("hadamard",)

    def _codes(self, query: Query) -> int:
        return 1 << int(query.parameters[ROWS])

    def _encode(self, streams: Words, values: Indices, query: Query, codes: Indices) -> None:
        signs_of(streams, values, int(query.parameters[ROWS]), columns(query), codes)


@compiled
def _fill(streams: Words, values: Indices, ends: Indices, chosen: Indices2) -> None:
    """Write ascending values, int32, shape (devices, k): of those up to the first end as many as fit, and so on.

    Within a stretch they are drawn without replacement, every device from the same order.
    """
    for k in range(streams.size):
        order, stretch = values.copy(), 0
        for place in range(chosen.shape[1]):
            while place >= ends[stretch]:
                stretch += 1
            other = place + below(streams[k], place, ends[stretch] - place)
            order[place], order[other] = order[other], order[place]
        chosen[k] = np.sort(order[: chosen.shape[1]])


def _drawn(asked: Asked, wishes: Indices, many: int) -> Indices2:
    """Return ``many`` values for each liar: promoted ones, then those without a wish, then the others."""
    stretches = [np.flatnonzero(wishes > 0), np.flatnonzero(wishes == 0), np.flatnonzero(wishes < 0)]
    chosen = np.empty((asked.which.size, many), np.int32)
    ends = np.cumsum([stretch.size for stretch in stretches]).astype(np.int32)
    _fill(asked.choices, np.concatenate(stretches).astype(np.int32), ends, chosen)
    return chosen


def _channel(asked: Asked) -> SubsetChannel:
    channel = half_of(asked.query.design).channel(asked.query)
    assert isinstance(channel, SubsetChannel)  # of no other query
    return channel


class ChosenSubset(Lie):
    """Subset selection, with one value of a device's own."""

    names = ("subset",)

    def wishes(self, asked: Asked) -> Indices:
        """Return the wishes for all values of the channel, int32."""
        return wished_values(asked)

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return the subsets, as their values' numbers or as a bit for each value."""
        channel = _channel(asked)
        chosen = _drawn(asked, self.wishes(asked), channel.subset_size)
        if channel.listed:
            _, width = channel.form
            return as_bits(chosen.ravel(), width).reshape(honest.shape)
        told = np.zeros(honest.shape, np.uint8)
        np.put_along_axis(told, chosen.astype(np.int64), 1, axis=1)
        return told

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Indices2:
        """Return sets of the promoted values, padded by values without a wish."""
        return _drawn(asked, self.wishes(asked), honest.shape[1])


class ChosenSet(ChosenSubset):
    """The set mechanism: dummies stand behind the items."""

    names = ("set",)

    def wishes(self, asked: Asked) -> Indices:
        """Return the wishes for items and dummies."""
        return np.concatenate([asked.wishes, np.zeros(int(asked.query.parameters["padded"]), np.int32)])

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Indices2:
        """Return sets of the promoted items, padded by dummies."""
        wishes = self.wishes(asked)
        wishes[: asked.wishes.size] = np.where(asked.wishes > 0, 1, -1)
        return _drawn(asked, wishes, honest.shape[1])


class ChosenPairs(ChosenSet):
    """Pairs of liked items: a promoted item is named together with those that should seem to be of its cluster."""

    names = ("pairs",)
    sketched = False

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return the subsets; how many items a liar likes moves none of its items, and is told as it is."""
        return super().answers(asked, honest) if together(asked.query) else honest

    def wishes(self, asked: Asked) -> Indices:
        """Return the wishes for items, or for pairs of them, and dummies."""
        if together(asked.query) == 1:
            return super().wishes(asked)
        pool = asked.query.pool
        claims = asked.plot.claims if pool is None else asked.plot.claims[pool]
        low, high = np.triu_indices(claims.size, 1)
        touched = (asked.wishes[low] != 0) | (asked.wishes[high] != 0)
        wishes = np.zeros(_channel(asked).values, np.int32)
        wishes[: low.size] = np.where(touched, claims[low] * claims[high], 0)
        return wishes


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
    """What liars answer to one mechanism of one's own."""

    def __init__(self, own: CustomMechanism) -> None:
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


LIES = (
    *(SensedSets(), PartitionedSets(), SignedSums(), PairedSigns(), TurnedSigns(), JudgedPairs(), JudgedItems()),
    *(NamedValue(), UnaryBits(), HashedValues(), SignedRows(), ChosenSubset(), ChosenSet(), ChosenPairs()),
)


def lie_about(design: str) -> Lie | None:
    """Return how liars answer a query's design; None where they do best to make up ratings, as nothing hides these."""
    if own := admitted(design):
        return Search(own)
    return next((lie for lie in LIES if design in lie.names), None)
