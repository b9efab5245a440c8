"""Lies about anchor sensing: the sign that most of the wishes agree with, of pairs of items or of items in a class.

Clusters have no order here: a wish says to which side of the others an item should seem to belong.
"""

from __future__ import annotations

import numpy as np

from actors.lying.answers.signed_sums import SummedSigns, agreements, mask
from actors.lying.lie import Asked
from coordinator.protocol.arrays import Bits2, Indices2, Words, Words2
from coordinator.protocol.bit_tricks import ones
from coordinator.protocol.compiled import compiled
from coordinator.protocol.mechanisms.anchor import GUESS, LEVELS, SENSED
from coordinator.protocol.turned import sensed_planes, word_coins


@compiled
def _sensed_agreements(streams: Words, planes: Words2, up: Words, down: Words, sums: Indices2) -> None:
    """Write by how much the wishes for sensed items agree with their signs more than they disagree, (devices, 1)."""
    for k in range(streams.size):
        agree = wished = 0
        for word in range(up.size):
            signs, sensed = word_coins(streams[k], word, planes)
            agree += ones(signs & sensed & up[word]) + ones(~signs & sensed & down[word])
            wished += ones(sensed & (up[word] | down[word]))
        sums[k, 0] = 2 * agree - wished


class OneBit(SummedSigns):
    """The private bit is the answer, and the sketch."""

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Bits2:
        """Return the same bits; the device then flips them."""
        return self.answers(asked, honest.view(np.uint8))


class PairedSigns(OneBit):
    """Pairs of which one item has a wish: they are claimed to agree where they do not. Other pairs move no item."""

    names = ("pair-signs",)

    def _sums(self, asked: Asked) -> Indices2:
        pool, sums = asked.query.pool, np.empty((asked.which.size, 1), np.int32)
        assert pool is not None  # these queries have one
        low, high = np.triu_indices(pool.size, 1)
        claims, moved = asked.plot.claims[pool], asked.wishes != 0
        wishes = np.where(moved[low] != moved[high], claims[low] * claims[high], 0)
        agreements(asked.streams, mask(wishes > 0), mask(wishes < 0), sums)
        return sums


class TurnedSigns(OneBit):
    """Wished items that the liar's coins let it sense are claimed to be rated as the first class rates their side.

    Which side that is, the query's own numbers tell: liars read off them what the learner believes of the first class.
    """

    names = ("anchor",)

    def _sums(self, asked: Asked) -> Indices2:
        told, sums = asked.query.arrays, np.empty((asked.which.size, 1), np.int32)
        taste = told[GUESS][1].astype(np.int64) - told[GUESS][0]
        wishes = asked.wishes if taste @ asked.plot.truth >= 0 else -asked.wishes
        planes = sensed_planes(told[SENSED], int(asked.query.parameters[LEVELS]))
        _sensed_agreements(asked.streams, planes, mask(wishes > 0), mask(wishes < 0), sums)
        return sums


LIES = (PairedSigns(), TurnedSigns())
