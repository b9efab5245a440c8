"""Pairwise-Preference on devices: three readings of what it means that a device agrees about two items (spec, 3)."""

from collections.abc import Callable

import numpy as np

from actors.block_model import DISLIKED, LIKED, UNRATED
from actors.device_half import DeviceHalf, Sketch
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits, Bools
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import AGREEMENTS, OF_RATED
from coordinator.protocol.public_draws import pairs_among

_AGREE: dict[str, Callable[[Bits, Bits], Bools]] = {
    # Both items are rated, and alike (Banerjee et al., Appendix B)
    "rated-equal": lambda first, second: (first == second) & (first != UNRATED),
    # Both are liked, or neither; unrated counts as not liked (Figure 1 to the letter)
    "equal": lambda first, second: (first == LIKED) == (second == LIKED),
    # Both are liked (the authors' slides)
    "positive": lambda first, second: (first == LIKED) & (second == LIKED),
}
"""Whether a device agrees about two items, by the readings of `coordinator.protocol.mechanisms.pairwise.AGREEMENTS`."""


class Pairwise(DeviceHalf):
    """One bit, flipped: whether the device agrees about its public pair (Banerjee et al., Figure 1)."""

    def __init__(self, agreement: str, suffix: str = "") -> None:
        self.names = (f"pairwise-{agreement}{suffix}",)
        self.agree = _AGREE[agreement]

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return 1 for each device that agrees about a pair among all items."""
        pairs = pairs_among(coins.streams(query), np.full(coins.devices, query.items))
        opinions = ratings.opinions(coins.master, coins.first, pairs)
        return Sketch(self.agree(opinions[:, 0], opinions[:, 1]).astype(np.uint8).reshape(coins.devices, 1))


class PairwiseOfRated(Pairwise):
    """The pair is drawn among the items that the device rated, which are public; with fewer than two it is silent."""

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Return 1 for each device that agrees about a pair among its rated items, and the pairs."""
        rated = ratings.rated(coins.master, coins.first, coins.devices)
        places = pairs_among(coins.streams(query), rated.degrees)
        able = places[:, 0] >= 0
        rows = np.where(able[:, None], rated.starts[:-1, None] + places, 0)
        pairs = np.full((coins.devices, 2), -1, np.int32)
        opinions = np.full((coins.devices, 2), DISLIKED, np.uint8)
        if able.any():
            pairs[able] = rated.items[rows[able]]
            opinions[able] = np.where(rated.values[rows[able]], LIKED, DISLIKED)
        bits = self.agree(opinions[:, 0], opinions[:, 1]) & able
        return Sketch(bits.astype(np.uint8).reshape(coins.devices, 1), None if able.all() else able, pairs)


DEVICE = (*(Pairwise(name) for name in AGREEMENTS), *(PairwiseOfRated(name, OF_RATED) for name in AGREEMENTS))
