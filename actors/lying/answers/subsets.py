"""Lies about subsets: the released subset holds as many of the promoted values as it has room for."""

from __future__ import annotations

import numpy as np

from actors.lying.answers.one_value import wished_values
from actors.lying.lie import Asked, Lie, as_bits
from coordinator.protocol.arrays import Bits2, Indices, Indices2, Words
from coordinator.protocol.channels import SubsetChannel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.mechanisms.pairs import together
from coordinator.protocol.uniform import below


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
        chosen = _drawn(asked, self.wishes(asked), channel.chosen)
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


LIES = (ChosenSubset(), ChosenSet(), ChosenPairs())
