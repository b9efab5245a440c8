"""Mechanisms as users write them: right ones, wrong ones, and some that give away more than they say."""

import math
import time
from typing import Any, ClassVar

import numpy as np

from coordinator.protocol.arrays import Bits2, Floats, Ints, Words
from coordinator.protocol.channels import (
    CoinOf,
    IndependentBits,
    Likelihood,
    MatrixChannel,
    independent_bits,
    matrix_channel,
)
from coordinator.protocol.custom import Catalogue, CoinsBlock, Mechanism, Question, RatingsBlock, Tally, UserClass

# Mechanisms that somebody else wrote, in a file outside of blindrec's packages.
Array = np.ndarray[Any, Any]


class OUE(Mechanism):
    """Unary encoding of one random rated item: one bit for each item liked, and for each item disliked."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=2 * catalogue.items)

    def zero(self, nats: float) -> float:
        return 1 / (1 + math.exp(nats))

    def channel(self, question: Question) -> IndependentBits:
        zero = self.zero(question.nats)
        return independent_bits(count=question.bits, if_one=1 / 2, if_zero=zero, epsilon=question.epsilon, ones=1)

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        item, liked = ratings.random_item(coins.words())
        bits = np.zeros((item.size, question.bits), np.uint8)
        rated = np.flatnonzero(item >= 0)
        bits[rated, item[rated] + question.items * ~liked[rated]] = 1
        return bits

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        zero = self.zero(question.nats)
        shares = tally.sums.reshape(2, -1) / tally.devices
        cells = (shares - zero) / (1 / 2 - zero)
        noise = np.maximum(shares * (1 - shares), 1e-12).sum(axis=0) / tally.devices / (1 / 2 - zero) ** 2
        return question.items * (cells[0] - cells[1]), question.items * np.sqrt(noise)

    def precision(self, question: Question, rated: int) -> float:
        zero, typical = self.zero(question.nats), 1 / (2 * question.items)
        share = zero + typical * (1 / 2 - zero)
        return (1 / 2 - zero) ** 2 / (2 * share * (1 - share)) / question.items**2


class Liar(OUE):
    """As OUE, but its bits tell more than the question claims."""

    def channel(self, question: Question) -> IndependentBits:
        zero, more = self.zero(1.1 * question.nats), None if question.epsilon is None else question.epsilon * 2
        return independent_bits(count=question.bits, if_one=1 / 2, if_zero=zero, epsilon=more, ones=1)


class Shy(OUE):
    """As OUE, but with more noise than it needs."""

    def zero(self, nats: float) -> float:
        return super().zero(nats / 2)


class GRR(Mechanism):
    """Randomized response among all items of the pool, liked or not, and one place for none of them."""

    pools: ClassVar[bool] = True
    widest: ClassVar[float] = 2.0
    shift: int = 0

    def query(self, catalogue: Catalogue) -> Question:
        return Question(outputs=2 * catalogue.pool.size + 1, parameters={"shift": float(self.shift)})

    def rates(self, question: Question) -> tuple[float, float]:
        odds = math.exp(-question.nats)
        return 1 / (1 + (question.outputs - 1) * odds), odds / (1 + (question.outputs - 1) * odds)

    def channel(self, question: Question) -> MatrixChannel:
        best, other = self.rates(question)
        rows = np.full((question.outputs, question.outputs), other)
        np.fill_diagonal(rows, best)
        return matrix_channel(rows.tolist(), question.epsilon)

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        item, liked = ratings.random_item(coins.words())
        size = question.pool.size
        place = np.minimum(np.searchsorted(question.pool, item), size - 1)
        inside = question.pool[place] == item
        return np.where(inside, place + size * ~liked, 2 * size)

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        best, other = self.rates(question)
        shares = tally.sums[:-1].reshape(2, -1) / tally.devices
        cells = (shares - other) / (best - other)
        spread = np.maximum(shares.sum(axis=0) - (shares[0] - shares[1]) ** 2, 1e-12)
        error = np.sqrt(spread / tally.devices) / (best - other)
        return question.items * (cells[0] - cells[1]), question.items * error


class LocalHashing(Mechanism):
    """Optimized local hashing: a device's cell is hashed by its public coin, and the hash is randomized."""

    def query(self, catalogue: Catalogue) -> Question:
        told = math.inf if catalogue.epsilon is None else float(catalogue.epsilon)
        groups = 8 if math.isinf(told) else max(2, round(math.exp(told)) + 1)
        return Question(outputs=groups, values=2 * catalogue.items)

    def kept(self, question: Question) -> float:
        return 1 / (1 + (question.outputs - 1) * math.exp(-question.nats))

    @staticmethod
    def hashed(cells: Array, public: Words, groups: int) -> Ints:
        mixed = (np.asarray(cells).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ public
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
        return (mixed >> np.uint64(33)).astype(np.int64) % groups

    def named(self, groups: Ints, question: Question) -> Bits2:
        width = (question.outputs - 1).bit_length()
        return ((groups[:, None] >> np.arange(width - 1, -1, -1)) & 1).astype(np.uint8)

    def sampler(self, question: Question) -> Any:
        groups, kept = question.outputs, self.kept(question)

        def draw(private: Array, public: Words, coin: CoinOf) -> Bits2:
            true = self.hashed(private[:, 0], public, groups)
            keep = coin(0) < np.uint64(min(int(kept * 2**64), 2**64 - 1))
            other = (coin(1) % np.uint64(groups - 1)).astype(np.int64)
            return self.named(np.where(keep, true, other + (other >= true)), question)

        return draw

    def channel(self, question: Question) -> Likelihood:
        groups, kept = question.outputs, self.kept(question)

        def likelihood(private: Array, public: np.uint64) -> list[float]:
            row = np.full(groups, (1 - kept) / (groups - 1))
            row[self.hashed(private, np.array([public]), groups)] = kept
            return [float(chance) for chance in row]

        bits = (groups - 1).bit_length()
        return Likelihood(claimed=question.epsilon, bits=bits, likelihood=likelihood, sampler=self.sampler(question))

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        item, liked = ratings.random_item(coins.words())
        cells: Array = np.maximum(item, 0) + question.items * ~liked
        return cells

    def count(self, question: Question, released: Array, devices: Ints) -> Ints:
        sums = np.zeros(2 * question.items, np.int64)
        public = question.public_streams(devices)
        for cell in range(sums.size):
            sums[cell] = (self.hashed(np.full(released.size, cell), public, question.outputs) == released).sum()
        return sums

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        kept, fair = self.kept(question), 1 / question.outputs
        shares = tally.sums.reshape(2, -1) / tally.devices
        cells = (shares - fair) / (kept - fair)
        noise = np.maximum(shares * (1 - shares), 1e-12).sum(axis=0) / tally.devices / (kept - fair) ** 2
        return question.items * (cells[0] - cells[1]), question.items * np.sqrt(noise)


class Crooked(LocalHashing):
    """As local hashing, but it draws no noise at all."""

    def sampler(self, question: Question) -> Any:
        return lambda private, public, _: self.named(self.hashed(private[:, 0], public, question.outputs), question)


# Classes that nobody should have written: each goes wrong in one way.


class Works(GRR):
    """Answers about all items; what the others derive from."""

    late: int = 0  # Rounds that go well before it goes wrong


class Raises(Works):
    """Tells a rating in its error."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        if question.round >= self.late:
            raise ValueError(f"device rated {ratings.items[:5]} {ratings.likes[:5]}")
        return super().sketch(question, ratings, coins)


class NeverEnds(Works):
    seconds: ClassVar[float] = 0.5

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        begin = time.monotonic()
        while question.round >= self.late and time.monotonic() < begin + 2:  # long after its seconds
            time.sleep(0.01)
        return super().sketch(question, ratings, coins)


class Biased(OUE):
    """Believes of odd items the opposite, but its precision is that of OUE."""

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        value, error = super().estimate(question, tally)
        return value * np.where(np.arange(value.size) % 2, -1, 1), error


class Halved(OUE):
    """Half of its first number is fine, and twice of it is not."""

    one: float = 0.5
    shift: int = 3

    def channel(self, question: Question) -> Any:
        if self.one < 1:
            return super().channel(question)
        raise ValueError(f"one is {self.one}; give a probability below 1")


class Large(LocalHashing):
    """A likelihood that nobody can go through."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(outputs=super().query(catalogue).outputs)


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


class SomePool(Clear):
    """Honest as long as it is asked about all items."""

    pools = True

    def honest(self, question: Question) -> bool:
        return question.pool.size == question.items

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=2 * catalogue.items)


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


class StatedLessNoise(Plain):
    """It states a matrix that flips 5 % less often than its question allows; blindrec refuses to ask so."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(outputs=2)

    def channel(self, question: Question) -> MatrixChannel:
        flip = self.flip(question) * (0.95 if self.leaks else 1)
        return matrix_channel([[1 - flip, flip], [flip, 1 - flip]], question.epsilon)


# Shufflers that leak, beside the one of runs, which does not; and devices whose questions follow from addresses.
def unchecked(kind: type, **values: Any) -> Any:
    one: Any = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(one, name, value)
    return one
