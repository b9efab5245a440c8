"""Where devices' ratings come from: drawn by each device's own seed from the block model, or stored.

Both kinds are frozen for a run, or for each of its periods, live on the private side only, and show no data when
printed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from actors import block_model
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits, Bits2, Bools, Bools2, Floats, Indices, Indices2, Ints, Words, read_only
from coordinator.protocol.coins import as_words
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import below, device_streams
from coordinator.protocol.mechanism import DISLIKED, LIKED, UNRATED, Opinions
from coordinator.protocol.rating_table import Likes, RowTable
from coordinator.protocol.sensing import SensingTable

TILE = 512  # Devices whose ratings are in memory together, more in a large catalogue; a speed parameter


def _tiles(coins: Coins, items: int, most: int) -> Iterator[tuple[slice, Opinions]]:
    """Yield tiles of the devices that draw, each with room for its ratings, ``most`` a device; all share one room."""
    size = max(1, min(max(TILE, items >> 8), coins.devices))
    # Room of its own would be fresh pages for every tile
    starts, places = np.zeros(size + 1, np.int64), np.empty(size * most, np.uint32)
    likes = np.empty(size * most, np.bool_)
    for first in range(0, coins.devices, size):
        stop = min(first + size, coins.devices)
        yield slice(first, stop), Opinions(starts[: stop - first + 1], places, likes)


def require_lived(period: int, periods: int) -> bool:
    """Return whether a period lies before the latest one; refuse one that devices do not live in."""
    if period > periods:
        raise InputError(f"a query asks about period {period}, devices live in {periods}; ask about one of these")
    return 0 < period < periods


def _in_63_bits(probability: float) -> int:
    return round(math.ldexp(probability, 63))  # which is exact


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRatings:
    """Ratings that each device draws from the bipartite stochastic block model by its own seed; they need no memory.

    Source: Banerjee, Hegde, Massoulié, section 2 (the spec's section 1). ``W_u`` is a uniform ``rated_items``-subset of
    the items, a rating is Bernoulli(``like[k, l]``).
    """

    users: int  # Number of users U
    rated_items: int  # Number of items w that each user rated
    like: Floats = field(repr=False)  # Probability that a user of class k likes an item of cluster l, shape (K, L)
    class_shares: Floats = field(repr=False)  # Shares of the user classes, shape (K,)
    clusters: Indices = field(repr=False)  # Every item's true cluster, shape (N,); only the experimenter knows it
    rated_public: bool = field(default=False, repr=False)  # Whether it is public which items a device rated
    # Clusters in earlier periods of time, the first one first; none where time does not count
    earlier: tuple[Indices, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Refuse what compiled code, which checks no bounds, would follow astray."""
        if not 1 <= self.rated_items <= self.items:
            raise ValueError(f"{self.rated_items} of {self.items} items cannot be rated")

    @property
    def items(self) -> int:
        """Number of items N."""
        return self.clusters.size

    def at(self, period: int) -> "BlockRatings":
        """Return the ratings of a period, from 1 on; 0 for the latest, where time does not count."""
        if not require_lived(period, len(self.earlier) + 1):
            return self
        return replace(self, clusters=self.earlier[period - 1], earlier=())

    def model(self) -> block_model.BlockModel:
        """Return the block model as compiled code reads it."""
        ends = [_in_63_bits(share) for share in np.cumsum(self.class_shares)]
        ends[-1] = 1 << 63
        clusters = read_only(self.clusters)
        like = np.array([[_in_63_bits(b) for b in row] for row in self.like.tolist()], np.uint64)
        return block_model.BlockModel(self.items, self.rated_items, np.array(ends, np.uint64), like, clusters)

    def rated(self, master: Words, first: int, count: int) -> Likes:
        """Return what ``count`` devices from ``first`` on rated and liked, items ascending in each row."""
        items = np.empty((count, self.rated_items), np.int32)
        likes = np.empty((count, self.rated_items), np.bool_)
        block_model.block_model_rated(self.model(), master, first, items, likes)
        starts = np.arange(count + 1, dtype=np.int64) * self.rated_items
        return RowTable(starts=starts, items=items.ravel(), values=likes.ravel(), count=self.items)

    def opinions(self, master: Words, first: int, items: Indices2) -> Bits2:
        """Return what devices from ``first`` on think of ``items``, shape (devices, k): unrated, disliked or liked."""
        opinions = np.empty(items.shape, np.uint8)
        block_model.block_model_opinions(self.model(), master, first, items, opinions)
        return opinions

    def tiles(self, coins: Coins, places: Indices, *, only_likes: bool = False) -> Iterator[tuple[slice, Opinions]]:
        """Yield devices of those that draw, and their ratings, or likes, of items that have a place, 0 or more."""
        model = self.model()
        for tile, room in _tiles(coins, self.items, model.rated):
            start = coins.first + tile.start
            block_model.block_model_opinions_of(model, coins.master, start, places, only_likes, room)
            yield tile, room

    def would_like(self, secret: bytes, items: Indices2) -> Bools2:
        """Return whether devices 0, 1, ... would like ``items``, shape (devices, k): the experimenter checks advice."""
        likes = np.empty(items.shape, np.bool_)
        block_model.block_model_would_like(self.model(), as_words(secret), 0, items, likes)
        return likes


@dataclass(frozen=True, kw_only=True)
class StoredRatings:
    """Ratings of real users; a device may stand for the same user as another (``user``)."""

    rows: Likes  # Items that each of the file's users rated, ascending, and whether it liked them
    user: Indices = field(repr=False)  # The file's user that each device stands for, shape (U,)
    rated_public: bool = field(default=False, repr=False)  # Whether it is public which items a device rated
    earlier: tuple[Likes, ...] = field(default=(), repr=False)  # Rows of earlier periods, as those of `BlockRatings`

    def at(self, period: int) -> "StoredRatings":
        """Return the ratings of a period; see `BlockRatings.at`."""
        if not require_lived(period, len(self.earlier) + 1):
            return self
        return replace(self, rows=self.earlier[period - 1], earlier=())

    @property
    def items(self) -> int:
        """Number of items N."""
        return self.rows.count

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.user.size

    def __post_init__(self) -> None:
        """Refuse users that compiled code, which checks no bounds, would read astray."""
        if self.user.size and not 0 <= self.user.min() <= self.user.max() < self.rows.users:
            raise ValueError(f"a device stands for a user outside 0 to {self.rows.users - 1}")

    @property
    def stored_opinions(self) -> block_model.StoredOpinions:
        """All ratings as compiled code reads them."""
        return block_model.StoredOpinions(self.rows.starts, self.rows.items, self.rows.values, self.user)

    def tiles(self, coins: Coins, places: Indices, *, only_likes: bool = False) -> Iterator[tuple[slice, Opinions]]:
        """Yield devices and their ratings; see `BlockRatings.tiles`."""
        rows = self._liked_rows if only_likes else self.rows
        stored = block_model.StoredOpinions(rows.starts, rows.items, rows.values, self.user)
        for tile, room in _tiles(coins, self.items, self._most):
            block_model.stored_opinions_of(stored, coins.first + tile.start, places, room)
            yield tile, room

    @cached_property
    def _most(self) -> int:
        return int(self.rows.degrees.max(initial=0))

    @cached_property
    def _liked_rows(self) -> Likes:
        return self.rows.where(self.rows.values)

    @cached_property
    def liked(self) -> block_model.StoredLikes:
        """Liked items as compiled code reads them."""
        return block_model.StoredLikes(self.items, self._liked_rows.starts, self._liked_rows.items, self.user)

    def rated(self, master: Words, first: int, count: int) -> Likes:  # noqa: ARG002 (stored)
        """Return rated items and likes; see `BlockRatings.rated`."""
        return self.rows.of(self.user[first : first + count])

    def opinions(self, master: Words, first: int, items: Indices2) -> Bits2:  # noqa: ARG002 (stored)
        """Return what devices think of items; see `BlockRatings.opinions`."""
        if not self.rows.items.size:
            return np.full(items.shape, UNRATED, np.uint8)
        keys, targets = self._keys, self.user[first : first + len(items), None].astype(np.int64) * self.items + items
        nearest = np.minimum(np.searchsorted(keys, targets), keys.size - 1)
        opinions = np.where(self.rows.values[nearest], LIKED, DISLIKED)
        return np.where(keys[nearest] == targets, opinions, UNRATED).astype(np.uint8)

    @cached_property
    def _keys(self) -> Ints:
        """One ascending number a rating, user by user, item by item."""
        return self.rows.owners * self.items + self.rows.items


Ratings: TypeAlias = BlockRatings | StoredRatings  # What a cohort needs of its devices' ratings
# Of items' words, whose sums tell sets of likes apart; whoever knows the words learns nothing
_WORD_KEY = np.zeros(2, np.uint64)


def likes_in_words(ratings: Ratings, coins: Coins) -> Words:
    """Return a word for what each of the devices that draw likes, uint64; other likes have another one but by 2^-64."""
    rows = ratings.rated(coins.master, coins.first, coins.devices)
    sums = np.zeros(coins.devices, np.uint64)
    np.add.at(sums, rows.owners[rows.values], device_streams(_WORD_KEY, 0, ratings.items)[rows.items[rows.values]])
    return sums


def new_likes(ratings: Ratings, coins: Coins, rounds: Sequence[tuple[int, int, int]], most: int) -> Indices2:
    """Return the likes that devices count in the last of some rounds, int32, shape (devices, most); -1 for none.

    A round is a period, and the first device that it asks and the one after the last. A device counts a like in the
    first of its rounds in whose period it has it, and in all rounds at most so many; private coins choose among more.
    """
    left, seen = np.full(coins.devices, most), np.zeros((coins.devices, ratings.items), np.bool_)
    places = np.full((coins.devices, most), -1, np.int32)
    for period, *ends in rounds:
        start, stop = np.clip(np.array(ends) - coins.first, 0, coins.devices).tolist()
        part, rows = coins._replace(first=coins.first + start, devices=stop - start), slice(start, stop)
        likes = ratings.at(period).rated(coins.master, part.first, part.devices)
        places[:] = -1
        _count_new(likes.starts, likes.items, likes.values, part.sketch(period), seen[rows], left[rows], places[rows])
    return places


@compiled
def _count_new(
    starts: Ints, items: Indices, likes: Bools, streams: Words, seen: Bools2, left: Ints, places: Indices2
) -> None:
    """Write the likes of devices in a period that they had in none before, at most as many as each has left."""
    fresh = np.empty(seen.shape[1], np.int32)
    for k in range(left.size):
        count = 0
        for at in range(starts[k], starts[k + 1]):
            if likes[at] and not seen[k, items[at]]:
                seen[k, items[at]] = True
                fresh[count] = items[at]
                count += 1
        most = min(count, left[k])
        for index in range(most):
            swap = index + below(streams[k], index, count - index)
            fresh[index], fresh[swap] = fresh[swap], fresh[index]
            places[k, index] = fresh[index]
        left[k] -= most


@dataclass(frozen=True, slots=True)
class RatingsBlock:
    """The ratings of the devices that draw, as sketches see them: `coordinator.protocol.mechanism.DeviceRatings`."""

    ratings: Ratings = field(repr=False)
    coins: Coins = field(repr=False)

    @property
    def items(self) -> int:
        """Number of items N."""
        return self.ratings.items

    def rated(self) -> Likes:
        """Return what the devices rated and liked."""
        return self.ratings.rated(self.coins.master, self.coins.first, self.coins.devices)

    def opinions(self, items: Indices2) -> Bits2:
        """Return what the devices think of items."""
        return self.ratings.opinions(self.coins.master, self.coins.first, items)

    def tiles(self, places: Indices, *, only_likes: bool = False) -> Iterator[tuple[slice, Opinions]]:
        """Yield devices and their ratings."""
        return self.ratings.tiles(self.coins, places, only_likes=only_likes)

    def likes_sensed(self, public: Words, table: SensingTable, pool: Indices) -> Bits:
        """Return 1 for each device that likes an item of its sensing set."""
        bits, first = np.empty(self.coins.devices, np.uint8), self.coins.first
        if isinstance(self.ratings, BlockRatings):
            model = self.ratings.model()
            block_model.block_model_maxsense(model, self.coins.master, public, table, pool, first, bits)
        else:
            block_model.stored_maxsense(self.ratings.liked, public, table, pool, first, bits)
        return bits

    def likes_parts(self, public: Words, set_size: int, sets: int) -> Bits2:
        """Return 1 for each set of a device's partition in which it likes some item."""
        bits, first = np.empty((self.coins.devices, sets), np.uint8), self.coins.first
        if isinstance(self.ratings, BlockRatings):
            block_model.block_model_partition(self.ratings.model(), self.coins.master, public, set_size, first, bits)
        else:
            block_model.stored_partition(self.ratings.liked, public, set_size, first, bits)
        return bits

    def random_values(self, streams: Words, places: Indices, sides: int) -> Indices:
        """Return the value of one random item of each device."""
        values, first = np.empty(self.coins.devices, np.int32), self.coins.first
        if isinstance(self.ratings, BlockRatings):
            model = self.ratings.model()
            block_model.block_model_choices(model, self.coins.master, streams, places, sides, first, values)
        else:
            block_model.stored_choices(self.ratings.stored_opinions, streams, places, sides, first, values)
        return values
