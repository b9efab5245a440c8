"""Multi-MaxSense on devices: for each set of a random partition, whether some item of it was liked."""

from __future__ import annotations

import numpy as np

from actors.coins import Coins
from actors.halves import DeviceHalf, Sketched
from actors.partition_kernels import block_model_partition, stored_partition
from actors.ratings import Ratings, of_kind
from coordinator.protocol.coins import round_key
from coordinator.protocol.messages import Query


class MultiMaxSense(DeviceHalf):
    """A bit a set, each flipped (Banerjee et al., Figure 3)."""

    names = ("multi-maxsense",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return 1 for each set in which the device liked some item."""
        key, size = round_key(query.public_seed, query.round), int(query.parameters["set_size"])
        bits = np.empty((coins.devices, query.questions), np.uint8)
        of_kind(
            ratings,
            block=lambda of: block_model_partition(of.model(), coins.master, key, size, coins.first, bits),
            stored=lambda of: stored_partition(of.liked, key, size, coins.first, bits),
        )
        return Sketched(bits)


DEVICE = (MultiMaxSense(),)
