"""A mechanism is a public half and a device half: where a channel draws, the device half says the sketch only."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from statistical import rate_fits

from actors import mechanisms as on_devices
from actors.device import Cohort
from actors.device_half import DeviceHalf, Sketch
from actors.mechanisms import half_of
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol import mechanisms as in_public
from coordinator.protocol.arrays import Bits2, Indices2, Ints, Words
from coordinator.protocol.channels import (
    BitChannel,
    CoinOf,
    IndependentBits,
    Likelihood,
    MatrixChannel,
    bit_channel,
    independent_bits,
    matrix_channel,
)
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import RoomError, by_name
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf

ITEMS, DEVICES, EPSILON = 4, 100_000, Fraction(1)


class Unary(PublicHalf):
    """Unary encoding of one rated item."""

    name = "unary"

    def questions(self, query: Query) -> range:
        return range(query.items, query.items + 1)

    def channel(self, query: Query) -> IndependentBits:
        return independent_bits(count=query.items, if_one=0.5, if_zero=1 / (math.e + 1), epsilon=query.epsilon, ones=1)


def response(values: int) -> MatrixChannel:
    odds = math.e
    return matrix_channel(
        [[(odds if i == j else 1) / (odds + values - 1) for j in range(values)] for i in range(values)], EPSILON
    )


class Direct(PublicHalf):
    """Generalized randomized response on one rated item."""

    name = "direct"

    def answer_bits(self, query: Query) -> int:
        return self.channel(query).bits

    def channel(self, query: Query) -> MatrixChannel:
        return response(query.items)


def bucket(private: Bits2 | Indices2, public: Words) -> Indices2:
    return ((public >> private[:, 0].astype(np.uint64)) & np.uint64(1)).astype(np.int32).reshape(-1, 1)


class Hashed(PublicHalf):
    """Local hashing of one rated item into two buckets, by public coins."""

    name = "hashed"

    def channel(self, query: Query) -> Likelihood:
        def likelihood(private: Ints, public: np.uint64) -> list[Fraction]:
            return response(2).chances(bucket(np.array([private]), np.array([public]))[0])

        def sampler(private: Bits2 | Indices2, public: Words, coin: CoinOf) -> Bits2:
            return response(2).draw(bucket(private, public), coin)

        return Likelihood(claimed=query.epsilon, bits=1, likelihood=likelihood, sampler=sampler)


class OneItem(DeviceHalf):
    """Everybody's item is the device's index modulo the catalogue; no other line is needed."""

    names = ("unary", "direct", "hashed")

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        item = np.arange(coins.first, coins.first + coins.devices) % ratings.items
        if query.design == "unary":
            return Sketch(np.eye(ratings.items, dtype=np.uint8)[item])
        return Sketch(item.astype(np.int32)[:, None])


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    halves = by_name((Unary(), Direct(), Hashed()), lambda half: (half.name,))
    monkeypatch.setattr(in_public, "public_halves", lambda: halves)
    monkeypatch.setattr(on_devices, "registered", lambda: by_name((OneItem(),), lambda half: half.names))


def answered(design: str, questions: int = 1, answer_bits: int = 1) -> Bits2:
    sizes: dict[str, Any] = {"items": ITEMS, "questions": questions, "answer_bits": answer_bits}
    query = Query(design=design, round=0, public_seed=worlds.PUBLIC, epsilon=EPSILON, **sizes)
    cohort = Cohort(worlds.block_ratings(worlds.world(items=ITEMS, rated=2)), worlds.SECRET, 0, DEVICES, EPSILON)
    cohort.rehearse(query)
    bits = cohort.answer(query, 0, DEVICES).unpacked()
    assert cohort.answer(query, 500, 700).unpacked().tolist() == bits[500:700].tolist()
    assert cohort.ledger.spent(0) == EPSILON
    return bits


@pytest.mark.statistical
@pytest.mark.usefixtures("_known")
def test_unary_encoding_needs_its_sketch_only() -> None:
    """False alarm 1e-6 a rate; the twin's rate is that of epsilon 1.1."""
    bits, own = answered("unary", questions=ITEMS), np.eye(ITEMS, dtype=np.bool_)[np.arange(DEVICES) % ITEMS]
    assert rate_fits(int(bits[own].sum()), DEVICES, 0.5)
    zeros = DEVICES * (ITEMS - 1)
    assert rate_fits(int(bits[~own].sum()), zeros, 1 / (math.e + 1))
    assert not rate_fits(int(bits[~own].sum()), zeros, 1 / (math.exp(1.1) + 1))


