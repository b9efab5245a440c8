"""The worst answers to queries about values and subsets and to custom mechanisms, and the lie about each query.

A report supports as many of the promoted items as it can. For a custom mechanism the worst release is searched for,
with its public half and its channel: the support of a release for an item is the probability of this release by a
device that rated only this item and likes it, less that by one that dislikes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from actors.custom import device_half
from actors.lying.lies import (
    JudgedItems,
    JudgedPairs,
    LiarsView,
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
from actors.packed_releases import release_unary
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Floats2, Indices, Indices2, Ints, Words
from coordinator.protocol.channels import COIN, IndependentBits, Likelihood, MatrixChannel, unary_channel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.custom import CustomMechanism, admitted
from coordinator.protocol.hashing import below
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.mechanisms.oracles import BUCKETS, ROWS, columns, sides, values_of
from coordinator.protocol.mechanisms.sets import together
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import buckets_of, signs_of
from coordinator.protocol.rating_table import Likes, RowTable
from coordinator.protocol.value_channels import SubsetChannel


def wished_values(view: LiarsView) -> Indices:
    """Return the wishes for private values, int32, shape (K,): likes, dislikes if these are values, and "none"."""
    wishes = view.wishes
    return np.concatenate([wishes, *([-wishes] if sides(view.query) == 2 else []), [0]]).astype(np.int32)


class NamedValue(Lie):
    """k-ary randomized response: a random one of the promoted values is named."""

    names = ("grr",)

    def _values(self, view: LiarsView) -> Ints:
        """Return one promoted value for each liar, "none" if there are none."""
        promoted = np.flatnonzero(wished_values(view) > 0)
        if not promoted.size:
            return np.full(view.liars.size, values_of(view.query) - 1)
        numbers = np.empty(view.liars.size, np.int64)
        picks(view.choices, promoted.size, numbers)
        return promoted[numbers]

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        """Return the values as bits."""
        return as_bits(self._values(view), honest.shape[1])

    def sketches(self, view: LiarsView, honest: Bits2 | Indices2) -> Indices2:
        """Return the values, which the device then replaces by others, or not."""
        return self._values(view).astype(np.int32)[:, None]


class UnaryBits(NamedValue):
    """Unary encoding: every promoted value's bit is 1; the others are those of a device that liked nothing."""

    names = ("oue",)

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        """Return the bits."""
        query, wishes = view.query, wished_values(view)
        nothing = np.full(view.coins.devices, values_of(query) - 1, np.int32)
        channel = unary_channel(query.epsilon, values=values_of(query))
        bits = rows_of(release_unary(nothing, channel, view.coins), honest.shape[1], view.liars)
        bits[:, wishes > 0], bits[:, wishes < 0] = 1, 0
        return bits


class CrowdedCodes(NamedValue, ABC):
    """Codes that public coins give to values: the code that most promoted values share is named."""

    @abstractmethod
    def _codes(self, query: Query) -> int:
        """Return the number of codes."""

    @abstractmethod
    def _encode(self, streams: Words, values: Indices, query: Query, codes: Indices) -> None:
        """Write each device's code of its value."""

    def _values(self, view: LiarsView) -> Ints:
        query, wishes, streams = view.query, wished_values(view), view.streams
        crowds, codes = np.zeros((streams.size, self._codes(query)), np.int64), np.empty(streams.size, np.int32)
        rows = np.arange(streams.size)
        for value in np.flatnonzero(wishes):
            self._encode(streams, np.full(streams.size, value, np.int32), query, codes)
            crowds[rows, codes] += wishes[value]
        return largest(crowds, view.choices)


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
def _fill(streams: Words, values: Indices, ends: Indices, sample: Indices2) -> None:
    """Write ascending values, int32, shape (devices, k): as many of the first group as fit, then of the next one.

    ``ends`` are the ends of the groups in ``values``. Within a group values are drawn without replacement.
    """
    for k in range(streams.size):
        order, group = values.copy(), 0
        for place in range(sample.shape[1]):
            while place >= ends[group]:
                group += 1
            swap = place + below(streams[k], place, ends[group] - place)
            order[place], order[swap] = order[swap], order[place]
        sample[k] = np.sort(order[: sample.shape[1]])


def _sample(view: LiarsView, wishes: Indices, size: int) -> Indices2:
    """Return ``size`` values for each liar: promoted ones, then those without a wish, then the others."""
    groups = [np.flatnonzero(wishes > 0), np.flatnonzero(wishes == 0), np.flatnonzero(wishes < 0)]
    sample = np.empty((view.liars.size, size), np.int32)
    ends = np.cumsum([group.size for group in groups]).astype(np.int32)
    _fill(view.choices, np.concatenate(groups).astype(np.int32), ends, sample)
    return sample


def _channel(view: LiarsView) -> SubsetChannel:
    channel = half_of(view.query.design).channel(view.query)
    assert isinstance(channel, SubsetChannel)  # of no other query
    return channel


class ChosenSubset(Lie):
    """Subset selection, with one value of a device's own."""

    names = ("subset",)

    def wishes(self, view: LiarsView) -> Indices:
        """Return the wishes for all values of the channel, int32."""
        return wished_values(view)

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        """Return the subsets, as their values' numbers or as a bit for each value."""
        channel = _channel(view)
        subset = _sample(view, self.wishes(view), channel.subset_size)
        if channel.listed:
            _, width = channel.form
            return as_bits(subset.ravel(), width).reshape(honest.shape)
        bits = np.zeros(honest.shape, np.uint8)
        np.put_along_axis(bits, subset.astype(np.int64), 1, axis=1)
        return bits

    def sketches(self, view: LiarsView, honest: Bits2 | Indices2) -> Indices2:
        """Return sets of the promoted values, padded by values without a wish."""
        return _sample(view, self.wishes(view), honest.shape[1])


