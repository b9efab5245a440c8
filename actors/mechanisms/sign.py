"""Sign sensing on devices: the signed sums of a device's ratings, and which signed sign vector it names."""

from __future__ import annotations

import numpy as np

from actors.choices import choose
from actors.coins import Coins
from actors.halves import DeviceHalf, Sketched
from actors.ratings import Ratings, of_kind
from actors.sign_kernels import block_model_signs, places_in, stored_signs
from coordinator.protocol.arrays import Bits2, Indices2
from coordinator.protocol.coins import round_key
from coordinator.protocol.mechanisms.sign import Sign as PublicSign
from coordinator.protocol.messages import Query
from coordinator.protocol.signs import UNIT, to_bits


class Sign(DeviceHalf):
    """The sums rank the signed vectors; one of the best is named, or, less often, another one."""

    names = ("sign",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return the sums of ratings of the pool under each sign vector, less their centres if any, int32."""
        assert query.pool is not None
        key, places = round_key(query.public_seed, query.round), places_in(query.pool, ratings.items)
        centres, unit = (np.zeros(query.pool.size, np.int32), 1) if query.centres is None else (query.centres, UNIT)
        sums = np.empty((coins.devices, int(query.parameters["vectors"])), np.int32)
        of_kind(
            ratings,
            block=lambda of: block_model_signs(of.model(), coins.master, key, places, centres, unit, coins.first, sums),
            stored=lambda of: stored_signs(of.told, key, places, centres, unit, coins.first, sums),
        )
        return Sketched(sums)

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits2:
        """Return the sign and the number of the vector that each device names, as bits."""
        positive, vector = choose(private.view(np.int32), PublicSign().channel(query), coins)
        return to_bits(positive, vector, int(query.parameters["vectors"]))


DEVICE = (Sign(),)
