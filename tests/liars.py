"""A mechanism of a fourth party in three halves, honest or not: unary encoding of one rated item, and a matrix."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from actors.device_half import DeviceHalf, Sketch
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Indices2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import COIN, ExactChannel, LogRatio, odds_within
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf
from coordinator.server.server_half import ServerHalf
from scenarios.studies.scrutiny.mechanism import MechanismUnderTest, Size

HONEST = Fraction(1)


@dataclass(frozen=True)
class Unary(ExactChannel):
    """Bits of which one at most is 1: it is told by a fair coin, a 0 becomes 1 with ``zero`` of 2**64 coins."""

    zero: int

    @property
    def log_ratio(self) -> LogRatio:
        return LogRatio.of(Fraction(COIN - self.zero, self.zero))

    def chances(self, private: Ints) -> list[Fraction]:
        row = [Fraction(1)]
        for bit in private.tolist():
            one = Fraction(1, 2) if bit else Fraction(self.zero, COIN)
            row = [chance * part for chance in row for part in (1 - one, one)]
        return row


@dataclass(frozen=True)
class Matrix(ExactChannel):
    """Tell one of ``values`` as it is with ``own`` of 2**64 coins, any other one with ``other`` each."""

    values: int
    own: int
    other: int

    @property
    def log_ratio(self) -> LogRatio:
        return LogRatio.of(Fraction(self.own, self.other))

    def chances(self, private: Ints) -> list[Fraction]:
        return [Fraction(self.own if value == private[0] else self.other, COIN) for value in range(self.values)]


def unary(epsilon: Epsilon) -> Unary:
    assert epsilon is not None
    return Unary(math.ceil(COIN / (odds_within(epsilon) + 1)))


def matrix(epsilon: Epsilon, values: int) -> Matrix:
    assert epsilon is not None
    other = math.ceil(COIN / (odds_within(epsilon) + values - 1))
    return Matrix(values, COIN - (values - 1) * other, other)


class Public(PublicHalf):
    def __init__(self, name: str, lie: Fraction) -> None:
        self.name, self.lie = name, lie

    def channel(self, query: Query) -> Unary | Matrix:
        assert query.epsilon is not None
        epsilon = query.epsilon * self.lie
        return unary(epsilon) if self.name == "unary" else matrix(epsilon, 1 << query.answer_bits)


class Device(DeviceHalf):
    """``lie``: by which factor its sampler spends more than its channel says."""

    def __init__(self, name: str, lie: Fraction) -> None:
        self.names, self.lie = (name,), lie

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        told = ratings.rated(coins.master, coins.first, coins.devices)
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

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits2:
        assert query.epsilon is not None
        if query.design == "unary":
            zero = np.uint64(unary(query.epsilon * self.lie).zero)
            words = np.stack([coins.release(question) for question in range(query.questions)], axis=1)
            return np.where(private == 1, words < np.uint64(1 << 63), words < zero).astype(np.uint8)
        channel = matrix(query.epsilon * self.lie, 1 << query.answer_bits)
        words, value = coins.release(0), private[:, 0].astype(np.int64)
        other = np.minimum(words // np.uint64(channel.other), np.uint64(channel.values - 1)).astype(np.int64)
        told = np.where(other < channel.values - 1, other + (other >= value), value)
        return ((told[:, None] >> np.arange(query.answer_bits)[::-1]) & 1).astype(np.uint8)


class Server(ServerHalf):
    """As much of a server as its channel needs."""

    name = "unary"


def subject(name: str = "unary", *, channel: Fraction = HONEST, sampler: Fraction = HONEST) -> MechanismUnderTest:
    """The mechanism; ``channel`` and ``sampler`` are factors by which they spend more than they say."""

    def asks(size: Size, epsilon: Epsilon, round_number: int, public_seed: bytes) -> Query:
        query = Query(design=name, items=size.items, round=round_number, public_seed=public_seed, epsilon=epsilon)
        if name == "unary":
            return replace(query, questions=2 * size.items)
        return replace(query, answer_bits=size.items.bit_length())

    return MechanismUnderTest(
        label=name, public=Public(name, channel), device=Device(name, sampler), server=Server(), asks=asks
    )
