"""Block models small enough to enumerate: every value of a user's data, and its law given the labels."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Bits, Bools, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """A block model with one user class, small enough to enumerate; labels Z are uniform over `L^N`."""

    items: int
    rated: int
    like: tuple[float, ...] = (0.0, 1.0)


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
