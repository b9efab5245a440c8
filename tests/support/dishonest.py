"""Mechanisms, shufflers and servers that give away more than they say."""

import math
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from mechanisms import GRR, OUE, LocalHashing
from pydantic import ConfigDict

from actors.device import Cohort
from actors.seeds import Coins
from coordinator.aggregators.gathering import ShareRoute, ShareServer
from coordinator.aggregators.seed_server import SeedServer
from coordinator.aggregators.word_server import WordServer
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.amplification import TwoLevels, one_bit_levels
from coordinator.protocol.arrays import Bits, Bits2, Counts, Floats, Indices2, Ints, Words, Words2
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import (
    COIN,
    CoinOf,
    ExactChannel,
    IndependentBits,
    Likelihood,
    LogRatio,
    MatrixChannel,
    bit_channel,
    independent_bits,
    matrix_channel,
    odds_within,
)
from coordinator.protocol.custom import Catalogue, CoinsBlock, Question, RatingsBlock, Tally, UserClass
from coordinator.protocol.mechanism import DeviceCoins, DeviceRatings, Mechanism, Sketch, as_kind
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.shared_vector import SharedVector
from coordinator.protocol.shares import WORDS_SERVER, ShareRoll
from coordinator.protocol.trust import ShuffledRound
from coordinator.shuffler import Shuffler
from scenarios.config.mechanism_settings import mechanism_kind
from scenarios.studies.scrutiny.mechanism_under_test import MechanismUnderTest, Size, subject_of
from scenarios.studies.scrutiny.servers_view import server_of

Array = np.ndarray[Any, Any]


# A mechanism of a fourth party in three halves, honest or not: unary encoding of one rated item, and a matrix.
HONEST = Fraction(1)


