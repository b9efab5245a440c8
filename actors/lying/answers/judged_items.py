"""Lies about one or two given items: the answer that fits the wish, and an honest one where no wish is touched."""

from __future__ import annotations

import numpy as np

from actors.lying.lie import Asked, Lie
from actors.mechanisms import pairwise
from coordinator.protocol.arrays import Bits2, Indices2
from coordinator.protocol.item_queries import item_queries
from coordinator.protocol.pairs import random_pairs


class JudgedPairs(Lie):
    """Two items agree if they should seem to be of one cluster; of items without a wish the truth is taken."""

    names = tuple(name for half in pairwise.DEVICE for name in half.names)
    both_ways = True

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return 1 where both items are claimed to be alike."""
        pairs = self._pairs(asked)
        claims, wished = asked.plot.claims[pairs], asked.plot.wishes[pairs] != 0
        lies = (claims[:, 0] == claims[:, 1]).astype(np.uint8)
        return np.where(wished.any(axis=1), lies, honest[:, 0])[:, None]

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Bits2:
        """Return the same bits; the device then flips them."""
        return self.answers(asked, honest.view(np.uint8))

    @staticmethod
    def _pairs(asked: Asked) -> Indices2:
        if asked.pairs is not None:
            return asked.pairs
        pairs = random_pairs(asked.key, asked.coins.first, asked.coins.devices, asked.query.items)
        return np.stack(pairs, axis=1)[asked.which]


class JudgedItems(Lie):
    """An item that should seem liked more is said to be liked, and not to be disliked."""

    names = ("item-query",)
    both_ways = True

    def answers(self, asked: Asked, honest: Bits2) -> Bits2:
        """Return 1 where the question fits the wish."""
        assert asked.query.pool is not None
        items, values = item_queries(asked.key, asked.coins.first, asked.coins.devices, asked.query.pool)
        wish = asked.plot.wishes[items[asked.which]]
        return np.where(wish == 0, honest[:, 0], (wish > 0) == values[asked.which]).astype(np.uint8)[:, None]

    def sketches(self, asked: Asked, honest: Bits2 | Indices2) -> Bits2:
        """Return the same bits, which nothing flips."""
        return self.answers(asked, honest.view(np.uint8))


LIES = (JudgedPairs(), JudgedItems())
