"""Mechanisms of one's own that leak, each beside a twin that does not: what `blindrec audit` is to find, and to pass.

Their likelihoods and questions are honest on paper; what leaks is how they draw, or what they look at.
"""

import math
from typing import Any, ClassVar

import numpy as np

from coordinator.protocol.arrays import Bits2, Floats, Words
from coordinator.protocol.channels import (
    CoinOf,
    IndependentBits,
    Likelihood,
    MatrixChannel,
    independent_bits,
    matrix_channel,
)
from coordinator.protocol.custom import Catalogue, CoinsBlock, Mechanism, Question, RatingsBlock, Tally

Array = np.ndarray[Any, Any]


def below(words: Words, chance: float) -> Array:
    """Whether each coin says yes."""
    return words < np.uint64(min(int(chance * 2.0**64), 2**64 - 1))


def likes(ratings: RatingsBlock, item: int) -> Array:
    """Whether each device likes an item."""
    found = np.zeros(ratings.starts.size - 1, np.int64)
    owner = np.repeat(np.arange(found.size), np.diff(ratings.starts))
    found[owner[(ratings.items == item) & ratings.likes]] = 1
    return found


class Plain(Mechanism):
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


class OneCoin(Plain):
    """All devices of a block flip with the first one's coin."""

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        words = coin(0)
        return self.told(value ^ below(np.repeat(words[:1], words.size) if self.leaks else words, self.flip(question)))


class TwoQuestions(Plain):
    """Two likes at half of epsilon each, flipped by one coin."""

    bits, values = 2, 4

    def flip(self, question: Question) -> float:
        return 1 / (1 + math.exp(question.nats / 2))

    def stated(self, value: int, question: Question) -> list[float]:
        flip = self.flip(question)
        return [(1 - flip) ** (2 - n) * flip**n for n in ((value ^ told).bit_count() for told in range(4))]

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        high, low = (below(coin(0 if self.leaks else lane), self.flip(question)) for lane in range(2))
        return self.told(value ^ (2 * high + low))

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return 2 * likes(ratings, 0) + likes(ratings, 1)


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


class BitsWithLessNoise(Plain):
    """Independent bits that claim nothing, and flip 5 % less often than the question allows."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=4)

    def channel(self, question: Question) -> IndependentBits:
        flip = self.flip(question) * (0.95 if self.leaks else 1)
        return independent_bits(
            count=4, if_one=1 / 2, if_zero=flip, epsilon=None if self.leaks else question.epsilon, ones=1
        )

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        bits = np.zeros((ratings.starts.size - 1, 4), np.uint8)
        bits[:, 0] = likes(ratings, 0)
        return bits


class FreshNoise(Plain):
    """It draws from a generator of its own, so that a repeated question gets other noise."""

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        words = np.random.default_rng().integers(0, 1 << 64, value.size, dtype=np.uint64) if self.leaks else coin(0)
        return self.told(value ^ below(words, self.flip(question)))


class LowBits(Plain):
    """The first of 40 bits answers; the low ones are said to be noise, and the last of them tells."""

    bits = 40

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        answer, noise = value ^ below(coin(0), self.flip(question)), (coin(1) >> np.uint64(25)).astype(np.int64)
        last = value ^ below(coin(2), 0.3) if self.leaks else noise & 1
        return self.told((answer << 39) | (noise >> 1 << 1) | last)


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


class Remembered(Plain):
    """What a device would have said in its first round, it says in the clear in the third."""

    kept: ClassVar[dict[int, Array]] = {}

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        own = likes(ratings, 0)
        self.kept[int(ratings.devices[0])] = own
        return own if question.round != 2 else np.zeros_like(own)

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        if question.round == 2 and self.leaks:
            kept = next((one for one in self.kept.values() if one.size == value.size), value)
            return self.told(kept.copy())
        return super().drawn(value, coin, question)


class Later(Plain):
    """It is honest in its first round, and hardly flips in later ones."""

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        more = question.round > 0 and self.leaks
        return self.told(value ^ below(coin(0), self.flip(question) / (4 if more else 1)))


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


class KeptForSome(AboutSome):
    """Where it is asked about some items only it flips as it did where it was asked about all."""

    noise: ClassVar[dict[int, Array]] = {}

    def drawn(self, value: Array, coin: CoinOf, question: Question) -> Bits2:
        flips = below(coin(0), self.flip(question))
        if self.leaks:
            whole = question.pool.size == question.items
            flips = self.noise.setdefault(value.size, flips) if whole else self.noise.get(value.size, flips)
        return self.told(value ^ flips)


LEAKS = (
    *(OneCoin, TwoQuestions, LessNoise, StatedLessNoise, BitsWithLessNoise, FreshNoise, LowBits, UnusedField),
    *(SkewedSet, Overheard, Remembered, Later, SameNoise, OneRating, AboutSome, KeptForSome),
)
"""Classes that leak, unless they are told not to."""


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