def unary(epsilon: Epsilon, bits: int = 1) -> IndependentBits:
    """Bits of which one at most is 1: it is told by a fair coin."""
    assert epsilon is not None
    return IndependentBits(bits, COIN // 2, math.ceil(COIN / (odds_within(epsilon) + 1)), 1)


def matrix(epsilon: Epsilon, values: int) -> MatrixChannel:
    """One of the values is told as it is, or as any other one, with the same probability for each."""
    assert epsilon is not None
    other = math.ceil(COIN / (odds_within(epsilon) + values - 1))
    own = COIN - (values - 1) * other
    return MatrixChannel(
        tuple(tuple(own if one == value else other for one in range(values)) for value in range(values))
    )


def channel_of(query: Query, lie: Fraction) -> IndependentBits | MatrixChannel:
    """The channel of a query; ``lie``: by which factor it spends more than it says."""
    assert query.epsilon is not None
    epsilon = query.epsilon * lie
    return unary(epsilon, query.questions) if query.design == "unary" else matrix(epsilon, 1 << query.answer_bits)


class Swindler(Mechanism):
    """``stated`` and ``drawn``: by which factors its channel and its sampler spend more than they say."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    stated: Fraction
    drawn: Fraction

    def channel(self, query: Query) -> IndependentBits | MatrixChannel:
        return channel_of(query, self.stated)

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        told = ratings.rated()
        starts, items, likes = told.starts, told.items, told.values
        rated = np.diff(starts)
        some = np.flatnonzero(rated)
        place = starts[some] + (coins.sketch()[some] % rated[some].astype(np.uint64)).astype(np.int64)
        if query.design == "unary":
            bits = np.zeros((coins.devices, query.questions), np.uint8)
            bits[some, 2 * items[place] + likes[place]] = 1
            return Sketch(bits)
        value = np.full((coins.devices, 1), (1 << query.answer_bits) - 1, np.int32)
        value[some, 0] = items[place]
        return Sketch(value)

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
        return channel_of(query, self.drawn).draw(private, coins.release)


def subject(name: str = "unary", *, channel: Fraction = HONEST, sampler: Fraction = HONEST) -> MechanismUnderTest:
    """The mechanism; ``channel`` and ``sampler`` are factors by which they spend more than they say."""

    def asks(size: Size, epsilon: Epsilon, round_number: int, public_seed: bytes) -> Query:
        query = Query(design=name, items=size.items, round=round_number, public_seed=public_seed, epsilon=epsilon)
        if name == "unary":
            return replace(query, questions=2 * size.items)
        return replace(query, answer_bits=size.items.bit_length())

    return MechanismUnderTest(
        label=name, public=Swindler(stated=channel, drawn=sampler), server=as_kind(Swindler), asks=asks
    )


# Mechanisms of one's own that are honest in one round, or say what is not so: what `blindrec check` is to see.


class Clear(OUE):
    """Spends twice what it may wherever it is not `honest`."""

    def honest(self, question: Question) -> bool:
        return False

    def channel(self, question: Question) -> IndependentBits:
        if self.honest(question):
            return super().channel(question)
        zero = self.zero(2 * question.nats)
        return independent_bits(count=question.bits, if_one=1 / 2, if_zero=zero, epsilon=None, ones=1)


class Later(Clear):
    def honest(self, question: Question) -> bool:
        return question.round == 0


class Seeded(Clear):
    """Honest with the public seed that a run is admitted with."""

    def honest(self, question: Question) -> bool:
        return question.public_seed == bytes(16)


class OtherSeeded(Clear):
    """Honest with any public seed but that one."""

    def honest(self, question: Question) -> bool:
        return question.public_seed != bytes(16)


class SomePool(Clear):
    """Honest as long as it is asked about all items."""

    pools = True

    def honest(self, question: Question) -> bool:
        return question.pool.size == question.items

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=2 * catalogue.items)


class RandomLater(OUE):
    """Sketches follow a generator of its own from round 1 on."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        bits = super().sketch(question, ratings, coins)
        return np.roll(bits, np.random.default_rng().integers(bits.shape[1]), axis=1) if question.round else bits


class OtherErrors(OUE):
    factor: float = 0.5

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        value, error = super().estimate(question, tally)
        return value, error * self.factor


class UpsideDown(OUE):
    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        value, error = super().estimate(question, tally)
        return -value, error


class Promises(OUE):
    """Predicts whatever it is told to."""

    information: float = 40.0

    def precision(self, question: Question, rated: int) -> float:
        return self.information if math.isfinite(question.nats) else math.inf


# Classes that are honest where one looks, and tell more than they claim elsewhere.
class PoolLiar(GRR):
    def channel(self, question: Question) -> MatrixChannel:
        if question.pool.size == question.items:
            return super().channel(question)
        return matrix_channel(np.eye(question.outputs).tolist(), None)


class Told(OUE):
    """As unary encoding, but how likely a 0 becomes 1 stands in its query, which anybody may send."""

    def query(self, catalogue: Catalogue) -> Question:
        told = 700.0 if catalogue.epsilon is None else float(catalogue.epsilon)
        return Question(bits=2 * catalogue.items, parameters={"zero": self.zero(told) * (1 + 1e-12)})

    def channel(self, question: Question) -> IndependentBits:
        zero = question.parameters["zero"]
        return independent_bits(count=question.bits, if_one=1 / 2, if_zero=zero, epsilon=None, ones=1)


class _Clear(IndependentBits):
    def draw(self, private: Bits2 | Indices2, coin: CoinOf) -> Bits2:
        return private.astype(np.uint8)


class Derived(OUE):
    """Its channel is of a class of its own, which draws no noise."""

    def channel(self, question: Question) -> IndependentBits:
        given = super().channel(question)
        return _Clear(given.count, given.if_one, given.if_zero, given.ones)


class Forged(OUE):
    """Its channel's fields were changed after they were checked."""

    def channel(self, question: Question) -> IndependentBits:
        given = super().channel(question)
        object.__setattr__(given, "ones", 0)
        return given


class ClaimsLater(LocalHashing):
    """A likelihood that claims more than its question from the second round on."""

    def channel(self, question: Question) -> Likelihood:
        given = super().channel(question)
        claimed = given.claimed if question.round == 0 or given.claimed is None else 2 * given.claimed
        return Likelihood(claimed=claimed, bits=given.bits, likelihood=given.likelihood, sampler=given.sampler)


class CrookedForSome(LocalHashing):
    """It draws no noise for one private value."""

    def sampler(self, question: Question) -> Any:
        honest = super().sampler(question)

        def draw(private: Bits2 | Indices2, public: Words, coin: CoinOf) -> Bits2:
            clear = self.named(self.hashed(private[:, 0], public, question.outputs), question)
            drawn: Bits2 = np.where(private == 5, clear, honest(private, public, coin))
            return drawn

        return draw


GIVEN: list[IndependentBits] = []  # Channels that `Keeps` gave away and still holds


class Keeps(OUE):
    """It keeps what it gives, to change it later."""

    def channel(self, question: Question) -> IndependentBits:
        GIVEN.append(super().channel(question))
        return GIVEN[-1]


class Many(LocalHashing):
    """More private values than are tried."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(outputs=super().query(catalogue).outputs, values=257)


# Mechanisms of one's own that leak, each beside a twin that does not: what `blindrec audit` is to find, and to pass.


def below(words: Words, chance: float) -> Array:
    """Whether each coin says yes."""
    return words < np.uint64(min(int(chance * 2.0**64), 2**64 - 1))


def likes(ratings: RatingsBlock, item: int) -> Array:
    found = np.zeros(ratings.starts.size - 1, np.int64)
    owner = np.repeat(np.arange(found.size), np.diff(ratings.starts))
    found[owner[(ratings.items == item) & ratings.likes]] = 1
    return found


class Plain(UserClass):
    """Randomized response about whether a device likes item 0; ``leaks``: whether a subclass does what it is for."""

    leaks: bool = True
    bits: ClassVar[int] = 1
    values: ClassVar[int] = 2

    def query(self, catalogue: Catalogue) -> Question:
        return Question(outputs=1 << self.bits, values=self.values)

    def flip(self, question: Question) -> float:
        return 1 / (1 + math.exp(question.nats))

    def stated(self, value: int, question: Question) -> list[float]:
        flip = self.flip(question)
        return [1 - flip, flip] if value == 0 else [flip, 1 - flip]

    def channel(self, question: Question) -> Likelihood | MatrixChannel | IndependentBits:
        return Likelihood(
            claimed=question.epsilon,
            bits=self.bits,
            likelihood=lambda private, _: self.stated(int(private[0]), question),
            sampler=lambda private, _, coin: self.drawn(private[:, 0].astype(np.int64), coin, question),
        )

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        return self.told(value ^ below(coin(0), self.flip(question)))

    def told(self, released: Array) -> Bits2:
        return ((released[:, None] >> np.arange(self.bits)[::-1]) & 1).astype(np.uint8)

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return likes(ratings, 0)

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        return np.zeros(question.pool.size), np.ones(question.pool.size)


class LessNoise(Plain):
    """It flips 5 % less often than it says."""

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        return self.told(value ^ below(coin(0), self.flip(question) * (0.95 if self.leaks else 1)))


class StatedLessNoise(Plain):
    """It states a matrix that flips 5 % less often than its question allows; blindrec refuses to ask so."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(outputs=2)

    def channel(self, question: Question) -> MatrixChannel:
        flip = self.flip(question) * (0.95 if self.leaks else 1)
        return matrix_channel([[1 - flip, flip], [flip, 1 - flip]], question.epsilon)


class FreshNoise(Plain):
    """It draws from a generator of its own, so that a repeated question gets other noise."""

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        words = np.random.default_rng().integers(0, 1 << 64, value.size, dtype=np.uint64) if self.leaks else coin(0)
        return self.told(value ^ below(words, self.flip(question)))


class UnusedField(Plain):
    """Of three bits two are always 0, it says; one of them holds a rating of every other device."""

    bits, values = 3, 4

    def stated(self, value: int, question: Question) -> list[float]:
        return [*super().stated(value & 1, question), 0, 0, 0, 0, 0, 0]

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        answer = (value & 1) ^ below(coin(0), self.flip(question))
        return self.told(answer | (4 * (value >> 1) if self.leaks else 0))

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return likes(ratings, 0) + 2 * likes(ratings, 3) * (ratings.devices % 2)


class SkewedSet(Plain):
    """It tells two of four places, its own with the right probability; with it comes the next one, not any other."""

    bits, values = 4, 4

    def stated(self, value: int, question: Question) -> list[float]:
        odds = math.exp(question.nats)
        inside, outside = (one / (3 * odds + 3) for one in (odds, 1.0))
        return [(inside if told >> value & 1 else outside) if told.bit_count() == 2 else 0.0 for told in range(16)]

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        own = below(coin(0), self.flip(question)) == 0
        step = (coin(1) % np.uint64(3)).astype(np.int64)
        other = (value + 1 + (np.minimum(step, 1) if self.leaks else step)) % 4
        left = [(value + 1 + (step + one) % 3) % 4 for one in range(2)]
        return self.told(np.where(own, 1 << value | 1 << other, 1 << left[0] | 1 << left[1]))

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return 2 * likes(ratings, 0) + likes(ratings, 1)


class Overheard(Plain):
    """Even devices answer for the device before them as well: its like is told twice."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(outputs=2)

    def channel(self, question: Question) -> MatrixChannel:
        return matrix_channel([self.stated(value, question) for value in range(2)], question.epsilon)

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        own = likes(ratings, 0)
        heard = np.where(ratings.devices % 2 == 0, np.roll(own, 1), own)
        return heard if self.leaks else own


class SameNoise(Plain):
    """Every round asks about other items, and the noise is that of the first round."""

    noise: ClassVar[dict[int, Array]] = {}

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return likes(ratings, question.round % 2)

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        flips = below(coin(0), self.flip(question))
        if self.leaks:
            flips = (
                self.noise.setdefault(value.size, flips) if question.round == 0 else self.noise.get(value.size, flips)
            )
        return self.told(value ^ flips)


class OneRating(Plain):
    """It tells who likes the last item and nothing else in the clear, one in a hundred inputs."""

    bits, values = 1, 3

    def stated(self, value: int, question: Question) -> list[float]:
        return super().stated(value % 2, question)

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        clear = (value == 2) & self.leaks
        return self.told(np.where(clear, 1, (value % 2) ^ below(coin(0), self.flip(question))))

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        only = likes(ratings, question.items - 1) * (np.diff(ratings.starts) == 1)
        return np.where(only == 1, 2, likes(ratings, 0))


class AboutSome(Plain):
    """It hardly flips where it is asked about some items only."""

    pools: ClassVar[bool] = True

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        more = question.pool.size < question.items and self.leaks
        return self.told(value ^ below(coin(0), self.flip(question) / (4 if more else 1)))

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return likes(ratings, int(question.pool[0]))


class SomeItems(Plain):
    """Each device answers about its own item of ``of``, by its address; about item 0 it gives away more than it says.

    ``excess`` is how much more, as a share of epsilon; blindrec claims nothing of that sort, so only releases tell.
    """

    excess: float = 0.1
    of: int = 5
    values: ClassVar[int] = 10

    def stated(self, value: int, question: Question) -> list[float]:
        return super().stated(value & 1, question)

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        more = self.excess * ((value >> 1 == 0) & self.leaks)
        flips = 1 / (1 + np.exp(question.nats * (1 + more)))
        return self.told((value & 1) ^ (coin(0) < (flips * 2.0**64).astype(np.uint64)))

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        item = ratings.devices % self.of
        liked: Array = np.choose(item, [likes(ratings, one) for one in range(self.of)])
        return 2 * item + liked


# Servers and devices that leak in sums of shares, beside those of runs, which do not.
class Noiseless(WordServer):
    """It publishes its sum without noise of its own."""

    def _noise(self, half: SharedVector, query: Query, roll: ShareRoll) -> Counts:
        return np.zeros(half.width(query), np.uint32)


def without_noise(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    if side == WORDS_SERVER:
        return Noiseless(secret, permit, route, agreement)
    return server_of(side, secret, permit, route, agreement)


def one_seed(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    return server_of(side, bytes(16), permit, route, agreement)


def opening_few(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    kind: type[ShareServer[Any]] = WordServer if side == WORDS_SERVER else SeedServer

    class Hasty(kind):  # type: ignore[misc, valid-type] # one of two
        def _require(self, query: Query) -> SharedVector:
            half: SharedVector = copy(super()._require(query))
            vars(half)["require_enough"] = lambda *_: None
            return half

    return Hasty(secret, permit, route, agreement)


class RepeatingCoins(Coins):
    """Two devices have one seed."""

    def share_keys(self) -> Words2:
        keys = super().share_keys()
        keys[1::2] = keys[: len(keys) // 2 * 2 : 2]
        return keys


class SeedTwice(Cohort):
    """Its devices use seeds of their shares twice."""

    def _coins(self, query: Query, first: int, stop: int) -> Coins:
        return RepeatingCoins(*super()._coins(query, first, stop))


# Shufflers that leak, beside the one of runs, which does not; and devices whose questions follow from addresses.
def unchecked(kind: type, **values: Any) -> Any:
    one: Any = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(one, name, value)
    return one


class Collecting:
    """It takes what the shuffler of runs takes, and remembers who sent it."""

    def __init__(self, query: Query, agreement: Agreement) -> None:
        self.query, self.agreement = query, agreement
        self.addresses, self.rows = list[int](), list[Bits]()
        self.asked = 0

    def take(self, release: Release) -> None:
        release.require(self.query)
        self.add(release)

    def add(self, release: Release) -> None:
        self.asked += release.count
        answered = np.flatnonzero(release.answered_mask())
        self.addresses += (release.first + answered).tolist()
        self.rows += list(release.unpacked()[answered])

    def order(self) -> Ints:
        """Places of reports in ascending order, as the honest shuffler hands them on."""
        return np.array(sorted(range(len(self.rows)), key=lambda place: self.rows[place].tolist()), np.int64)

    def round(self, order: Ints, *, width: int, checked: bool = True, **more: Any) -> ShuffledRound:
        if len(self.rows) < self.agreement.reports(self.asked):
            return self.of(None)
        rows = [np.pad(self.rows[place], (0, width - self.rows[place].size)) for place in order.tolist()]
        values: dict[str, Any] = {
            "query_id": self.query.id,
            "first": 0,
            "count": len(rows),
            "width": width,
            "refused": 0,
        }
        values |= {"bits": pack(np.array(rows, np.uint8)), "answered": None, "pairs": None} | more
        return self.of(Release(**values) if checked else unchecked(Release, **values), checked=checked)

    def of(self, release: Release | None, *, checked: bool = True) -> ShuffledRound:
        numbers = {"devices": self.asked, "refused": 0, "answered": len(self.rows)}
        values: dict[str, Any] = {"query_id": self.query.id, **numbers, "release": release}
        return ShuffledRound(**values) if checked else unchecked(ShuffledRound, **values)


class Ordered(Collecting):
    """Reports leave in the order in which they came."""

    def close(self) -> ShuffledRound:
        return self.round(np.arange(len(self.rows)), width=self.query.bits)


class Numbered(Collecting):
    """Reports are sorted, and each has its device's number beside it."""

    def close(self) -> ShuffledRound:
        order = self.order()
        pairs = np.array([[self.addresses[place], -1] for place in order.tolist()], "<i4")
        return self.round(order, width=self.query.bits, checked=False, pairs=pairs.tobytes())


class CountingAbsentees(Shuffler):
    """It counts devices that were asked as if they had answered."""

    def __init__(self, query: Query, agreement: Agreement) -> None:
        agreement = replace(agreement, withhold=False)
        super().__init__(agreement.stamped(query), agreement)


class TwoLengths(Collecting):
    """It takes reports that are longer than others, and hands them on as they are."""

    def take(self, release: Release) -> None:
        self.add(release)

    def close(self) -> ShuffledRound:
        return self.round(self.order(), width=max(row.size for row in self.rows))


QUESTIONS = 6  # bits of a question


class QuestionAndBit(ExactChannel):
    """A question of one's own, and a bit about it under randomized response."""

    def __init__(self, query: Query) -> None:
        self.flip = bit_channel(query.epsilon).flip_probability

    @property
    def log_ratio(self) -> LogRatio:
        return LogRatio.of((1 - self.flip) / self.flip)

    def chances(self, private: Ints) -> list[Fraction]:
        own = [self.flip, 1 - self.flip] if private[0] else [1 - self.flip, self.flip]
        return [chance / (1 << QUESTIONS) for _ in range(1 << QUESTIONS) for chance in own]


class Asked(Mechanism):
    """Devices are asked about whatever their question is, and hand on both question and answer."""

    name = "grr"

    public: bool  # Whether the question follows from the device's public address, or from a coin of its own

    def channel(self, query: Query) -> QuestionAndBit:
        return QuestionAndBit(query)

    def levels(self, query: Query) -> TwoLevels:
        return one_bit_levels()

    def sketch(self, query: Query, ratings: DeviceRatings, coins: DeviceCoins) -> Sketch:
        """Whether the first item that a device rated is liked, whatever the question."""
        rated = ratings.rated()
        liked = np.zeros((coins.devices, 1), np.int32)
        some = np.flatnonzero(np.diff(rated.starts))
        liked[some, 0] = rated.values[rated.starts[some]]
        return Sketch(liked)

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
        question = (coins.streams(query) if self.public else coins.release(1)) >> np.uint64(64 - QUESTIONS)
        flip = coins.release(0) < np.uint64(bit_channel(query.epsilon).flips)
        shifts = np.arange(QUESTIONS)[::-1].astype(np.uint64)
        bits = (question[:, None] >> shifts) & np.uint64(1)
        return np.column_stack([bits, private[:, 0] ^ flip]).astype(np.uint8)


def asking(*, public: bool) -> MechanismUnderTest:
    """A mechanism whose devices hand on a question, of their own or by their address, and an answer."""
    size = Size(items=5, rated=3, users=1000)
    plain = subject_of(mechanism_kind("grr"), {}, size=size)

    def asks(size: Size, epsilon: Any, round_number: int, public_seed: bytes) -> Query:
        assert as_float(epsilon) > 0
        return Query(
            design="grr",
            items=size.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            answer_bits=1 + QUESTIONS,
        )

    return replace(plain, label="asked", public=Asked(public=public), asks=asks)
