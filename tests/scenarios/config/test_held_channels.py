"""What devices draw from is held against every query's epsilon, not only what was shown before the run."""

import re
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import Any

import mechanisms
import numpy as np
import pytest
from mechanisms import GRR, OUE, LocalHashing
from runs import EPSILON, RATINGS, SECRET, WORLD, complains, first_query, job, outcome

from actors.device import Cohort
from coordinator.protocol.arrays import Bits2, Indices2, Words
from coordinator.protocol.channels import (
    COIN,
    CoinOf,
    IndependentBits,
    Likelihood,
    MatrixChannel,
    independent_bits,
    matrix_channel,
)
from coordinator.protocol.channels import independent_bits as bits
from coordinator.protocol.channels import matrix_channel as matrix
from coordinator.protocol.custom import UNCHECKED, Catalogue, MechanismError, Question, admit, hold
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.messages import Query
from scenarios.config.admission import FOR_SOME, MOST_SAMPLED, admitted_for


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


TWICE = "one release gives away 4 nats, 2 above the question's epsilon 2; add noise"
IN_CLEAR = "one release gives away inf nats, above the question's epsilon 2; add noise"


def refusal(query: Query) -> str:
    """The line by which devices and everybody else refuse a query; nothing is charged."""
    cohort = Cohort(RATINGS, SECRET, 0, 8, EPSILON)
    with pytest.raises(MechanismError) as error:
        cohort.answer(query, 0, 8)
    assert cohort.ledger.spent(0) == 0
    with pytest.raises(MechanismError, match=re.escape(str(error.value))):
        check_question(query)
    return str(error.value)


def test_who_lies_in_a_later_round_is_told_there_and_earlier_rounds_are_kept() -> None:
    found = outcome(job(mechanisms.Later(), rounds=3), 1)
    assert len(found.state.asked) == 1
    assert str(found.failure).startswith(f"mechanism Later, method channel, round 1: {TWICE}")


def test_who_lies_in_a_pool_is_told_in_the_round_that_asks_about_it() -> None:
    found = outcome(job(PoolLiar(), adaptive=True), 1)
    assert re.match(rf"mechanism PoolLiar, method channel, round \d: {IN_CLEAR}", str(found.failure))


def test_devices_hold_the_channel_of_the_very_query_that_they_are_sent() -> None:
    _, query = first_query(mechanisms.Seeded())
    assert TWICE in refusal(replace(query, public_seed=bytes(15) + b"1"))
    _, query = first_query(Told())
    Cohort(RATINGS, SECRET, 0, 8, EPSILON).answer(query, 0, 8)
    assert IN_CLEAR in refusal(replace(query, parameters={"zero": 0.0}))
    assert "1 above the question's epsilon 1;" in refusal(replace(query, epsilon=Fraction(1)))
    _, query = first_query(ClaimsLater())
    assert "it claims 4 nats, its question 2; let them agree" in refusal(replace(query, round=1))


def test_an_excess_that_nine_digits_do_not_show_is_told_with_its_remedy() -> None:
    _, query = first_query(Told())
    line = refusal(replace(query, parameters={"zero": query.parameters["zero"] * (1 - 1e-11)}))
    assert re.search(
        r"gives away 2 nats, [\d.]+e-1\d above .* 2; add noise, or build the channel with epsilon=question", line
    )


def test_a_claim_that_is_below_by_less_than_any_number_of_digits_shows_is_exceeded() -> None:
    """Three to one is ln 3; 200 digits of it, cut off, are less than it."""
    own, query = admitted_for(mechanisms.GRR(), WORLD, epsilon=EPSILON)[0], first_query(mechanisms.GRR())[1]
    with localcontext() as context:
        context.prec, context.rounding = 200, ROUND_FLOOR
        below = Fraction(Decimal(3).ln().next_minus())
    quarter = COIN // 4
    channel = MatrixChannel(((3 * quarter, quarter), (quarter, 3 * quarter)))
    hold(own, replace(query, epsilon=below + Fraction(1, 10**198)), channel)
    with pytest.raises(MechanismError, match=r"gives away 1.09861229 nats, \S+e-\d+ above the question's epsilon"):
        hold(own, replace(query, epsilon=below), channel)