@pytest.mark.statistical
@pytest.mark.usefixtures("_known")
def test_direct_encoding_and_local_hashing_need_their_sketch_only() -> None:
    """False alarm 1e-6 a rate; the twin's rate is that of epsilon 1.1."""
    told = answered("direct", answer_bits=2) @ np.array([2, 1])
    right = int((told == np.arange(DEVICES) % ITEMS).sum())
    assert rate_fits(right, DEVICES, math.e / (math.e + ITEMS - 1))
    assert not rate_fits(right, DEVICES, math.exp(1.1) / (math.exp(1.1) + ITEMS - 1))
    ones = int(answered("hashed").sum())
    assert 0.45 < ones / DEVICES < 0.55


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(RoomError, match="'unary' is declared by Unary and Unary"):
        by_name((Unary(), Unary()), lambda half: (half.name,))


# The sampler is tied to the exact channel matrix, bit by bit and for every question.
MASTER = as_words(worlds.SECRET)
FLIPPING = 400_000


def released(private: int, epsilon: Fraction) -> Bits2:
    """Releases of devices that all hold the same private bit: they like all items, or none, and sense both."""
    world = worlds.world(items=2, rated=2, like=((float(private), float(private)),))
    query = worlds.maxsense_query(items=2, sensing=1.0, epsilon=epsilon, round_number=private)
    return Cohort(worlds.block_ratings(world), world.secret, 0, FLIPPING, None).answer(query, 0, FLIPPING).unpacked()


def fits(epsilon: Fraction, channel: BitChannel) -> bool:
    """Whether devices that answer under ``epsilon`` release what the channel's matrix says, row by row."""
    return all(
        rate_fits(int((released(private, epsilon) == answer).sum()), FLIPPING, float(channel.matrix[private][answer]))
        for private in (0, 1)
        for answer in (0, 1)
    )


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_releases_follow_the_channel_matrix(epsilon: Fraction) -> None:
    """Clopper-Pearson, false alarm 1e-6 an entry, 400,000 devices a row.

    Twins: devices that answer under an epsilon larger by 0.08, or smaller by as much, are found out.
    """
    assert fits(epsilon, bit_channel(epsilon))
    assert not fits(epsilon + Fraction(8, 100), bit_channel(epsilon))
    assert not fits(epsilon - Fraction(8, 100), bit_channel(epsilon))


def flip(bits: Bits2, query: Query, first: int = 0) -> None:
    """Flip private bits, as the design's half does."""
    half_of(query.design).randomize(bits, query, Coins(MASTER, first, len(bits), query.words))


@pytest.mark.statistical
def test_each_of_many_questions_is_flipped_at_its_share() -> None:
    """Six questions under epsilon 3: flip rate 1 / (1 + e^(1/2)) each; false alarm 1e-6 each. Twin: e^(0.55)."""
    bits = np.zeros((100_000, 6), np.uint8)
    flip(bits, worlds.partition_query(6, 1, 6, Fraction(3)))
    for question in range(6):
        ones = int(bits[:, question].sum())
        assert rate_fits(ones, 100_000, float(bit_channel(Fraction(1, 2)).flip_probability))
        assert not rate_fits(ones, 100_000, float(bit_channel(Fraction(11, 20)).flip_probability))


def test_a_share_that_cannot_be_expressed_is_refused() -> None:
    bits = np.zeros((3, 1), np.uint8)
    with pytest.raises(InputError, match="epsilon 31"):
        flip(bits, worlds.partition_query(1, 1, 1, Fraction(31)))
    assert not bits.any()
    flip(np.zeros((3, 2), np.uint8), worlds.partition_query(2, 1, 2, Fraction(31)))
