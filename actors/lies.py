"""The collusion of liars, what all lies have in common, and the worst answer to each query.

Liars get their collusion from the experimenter, with the population; the server never learns it.

There is a class of lies for each kind of sketch. A report supports as many of the promoted items as it can. For a
custom mechanism the worst release is searched for, with its channel: the support of a release for
an item is the probability of this release by a device that rated only this item and likes it, less that by one that
dislikes it. In anchor sensing clusters have no order: there a wish is the side of the others to which an item should
seem to belong.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from actors.ratings import RatingsBlock, StoredRatings
from actors.seeds import LIARS, Coins, private_coins
from coordinator.protocol import public_draws
from coordinator.protocol.arrays import Bits, Bits2, Bools, Floats2, Indices, Indices2, Ints, Words, Words2
from coordinator.protocol.channels import COIN, IndependentBits, Likelihood, MatrixChannel, unary_channel
from coordinator.protocol.checked import require_array, require_whole
from coordinator.protocol.compiled import compiled, int64, uint8, uint64
from coordinator.protocol.custom import CustomMechanism, admitted
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import below, draw, ones
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.oracles import BUCKETS, ROWS, columns, values_of
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.mechanisms.sets import together
from coordinator.protocol.mechanisms.sign import to_bits
from coordinator.protocol.messages import Query
from coordinator.protocol.packed_releases import release_unary
from coordinator.protocol.pools import GUESS, LEVELS, SENSED, sides
from coordinator.protocol.rating_table import RowTable
from coordinator.protocol.sensing import SensingTable, sensing_of
from coordinator.protocol.value_channels import SubsetChannel

ANSWERS, RATINGS = "answers", "ratings"
"""A liar makes up its answer once it knows the query, or its ratings before any query."""
NO_QUERY = np.zeros(2, np.uint64)  # Stands where a query's id would: a device has the coins for all queries
_COINS = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Collusion:
    """The liars' agreement: how many devices lie, what they want to seem true, and what they make up."""

    share: float  # Share of the devices that lie, from 0 to 1
    # shape (N,); 1 for items that should seem liked more than they are, -1 for less, 0 for others
    wishes: Indices = field(repr=False)
    # 1 for items that are liked more than usual, else -1; shape (N,). The spec lets liars know it, so the harm that
    # they do is an upper bound
    truth: Indices = field(repr=False)
    # Whether one cluster is liked more than the other. If none is, 1 and -1 are sides: a truth of 1 stands for the
    # first cluster, and a wish of 1 for an item that should seem to be of it
    ordered: bool = True
    makes_up: str = ANSWERS  # `ANSWERS` or `RATINGS`. Only the first gets around the local randomizer
    rated: int = 1  # Number of items that a liar claims to have rated, where it makes up its ratings
    overflow: int = 0  # What a liar adds to wished items of a vector that nobody proves; 0 where a proof holds

    def __post_init__(self) -> None:
        require_array("wishes of liars", self.wishes, np.int32, [None], -1, 1)
        require_array("truth of liars", self.truth, np.int32, self.wishes.shape)
        require_whole("rated items of a liar", self.rated, 1, self.wishes.size)
        require_whole("what a liar adds to an item", self.overflow, 0, 1 << 30)
        if not 0 <= self.share <= 1:
            raise InputError(f"share of liars is {self.share!r}; give a number from 0 to 1")
        if self.makes_up not in (ANSWERS, RATINGS):
            raise InputError(f"liars make up {self.makes_up!r}; choose {ANSWERS} or {RATINGS}")

    @property
    def claims(self) -> Indices:
        """The liars' claim about every item, 1 or -1: their wish, or the truth where they have none."""
        return np.where(self.wishes == 0, self.truth, self.wishes)


