"""The checks of `blindrec check` see what lies, by a percent, in one round or pool, or behind a shuffler."""

import dataclasses
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import mechanisms
import numpy as np
import pytest
from mechanisms import OUE, Array, Clear
from runs import Command
from scipy.stats import binom, t

from actors.seeds import Coins
from coordinator.protocol.amplification import (
    ShufflerBound,
    TwoLevels,
    kary_levels,
    largest_local_epsilon,
    one_bit_levels,
)
from coordinator.protocol.arrays import Bits2, Floats, Indices2, Ints
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import (
    ExactChannel,
    LogRatio,
    bit_channel,
    independent_bits,
)
from coordinator.protocol.custom import CoinsBlock, Mechanism, Question, RatingsBlock, Tally
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import DeviceCoins, DeviceRatings, Sketch
from coordinator.protocol.mechanism import Mechanism as PublicMechanism
from coordinator.protocol.mechanisms.oracles import Grr
from coordinator.protocol.messages import Query
from coordinator.protocol.randomizers import TWO_LEVELS, Randomizer
from scenarios.config.admission import improbable_count
from scenarios.config.mechanism_settings import mechanism_kind
from scenarios.studies.scrutiny import checks, shuffled_checks
from scenarios.studies.scrutiny.checks import CHECKS, at_the_runs_size, estimates, layouts, log_ratio, prediction
from scenarios.studies.scrutiny.mechanism_under_test import (
    TINY,
    CoinsPerInput,
    MechanismUnderTest,
    Size,
    choices,
    coins_of,
    every_rating,
    omissions,
    stored,
    subject_of,
    subjects,
)
from scenarios.studies.scrutiny.release_laws import ClaimedLaw, chances, largest_ratio
from scenarios.studies.scrutiny.shuffled_checks import SHUFFLED_CHECKS, check
from scenarios.studies.scrutiny.verdicts import FAILED, HELD, UNCHECKED, CheckRow, Conformance, Failed, Unchecked

HONEST = Fraction(1)


class ByAddress(mechanisms.GRR):
    """What a device says follows from its address, too."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        cells: Array = super().sketch(question, ratings, coins)
        public = question.public_streams(ratings.devices) % np.uint64(question.outputs)
        return (cells + public.astype(np.int64)) % question.outputs


@pytest.mark.parametrize("design", ["maxsense", "sign", "pairwise", "olh", "anchor", "item-query", ByAddress()])
def test_devices_say_of_all_inputs_at_once_what_they_say_of_each(design: str | Mechanism) -> None:
    subject, rows = subjects(design)[0], list(every_rating(TINY))[::31]
    law = ClaimedLaw(subject, subject.query(TINY, Fraction(1) if subject.public.randomizes else None))
    for row, *ours in zip(rows, *law.of_inputs(rows, 5), strict=True):
        alone = law.sketch(stored([row], [0] * 5, TINY.items))
        assert all(np.array_equal(part, same) for part, same in zip(ours, alone, strict=True))
    with pytest.raises(ValueError, match="take their numbers"):
        CoinsPerInput(coins_of(law.query, 0, 5), 2).first  # noqa: B018 (a property)


def lying(name: str = "oue", *, channel: Fraction = HONEST, sampler: Fraction = HONEST) -> MechanismUnderTest:
    """A mechanism whose channel and sampler spend more than they say, by these factors."""
    honest = subject_of(mechanism_kind(name), {})

    def spending(query: Query, factor: Fraction) -> Query:
        return replace(query, epsilon=query.epsilon and query.epsilon * factor)

    class Swindler(type(honest.public)):  # type: ignore[misc] # one of two
        def channel(self, query: Query) -> ExactChannel:
            stated: ExactChannel = super().channel(spending(query, channel))
            return stated

        def randomize(self, private: Bits2 | Indices2, query: Query, coins: DeviceCoins) -> Bits2:
            drawn: Bits2 = super().randomize(private, spending(query, sampler), coins)
            return drawn

    return replace(honest, public=Swindler())


class OtherSeeded(Clear):
    """Honest with any public seed but that one."""

    def honest(self, question: Question) -> bool:
        return question.public_seed != bytes(16)


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


class Asked(PublicMechanism):
    """Devices are asked about whatever their question is, and hand on both question and answer."""

    name = "grr"

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
        question = coins.release(1) >> np.uint64(64 - QUESTIONS)
        flip = coins.release(0) < np.uint64(bit_channel(query.epsilon).flips)
        shifts = np.arange(QUESTIONS)[::-1].astype(np.uint64)
        bits = (question[:, None] >> shifts) & np.uint64(1)
        return np.column_stack([bits, private[:, 0] ^ flip]).astype(np.uint8)


def asking() -> MechanismUnderTest:
    """A mechanism whose devices hand on a question of their own, and an answer."""
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

    return replace(plain, label="asked", public=Asked(), asks=asks)


MECHANISMS = ("oue", "grr")
HONEST_ELSEWHERE = (mechanisms.Later(), mechanisms.Seeded(), OtherSeeded(), mechanisms.SomePool())
"""Their channels are honest in some round, under some seed, or about all items."""
LEVEL = np.array([0.5, 0.5, -0.5, -0.5])
RADIUS = float(t.isf(1e-5 / 4, 19)) * math.sqrt(20 / 19) / math.sqrt(20)
"""Of a mean of 20 numbers, half of them 1 above it and half of them 1 below, at a quarter of the false alarm."""


def row_of(holds: Callable[[MechanismUnderTest], str], tested: MechanismUnderTest | Mechanism) -> CheckRow:
    """What a check says; of one's own class in the last of the ways in which it can be asked."""
    subject = subjects(tested)[-1] if isinstance(tested, Mechanism) else tested
    return checks.Check("the check", "its meaning", holds).of(subject)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(
    ("holds", "share", "told"),
    [
        (log_ratio, Fraction(101, 100), "log-ratio 0.101 between sketches"),  # with a counter-example
        (at_the_runs_size, Fraction(101, 100), "the channel's own is"),
        (log_ratio, 1 + Fraction(1, 10**9), "above epsilon"),
        (log_ratio, 1 + Fraction(1, 10**13), "above epsilon"),
        (at_the_runs_size, 1 + Fraction(1, 10**13), "the channel's own is"),
        (log_ratio, Fraction(99, 100), "is not spent"),
    ],
)
def test_a_channel_that_spends_more_is_seen_and_less_is_waste(name: str, holds: Any, share: Any, told: str) -> None:
    row = row_of(holds, lying(name, channel=share))
    assert row.verdict == FAILED
    assert told in row.told


