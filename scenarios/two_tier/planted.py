"""Planted ratings of MovieLens 10M's shape: low rank and biases, half stars, popularity and activity skewed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints, Words
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import draw, siphash1
from coordinator.protocol.rows import starts_of
from scenarios.data.datasets import RatingTable

FEWEST = 20
"""Ratings of the least active user, as in MovieLens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedShape:
    """How much there is of what."""

    users: int = 69_878  # Numbers of users and items
    items: int = 10_677
    ratings: int = 10_000_000  # Ratings in all, about
    rank: int = 8  # Directions of taste, beside the users' and the items' biases
    fewest: int = FEWEST  # Ratings that every user has at least
    taste: float = 0.55  # Standard deviation of what the directions explain of a rating together [stars]
    noise: float = 0.7  # Standard deviation of what nothing explains [stars]


MEAN, USER_BIAS, ITEM_BIAS = 3.5, 0.35, 0.45
"""Of ratings, and standard deviations of users' and items' biases [stars]."""
DECAY = 0.95
"""Every direction's size against the one before."""
ACTIVITY, POPULARITY = 1.0, 2.2
"""Standard deviations of the logarithms of users' and items' numbers of ratings."""
MOST_OF_ITEMS = 0.7
"""Share of the items that the most active user rated."""


def planted_ratings(shape: PlantedShape, seed: int) -> RatingTable:
    """Draw a table of planted ratings."""
    coins = np.random.default_rng(np.frombuffer(derive(seed, "planted ratings"), np.uint32))
    degrees = _degrees(shape, coins)
    popularity = np.exp(POPULARITY * coins.standard_normal(shape.items))
    sizes = DECAY ** np.arange(shape.rank)
    sizes *= np.sqrt(shape.taste / np.sqrt(np.square(np.square(sizes)).sum()))
    tastes = coins.standard_normal((shape.users, shape.rank)) * sizes
    vectors = coins.standard_normal((shape.items, shape.rank)) * sizes
    liked = USER_BIAS * coins.standard_normal(shape.users)
    good = ITEM_BIAS * coins.standard_normal(shape.items)
    starts = starts_of(degrees)
    items = _draw_items(as_words(derive(seed, "planted items")), starts, np.cumsum(popularity) / popularity.sum())
    values = MEAN + shape.noise * coins.standard_normal(items.size)
    _add_tastes(values, starts, items, tastes, vectors, liked, good)
    return RatingTable(
        starts=starts,
        items=items,
        values=np.clip(np.round(values * 2) / 2, 0.5, 5.0),
        count=shape.items,
        user_labels=np.arange(1, shape.users + 1).astype(str).astype(np.object_),
        item_labels=np.arange(1, shape.items + 1).astype(str).astype(np.object_),
        source="planted",
    )


def _degrees(shape: PlantedShape, coins: np.random.Generator) -> Ints:
    """Return users' numbers of ratings, scaled until they add up to about the wanted number."""
    raw, most = np.exp(ACTIVITY * coins.standard_normal(shape.users)), int(MOST_OF_ITEMS * shape.items)
    low, high = 0.0, float(shape.ratings)
    for _ in range(60):
        middle = (low + high) / 2
        total = np.clip(raw * middle, shape.fewest, most).sum()
        low, high = (middle, high) if total < shape.ratings else (low, middle)
    return np.clip(np.round(raw * low), shape.fewest, most).astype(np.int64)


@compiled
def _draw_items(key: Words, starts: Ints, cumulative: Floats) -> Indices:
    """Draw every user's items, in proportion to popularity, each once, ascending."""
    items_drawn, seen = np.empty(starts[-1], np.int32), np.full(cumulative.size, -1, np.int64)
    for user in range(starts.size - 1):
        stream, lane, place = siphash1(key[0], key[1], np.uint64(user)), np.uint64(0), starts[user]
        while place < starts[user + 1]:
            coin = (draw(stream, lane) >> np.uint64(11)) * 2.0**-53
            lane += np.uint64(1)
            item = min(int(np.searchsorted(cumulative, coin, side="right")), cumulative.size - 1)
            if seen[item] != user:
                seen[item] = user
                items_drawn[place] = item
                place += 1
        items_drawn[starts[user] : starts[user + 1]].sort()
    return items_drawn


@compiled
def _add_tastes(
    values: Floats, starts: Ints, items: Indices, tastes: Floats2, vectors: Floats2, liked: Floats, good: Floats
) -> None:
    for user in range(starts.size - 1):
        for place in range(starts[user], starts[user + 1]):
            item = items[place]
            total = liked[user] + good[item]
            for k in range(tastes.shape[1]):
                total += tastes[user, k] * vectors[item, k]
            values[place] += total
