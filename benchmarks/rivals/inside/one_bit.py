"""One client's share of the one-bit job with the standard library alone: draw ratings, sense, flip one bit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

THETA = 1.0  # Expected number of sensed items among those a client rated


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBit:
    """The job, as every client gets it.

    Attributes
    ----------
    items, rated : int
        N and w.
    epsilon : float
        Privacy parameter of the bit [nats].
    seed : int
        Everything random follows from it and the client's number.
    like : tuple of float
        Probability of liking a rated item, one for each item cluster; item i is of cluster ``i % len(like)``.
    """

    items: int
    rated: int
    epsilon: float
    seed: int = 0
    like: tuple[float, ...] = (0.9, 0.1)

    @property
    def flip_probability(self) -> float:
        """Probability that randomized response flips the bit, ``1 / (1 + e**epsilon)``."""
        return 1 / (1 + math.exp(self.epsilon))

    def sensing_set(self, client: int) -> list[int]:
        """Return the client's public set: every item on its own with probability theta / w, drawn by gaps."""
        coins, chance = Random(f"{self.seed} public {client}"), THETA / self.rated
        if chance >= 1:
            return list(range(self.items))
        steps, sensed, item = math.log1p(-chance), list[int](), -1
        while (item := item + 1 + int(math.log(1 - coins.random()) / steps)) < self.items:
            sensed.append(item)
        return sensed

    def answer(self, client: int) -> int:
        """Return the client's released bit: whether it liked a sensed item, through randomized response."""
        coins = Random(f"{self.seed} private {client}")
        rated = coins.sample(range(self.items), self.rated)
        liked = {item for item in rated if coins.random() < self.like[item % len(self.like)]}
        return self.released(not liked.isdisjoint(self.sensing_set(client)), coins.random())

    def released(self, bit: bool, coin: float) -> int:
        """Return the bit, flipped where the coin, uniform on [0, 1), is below the flip probability."""
        return int(bit != (coin < self.flip_probability))
