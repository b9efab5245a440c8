"""A mechanism of a fourth party in three halves, honest or not: unary encoding of one rated item, and a matrix."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from actors.device_half import DeviceHalf, Sketch
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import COIN, IndependentBits, MatrixChannel, odds_within
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf
from coordinator.server.server_half import ServerHalf
from scenarios.studies.scrutiny.mechanism import MechanismUnderTest, Size

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


class Public(PublicHalf):
    def __init__(self, name: str, lie: Fraction) -> None:
        self.name, self.lie = name, lie

    def channel(self, query: Query) -> IndependentBits | MatrixChannel:
        return channel_of(query, self.lie)


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
        return channel_of(query, self.lie).draw(private, coins.release)


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
