"""Anchor sensing: signs of a pool's pairs first, then of items, turned by the guess of a device's class. Ours.

`PairSigns`: every pair of the pool's items has a public sign, in the order of an upper triangle's rows, laid out as
`coordinator.protocol.public_draws` lays out items. The private bit is the sign of the sum over pairs that the
device rated: the pair's sign times both ratings, each counted from its item's centre, if there are centres.

`Anchor`: there are K classes of users. A rated item either serves the device's guess of its class or is sensed; see
`coordinator.protocol.public_draws`. With r = 0 for a dislike and 1 for a like, all of it whole numbers:

- ``prior[k] + sum guess[2 k + r, i]`` over rated items that are not sensed is the score of class k. The device guesses
  the class of the highest score; among equal ones its private coin chooses.
- The private bit is the sign of ``lean[k] + sum H_i counts[2 k + r, i]`` over rated items that are sensed, where k is
  the class that was guessed and ``H_i`` the item's public sign.

In both a private fair coin decides where the sum is 0, and randomized response under the whole epsilon releases the
bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Bits, Bools, Counts, Indices, Indices2, Ints, Words
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.checked import require_array
from coordinator.protocol.coins import derive
from coordinator.protocol.compiled import borrowing, compiled, inlined, int32, int64, uint64
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import below, draw
from coordinator.protocol.law import Law, People
from coordinator.protocol.mechanism import (
    ANCHOR,
    POSTERIOR,
    DeviceCoins,
    DeviceRatings,
    OneBit,
    Opinions,
    QueryHeader,
    Sketch,
    World,
    check_shape,
    query_of,
)
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.moments.sign_moments import AnchorMoments
from coordinator.protocol.pools import COUNTS, GUESS, LEAN, LEVELS, PRIOR, SENSED, centres_of, places_in
from coordinator.protocol.public_draws import item_coins, level_bits
from coordinator.protocol.statistics.signs import AnchorStatistic, aggregate_anchor

MOST_CLASSES, MOST_LEVELS, MOST_POOL = 64, 64, 1024
"""User classes, levels of a sensing coin, and items of a pool of pairs, at most."""
LEAST_POOL, POOL = 20, 2.0  # A pool has so many items at least, or so many times N / w
LEAST_OF_EACH, POOL_OF_MORE = 12, 3.0
"""With three clusters or more, or three classes, it has so many items of each at least, or so many times N / w."""
SENSING_LEVELS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The public arrays of a query about turned signs; see `coordinator.protocol.mechanisms.anchor`."""

    # shape (K,); Score of each class before any rating, and what is added to the sum where it was guessed
    prior: Indices
    # shape (2 K, N); Row ``2 k + r``: what a rating r adds to the score of class k, and to the sum if k was guessed
    guess: Indices2
    counts: Indices2
    lean: Indices
    sensed: Indices  # shape (N,); How many of `SENSING_LEVELS` have an item sensed


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorSensing:
    """Anchor sensing of N items in L clusters, of which each device rated w."""

    items: int  # N, w and L
    rated: int
    clusters: int = 2
    pool_items: int = 0  # Items of the pool whose pairs are asked about; 0 for as many as suit N, w and L
    classes: int = 2  # User classes K to tell apart
    # one of "auto", "mirrored", "tables", "mixed"; Whether two classes are taken to be opposite, or tables are measured
    # of any; mixed ones begin with first-order signs of the pool. ``auto`` is mirrored for two classes and two clusters
    learner: str = "auto"

    name: ClassVar[str] = "anchor"
    pairs: ClassVar[str] = "pair-signs"

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated)
        if self.clusters < 2 or self.classes < 2:
            raise InputError(
                f"clusters is {self.clusters} and classes is {self.classes}; anchor sensing tells 2 apart, or more"
            )
        if self.items < 2:
            raise InputError(f"items is {self.items}; anchor sensing needs at least 2")
        if self.pool_items and not 2 <= self.pool_items <= min(self.items, MOST_POOL):
            raise InputError(f"pool_items is {self.pool_items}; give 2 to {min(self.items, MOST_POOL)}")

    def pool(self, public_seed: bytes) -> Indices:
        """Return the items whose pairs are asked about, ascending, by public coins."""
        kinds = max(self.clusters, self.classes)
        least, times = (LEAST_POOL, POOL) if kinds == 2 else (LEAST_OF_EACH * kinds, POOL_OF_MORE)
        suits = max(least, round(times * self.items / self.rated))
        count = self.pool_items or min(suits, self.items, MOST_POOL)
        order = np.random.default_rng(int.from_bytes(derive(public_seed, "anchor pool"))).permutation(self.items)
        return np.sort(order[:count]).astype(np.int32)

    def query(
        self, *, pool: Indices | None = None, centres: Indices | None = None, **header: Unpack[QueryHeader]
    ) -> Query:
        """Return a query about signs of pairs, by default of the pool; ``centres`` in units of 1 / `CENTRE_UNIT`."""
        pool = self.pool(header["public_seed"]) if pool is None else pool
        return query_of(self.pairs, self.items, header, pool=pool, centres=centres)

    def turned(self, tables: Tables, **header: Unpack[QueryHeader]) -> Query:
        """Return a query about turned signs."""
        arrays = {name: getattr(tables, name) for name in (PRIOR, GUESS, COUNTS, LEAN, SENSED)}
        return query_of(self.name, self.items, header, parameters={LEVELS: float(SENSING_LEVELS)}, arrays=arrays)

    def of_turned(self, **header: Unpack[QueryHeader]) -> Query:
        """Return a query about turned signs such as rounds may ask, where nothing is known: checks ask it."""
        guess = np.zeros((4, self.items), np.int32)
        guess[[0, 3], ::2], guess[[1, 2], ::2] = -3, 3
        guess[[0, 3], 1::2], guess[[1, 2], 1::2] = 2, -2
        counts = np.tile(np.array([-4, 5, -5, 4], np.int32)[:, None], self.items)
        counts[2:] = -counts[2:]
        sensed = np.resize(np.array([0, 10, 10, 16], np.int32), self.items)
        none = np.zeros(2, np.int32)
        tables = Tables(prior=none, guess=guess, counts=counts, lean=none, sensed=sensed)
        return self.turned(tables, **header)


