"""Anchor sensing on devices: one private bit of a device's ratings, under public signs of items or of pairs."""

from __future__ import annotations

import numpy as np

from actors.anchor_kernels import (
    Paired,
    Turned,
    block_model_paired,
    block_model_turned,
    stored_paired,
    stored_turned,
)
from actors.coins import Coins
from actors.halves import DeviceHalf, Sketched
from actors.ratings import Ratings, of_kind
from actors.sign_kernels import places_in
from coordinator.protocol.coins import round_key
from coordinator.protocol.mechanisms.anchor import COUNTS, GUESS, LEAN, LEVELS, PRIOR, SENSED
from coordinator.protocol.messages import Query
from coordinator.protocol.signs import UNIT
from coordinator.protocol.turned import level_bits


class PairSigns(DeviceHalf):
    """The sign of the signed sum over pairs of ratings."""

    names = ("pair-signs",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return each device's bit, uint8, shape (devices, 1)."""
        assert query.pool is not None
        centres, unit = (np.zeros(query.pool.size, np.int32), 1) if query.centres is None else (query.centres, UNIT)
        asked = Paired(places_in(query.pool, ratings.items), centres, unit)
        key, own, bits = round_key(query.public_seed, query.round), coins.choices(), np.empty(coins.devices, np.uint8)
        of_kind(
            ratings,
            block=lambda of: block_model_paired(of.model(), coins.master, key, own, asked, coins.first, bits),
            stored=lambda of: stored_paired(of.told, key, own, asked, coins.first, bits),
        )
        return Sketched(bits[:, None])


class Anchor(DeviceHalf):
    """The sign of what the sensed ratings count, turned by the class that the others let the device guess."""

    names = ("anchor",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return each device's bit, uint8, shape (devices, 1)."""
        prior, guess, counts, lean, sensed = (query.arrays[name] for name in (PRIOR, GUESS, COUNTS, LEAN, SENSED))
        asked = Turned(prior, guess, counts, lean, sensed, level_bits(int(query.parameters[LEVELS])))
        key, own, bits = round_key(query.public_seed, query.round), coins.choices(), np.empty(coins.devices, np.uint8)
        of_kind(
            ratings,
            block=lambda of: block_model_turned(of.model(), coins.master, key, own, asked, coins.first, bits),
            stored=lambda of: stored_turned(of.told, key, own, asked, coins.first, bits),
        )
        return Sketched(bits[:, None])


DEVICE = (PairSigns(), Anchor())
