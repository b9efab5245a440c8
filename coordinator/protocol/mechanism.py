"""What a mechanism is: one class in one file, whose fields are its settings.

It says what is asked, what a device makes of its ratings, how answers add up, and what they say of items. Its code is
public, so that it stands in the protocol. Ratings and secrets are not: only devices (`actors`) have any, and only they
call `Mechanism.sketch` and `Mechanism.randomize` in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypedDict, Unpack

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from coordinator.protocol.amplification import TwoLevels, one_bit_levels
from coordinator.protocol.arrays import Bits, Bits2, Bools, Counts, Floats, Indices, Indices2, Ints, Words
from coordinator.protocol.budget import REPLACE, Epsilon
from coordinator.protocol.channels import ExactChannel, IndependentBits, Likelihood, Sampled, flipped_bits
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model, Query, Release, unpack
from coordinator.protocol.statistics.counts import counted, reported
from coordinator.protocol.statistics.slices import column_counts
from coordinator.protocol.trust_models import LOCAL

if TYPE_CHECKING:
    from coordinator.protocol.decoding.estimates import Estimates, PublicCounts
    from coordinator.protocol.decoding.line import Curator
    from coordinator.protocol.law import Law, People
    from coordinator.protocol.moments.blocks import BlockParameters
    from coordinator.protocol.rating_table import Likes
    from coordinator.protocol.sensing import SensingTable
    from coordinator.protocol.statistics.counts import CountStatistic
    from coordinator.protocol.statistics.statistic import Statistic

LOCAL_PROMISE = "epsilon-local differential privacy of all that a device holds"
NOT_PRIVATE = "none: this design is not private, ratings are told as they are"
SCHEDULED = "scheduled"  # The policy of periods, which is named by its schedule
ONE_ROUND, FIXED, ELIMINATE, ITEM_BY_ITEM, UNTIL_LEARNED, GROUPS, ANCHOR, TWO_ROUNDS = (
    "one-round",
    "fixed",
    "eliminate",
    "item-by-item",
    "until-learned",
    "groups",
    "anchor",
    "two-rounds",
)
POOLED = (ONE_ROUND, FIXED, ELIMINATE, ITEM_BY_ITEM)  # Policies of mechanisms that can ask about a pool of items
KMEANS = "k-means"  # Name of the decoder that clusters items by their scores
POSTERIOR = "posterior"  # Name of the decoder that takes every item's most probable cluster
SETS = ("centred", "paper")  # Decoders of scores: ours and the paper's
Theta = Annotated[float, Field(ge=1e-9, allow_inf_nan=False, description="Sensed items a user rated, on average [1].")]
"""A setting that all mechanisms share that ask about sets."""
Neighbours = Annotated[
    Literal["replace", "add-remove"],
    Field(
        description="Curators, two servers: epsilon is about one user's ratings replaced, or one user added or "
        "removed [replace]."
    ),
]
"""A setting that curators and two servers share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The public facts about a run that every mechanism gets."""

    items: int  # N, w, U and L
    rated: int
    users: int
    clusters: int
    epsilon: Epsilon  # What a device may spend in all, or a curator publishes under [nats]; None for no noise
    same_rated: bool = True  # Whether every user rated exactly w items
    block: BlockParameters | None = None  # The block model of a simulated world; None with a ratings file
    delta: float = 0.0  # Chance that a promise about published sums fails
    expected_answers: float = 1.0  # Share of the devices that answers at least, where their noise must be enough
    assume_malicious: float = 0.0  # Share of these whose noise nobody counts on


class QueryHeader(TypedDict):
    """What every query of a round has, whatever it asks."""

    round_number: int
    public_seed: bytes  # Sixteen bytes that key the public coins
    epsilon: Epsilon  # Privacy parameter of an answer [nats]; None for no noise


def query_of(design: str, items: int, header: QueryHeader, **fields: Any) -> Query:
    """Return the query of a round, with what else a design asks by the names of a query's fields."""
    number, public_seed, epsilon = header["round_number"], header["public_seed"], header["epsilon"]
    return Query(design=design, items=items, round=number, public_seed=public_seed, epsilon=epsilon, **fields)


def check_shape(items: int, rated: int, theta: float = 1.0) -> None:
    """Refuse numbers of items, of rated items or a sensing rate that contradict each other."""
    if items < 1:
        raise InputError(f"items is {items}; a catalogue has at least 1")
    if not 1 <= rated <= items:
        raise InputError(f"rated is {rated}; it must lie between 1 and the number of items, {items}")
    if not 0 < theta <= rated:
        raise InputError(f"theta is {theta}; it must lie above 0 and be at most rated, {rated}")