class TurnedQuery(NamedTuple):
    """A query about turned signs as compiled code reads it; see above."""

    prior: Indices
    guess: Indices2
    counts: Indices2
    lean: Indices
    sensed: Indices
    bits: int  # Bits of an item's sensing coin


class PairQuery(NamedTuple):
    """A query about signs of pairs as compiled code reads it."""

    centres: Indices
    unit: int


@inlined
def _sign_of(total: int | np.int64, coin: np.uint64) -> int:
    """Return 1 for a sum above 0, 0 for one below, and for 0 a fair coin."""
    return int(total > 0) if total != 0 else int(draw(coin, uint64(0)) & uint64(1))


@borrowing
def _guessed(scores: Ints, coin: np.uint64) -> int:
    """Return the class of the highest score; a coin chooses among equal ones."""
    best, tied = scores[0], 0
    for score in scores:
        best = max(best, score)
    for score in scores:
        tied += score == best
    left = below(coin, int64(1), int64(tied))
    for k in range(scores.size):
        if scores[k] == best:
            if left == 0:
                return k
            left -= 1
    return 0


@borrowing
def _turned_bit(
    tables: TurnedQuery,
    public: np.uint64,
    coin: np.uint64,
    rated: Counts,
    likes: Bools,
    start: int,
    stop: int,
    sensed_ratings: Ints,
    scores: Ints,
) -> int:
    """Return the private bit of one device."""
    # ``sensed_ratings`` and ``scores`` are room for its ratings and for the classes.
    count = 0
    for k in range(scores.size):
        scores[k] = tables.prior[k]
    for at in range(start, stop):
        item, row = int(rated[at]), int(likes[at])
        sign, senses = item_coins(public, item, tables.sensed[item], tables.bits)
        if senses:
            sensed_ratings[count] = sign * (2 * item + row + 1)  # never 0
            count += 1
        else:
            for k in range(scores.size):
                scores[k] += tables.guess[2 * k + row, item]
    k = _guessed(scores, coin)
    total = int64(tables.lean[k])
    for at in range(count):
        sign, code = (1 if sensed_ratings[at] > 0 else -1), abs(sensed_ratings[at]) - 1
        total += sign * int64(tables.counts[2 * k + (code & 1), code >> 1])
    return _sign_of(total, coin)