def liars_among(coins: Coins, share: float) -> Ints:
    """Return which devices of a block lie, ascending places in it, by a coin of each, the same in all queries."""
    # Those who lie at a share also lie at every larger one
    if share == 0:
        return np.empty(0, np.int64)
    coin = private_coins(coins.master, coins.first, coins.devices, LIARS, NO_QUERY, 0)
    return np.flatnonzero(coin <= np.uint64(min(int(share * _COINS), _COINS - 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiarsView:
    """A query as the liars of a block of devices see it, with all that they may use for an answer."""

    query: Query  # The query, which is public
    collusion: Collusion  # The agreement of the liars
    coins: Coins = field(repr=False)  # Private coins of the whole block
    liars: Ints = field(repr=False)  # Places of the liars in the block, ascending; shape (n,)
    # Public pairs that the liars' answers are about, where they follow from public ratings; shape (n, 2)
    pairs: Indices2 | None = field(default=None, repr=False)

    @property
    def streams(self) -> Words:
        """The liars' public streams, uint64, shape (n,)."""
        return self.coins.streams(self.query)[self.liars]

    @property
    def choices(self) -> Words:
        """The liars' private streams for picks among answers that are equally bad, uint64, shape (n,)."""
        return self.coins.choices()[self.liars]

    @property
    def wishes(self) -> Indices:
        """The wishes for the items of the pool, by their places in it; int32, shape (M,)."""
        return self.collusion.wishes if self.query.pool is None else self.collusion.wishes[self.query.pool]


class Lie:
    """The lies about one kind of query, or several."""

    names: tuple[str, ...]  # Designs of these queries
    # Whether it is as easy to make items seem liked less as to make them seem liked more
    both_ways: ClassVar[bool] = False

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        """Return the worst answers, uint8, shape (n, query.bits). Shapes: ``honest`` (n, query.bits)."""
        raise NotImplementedError


def as_bits(numbers: Ints | Indices, width: int) -> Bits2:
    """Return whole numbers as bits, most significant first, uint8, shape (n, width)."""
    return ((numbers[:, None].astype(np.int64) >> np.arange(width)[::-1]) & 1).astype(np.uint8)


@compiled
def picks(streams: Words, bound: int) -> Ints:
    """Return a uniform whole number below ``bound`` for each stream, int64."""
    numbers = np.empty(streams.size, np.int64)
    for k in range(streams.size):
        numbers[k] = int64(below(streams[k], int64(0), bound))
    return numbers


def largest(scores: Floats2, streams: Words) -> Ints:
    """Return for each stream the place of the largest score in its row, int64; each of several alike is as likely."""
    # Shapes: ``scores`` (n, places); ``streams`` (n,).
    best = scores == scores.max(axis=1, keepdims=True)
    ties, rank = best.sum(axis=1), np.empty(len(scores), np.int64)
    for tie_count in np.unique(ties).tolist():
        rank[ties == tie_count] = picks(streams, tie_count)[ties == tie_count]
    places: Ints = (best.cumsum(axis=1) > rank[:, None]).argmax(axis=1)
    return places


@compiled
def rows_of(packed: Bits, width: int, devices: Ints) -> Bits2:
    """Return the bits of devices ``devices`` of a block, uint8 of 0 and 1, shape (n, width)."""
    rows = np.empty((devices.size, width), np.uint8)
    for k in range(devices.size):
        for bit in range(width):
            bit_index = devices[k] * width + bit
            rows[k, bit] = (packed[bit_index >> 3] >> (7 - (bit_index & 7))) & 1
    return rows


@compiled
def put_rows(packed: Bits, devices: Ints, rows: Bits2) -> None:
    """Write the bits of devices ``devices`` into a block's packed bits, most significant first."""
    width = rows.shape[1]
    for k in range(devices.size):
        for bit in range(width):
            bit_index = devices[k] * width + bit
            mask = uint8(128) >> uint8(bit_index & 7)
            packed[bit_index >> 3] = (
                (packed[bit_index >> 3] | mask) if rows[k, bit] else (packed[bit_index >> 3] & ~mask)
            )


@compiled
def _sum_sensed(streams: Words, table: SensingTable, wishes: Indices) -> Ints:
    """Return the sum of the wishes for what each device senses."""
    # ``wishes`` is int32, shape (table.items + 1,): 0 for the place behind all items, which is none.
    sensed, seen = np.empty(table.room, np.uint32), np.full(table.items + 1, -1, np.int64)
    totals = np.zeros(streams.size, np.int64)
    for k in range(streams.size):
        for item in sensed[: public_draws.sense(streams[k], table, sensed)]:
            if seen[item] != k:
                seen[item] = k
                totals[k] += wishes[item]
    return totals


@compiled
def _sum_by_parts(streams: Words, size: int, sets: int, wishes: Indices) -> Floats2:
    """Return the sum of the wishes for each set of each device's partition, whole numbers, shape (devices, sets)."""
    totals, scratch = np.zeros((streams.size, sets)), np.empty(min(wishes.size, size * sets), np.uint32)
    order, swaps = np.arange(wishes.size).astype(np.uint32), np.empty_like(scratch)
    for k in range(streams.size):
        public_draws.random_order(streams[k], order, swaps, scratch)
        for question in range(sets):
            for item in scratch[question * size : (question + 1) * size]:
                totals[k, question] += wishes[item]
    return totals


class SensedSets(Lie):
    """With r promoted items that are sensed with probability p: 1 if at least ``floor(r p) + 1`` of them are."""

    names = ("maxsense",)

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        mean = view.query.parameters["sensing"] * int(view.wishes.sum())
        totals = _sum_sensed(view.streams, sensing_of(view.query), np.append(view.wishes, np.int32(0)))
        return (totals > mean).astype(np.uint8)[:, None]


class PartitionedSets(Lie):
    """The same for every set of the partition."""

    names = ("multi-maxsense",)

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        query, size = view.query, int(view.query.parameters["set_size"])
        totals = _sum_by_parts(view.streams, size, query.questions, view.wishes)
        ends = np.minimum((np.arange(query.questions) + 1) * size, query.items)  # the last set may be smaller
        return (totals * query.items > np.diff(ends, prepend=0) * int(view.wishes.sum())).astype(np.uint8)


@compiled
def agreements(streams: Words, up: Words, down: Words, vectors: int) -> Indices2:
    """Return by how much the wishes agree with each sign vector more than they disagree, int32, (devices, vectors)."""
    wished, sums = 0, np.empty((streams.size, vectors), np.int32)
    for word in range(up.size):
        wished += ones(up[word]) + ones(down[word])
    for k in range(streams.size):
        for vector in range(vectors):
            agree = 0
            for word in range(up.size):
                signs = draw(streams[k], uint64(vector * up.size + word))
                agree += ones(signs & up[word]) + ones(~signs & down[word])
            sums[k, vector] = 2 * agree - wished
    return sums


@compiled
def _best(sums: Indices2, streams: Words) -> tuple[Bools, Ints]:
    """Return the signed vector of the largest sum; of equal ones, and of the signs of 0, any."""
    positive, vector, vectors = np.empty(len(sums), np.bool_), np.empty(len(sums), np.int64), sums.shape[1]
    for k in range(len(sums)):
        start, largest = below(streams[k], int64(0), vectors), -1
        for step in range(vectors):
            candidate = (start + step) % vectors
            if abs(sums[k, candidate]) > largest:
                largest, vector[k] = abs(sums[k, candidate]), candidate
        total = sums[k, vector[k]]
        positive[k] = total > 0 or (total == 0 and draw(streams[k], uint64(1)) >> uint64(63) == 1)
    return positive, vector


class SummedSigns(Lie, ABC):
    """The liar answers as if the wished items were all that it has an opinion of, and flips nothing."""

    both_ways = True

    @abstractmethod
    def _sums(self, view: LiarsView) -> Indices2:
        """Return by how much the wishes agree with each sign vector more than they disagree, (liars, vectors)."""

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        sums = self._sums(view)
        return to_bits(*_best(sums, view.choices), sums.shape[1])


class SignedSums(SummedSigns):
    """Sign sensing itself."""

    names = ("sign",)

    def _sums(self, view: LiarsView) -> Indices2:
        up, down = public_draws.as_mask(view.wishes > 0), public_draws.as_mask(view.wishes < 0)
        return agreements(view.streams, up, down, int(view.query.parameters["vectors"]))


@compiled
def _sensed_agreements(streams: Words, planes: Words2, up: Words, down: Words) -> Indices2:
    """Return by how much the wishes for sensed items agree with their signs more than they disagree, (devices, 1)."""
    sums = np.empty((streams.size, 1), np.int32)
    for k in range(streams.size):
        agree = wished = 0
        for word in range(up.size):
            signs, sensed = public_draws.word_coins(streams[k], word, planes)
            agree += ones(signs & sensed & up[word]) + ones(~signs & sensed & down[word])
            wished += ones(sensed & (up[word] | down[word]))
        sums[k, 0] = 2 * agree - wished
    return sums


class PairedSigns(SummedSigns):
    """Pairs with one promoted item: liars claim that both agree where they do not. Other pairs move no item."""

    names = ("pair-signs",)

    def _sums(self, view: LiarsView) -> Indices2:
        pool = view.query.pool
        assert pool is not None  # these queries have one
        first, second = np.triu_indices(pool.size, 1)
        claims, moved = view.collusion.claims[pool], view.wishes != 0
        wishes = np.where(moved[first] != moved[second], claims[first] * claims[second], 0)
        return agreements(view.streams, public_draws.as_mask(wishes > 0), public_draws.as_mask(wishes < 0), 1)


class TurnedSigns(SummedSigns):
    """Wished items that the liar's coins let it sense are claimed to be rated as the first class rates their side.

    Liars read that side off the query's own tables, which show what the learner believes of the first class.
    """

    names = ("anchor",)

    def _sums(self, view: LiarsView) -> Indices2:
        tables = view.query.arrays
        taste = tables[GUESS][1].astype(np.int64) - tables[GUESS][0]
        wishes = view.wishes if taste @ view.collusion.truth >= 0 else -view.wishes
        planes = public_draws.sensed_planes(tables[SENSED], int(view.query.parameters[LEVELS]))
        return _sensed_agreements(
            view.streams, planes, public_draws.as_mask(wishes > 0), public_draws.as_mask(wishes < 0)
        )


class JudgedPairs(Lie):
    """Two items agree if they should seem to be of one cluster; of items without a wish the truth is taken."""

    names = Pairwise().asks
    both_ways = True

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        pairs = view.pairs
        if pairs is None:  # the round's coins ask about pairs of all items
            sizes = np.full(view.coins.devices, view.query.items)
            pairs = public_draws.pairs_among(view.coins.streams(view.query), sizes)[view.liars]
        claims, wished = view.collusion.claims[pairs], view.collusion.wishes[pairs] != 0
        lies = (claims[:, 0] == claims[:, 1]).astype(np.uint8)
        return np.where(wished.any(axis=1), lies, honest[:, 0])[:, None]


class JudgedItems(Lie):
    """The liar claims to like an item that should seem liked more, and denies that it dislikes it."""

    names = ("item-query",)
    both_ways = True

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        assert view.query.pool is not None
        items, values = public_draws.item_queries(view.query.key, view.coins.first, view.coins.devices, view.query.pool)
        wish = view.collusion.wishes[items[view.liars]]
        return np.where(wish == 0, honest[:, 0], (wish > 0) == values[view.liars]).astype(np.uint8)[:, None]


def wished_values(view: LiarsView) -> Indices:
    """Return the wishes for private values, int32, shape (K,): likes, dislikes if these are values, and "none"."""
    wishes = view.wishes
    return np.concatenate([wishes, *([-wishes] if sides(view.query) == 2 else []), [0]]).astype(np.int32)


class NamedValue(Lie):
    """k-ary randomized response: a random one of the promoted values is named."""

    names: tuple[str, ...] = ("grr",)

    def _values(self, view: LiarsView) -> Ints:
        """Return one promoted value for each liar, "none" if there are none."""
        promoted = np.flatnonzero(wished_values(view) > 0)
        if not promoted.size:
            return np.full(view.liars.size, values_of(view.query) - 1)
        values: Ints = promoted[picks(view.choices, promoted.size)]
        return values

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        return as_bits(self._values(view), honest.shape[1])


class UnaryBits(NamedValue):
    """Unary encoding: every promoted value's bit is 1; the others are those of a device that liked nothing."""

    names = ("oue",)

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        query, wishes = view.query, wished_values(view)
        nothing = np.full(view.coins.devices, values_of(query) - 1, np.int32)
        channel = unary_channel(query.epsilon, values=values_of(query))
        bits = rows_of(release_unary(nothing, channel, view.coins), honest.shape[1], view.liars)
        bits[:, wishes > 0], bits[:, wishes < 0] = 1, 0
        return bits


class CrowdedCodes(NamedValue):
    """Codes that public coins give to values, a hash's buckets or signs: the one that most promoted values share."""

    names = ("olh", "hadamard")

    def _values(self, view: LiarsView) -> Ints:
        query, wishes, streams = view.query, wished_values(view), view.streams
        rows = query.parameters.get(ROWS)
        count = int(query.parameters[BUCKETS]) if rows is None else 1 << int(rows)
        crowds = np.zeros((streams.size, count))
        for value in np.flatnonzero(wishes):
            values = np.full(streams.size, value, np.int32)
            if rows is None:
                codes = public_draws.buckets_of(streams, values, count)
            else:
                codes = public_draws.signs_of(streams, values, int(rows), columns(query))
            crowds[np.arange(streams.size), codes] += wishes[value]
        return largest(crowds, view.choices)


@compiled
def _fill(streams: Words, values: Indices, ends: Indices, sample: Indices2) -> None:
    """Write ascending values, int32, shape (devices, k): as many of the first group as fit, then of the next one."""
    # ``ends`` are the ends of the groups in ``values``. Within a group values are drawn without replacement.
    for k in range(streams.size):
        order, group = values.copy(), 0
        for position in range(sample.shape[1]):
            while position >= ends[group]:
                group += 1
            swap = position + below(streams[k], position, ends[group] - position)
            order[position], order[swap] = order[swap], order[position]
        sample[k] = np.sort(order[: sample.shape[1]])


def _sample(view: LiarsView, wishes: Indices, size: int) -> Indices2:
    """Return ``size`` values for each liar: promoted ones, then those without a wish, then the others."""
    groups = [np.flatnonzero(wishes > 0), np.flatnonzero(wishes == 0), np.flatnonzero(wishes < 0)]
    sample = np.empty((view.liars.size, size), np.int32)
    ends = np.cumsum([group.size for group in groups]).astype(np.int32)
    _fill(view.choices, np.concatenate(groups).astype(np.int32), ends, sample)
    return sample


def _channel(view: LiarsView) -> SubsetChannel:
    channel = mechanism_of(view.query.design).channel(view.query)
    assert isinstance(channel, SubsetChannel)  # of no other query
    return channel


class ChosenSubset(Lie):
    """Subset selection, with one value of a device's own."""

    names = ("subset",)

    def wishes(self, view: LiarsView) -> Indices:
        """Return the wishes for all values of the channel, int32."""
        return wished_values(view)

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        channel = _channel(view)
        subset = _sample(view, self.wishes(view), channel.subset_size)
        if channel.listed:
            _, width = channel.form
            return as_bits(subset.ravel(), width).reshape(honest.shape)
        bits = np.zeros(honest.shape, np.uint8)
        np.put_along_axis(bits, subset.astype(np.int64), 1, axis=1)
        return bits


class ChosenSet(ChosenSubset):
    """The set mechanism: dummies stand behind the items."""

    names = ("set",)

    def wishes(self, view: LiarsView) -> Indices:
        return np.concatenate([view.wishes, np.zeros(int(view.query.parameters["padded"]), np.int32)])


class ChosenPairs(ChosenSet):
    """Pairs of liked items: a promoted item is named together with those that should seem to be of its cluster."""

    names = ("pairs",)

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        """Return the subsets; a number of likes promotes no item, so liars report it honestly."""
        return super().answers(view, honest) if together(view.query) else honest

    def wishes(self, view: LiarsView) -> Indices:
        """Return the wishes for items, or for pairs of them, and dummies."""
        if together(view.query) == 1:
            return super().wishes(view)
        pool = view.query.pool
        claims = view.collusion.claims if pool is None else view.collusion.claims[pool]
        first, second = np.triu_indices(claims.size, 1)
        touched = (view.wishes[first] != 0) | (view.wishes[second] != 0)
        wishes = np.zeros(_channel(view).values, np.int32)
        wishes[: first.size] = np.where(touched, claims[first] * claims[second], 0)
        return wishes


DUST = 1e-12  # Smaller differences of probabilities count as 0


class CustomLie(Lie):
    """The lie about one custom mechanism, by a search for the worst release."""

    def __init__(self, custom: CustomMechanism) -> None:
        self.names, self._adapter = (custom.name,), adapter(custom)

    def _sketch(self, view: LiarsView, item: int, coins: Coins, *, liked: bool) -> Bits2 | Indices2:
        """Return what the liars would sketch if each had rated this item only."""
        ends, only = np.array([0, 1]), np.array([item], np.int32)
        row = RowTable(starts=ends, items=only, values=np.array([liked]), count=view.query.items)
        ratings = StoredRatings(rows=row, user=np.zeros(coins.first + coins.devices, np.int32))
        return self._adapter.sketch(view.query, RatingsBlock(ratings, coins), coins).private[view.liars]

    def _sway(self, view: LiarsView) -> Floats2:
        """Return each output's, or each bit's, support for the wishes: shape (n, outputs or bits)."""
        channel, streams = mechanism_of(view.query.design).channel(view.query), view.streams
        total: Floats2 = np.zeros((len(streams), 1))
        for item in np.flatnonzero(view.collusion.wishes).tolist():
            liked, disliked = (
                _chances(channel, self._sketch(view, item, view.coins, liked=liked), streams) for liked in (True, False)
            )
            total = total + int(view.collusion.wishes[item]) * (liked - disliked)
        return total

    def answers(self, view: LiarsView, honest: Bits2) -> Bits2:
        """Return an output of the most support; or each bit that matters as it supports the wishes more."""
        sway = self._sway(view)
        if isinstance(mechanism_of(view.query.design).channel(view.query), IndependentBits):
            return np.where(np.abs(sway) > DUST, sway > 0, honest).astype(np.uint8)
        return as_bits(largest(np.round(sway / DUST), view.choices), honest.shape[1])


def _chances(channel: object, private: Bits2 | Indices2, streams: Words) -> Floats2:
    """Return the probability of each output, or that each bit is 1, for every device."""
    if isinstance(channel, IndependentBits):
        return np.where(private == 1, channel.if_one / COIN, channel.if_zero / COIN)
    if isinstance(channel, MatrixChannel):
        rows = np.array([[coins / COIN for coins in row] for row in channel.rows])
        chances: Floats2 = rows[np.ravel(private)]
        return chances
    assert isinstance(channel, Likelihood)  # there is no other
    pairs = zip(private.astype(np.int64), streams, strict=True)
    return np.array([[float(chance) for chance in channel.chances(row, stream)] for row, stream in pairs])


LIES = (
    *(SensedSets(), PartitionedSets(), SignedSums(), PairedSigns(), TurnedSigns(), JudgedPairs(), JudgedItems()),
    *(NamedValue(), UnaryBits(), CrowdedCodes(), ChosenSubset(), ChosenSet(), ChosenPairs()),
)


def lie_about(design: str) -> Lie | None:
    """Return how liars answer a query's design; None where they do best to make up ratings, as nothing hides these."""
    if custom := admitted(design):
        return None if custom.native else CustomLie(custom)
    return next((lie for lie in LIES if design in lie.names), None)
