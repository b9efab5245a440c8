"""The private coins of one block of devices in one query; see `actors.seeds`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from actors.seeds import CHOICE, FAIR, PLACE, RELEASE, SHUFFLE, SKETCH, WHOLE, WORDS, place_coins, private_coins
from coordinator.protocol.arrays import Words, Words2


class Coins(NamedTuple):
    """Coins of a block of devices in one query."""

    master: Words
    """The population's master secret, uint64, shape (2,)."""
    first: int
    devices: int
    """The devices that draw are ``first`` to ``first + devices - 1``."""
    query_id: Words
    """The query's id as two words."""

    def release(self, question: int) -> Words:
        """Return each device's coin for the local randomizer of one question, uint64, shape (devices,)."""
        return private_coins(self.master, self.first, self.devices, RELEASE, self.query_id, question)

    def choices(self) -> Words:
        """Return each device's stream for breaking ties and picking among equal answers, uint64, shape (devices,)."""
        return private_coins(self.master, self.first, self.devices, CHOICE, self.query_id, 0)

    def keys(self) -> tuple[Words, Words]:
        """Return each device's 128-bit key as two arrays of uint64, shape (devices,); see `actors.subset_kernels`."""
        low, high = (
            private_coins(self.master, self.first, self.devices, WORDS, self.query_id, half) for half in (0, 1)
        )
        return low, high

    def sketch(self, question: int = 0) -> Words:
        """Return each device's coin for a random choice in its sketch, uint64, shape (devices,)."""
        return private_coins(self.master, self.first, self.devices, SKETCH, self.query_id, question)

    def whole(self, question: int = 0) -> Words:
        """Return each device's coin for its whole vector, uint64, shape (devices,)."""
        return private_coins(self.master, self.first, self.devices, WHOLE, self.query_id, question)

    def shuffles(self) -> Words:
        """Return each device's stream for shuffling its candidates, uint64, shape (devices,)."""
        return private_coins(self.master, self.first, self.devices, SHUFFLE, self.query_id, 0)

    def places(self, count: int) -> Words2:
        """Return a coin for each of ``count`` coordinates, uint64, shape (devices, count)."""
        return self._coordinates(PLACE, count)

    def fair(self, items: int) -> Words2:
        """Return fair coins for the items, 64 to a word, uint64, shape (devices, ceil(items / 64))."""
        return self._coordinates(FAIR, -(-items // 64))

    def _coordinates(self, purpose: np.uint64, count: int) -> Words2:
        coins = np.empty((self.devices, count), np.uint64)
        place_coins(self.master, self.first, self.devices, purpose, self.query_id, coins)
        return coins