@borrowing
def _paired_bit(
    tables: PairQuery,
    public: np.uint64,
    coin: np.uint64,
    opinions: Opinions,
    device: int,
    values: Indices,
    rated_places: Ints,
) -> int:
    """Return the private bit of one device."""
    # ``values`` has room for each place, and ``rated_places`` for one more.
    pool, count, nothing = tables.centres.size, 0, int32(np.iinfo(np.int32).min)
    values[:] = nothing
    for at in range(opinions.starts[device], opinions.starts[device + 1]):
        index = opinions.places[at]
        values[index] = (tables.unit if opinions.likes[at] else -tables.unit) - tables.centres[index]
    for index in range(pool):
        rated_places[count] = index
        count += values[index] != nothing
    total, lane, word = int64(0), int64(-1), uint64(0)
    for first in range(count - 1):
        i = rated_places[first]
        start, row = i * pool - i * (i + 1) // 2 - i - 1, int64(0)
        for second in range(first + 1, count):
            pair = start + rated_places[second]
            if pair >> 6 != lane:
                lane = pair >> 6
                word = draw(public, uint64(lane))
            sign = 2 * int((word >> uint64(pair & 63)) & uint64(1)) - 1
            row += sign * int64(values[rated_places[second]])
        total += row * int64(values[i])
    return _sign_of(total, coin)


@compiled
def turned_bits(opinions: Opinions, public: Words, coins: Words, tables: TurnedQuery, bits: Bits) -> None:
    """Write devices' private bits; uint8, shape (devices,); ``public`` holds their public streams."""
    sensed_ratings, scores = np.empty(tables.sensed.size, np.int64), np.empty(tables.prior.size, np.int64)
    starts, items, likes = opinions
    for k in range(bits.size):
        start, stop = starts[k], starts[k + 1]
        bits[k] = _turned_bit(tables, public[k], coins[k], items, likes, start, stop, sensed_ratings, scores)


@compiled
def paired_bits(opinions: Opinions, public: Words, coins: Words, tables: PairQuery, bits: Bits) -> None:
    """Write devices' private bits; see `turned_bits`."""
    values, rated_places = np.empty(tables.centres.size, np.int32), np.empty(tables.centres.size + 1, np.int64)
    for k in range(bits.size):
        bits[k] = _paired_bit(tables, public[k], coins[k], opinions, k, values, rated_places)