class ChosenSet(ChosenSubset):
    """The set mechanism: dummies stand behind the items."""

    names = ("set",)

    def wishes(self, view: LiarsView) -> Indices:
        """Return the wishes for items and dummies."""
        return np.concatenate([view.wishes, np.zeros(int(view.query.parameters["padded"]), np.int32)])

    def sketches(self, view: LiarsView, honest: Bits2 | Indices2) -> Indices2:
        """Return sets of the promoted items, padded by dummies."""
        wishes = self.wishes(view)
        wishes[: view.wishes.size] = np.where(view.wishes > 0, 1, -1)
        return _sample(view, wishes, honest.shape[1])


class ChosenPairs(ChosenSet):
    """Pairs of liked items: a promoted item is named together with those that should seem to be of its cluster."""

    names = ("pairs",)
    sketched = False

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        """Return the subsets; a number of likes promotes no item, so liars report it honestly."""
        return super().answers(view, honest) if together(view.query) else honest

    def wishes(self, view: LiarsView) -> Indices:
        """Return the wishes for items, or for pairs of them, and dummies."""
        if together(view.query) == 1:
            return super().wishes(view)
        pool = view.query.pool
        claims = view.collusion.claims if pool is None else view.collusion.claims[pool]
        first, second = np.triu_indices(claims.size, 1)
        touched = (view.wishes[first] != 0) | (view.wishes[second] != 0)
        wishes = np.zeros(_channel(view).values, np.int32)
        wishes[: first.size] = np.where(touched, claims[first] * claims[second], 0)
        return wishes


DUST = 1e-12  # Smaller differences of probabilities count as 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnlyOne:
    """Ratings of devices of which each rated one item only, and all the same one."""

    item: int
    liked: bool
    items: int
    users: int
    rated_public: bool = field(default=False)

    def opinions(self, master: Words, first: int, items: Indices2) -> Bits2:
        """Refuse; custom mechanisms read rows."""
        raise NotImplementedError

    def rated(self, master: Words, first: int, count: int) -> Likes:
        """Return rated items and likes; see `actors.ratings.Ratings.rated`."""
        items, likes = np.full(count, self.item, np.int32), np.full(count, self.liked)
        return RowTable(starts=np.arange(count + 1, dtype=np.int64), items=items, values=likes, count=self.items)


class CustomLie(Lie):
    """The lie about one custom mechanism, by a search for the worst release."""

    def __init__(self, own: CustomMechanism) -> None:
        self.names, self._half = (own.name,), device_half(own)

    def _sketch(self, view: LiarsView, item: int, coins: Coins, *, liked: bool) -> Bits2 | Indices2:
        ratings = _OnlyOne(item=item, liked=liked, items=view.query.items, users=coins.first + coins.devices)
        return self._half.sketch(view.query, ratings, coins).private[view.liars]

    def _sway(self, view: LiarsView) -> Floats2:
        """Return each output's, or each bit's, support for the wishes: shape (n, outputs or bits)."""
        channel, streams = half_of(view.query.design).channel(view.query), view.streams
        total: Floats2 = np.zeros((len(streams), 1))
        for item in np.flatnonzero(view.collusion.wishes).tolist():
            liked, disliked = (
                _chances(channel, self._sketch(view, item, view.coins, liked=liked), streams) for liked in (True, False)
            )
            total = total + int(view.collusion.wishes[item]) * (liked - disliked)
        return total

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        """Return an output of the most support; or each bit that matters as it supports the wishes more."""
        sway = self._sway(view)
        if isinstance(half_of(view.query.design).channel(view.query), IndependentBits):
            return np.where(np.abs(sway) > DUST, sway > 0, honest).astype(np.uint8)
        return as_bits(largest(np.round(sway / DUST), view.choices), honest.shape[1])

    def sketches(self, view: LiarsView, honest: Bits2 | Indices2) -> Bits2 | Indices2:
        """Return the sketch of a device that rated only one of the wished items, as wished; a random one each."""
        wished = np.flatnonzero(view.collusion.wishes)
        pick, result = np.empty(view.liars.size, np.int64), honest.copy()
        picks(view.choices, wished.size, pick)
        for place in np.unique(pick).tolist():
            item = int(wished[place])
            sketch = self._sketch(view, item, view.coins, liked=bool(view.collusion.wishes[item] > 0))
            result[pick == place] = sketch[pick == place]
        return result


def _chances(channel: object, private: Bits2 | Indices2, streams: Words) -> Floats2:
    """Return the probability of each output, or that each bit is 1, for every device."""
    if isinstance(channel, IndependentBits):
        return np.where(private == 1, channel.if_one / COIN, channel.if_zero / COIN)
    if isinstance(channel, MatrixChannel):
        rows = np.array([[coins / COIN for coins in row] for row in channel.rows])
        chances: Floats2 = rows[np.ravel(private)]
        return chances
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
        return CustomLie(own)
    return next((lie for lie in LIES if design in lie.names), None)
