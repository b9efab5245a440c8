"""Block models small enough to enumerate: every value of a user's data, and its law given the labels."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Bits, Bools, Floats
from coordinator.protocol.errors import InputError
from scenarios.theory.bounds import check_shape

MAX_ITEMS = 8
MAX_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """A block model with one user class, small enough to enumerate; labels Z are uniform over `L^N`."""

    items: int
    rated: int
    like: tuple[float, ...] = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_shape(items=self.items, rated=self.rated)
        if self.items > MAX_ITEMS:
            raise InputError(f"items {self.items}: enumeration takes at most {MAX_ITEMS}")
        if len(self.like) < 2 or not all(0 <= chance <= 1 for chance in self.like):
            raise InputError(f"like {self.like}: give 2 probabilities in [0, 1] or more, one a cluster")
        cells = len(self.like) ** self.items * math.comb(self.items, self.rated) * 2**self.rated
        if cells > MAX_CELLS:
            raise InputError(f"{cells} cells to enumerate: at most {MAX_CELLS}; take fewer items or clusters")


def possible_data(model: TinyModel) -> tuple[Bools, Bits]:
    """Every value of a user's data `(W, R)`, D of them."""
    rated, ratings = [], []
    for chosen in itertools.combinations(range(model.items), model.rated):
        for values in itertools.product((0, 1), repeat=model.rated):
            row, bits = np.zeros(model.items, dtype=np.bool_), np.zeros(model.items, dtype=np.uint8)
            row[list(chosen)], bits[list(chosen)] = True, values
            rated.append(row)
            ratings.append(bits)
    return np.array(rated), np.array(ratings)


def data_channel(model: TinyModel) -> Floats:
    """`P(data | labels)`, shape (L^N, D): rows sum to 1, columns in the order of `possible_data`."""
    rated, ratings = possible_data(model)
    labels = np.array(list(itertools.product(range(len(model.like)), repeat=model.items)))
    chance = np.asarray(model.like, dtype=np.float64)[labels]
    law = np.full((len(labels), len(rated)), 1.0 / math.comb(model.items, model.rated))
    for item in range(model.items):
        liked = chance[:, item, None]
        law *= np.where(rated[:, item], np.where(ratings[:, item] == 1, liked, 1.0 - liked), 1.0)
    return law