def require_whole_parameter(query: Query, name: str, most: int) -> int:
    """Return a parameter that must be a whole number from 1 to ``most``."""
    value = query.parameters[name]
    if not (1 <= value <= most and float(value).is_integer()):
        raise InputError(f"{query} has {name} {value:g}; give a whole number, 1 to {most}")
    return int(value)


class Sketch(NamedTuple):
    """The sketches of a block of devices, before they are privatized."""

    private: Bits2 | Indices2
    """Private bits, uint8, shape (devices, questions), or whole numbers, int32; they must not leave the device side."""
    able: Bools | None = None  # Which devices can answer, which depends on public data alone; None if all can
    pairs: Indices2 | None = None
    """Public pairs that the bits are about, shape (devices, 2), where they follow from public ratings."""


class Opinions(NamedTuple):
    """Ratings of a pool's items, CSR: the k-th device rated those at ``places[starts[k]:starts[k + 1]]``."""

    starts: Ints
    places: Counts
    likes: Bools


UNRATED, DISLIKED, LIKED = 0, 1, 2
"""What a device thinks of an item; see `DeviceRatings.opinions`."""


class DeviceRatings(Protocol):
    """The ratings of a block of devices, as a sketch sees them; `actors.ratings` has them, and they never leave it."""

    @property
    def items(self) -> int:
        """Number of items N."""

    def rated(self) -> Likes:
        """Return what the devices rated and liked, items ascending in each row."""

    def opinions(self, items: Indices2) -> Bits2:
        """Return what devices think of ``items``, shape (devices, k): `UNRATED`, `DISLIKED` or `LIKED`."""

    def tiles(self, places: Indices, *, only_likes: bool = False) -> Iterator[tuple[slice, Opinions]]:
        """Yield devices, some at a time, and their ratings, or likes, of items that have a place, 0 or more."""

    def likes_sensed(self, public: Words, table: SensingTable, pool: Indices) -> Bits:
        """Return 1 for each device that likes an item of its sensing set, drawn from its public stream."""

    def likes_parts(self, public: Words, set_size: int, sets: int) -> Bits2:
        """Return 1 for each of the first sets of a device's public partition in which it likes some item."""

    def random_values(self, streams: Words, places: Indices, sides: int) -> Indices:
        """Return the value of one random item of each device; see `coordinator.protocol.mechanisms.oracles`."""


class DeviceCoins(Protocol):
    """The coins of a block of devices, as a sketch and a randomizer see them; `actors.seeds.Coins` are such."""

    @property
    def first(self) -> int:
        """The first device."""

    @property
    def devices(self) -> int:
        """Number of devices."""

    @property
    def numbers(self) -> Ints:
        """Number of each device."""

    def streams(self, query: Query) -> Words:
        """Return the stream of each device that its question follows from, which the server knows, too."""

    def sketch(self, question: int = 0) -> Words:
        """Return each device's private coin for a random choice in its sketch."""

    def release(self, question: int) -> Words:
        """Return each device's private coin for the local randomizer of one question."""

    def choices(self) -> Words:
        """Return each device's private stream for breaking ties and picking among equal answers."""

    def keys(self) -> tuple[Words, Words]:
        """Return each device's 128-bit key as two arrays; see `coordinator.protocol.packed_releases`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How a statistic is decoded."""

    clusters: int  # Number of item clusters L
    decoder: str  # Name of one of the mechanism's decoders
    curator: Curator | None = None  # The noise that is added if the server is a trusted curator
    public: PublicCounts | None = None  # What people with public ratings like, if it is weighed with devices' sets
    world: World | None = field(default=None, repr=False)  # Without its block model

    def trusted(self) -> Curator:
        """Return the curator; there must be one, because totals without noise are never published."""
        if self.curator is None:
            raise InputError("totals are published by a trusted curator only; say which noise it adds")
        return self.curator


