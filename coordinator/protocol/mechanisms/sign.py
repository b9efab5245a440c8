"""Sign sensing: a device names one of the signed sign vectors that suit its ratings best. Ours.

A query brings one sign vector or several. Device u's sign in vector a of the item at place j of the pool is bit
``j mod 64`` of lane ``a * sign_words(pool) + j // 64`` of its public stream: 1 for +1, 0 for -1.

A query may bring centres: a rating then counts ``CENTRE_UNIT`` for a like and ``-CENTRE_UNIT`` for a dislike, less its
item's centre.

A device's answer is a signed vector: the bit of its sign first, then the vector's number, highest bit first.
"""

from __future__ import annotations

import math
from typing import Literal, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.amplification import TwoLevels
from coordinator.protocol.arrays import Bits2, Bools, Floats, Indices, Indices2, Ints, Words
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.compiled import compiled, int64
from coordinator.protocol.decoding.estimates import Estimates, contrasts_of, read_signs
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import below
from coordinator.protocol.law import Law, People
from coordinator.protocol.mechanism import (
    POOLED,
    POSTERIOR,
    DeviceCoins,
    DeviceRatings,
    Mechanism,
    Opinions,
    QueryHeader,
    Sketch,
    World,
    check_shape,
    query_of,
)
from coordinator.protocol.messages import CENTRE_UNIT, Query, Release
from coordinator.protocol.moments.sign_moments import SignMoments, optimal_best_count, tie
from coordinator.protocol.pools import centres_of, places_in
from coordinator.protocol.public_draws import sign_bit, streams_of
from coordinator.protocol.statistics.scores import ScoreStatistic, score_statistic
from coordinator.protocol.statistics.signs import agreements
from coordinator.protocol.value_channels import ChoiceChannel, choice_channel

MOST_VECTORS = 64


