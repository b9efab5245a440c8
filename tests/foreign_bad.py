"""Classes that nobody should have written: each goes wrong in one way."""

import time
from typing import Any, ClassVar

import foreign_mechanisms
import numpy as np

from coordinator.protocol.arrays import Floats, Ints, Words
from coordinator.protocol.channels import CoinOf, Likelihood, MatrixChannel, independent_bits, matrix_channel
from coordinator.protocol.custom import Catalogue, CoinsBlock, Mechanism, Question, RatingsBlock, Tally

Array = np.ndarray[Any, Any]


class Works(foreign_mechanisms.GRR):
    """Answers about all items; what the others derive from."""

    late: int = 0  # Rounds that go well before it goes wrong


class Wide(Works):
    """Asks each device for so many bits that nobody could hold them."""

    wide: int = 1 << 31

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=self.wide)

    def channel(self, question: Question) -> Any:
        return independent_bits(count=question.bits, if_one=0.5, if_zero=0.3, epsilon=question.epsilon, ones=1)

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return np.zeros((len(ratings.devices), question.bits), np.uint8)

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        return np.zeros(question.items), np.ones(question.items)


class Raises(Works):
    """Tells a rating in its error."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        if question.round >= self.late:
            raise ValueError(f"device rated {ratings.items[:5]} {ratings.likes[:5]}")
        return super().sketch(question, ratings, coins)


class NoCoins(Works):
    """Hands what are no coins to a function of ours, which raises."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return ratings.random_item(coins)[0]  # type: ignore[arg-type] # on purpose


class TakesNothing(Works):
    """Has a method that cannot be called."""

    def sketch(self) -> Array:  # type: ignore[override] # on purpose
        return np.zeros(1)


class LikelihoodOfBits(Works):
    """Names bits, whose channel is no likelihood."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=6)

    def channel(self, question: Question) -> Any:
        return Likelihood(claimed=question.epsilon, bits=6, likelihood=lambda *_: [1.0], sampler=lambda bits, *_: bits)


def named(ratings: RatingsBlock) -> str:
    """A name that tells what was rated."""
    return "Rated_" + "_".join(str(item) for item in ratings.items[:5])


class RaisesByName(Works):
    """Tells a rating in the name of its error."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        raise type(named(ratings), (Exception,), {})


class NamesByType(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return type(named(ratings), (), {})()  # type: ignore[no-any-return] # on purpose


class NamesByDtype(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return np.zeros(ratings.devices.size, np.dtype([(named(ratings), np.int64)]))


class WrongShape(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return super().sketch(question, ratings, coins)[:, None]


class WrongDtype(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return super().sketch(question, ratings, coins) + 0.5


class Outside(Works):
    """Names an item outside the catalogue."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return super().sketch(question, ratings, coins) + 2 * question.items + 1


class NeverEnds(Works):
    seconds: ClassVar[float] = 0.5

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        begin = time.monotonic()
        while question.round >= self.late and time.monotonic() < begin + 2:  # long after its seconds
            time.sleep(0.01)
        return super().sketch(question, ratings, coins)


class TooManyOnes(foreign_mechanisms.OUE):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return np.ones((ratings.devices.size, question.bits), np.uint8)


class Halved(foreign_mechanisms.OUE):
    """Half of its first number is fine, and twice of it is not."""

    one: float = 0.5
    shift: int = 3

    def channel(self, question: Question) -> Any:
        if self.one < 1:
            return super().channel(question)
        raise ValueError(f"one is {self.one}; give a probability below 1")


class AsksNothing(Works):
    def query(self, catalogue: Catalogue) -> Question:
        return Question()


class AsksAnything(Works):
    def query(self, catalogue: Catalogue) -> Question:
        return 7  # type: ignore[return-value] # on purpose


class OtherChannel(Works):
    """Its channel has fewer outputs than its question."""

    def channel(self, question: Question) -> MatrixChannel:
        return matrix_channel([[0.5, 0.5], [0.5, 0.5]], question.epsilon)


class NoDistribution(Works):
    def channel(self, question: Question) -> MatrixChannel:
        size = question.outputs
        return matrix_channel(np.full((size, size), 2 / size).tolist(), question.epsilon)


class CountsFloats(Works):
    def count(self, question: Question, released: Array, devices: Ints) -> Ints:
        return np.zeros(3)  # type: ignore[return-value] # on purpose


class EstimatesFewer(Works):
    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        value, error = super().estimate(question, tally)
        return value[1:], error[1:]


class Biased(foreign_mechanisms.OUE):
    """Believes of odd items the opposite, but its precision is that of OUE."""

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        value, error = super().estimate(question, tally)
        return value * np.where(np.arange(value.size) % 2, -1, 1), error


class NoError(Works):
    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        value, error = super().estimate(question, tally)
        return value, 0 * error


class Lacking(Mechanism):
    """Says neither what it estimates nor what devices sketch."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=1)


class Large(foreign_mechanisms.LocalHashing):
    """A likelihood that nobody can go through."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(outputs=super().query(catalogue).outputs)


class LargeLiar(Large):
    """As large, and it tells more than it claims; in a small catalogue, which can be gone through, it shows."""

    def query(self, catalogue: Catalogue) -> Question:
        small = catalogue.items < 100
        return Question(outputs=super().query(catalogue).outputs, values=2 * catalogue.items if small else 0)

    def kept(self, question: Question) -> float:
        return 0.999


class SamplesNonsense(foreign_mechanisms.LocalHashing):
    def channel(self, question: Question) -> Likelihood:
        stated = super().channel(question)

        def draw(private: Array, public: Words, coin: CoinOf) -> Any:
            return np.full((len(private), 1), 7, np.uint8)

        return Likelihood(claimed=stated.claimed, bits=stated.bits, likelihood=stated.likelihood, sampler=draw)