LIES = [
    *(
        (checks.sampler, lying(name, sampler=Fraction(off, 100)), "the channel says")
        for name in MECHANISMS
        for off in (97, 103)
    ),
    (log_ratio, mechanisms.Later(), "round 1"),
    *((log_ratio, one, "gives away 0.2 nats") for one in HONEST_ELSEWHERE[1:]),
    *((at_the_runs_size, one, "") for one in HONEST_ELSEWHERE),
    (layouts, RandomLater(), "round 1: cohorts of "),
    (estimates, OtherErrors(factor=0.5), "of the standard errors that it states from their mean"),
    (estimates, UpsideDown(), "items that are liked more have lower values"),
    *((prediction, Promises(information=one), "of the items are right") for one in (40.0, 1e6)),
    pytest.param(prediction, Promises(information=1e-6), "of the items are right", marks=pytest.mark.thorough),
]


@pytest.mark.few(6)
@pytest.mark.statistical
@pytest.mark.parametrize(("holds", "tested", "told"), LIES)
def test_a_lie_is_seen(holds: Any, tested: MechanismUnderTest | Mechanism, told: str) -> None:
    """Of samplers that are three percent off, twins of the honest ones, each is missed with probability below 1e-6."""
    row = row_of(holds, tested)
    assert row.verdict == FAILED, row.told
    assert told in row.told


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ([Fraction(1, 2), Fraction(1, 3)], "sum to 0.833333333"),
        ([Fraction(1, 4)] * 4, "4 chances for 1 bits"),
        ([Fraction(-1), Fraction(2)], "the least is -1"),
    ],
)
def test_a_row_that_is_no_distribution_is_seen(row: list[Fraction], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bit = independent_bits(count=1, if_one=1 / 2, if_zero=1 / 4, epsilon=None, ones=1)
    monkeypatch.setattr(type(bit), "chances", lambda *_: row)
    with pytest.raises(Failed, match=told):
        chances(
            independent_bits(count=1, if_one=1 / 2, if_zero=1 / 4, epsilon=Fraction(1), ones=1),
            np.zeros(1, np.int64),
            1,
            np.uint64(0),
        )


def test_a_query_at_another_epsilon_than_asked_is_seen() -> None:
    subject = lying()

    def half(size: object, epsilon: Fraction | None, round_number: int, public_seed: bytes) -> Query:
        query = subject.asks(TINY, epsilon, round_number, public_seed)
        return dataclasses.replace(query, epsilon=Fraction(1, 2))

    row = row_of(log_ratio, dataclasses.replace(subject, asks=half))
    assert (row.verdict, row.told) == (FAILED, "a query for epsilon 0.1 is asked with 0.5")


def test_the_largest_ratio_is_that_of_one_release_and_may_be_infinite() -> None:
    none, one, two = ((sketch,) for sketch in range(3))
    assert largest_ratio({none: [3, 1], one: [1, 3], two: [2, 2]})[0] == 3
    assert largest_ratio({none: [3, 1], one: [4, 0]}) == (None, "sketches [0] and [1] at release 1")
    assert largest_ratio({none: [4, 0], one: [4, 0]}) == (Fraction(1), "equal sketches")


def test_everything_that_can_be_rated_is_tried() -> None:
    ratings = list(every_rating(TINY))
    assert len(ratings) == len(set(ratings)) == 1 + 5 * 2 + 10 * 4 + 10 * 8
    assert ratings[0] == ()
    assert ((1, True), (2, False), (4, True)) in ratings


def test_whatever_a_mechanism_raises_is_a_row_of_one_line() -> None:
    def holds(error: Exception | None, _: MechanismUnderTest) -> str:
        if error is None:
            return "fine"
        raise error

    errors: dict[str, Exception | None] = {"broken": ZeroDivisionError("a\nb"), "reason": Unchecked("there is none")}
    errors |= {"refused": InputError("items is 5; give more"), "failed": Failed("here"), "fine": None}
    tried = [checks.Check(name, "", partial(holds, error)) for name, error in errors.items()]
    result = checks.conformance([lying()], tried)
    assert [(row.verdict, row.told) for row in result.rows] == [
        (FAILED, "ZeroDivisionError: a"),
        (UNCHECKED, "there is none"),
        (FAILED, "items is 5; give more"),
        (FAILED, "here"),
        (HELD, "fine"),
    ]
    assert not result.held
    assert [row.check for row in result.failures] == ["broken", "refused", "failed"]
    assert repr(result) == "<oue: 1 held, 3 failed, 1 not checked>"
    assert result.frame().shape == (5, 5)
    assert result.as_json()["rows"][0]["told"] == "ZeroDivisionError: a"


def test_the_sampler_must_return_the_querys_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def wide(self: object, private: Ints, query: Query, coins: Coins) -> Ints:
        return np.zeros((len(private), query.bits + 1), np.int64)

    subject = lying()
    monkeypatch.setattr(type(subject.public), "randomize", wide)
    assert "randomize returns shape" in row_of(checks.sampler, subject).told


@pytest.mark.parametrize("chance", [0.0003, 0.3])
def test_a_count_is_improbable_not_much_later_than_its_exact_law_says(chance: float) -> None:
    """Chernoff's bound never refuses what the binomial law allows, and refuses what is 30 times as improbable."""
    draws, false_alarm = 1 << 20, 1e-6
    law = np.array([[chance, 1 - chance]])
    first = int(binom.isf(false_alarm / 4, draws, chance)) + 1
    far = int(binom.isf(false_alarm / 4 / 30, draws, chance)) + 1

    def refused(count: int) -> bool:
        return improbable_count(np.array([[count, draws - count]]), law, false_alarm) is not None

    assert not refused(first - 1)
    assert refused(far)


@pytest.mark.few(1)
@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [mechanisms.OUE(), mechanisms.LocalHashing()])
def test_honest_estimates_hold(mechanism: Mechanism) -> None:
    row = row_of(estimates, mechanism)
    assert row.verdict == HELD, row.told


