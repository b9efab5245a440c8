"""Classes that are honest where one looks, and tell more than they claim elsewhere."""

from typing import Any, ClassVar

import numpy as np
from foreign_dishonest import Clear
from foreign_mechanisms import GRR, OUE, LocalHashing

from coordinator.protocol.arrays import Bits2, Indices2, Words
from coordinator.protocol.channels import (
    CoinOf,
    IndependentBits,
    Likelihood,
    MatrixChannel,
    independent_bits,
    matrix_channel,
)
from coordinator.protocol.custom import Catalogue, Question


class CallLiar(Clear):
    calls: ClassVar[list[int]] = []

    def honest(self, question: Question) -> bool:
        self.calls.append(question.round)
        return len(self.calls) <= 2


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
        """Give the honest channel, and keep it."""
        GIVEN.append(super().channel(question))
        return GIVEN[-1]


class Many(LocalHashing):
    """More private values than are tried."""

    def query(self, catalogue: Catalogue) -> Question:
        """Ask as ever, about more values."""
        return Question(outputs=super().query(catalogue).outputs, values=257)