class PairSigns(OneBit):
    """The sign of the signed sum over pairs of ratings of a pool's items; ratings may be counted from centres."""

    name = "pair-signs"
    pooled = True
    centred = True

    def check(self, query: Query) -> None:
        if query.pool is not None and not 2 <= query.pool.size <= MOST_POOL:
            raise InputError(f"{query} is about pairs of {query.pool.size} items; give 2 to {MOST_POOL}")

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        assert query.pool is not None
        tables = PairQuery(*centres_of(query))
        public, choices, bits = coins.streams(query), coins.choices(), np.empty(coins.devices, np.uint8)
        for tile, opinions in ratings.tiles(places_in(query.pool, ratings.items)):
            paired_bits(opinions, public[tile], choices[tile], tables, bits[tile])
        return Sketch(bits[:, None])

    def count(self, query: Query, release: Release) -> AnchorStatistic:
        return aggregate_anchor(query, release)

    def law(self, query: Query, people: People) -> Law:
        """Return the law of how many answers agree with each pair's sign."""
        means = people.among(query.pool).pair_signs(*centres_of(query))
        chances = np.clip((1 + bit_channel(query.epsilon).contrast * means) / 2, 0, 1)  # rounded, they may be outside

        def draw(users: int, coins: np.random.Generator) -> AnchorStatistic:
            none, agreed = np.zeros(0, np.int64), coins.binomial(users, chances)
            counts = {"ones": users // 2, "devices": users, "answered": users, "refused": 0}
            return AnchorStatistic(pairs=agreed, sensed=none, scores=none, **counts)

        return Law(draw)


class Anchor(OneBit):
    """The sign of what sensed ratings count, turned by the class that the others let the device guess.

    Everything that a device adds up comes with the query, so that any learner can stand behind it. None of the settings
    looks at the ratings.
    """

    name = "anchor"
    title = "anchor sensing"
    parameters = frozenset({LEVELS})
    arrays = frozenset({PRIOR, GUESS, COUNTS, LEAN, SENSED})
    decoders = (POSTERIOR,)
    policies = (ANCHOR,)
    learns_all = True
    paired = True
    groups = ("turned",)

    pool_items: int = Field(
        default=0,
        ge=0,
        description="Anchor sensing: items whose pairs are asked about first; 0 chooses their number by N / w, L [0].",
    )
    classes: int = Field(
        default=0, ge=0, le=MOST_CLASSES, description="Anchor sensing: user classes K; 0 for as many as clusters [0]."
    )
    learner: Literal["auto", "mirrored", "tables", "mixed"] = Field(
        default="auto",
        description="Anchor sensing: mirrored (two opposite classes), tables (any classes), mixed (tables, after "
        "first-order signs if these are informative), or auto: mirrored for two of each, else tables [auto].",
    )

    @property
    def asks(self) -> tuple[str, ...]:
        """The names of its queries: pairs are asked about first."""
        return (PairSigns.name, self.name)

    def query_name(self) -> str:
        """Return the name of its first queries."""
        return PairSigns.name

    def design(self, world: World) -> AnchorSensing:
        """Return what is asked in a world."""
        if world.rated < 2:
            raise InputError(
                f"rated is {world.rated}; anchor sensing begins with pairs of ratings and needs at least 2"
            )
        return AnchorSensing(
            items=world.items,
            rated=world.rated,
            clusters=world.clusters,
            pool_items=self.pool_items,
            classes=self.classes or max(2, world.clusters),
            learner=self.learner,
        )

    def check(self, query: Query) -> None:
        levels, arrays = query.parameters[LEVELS], query.arrays
        if levels not in {1 << power for power in range(MOST_LEVELS.bit_length())}:
            raise InputError(f"{query} has {levels:g} levels; give a power of two, 1 to {MOST_LEVELS}")
        classes = require_array("prior of a query", arrays[PRIOR], np.int32, [None]).size
        if not 1 <= classes <= MOST_CLASSES:
            raise InputError(f"{query} has {classes} classes; give 1 to {MOST_CLASSES}")
        require_array("lean of a query", arrays[LEAN], np.int32, [classes])
        for name in (GUESS, COUNTS):
            require_array(f"{name} of a query", arrays[name], np.int32, [2 * classes, query.items])
        require_array("sensed of a query", arrays[SENSED], np.int32, [query.items], 0, levels)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        prior, guess, counts, lean, sensed = (query.arrays[name] for name in (PRIOR, GUESS, COUNTS, LEAN, SENSED))
        tables = TurnedQuery(prior, guess, counts, lean, sensed, level_bits(int(query.parameters[LEVELS])))
        public, choices, bits = coins.streams(query), coins.choices(), np.empty(coins.devices, np.uint8)
        for tile, opinions in ratings.tiles(np.arange(ratings.items, dtype=np.int32)):
            turned_bits(opinions, public[tile], choices[tile], tables, bits[tile])
        return Sketch(bits[:, None])

    def count(self, query: Query, release: Release) -> AnchorStatistic:
        return aggregate_anchor(query, release)

    def moments(self, world: World) -> AnchorMoments | None:
        return None if world.block is None else AnchorMoments(ratings=2 * world.block.like - 1)


MECHANISMS = (Anchor(), PairSigns())