def estimates_row(monkeypatch: pytest.MonkeyPatch, rise: float, spread: float = 1.0, give: float = 1.0) -> CheckRow:
    """What is said of twenty runs in which values rise by ``rise``, give or take, and spread by ``spread``."""
    around = np.array([1.0, -1.0, 1.0, -1.0]) * math.sqrt(spread / 2)
    runs = ((around + LEVEL * (rise + sign * give), np.ones(4), LEVEL) for sign in [1, -1] * 10)
    monkeypatch.setattr(checks, "_estimates_of", lambda *_: next(runs))
    return row_of(estimates, mechanisms.OUE())


@pytest.mark.parametrize(
    ("rise", "give", "verdict"),
    [
        *((1.002, 1.0, HELD), (0.998, 1.0, UNCHECKED), (0.0, 1.0, UNCHECKED), (-0.998, 1.0, UNCHECKED)),
        *((-1.002, 1.0, FAILED), (0.0, 0.0, UNCHECKED)),
    ],
)
def test_values_must_rise_by_more_than_chance(monkeypatch: Any, rise: float, give: float, verdict: Any) -> None:
    found = estimates_row(monkeypatch, rise * RADIUS, give=give)
    assert found.verdict == verdict, found.told


@pytest.mark.parametrize("spread", [2.24, 2.26, 1 / 2.24, 1 / 2.26, 1.0])
def test_errors_are_right_up_to_a_factor_of_one_and_a_half(monkeypatch: pytest.MonkeyPatch, spread: float) -> None:
    found = estimates_row(monkeypatch, 9.0, spread)
    assert found.verdict == (HELD if 1 / 2.25 < spread < 2.25 else FAILED), found.told
    numbers = [float(one) for one in re.findall(r"\d[\d.]*", found.told)]
    assert any(number == pytest.approx(math.sqrt(spread), abs=0.005) for number in numbers), found.told