class Settings(BaseModel):
    """A mechanism's own settings. A field's description is also its flag's help; no setting is nested."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    splits: ClassVar[bool] = False  # Whether epsilon is split over questions
    always_told: ClassVar[frozenset[str]] = frozenset()
    """Names of settings that tables show even if they have their default values."""
    jumps: ClassVar[bool] = False  # Whether the query changes with the integer part of epsilon

    @property
    def rated_public(self) -> bool:
        """Whether it is public which items a device rated."""
        return False

    def most_questions(self, world: World) -> int:
        """Return the most questions that epsilon may be split over."""
        return 1

    @property
    def settled(self) -> bool:
        """Whether no setting is left open."""
        return True

    def settle(self, world: World, decoder: str) -> Self:
        """Return the settings with all open ones chosen."""
        return self

    @property
    def sizes_open(self) -> bool:
        """Whether sizes are open that, behind a shuffler, follow from the central epsilon."""
        return False

    def sized(self, query: Query, devices: int, delta: float) -> Self:
        """Return the settings with the best sizes for a query of the central epsilon and this many honest devices."""
        return self


class _Itself:
    """Gives the class that it is asked of."""

    def __get__(self, _: object, kind: type[Mechanism]) -> type[Mechanism]:
        return kind


class Offers:
    """What a mechanism offers to a run, whatever its settings are."""

    title: ClassVar[str] = ""  # Where there is none, it only answers queries that another mechanism asks
    # Names of its decoders and of the policies that it can follow, the default first
    decoders: ClassVar[tuple[str, ...]] = ()
    policies: ClassVar[tuple[str, ...]] = (ONE_ROUND, FIXED)
    # The setting that lets it follow all of them, if some settings do not; for errors
    all_policies_with: ClassVar[str] = ""
    trust: ClassVar[str] = LOCAL  # "local", "curator", "two-servers"; Who is untrusted; see the threat model
    private: ClassVar[bool] = True  # Whether it has a guarantee at finite epsilon
    # Whether its policy goes on until every item is learned, so that nobody chooses the number of users
    learns_all: ClassVar[bool] = False
    # Whether lower bounds apply to it, because its answers are private towards the server or have one bit
    bounded: ClassVar[bool] = True
    # Whether it learns from pairs of items, and so can distinguish clusters that single items cannot
    paired: ClassVar[bool] = False
    # Whether an item's score grows with the number of devices that like it, so that scores rank items by popularity
    ranks: ClassVar[bool] = False
    # What its design can ask besides `query`, by a method ``of_NAME`` each, where its policy asks groups of devices
    # different things
    groups: ClassVar[tuple[str, ...]] = ()


class Mechanism(Settings, Offers):
    """A mechanism with its settings; a module of `coordinator.protocol.mechanisms` has some in ``MECHANISMS``.

    Four methods must be written: `query`, `channel`, `sketch`, and one that reads answers, `estimate` or `decode`. What
    concerns a query (from `check` to `count`) follows from the query alone, whatever the settings are.
    """

    name: ClassVar[str]  # Its name on the command line and of its queries
    settings: ClassVar[_Itself] = _Itself()  # The type of its settings, which is the class

    # What its queries promise and bring
    guarantee: ClassVar[str] = LOCAL_PROMISE  # What a device is promised at a finite epsilon, in words
    # Whether answers go through a local randomizer; what is not private is asked without an epsilon only
    randomizes: ClassVar[bool] = True
    names_rated: ClassVar[bool] = False  # Whether the release names items that the device rated; they are public then
    # Names of the numbers and of the public arrays that a query must bring, no more and no less
    parameters: ClassVar[frozenset[str]] = frozenset()
    arrays: ClassVar[frozenset[str]] = frozenset()
    # Whether the query must name a pool of items (True), must not (False), or may (None)
    pooled: ClassVar[bool | None] = False
    # Whether the query may bring centres that ratings of the pool's items are counted from
    centred: ClassVar[bool] = False
    # Whether a device's question follows from its public address, as a sensing set does, unless the query has devices
    # draw their own. Where it follows, whoever reads a report must know its sender, and a shuffler cannot hide it
    by_address: ClassVar[bool] = False
    # Whether devices answer in shares alone, which two servers add up; see `coordinator.protocol.mechanisms.totals`
    shares: ClassVar[bool] = False

    widest: ClassVar[float] = 1.0  # Largest difference between the levels of two clusters

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of queries (`Query.design`) that it answers, counts and reads."""
        return (self.name,)

    @property
    def asks(self) -> tuple[str, ...]:
        """The names of queries that its policies may ask."""
        return self.kinds

    # What is asked, which anyone may know

    def query(
        self,
        world: World,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,
        **header: Unpack[QueryHeader],
    ) -> Query:
        """Return the query of a round about a pool (default: all items); ``expected`` may hold their estimates."""
        raise NotImplementedError(f"{type(self).__name__} asks nothing; give it a method that returns a query")

    def check_world(self, world: World) -> None:
        """Refuse settings that a world has no room for."""

    def design(self, world: World) -> Any:
        """Return the mechanism in a world, which policies ask; an InputError says what is out of range."""
        self.check_world(world)
        return InWorld(mechanism=self, world=replace(world, block=None))

    def check(self, query: Query) -> None:
        """Refuse a query whose numbers no device can answer; names of parameters and the pool are checked before."""

    def question_range(self, query: Query) -> range:
        """Return the numbers of questions that a query may ask."""
        return range(1, 2)

    def answer_bits(self, query: Query) -> int:
        """Return the bits of one question's answer."""
        return 1

    def channel(self, query: Query) -> ExactChannel | Likelihood:
        """Return the exact channel that randomizes a device's private sketch, with its sampler.

        It is called for every block of devices, so a channel that takes long to make is cached by its parameters.
        An InputError says that coins cannot express it, or that the mechanism is not private and has no channel.
        """
        if not self.randomizes:
            raise InputError(f"{query} is not private: ratings are told as they are, through no channel")
        raise NotImplementedError(f"{type(self).__name__} says no channel; give it a method that returns one")

    def levels(self, query: Query) -> TwoLevels | None:
        """Return the two levels of the channel's chances at the query's epsilon; None: it has others, or none is known.

        With them a shuffler's bound is smallest; see `coordinator.protocol.amplification.TwoLevels`. Where devices draw
        their own questions, a report is the pair of question and answer.
        """
        return None

    def guarantee_under(self, neighbours: str) -> str:
        """Return the promise in words under a relation of neighbours; a device's own is always about replacement."""
        return self.guarantee

    def addressed(self, query: Query) -> bool:
        """Return whether whoever reads a report needs its sender's address."""
        return self.by_address and not query.own_questions

    def check_own_questions(self, label: str) -> None:
        """Refuse a query, named by its label, that has devices draw their questions, where they cannot."""
        if self.names_rated:
            raise InputError(
                f"{label} has devices draw their own questions, but a release names items that its device rated, which "
                "are public and name the device; leave own questions out, or ask about pairs of all items"
            )
        if not self.by_address:
            raise InputError(
                f"{label} has devices draw their own questions, but no question of this design follows from a device's "
                "address in a way that a private coin could replace; leave own questions out"
            )

    # What a device does; in a run only `actors` calls these

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Return what each device of a block has to say; the query was checked."""
        raise NotImplementedError(f"{type(self).__name__} says no sketch; give it a method that makes one")

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
        """Return the released bits, uint8, shape (devices, query.bits); ``private`` may be overwritten.

        By default the query's exact channel draws them, and a query without privacy releases the sketch itself.
        """
        if not self.randomizes:
            return private.view(np.uint8)
        channel = self.channel(query)
        if isinstance(channel, Likelihood):
            return channel.draw(private, coins.streams(query), coins.release)
        if not isinstance(channel, Sampled):
            raise TypeError(f"{type(channel).__name__} draws no releases; give {type(self).__name__} a randomize")
        return channel.draw(private, coins.release)

    def packed(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits:
        """Return the released bits, device by device, packed most significant bit first; as `randomize` draws them."""
        return np.packbits(self.randomize(private, query, coins))

    # What the server makes of answers

    def count(self, query: Query, release: Release) -> Statistic:
        """Return the statistic of one block's release, both checked: by default counts of outputs, or of bits of 1."""
        release.require(query)
        if query.answer_bits == 1:
            return counted(query, release, column_counts(release))
        outputs = 1 << query.answer_bits
        named = reported(query, release, outputs)[release.answered_mask()]
        return counted(query, release, np.bincount(named, minlength=outputs).astype(np.int64))

    @property
    def adds_up(self) -> bool:
        """Whether its statistic counts outputs or bits, as it does by default."""
        return type(self).count is Mechanism.count

    def of_published(self, query: Query, totals: CountStatistic) -> Statistic:
        """Return the statistic of one round's totals, as two servers published them; an InputError of others."""
        raise InputError(f"{query} is answered by releases; nobody publishes sums of them")

    @property
    def estimates_items(self) -> bool:
        """Whether its answers estimate every item."""
        return type(self).estimate is not Mechanism.estimate

    def estimate(self, query: Query, statistic: Any, world: World, expected: Floats | None = None) -> Estimates:
        """Return a round's estimates of every item; ``expected``, shape (N,), are newer ones than the query holds."""
        raise NotImplementedError(f"{type(self).__name__} estimates no single items")

    def repeated_variance(self, query: Query, world: World, value: Floats) -> Floats:
        """Return the part of an answer's variance that the same device repeats in a later period, for each item."""
        return np.zeros_like(value)

    def rates(self, query: Query, world: World, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item of a query's pool, as `estimate` counts it."""
        raise NotImplementedError(f"{type(self).__name__} estimates no single items")

    def scores(self, query: Query, statistic: Any, world: World | None) -> tuple[Floats, Floats]:
        """Return what items are ranked by, larger is liked more, and its standard error: by default the estimate."""
        assert world is not None  # of a run; some mechanisms score without it
        estimates = self.estimate(query, statistic, world)
        return estimates.value, estimates.error

    def decode(self, statistic: Any, query: Query, how: Decoding) -> Model:
        """Return the item model from a statistic of queries like ``query``: by default k-means of scores."""
        from coordinator.protocol.decoding.line import kmeans_on_line  # noqa: PLC0415 (numerical)

        if how.decoder != KMEANS or how.curator is not None:
            raise InputError(f"decoder {how.decoder!r} is unknown; choose one of {', '.join(self.decoders)}")
        if statistic.pooled:
            raise InputError(f"rounds asked about pools of items, whose counts have no sum; choose decoder {POSTERIOR}")
        value, error = self.scores(query, statistic, how.world)
        return Model(cluster=kmeans_on_line(value, how.clusters), score=value, error=error, clusters=how.clusters)

    def learn(self, statistic: Any, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the item model from the sum of all rounds, at least one; by default a ValueError if they differ."""
        ways = [query.parameters for query in queries]
        if any(way != ways[0] for way in ways):
            raise ValueError(f"rounds asked in different ways, {ways}; their scores cannot be added up")
        return self.decode(statistic, queries[0], how)

    # What the experimenter says of it

    def moments(self, world: World) -> object | None:
        """Return the exact moments of the server's statistic in a block model; None if nothing is predicted."""
        return None

    def law(self, query: Query, people: People) -> Law:
        """Return the law of the sum of the answers of devices of such people; where it says none, they are sketched."""
        raise InputError(f"{self.name} has no statistic that can be drawn from exact moments; let devices answer")

    @property
    def has_law(self) -> bool:
        """Whether it says the law of its sum."""
        return type(self).law is not Mechanism.law

    def policies_with(self) -> tuple[str, ...]:
        """Return those of its policies that it can follow with these settings; by default all."""
        return self.policies

    def relation(self) -> str:
        """Return which data its guarantee takes as neighbours: ``"replace"``, one user's ratings replaced by others."""
        return REPLACE

    def query_name(self) -> str:
        """Return the name of its queries with these settings."""
        return self.name

    @classmethod
    def label(cls, row: Mapping[str, Any]) -> str:
        """Return its name and the settings that distinguish its variants, for the row of a plan."""
        return cls.name


@dataclass(frozen=True, slots=True, kw_only=True)
class InWorld:
    """A mechanism with its settings in one world, which policies ask, and by which answers are read."""

    mechanism: Mechanism
    world: World  # Without its block model, which only the experimenter knows

    @property
    def name(self) -> str:
        """What its queries are called."""
        return self.mechanism.name

    @property
    def items(self) -> int:
        """Number of items N of the catalogue."""
        return self.world.items

    @property
    def rated(self) -> int:
        """Number of items w that a user rated."""
        return self.world.rated

    @property
    def widest(self) -> float:
        """Largest difference between the levels of two clusters."""
        return self.mechanism.widest

    @property
    def estimates(self) -> bool:
        """Whether it can ask about a pool of items, and its answers estimate every item, as adaptive policies need."""
        return self.mechanism.estimates_items

    def query(
        self, *, pool: Indices | None = None, expected: Floats | None = None, **header: Unpack[QueryHeader]
    ) -> Query:
        """Return the query of one round; see `Mechanism.query`."""
        return self.mechanism.query(self.world, pool=pool, expected=expected, **header)

    def read(self, query: Query, statistic: Any, expected: Floats | None = None) -> Estimates:
        """Return a round's estimates of every item; see `Mechanism.estimate`."""
        return self.mechanism.estimate(query, statistic, self.world, expected)

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; see `Mechanism.rates`."""
        return self.mechanism.rates(query, self.world, expected)


class PackedMechanism(Mechanism):
    """A mechanism that draws long releases as packed bits; its subclasses define `packed`."""

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
        """Return the released bits, a byte each; see `Mechanism.randomize`."""
        packed = self.packed(private, query, coins)
        return unpack(packed.tobytes(), coins.devices * query.bits).reshape(coins.devices, query.bits)


class OneBit(Mechanism):
    """One private bit about a question that a public coin of the device draws, flipped under the whole epsilon."""

    by_address: ClassVar[bool] = True

    def channel(self, query: Query) -> IndependentBits:
        """Return randomized response on the bit."""
        return flipped_bits(1, query.epsilon)

    def levels(self, query: Query) -> TwoLevels | None:
        """Return the levels of one bit about a question of one's own; two inputs' bits may always differ."""
        return one_bit_levels() if query.own_questions else None