def sign_words(pool: int) -> int:
    """Return how many 64-bit words the signs of ``pool`` items fill in one vector."""
    return -(-pool // 64)


def answer_bits(vectors: int) -> int:
    """Return how many bits name a signed vector of ``vectors``, a power of two."""
    return vectors.bit_length()


def to_bits(positive: Bools, vector: Ints, vectors: int) -> Bits2:
    """Return answers as bits, uint8, shape (devices, answer bits); see `from_bits`."""
    shifts = np.arange(answer_bits(vectors) - 1)[::-1]
    numbers = (vector[:, None] >> shifts) & 1
    return np.concatenate([positive[:, None], numbers], axis=1).astype(np.uint8)


def from_bits(bits: Bits2) -> tuple[Bools, Ints]:
    """Return the sign and the vector's number of every answer."""
    shifts = np.arange(bits.shape[1] - 1)[::-1]
    return bits[:, 0].astype(np.bool_), (bits[:, 1:].astype(np.int64) << shifts).sum(axis=1)


def aggregate_signs(query: Query, release: Release) -> ScoreStatistic:
    """Return the statistic of one block's release, regenerating the signs; see `mechanisms.aggregate`."""
    # ``sensed`` holds the answering devices, for every item of the pool; ``scores`` those of them that named a vector
    # whose sign of the item is +1, so that ``sum_u H_ui S_u = 2 scores - sensed``.
    release.require(query)
    assert query.pool is not None  # a device answers no other
    answered = release.answered_mask()
    agreed = count_agreements(query, streams_of(query, release), release.unpacked(), answered)
    return score_statistic(query, release, np.stack([np.full_like(agreed, answered.sum()), agreed]))


def count_agreements(query: Query, streams: Words, bits: Bits2, answered: Bools) -> Ints:
    """Return how many devices named a vector whose sign of an item is +1, int64, one count an item of the pool."""
    # Shapes: ``streams``, ``answered`` (devices,); ``bits`` (devices, answer bits).
    assert query.pool is not None  # a device answers no other
    positive, vector = from_bits(bits)
    pool = query.pool.size
    return agreements(streams, positive, answered, pool, vector * sign_words(pool))


@compiled
def add_signs(opinions: Opinions, public: Words, centres: Indices, unit: int, sums: Indices2) -> None:
    """Write devices' sums, int32, shape (devices, sign vectors); ``public`` holds their streams."""
    # A like counts ``unit`` and a dislike ``-unit``, less the centre of the item's index, under the index's sign; no
    # branch follows a coin.
    width = -(-centres.size // 64)
    for k in range(len(sums)):
        for vector in range(sums.shape[1]):
            total = int64(0)
            for at in range(opinions.starts[k], opinions.starts[k + 1]):
                index = opinions.places[at]
                value = unit * (2 * int64(opinions.likes[at]) - 1) - centres[index]
                total += value * (2 * int64(sign_bit(public[k], vector * width, index)) - 1)
            sums[k, vector] = total


def choose(sums: Indices2, channel: ChoiceChannel, coins: DeviceCoins) -> tuple[Bools, Ints]:
    """Return the sign and the number of the vector that each device names. Shapes: ``sums`` (devices, sign vectors)."""
    return _choose(sums, coins.release(0) >= channel.threshold, coins.choices(), channel.best_count)


@compiled
def _choose(sums: Indices2, best: Bools, streams: Words, best_count: int) -> tuple[Bools, Ints]:
    positive, vector, vectors = np.empty(len(sums), np.bool_), np.empty(len(sums), np.int64), sums.shape[1]
    sizes = np.empty(vectors, np.int32)
    for k in range(len(sums)):
        rank = int64(below(streams[k], int64(0), best_count))
        if not best[k]:
            rank = best_count + int64(below(streams[k], int64(1), 2 * vectors - best_count))
        for a in range(vectors):  # insertion sort, the largest first
            size, index = abs(sums[k, a]), a
            while index > 0 and sizes[index - 1] < size:
                sizes[index] = sizes[index - 1]
                index -= 1
            sizes[index] = size
        target = sizes[rank] if rank < vectors else -sizes[2 * vectors - 1 - rank]
        tied = 0
        for a in range(vectors):
            tied += (sums[k, a] == target) + (sums[k, a] == -target)
        tie = int64(below(streams[k], int64(2), int64(tied)))
        for a in range(vectors):
            for sign in (True, False):
                if (sums[k, a] if sign else -sums[k, a]) == target:
                    if tie == 0:
                        positive[k], vector[k] = sign, a
                    tie -= 1
    return positive, vector


class Sign(Mechanism):
    """Sign sensing: every item of the pool has a public sign; the bit is the sign of the signed sum of the ratings.

    A like counts +1 and a dislike -1; if the sum is 0 the device tosses a fair coin. With several sign vectors the
    device names a vector, with its sign, under which its sum is large. This takes a few bits, and needs fewer users at
    the same epsilon. Source: ours (the paper's MaxSense uses likes only and needs a sensing rate).
    """

    name = "sign"
    title = "sign sensing"
    parameters = frozenset({"vectors", "kept"})
    pooled = True
    centred = True
    by_address = True
    decoders = (POSTERIOR,)
    policies = POOLED
    ranks = True
    widest = 2.0

    # Sign vectors m that a device chooses among; answers have ``1 + log2 m`` bits
    vectors: int = Field(
        default=1, ge=1, description="Sign sensing: number of vectors to choose from, a power of two up to 64 [1]."
    )
    # Whether ratings are counted from their expected values once the server has any; see `centred_moments`. With
    # several sign vectors they are counted from 0
    signs: Literal["centred", "plain"] = Field(
        default="centred",
        description="Sign sensing, adaptive: count ratings centred (minus their expected value) or plain.",
    )

    def check_world(self, world: World) -> None:
        check_shape(world.items, world.rated, 1)
        if not 1 <= self.vectors <= MOST_VECTORS or self.vectors & (self.vectors - 1):
            raise InputError(f"vectors is {self.vectors}; give a power of two, 1 to {MOST_VECTORS}")

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of one round; ``pool`` holds the items that have signs, by default all."""
        centres = None
        if expected is not None and self.signs == "centred" and self.vectors == 1:
            centres = np.rint(np.clip(expected, -1, 1) * CENTRE_UNIT).astype(np.int32)
        items = np.arange(world.items, dtype=np.int32) if pool is None else pool
        best = optimal_best_count(
            items.size, items=world.items, rated=world.rated, vectors=self.vectors, epsilon=header["epsilon"]
        )
        parameters, bits = {"vectors": self.vectors, "kept": best}, answer_bits(self.vectors)
        return query_of(
            self.name, world.items, header, parameters=parameters, pool=items, answer_bits=bits, centres=centres
        )

    def check(self, query: Query) -> None:
        vectors, best_count = query.parameters["vectors"], query.parameters["kept"]
        if vectors not in {1 << power for power in range(MOST_VECTORS.bit_length())}:
            raise InputError(f"{query} has {vectors:g} sign vectors; give a power of two, 1 to {MOST_VECTORS}")
        if not (1 <= best_count <= vectors and float(best_count).is_integer()):
            raise InputError(f"{query} keeps {best_count:g} signed vectors; give a whole number, 1 to {vectors:g}")

    def answer_bits(self, query: Query) -> int:
        return answer_bits(int(query.parameters["vectors"]))

    def channel(self, query: Query) -> ChoiceChannel:
        vectors, best_count = int(query.parameters["vectors"]), int(query.parameters["kept"])
        return choice_channel(query.epsilon, choices=2 * vectors, best_count=best_count)

    def levels(self, query: Query) -> TwoLevels | None:
        """Return the levels of the best answers: two inputs may share none, as opposite ratings of the pool do."""
        share = query.parameters["kept"] / (2 * query.parameters["vectors"])
        return TwoLevels(share, share) if query.own_questions else None

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return the sums of ratings of the pool under each sign vector, less their centres if any, int32."""
        assert query.pool is not None
        public, (centres, unit) = coins.streams(query), centres_of(query)
        sums = np.empty((coins.devices, int(query.parameters["vectors"])), np.int32)
        for tile, opinions in ratings.tiles(places_in(query.pool, ratings.items)):
            add_signs(opinions, public[tile], centres, unit, sums[tile])
        return Sketch(sums)

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
        """Return the vectors that devices name: one of the best, or, less often, another one."""
        positive, vector = choose(private.view(np.int32), self.channel(query), coins)
        return to_bits(positive, vector, int(query.parameters["vectors"]))

    def count(self, query: Query, release: Release) -> ScoreStatistic:
        return aggregate_signs(query, release)

    def estimate(
        self, query: Query, statistic: ScoreStatistic, world: World, expected: Floats | None = None
    ) -> Estimates:
        likes = None if expected is None else np.clip((1 + expected) / 2, 0, 1)
        return read_signs(query, statistic, rated=world.rated, likes=likes)

    def rates(self, query: Query, world: World, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; see `estimates.contrasts_of`."""
        contrast, _ = contrasts_of(query, rated=world.rated)
        return contrast**2

    def moments(self, world: World) -> SignMoments:
        query = self.query(world, round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        return SignMoments(contrast=math.sqrt(float(self.rates(query, world)[0])))

    def law(self, query: Query, people: People) -> Law:
        """Return the law of devices that agree with each item's sign; see `Mechanism.law`."""
        means, pool = self._means(query, people.among(query.pool)), query.pool

        def draw(users: int, coins: np.random.Generator) -> ScoreStatistic:
            sensed, scores = np.zeros((2, query.items), np.int64)
            sensed[pool], scores[pool] = users, coins.binomial(users, np.clip((1 + means) / 2, 0, 1))
            ones = int(coins.binomial(users, 0.5))
            return ScoreStatistic(sensed=sensed, scores=scores, devices=users, answered=users, refused=0, ones=ones)

        return Law(draw)

    def _means(self, query: Query, people: People) -> Floats:
        """Return how much more often than not an answer has the sign of each item of the pool."""
        if people.classes:
            means = np.zeros(people.classes[0][1].size)
            for share, likes in people.classes:
                contrast, offset = contrasts_of(query, rated=people.rated, likes=likes)
                means += share * (contrast * (2 * likes - 1) + offset)
            return means
        if query.centres is not None or query.parameters["vectors"] != 1:
            raise InputError(f"{query} has centres or several vectors; of people of a file its sum has no formula")
        # Of n signed ratings the sum has the sign of one of them more often than not by C(n-1, (n-1)//2) / 2^(n-1)
        liked, disliked = people.raters(lambda rated: tie(rated - 1))
        return bit_channel(query.epsilon).contrast * (liked - disliked)


MECHANISMS = (Sign(),)