def test_spread_is_taken_around_the_weighted_mean_of_each_cluster() -> None:
    value = np.array([0.0, 3.0, 5.0, 5.0, 8.0])
    error = np.array([1.0, math.sqrt(2), 1.0, 1.0, 1.0])
    level = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    assert checks._spread(value, error, level) == pytest.approx((1 + 4 / 2 + 1 + 1 + 4) / 3)


def test_json_alone_where_it_goes_to_standard_output(blindrec: Command) -> None:
    result = blindrec("check", "full-reveal", "--json", "-").result
    assert result["held"]
    assert [row["check"] for row in result["rows"]] == [one.name for one in CHECKS]
    assert result["rows"][0]["verdict"] == UNCHECKED
    assert result["rows"][0]["told"] == "it is not private: there is no channel, and no query with an epsilon"


@pytest.mark.parametrize("design", ["grr", "totals"])
def test_what_is_answered_though_it_should_not_be_is_seen(design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A good query stands in for a wrong one that devices would answer, whole or in shares."""
    monkeypatch.setattr(checks, "_no_queries", lambda _, query: [("a good query", query)])
    with pytest.raises(Failed, match="a good query is answered"):
        checks.refusals(subjects(design)[0])


def test_a_number_that_is_refused_twice_is_left_out_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [one.label for one in subjects("mechanisms:Halved")]
    assert labels == ["mechanisms:Halved", "mechanisms:Halved shift=6"]
    ((label, reason),) = omissions("mechanisms:Halved")
    assert label == "mechanisms:Halved one=1.0"
    assert "one is 1.0; give a probability below 1" in reason
    monkeypatch.setattr("scenarios.studies.scrutiny.checks.conformance", lambda _: Conformance(()))
    (row,) = check("mechanisms:Halved").rows
    assert (row.mechanism, row.verdict) == ("mechanisms:Halved one=1.0", UNCHECKED)


def test_every_choice_that_can_be_listed_is_made() -> None:
    assert [one.label for one in subjects("sign")] == [
        *(("sign", "sign signs=plain", "sign vectors=2")),
        *(("sign pool=some", "sign signs=plain pool=some", "sign vectors=2 pool=some")),
    ]
    assert {} in choices(mechanism_kind("pairwise"))
    assert len(list(choices(mechanism_kind("pairwise")))) == 6


@pytest.mark.statistical
@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("name", "failed"),
    [
        pytest.param("LocalHashing", set(), marks=pytest.mark.thorough),
        pytest.param("Crooked", {"sampler", "estimates"}, marks=pytest.mark.thorough),
        ("Liar", {"log-ratio", "run's size"}),
        pytest.param("Shy", {"log-ratio", "run's size"}, marks=pytest.mark.thorough),
    ],
)
def test_ones_own_is_checked_alike(name: str, failed: set[str], blindrec: Command) -> None:
    """False alarm: 1e-6 of a sampler."""
    ended = blindrec("check", f"mechanisms:{name}", "--json", "-")
    assert ended.code == (2 if failed else 0)
    found = {row["check"] for row in ended.result["rows"] if row["verdict"] == FAILED}
    assert found >= failed
    assert found == failed or name == "Liar"  # whose questions nobody answers


CHECKS_SHUFFLED = {one.name: one for one in SHUFFLED_CHECKS}


def grr() -> MechanismUnderTest:
    return subject_of(mechanism_kind("grr"), {}, size=TINY)


@pytest.mark.parametrize("design", ["oue", "subset", "set"])
def test_levels_are_those_of_the_channel(design: str) -> None:
    row = CHECKS_SHUFFLED["levels"].of(subject_of(mechanism_kind(design), {}, size=TINY))
    assert row.verdict == HELD, row


class OtherLevels(Grr):
    """Its levels are a hundredth off."""

    parts: dict[str, float]

    def levels(self, query: Query) -> TwoLevels:
        honest = super().levels(query)
        return TwoLevels(**{"pi": honest.pi, "kappa": honest.kappa, **self.parts})


@pytest.mark.parametrize("parts", [{"kappa": 0.165}, {"pi": 0.168}])
def test_levels_that_are_a_hundredth_off_are_found(parts: dict[str, float]) -> None:
    row = CHECKS_SHUFFLED["levels"].of(replace(grr(), public=OtherLevels(parts=parts)))
    assert (row.verdict, next(iter(parts)) in row.told) == (FAILED, True), row


def test_a_channel_without_levels_is_not_checked_for_them() -> None:
    class Plain(Grr):
        def levels(self, query: Query) -> None:  # type: ignore[override] # as any custom half
            assert query.design == "grr"

    assert CHECKS_SHUFFLED["levels"].of(replace(grr(), public=Plain())).verdict == UNCHECKED


@dataclass(frozen=True)
class Changed:
    """K-ary levels whose delta is another one: ``change`` gets the honest bound and what is asked of it."""

    change: Callable[[Callable[[float, float, int], float], float, float, int], float]

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:
        return self.change(kary_levels(6).delta, epsilon, local_epsilon, devices)


def row_of_bound(monkeypatch: pytest.MonkeyPatch, name: str, bound: ShufflerBound) -> CheckRow:
    monkeypatch.setattr(shuffled_checks, "randomizer_of", lambda *_: Randomizer(bound, TWO_LEVELS))
    return CHECKS_SHUFFLED[name].of(grr())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda honest, epsilon, local, n: honest(epsilon, min(local, 4.5 - local), n), "in the local epsilon"),
        (lambda honest, epsilon, local, n: honest(epsilon, local, n if n < 1000 else 200), "as devices get fewer"),
        (
            lambda honest, epsilon, local, n: honest(
                0.1 * local if local > 0.9 and epsilon > 0.6 * local else epsilon, local, n
            ),
            "as epsilon falls",
        ),
    ],
)
def test_a_delta_that_moves_the_wrong_way_is_found(change: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = row_of_bound(monkeypatch, "monotone", Changed(change))
    assert (row.verdict, words in row.told) == (FAILED, True), row
    assert row_of_bound(monkeypatch, "monotone", Changed(lambda honest, *of: honest(*of))).verdict == HELD


def test_a_bound_below_what_is_given_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = row_of_bound(monkeypatch, "from below", Changed(lambda honest, *of: 0.99 * honest(*of)))
    assert (row.verdict, "by three inputs" in row.told) == (FAILED, True), row
    assert row_of_bound(monkeypatch, "from below", Changed(lambda honest, *of: honest(*of))).verdict == HELD


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda local, _: local + Fraction(3, 1000), "above 0.0001"),
        (lambda local, _: local - Fraction(1, 3000), "no whole number of thousandths"),
        (lambda local, _: local - Fraction(1, 100), "keeps it, too"),
        (lambda _, central: central - Fraction(1, 1000), "below it"),
    ],
)
def test_a_local_epsilon_rounded_otherwise_is_found(change: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(bound: Any, *, epsilon: Fraction, devices: int, delta: float) -> Fraction:
        local = largest_local_epsilon(bound, epsilon=epsilon, devices=devices, delta=delta)
        changed: Fraction = change(local, epsilon)
        return changed

    monkeypatch.setattr(shuffled_checks, "largest_local_epsilon", other)
    row = CHECKS_SHUFFLED["rounding"].of(grr())
    assert (row.verdict, words in row.told) == (FAILED, True), row


def test_devices_that_ask_themselves_keep_their_bound() -> None:
    """A question of one's own and a bit about it have the levels of one bit."""
    row = CHECKS_SHUFFLED["from below"].of(asking())
    assert row.verdict == HELD, row
