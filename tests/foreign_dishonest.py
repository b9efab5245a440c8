"""Mechanisms of one's own that are honest in one round, or say what is not so: what `blindrec check` is to see."""

import math
from typing import Any

import numpy as np
from foreign_mechanisms import OUE

from coordinator.protocol.arrays import Floats
from coordinator.protocol.channels import IndependentBits, independent_bits
from coordinator.protocol.custom import Catalogue, CoinsBlock, Question, RatingsBlock, Tally

Array = np.ndarray[Any, Any]


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
    """States so many times its standard errors."""

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