def test_a_channel_of_a_derived_class_is_none() -> None:
    with pytest.raises(MechanismError, match=r"Derived, method channel, round 0: .* nor may it be of a class derived"):
        first_query(Derived())


def test_a_forged_channel_is_checked_anew_and_nobody_else_holds_what_is_drawn_from() -> None:
    with pytest.raises(MechanismError, match="Forged, method channel, round 0: 40 bits with at most 0 ones"):
        first_query(Forged())
    design, query = first_query(Keeps())
    admit(design.mechanism.custom)
    object.__setattr__(GIVEN[-1], "if_zero", 0)
    held = adapter(design.mechanism.custom).channel(query)
    assert isinstance(held, IndependentBits)
    assert held.if_zero > 0
    assert held is adapter(design.mechanism.custom).channel(query)


def test_a_sampler_is_tried_for_all_private_values() -> None:
    """False alarm of an honest sampler: 1e-9 for each of 4 public coins."""
    own, checked = admitted_for(mechanisms.LocalHashing(), WORLD, epsilon=EPSILON)
    assert checked.how == FOR_SOME == "likelihood checked for 4 public coins, sampler sampled"
    assert own.guarantee.endswith(f"({FOR_SOME})")
    with pytest.raises(
        MechanismError, match=r"method sampler, round 0: its draws differ .* private value 5 gave release"
    ):
        admitted_for(CrookedForSome(), WORLD, epsilon=EPSILON)


def test_a_likelihood_of_more_values_than_are_tried_is_only_claimed() -> None:
    assert MOST_SAMPLED < 257
    own, checked = admitted_for(Many(), WORLD, epsilon=EPSILON)
    assert checked.how == UNCHECKED
    assert own.unchecked


@pytest.mark.parametrize(
    "make",
    [
        lambda: bits(count=2.0, if_one=0.5, if_zero=0.2, epsilon=None),  # type: ignore[arg-type] # on purpose
        lambda: bits(count=2, if_one=0.5, if_zero=0.2, epsilon=None, ones=1.5),  # type: ignore[arg-type] # on purpose
        lambda: bits(count=2, if_one="a", if_zero=0.2, epsilon=None),  # type: ignore[arg-type] # on purpose
        lambda: bits(count=2, if_one=0.5, if_zero=0.2, epsilon=1.5),  # type: ignore[arg-type] # on purpose
        lambda: IndependentBits(2, COIN / 2, 1, 1),  # type: ignore[arg-type] # on purpose
        lambda: matrix([[np.float32(1)]], None),  # type: ignore[list-item] # on purpose
        lambda: matrix([["a"]], None),  # type: ignore[list-item] # on purpose
        lambda: matrix([[[1.0]]], None),  # type: ignore[list-item] # on purpose
        lambda: matrix([1.0], None),  # type: ignore[list-item] # on purpose
        lambda: matrix([[0.5, 0.5]], 1.5),  # type: ignore[arg-type] # on purpose
        lambda: MatrixChannel(((COIN / 2, COIN / 2),)),  # type: ignore[arg-type] # on purpose
        lambda: MatrixChannel([[COIN]]),  # type: ignore[arg-type] # on purpose
        lambda: Likelihood(claimed=1.0, bits=1, likelihood=len, sampler=len),  # type: ignore[arg-type] # on purpose
        lambda: Likelihood(claimed=None, bits=1.5, likelihood=len, sampler=len),  # type: ignore[arg-type] # on purpose
        lambda: Likelihood(claimed=None, bits=1, likelihood=len, sampler=7),  # type: ignore[arg-type] # on purpose
    ],
)
def test_what_is_no_number_is_told_in_a_line(make: object) -> None:
    with complains():
        make()  # type: ignore[operator] # a function


def test_numbers_of_numpy_are_numbers() -> None:
    same = bits(count=3, if_one=0.75, if_zero=0.25, epsilon=None, ones=1)
    given = bits(count=np.int64(3), if_one=np.float64(0.75), if_zero=0.25, epsilon=None, ones=np.int32(1))  # type: ignore[arg-type] # on purpose
    assert same == given
    assert type(given.count) is int
