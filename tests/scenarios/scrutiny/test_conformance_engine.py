"""The checks of a channel and of its sampler see what lies, by a percent, and let pass what does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction

import liars
import numpy as np
import pytest

from actors.coins import Coins
from coordinator.protocol.arrays import Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from scenarios.scrutiny.checks import Check, at_the_runs_size, conformance, log_ratio, sampler
from scenarios.scrutiny.laws import chances, largest_ratio
from scenarios.scrutiny.mechanism import TINY, Subject, every_rating
from scenarios.scrutiny.verdicts import FAILED, HELD, UNCHECKED, Failed, Row, Unchecked

MECHANISMS = ("unary", "matrix")


def found(holds: Callable[[Subject], str], subject: Subject) -> Row:
    return Check("the check", "its meaning", holds).of(subject)


@pytest.mark.statistical
@pytest.mark.parametrize("name", MECHANISMS)
def test_an_honest_mechanism_holds(name: str) -> None:
    """False alarm of the sampler below 1e-6 each."""
    for holds in (log_ratio, at_the_runs_size, sampler):
        row = found(holds, liars.subject(name))
        assert (row.verdict, row.mechanism) == (HELD, name), row


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_channel_that_spends_a_percent_more_is_seen_with_a_counter_example(name: str) -> None:
    row = found(log_ratio, liars.subject(name, channel=Fraction(101, 100)))
    assert row.verdict == FAILED
    assert "log-ratio 0.101 between sketches" in row.told
    assert found(at_the_runs_size, liars.subject(name, channel=Fraction(101, 100))).verdict == FAILED


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_billionth_more_is_too_much_and_a_percent_less_is_waste(name: str) -> None:
    over = liars.subject(name, channel=1 + Fraction(1, 10**9))
    assert found(log_ratio, over).verdict == FAILED
    hair = liars.subject(name, channel=1 + Fraction(1, 10**13))
    row = found(at_the_runs_size, hair)
    assert (row.verdict, found(log_ratio, hair).verdict) == (FAILED, FAILED), row
    row = found(log_ratio, liars.subject(name, channel=Fraction(99, 100)))
    assert row.verdict == FAILED
    assert "is not spent" in row.told


@pytest.mark.statistical
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("lie", [Fraction(97, 100), Fraction(103, 100)])
def test_a_sampler_that_is_three_percent_off_is_seen(name: str, lie: Fraction) -> None:
    """The twin of the honest one; it is missed with probability below 1e-6."""
    row = found(sampler, liars.subject(name, sampler=lie))
    assert row.verdict == FAILED
    assert "the channel says" in row.told


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ([Fraction(1, 2), Fraction(1, 3)], "sum to 0.833333333"),
        ([Fraction(1, 4)] * 4, "4 chances for 1 bits"),
        ([Fraction(-1), Fraction(2)], "the least is -1"),
    ],
)
def test_a_row_that_is_no_distribution_is_seen(row: list[Fraction], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liars.Unary, "chances", lambda *_: row)
    with pytest.raises(Failed, match=told):
        chances(liars.unary(Fraction(1)), np.zeros(1, np.int64), 1, np.uint64(0))


def test_a_query_at_another_epsilon_than_asked_is_seen() -> None:
    subject = liars.subject()

    def half(size: object, epsilon: Fraction | None, round_number: int, public_seed: bytes) -> Query:
        query = subject.asks(TINY, epsilon, round_number, public_seed)
        return dataclasses.replace(query, epsilon=Fraction(1, 2))

    row = found(log_ratio, dataclasses.replace(subject, asks=half))
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
    def broken(subject: Subject) -> str:
        raise ZeroDivisionError("a\nb")

    def refused(subject: Subject) -> str:
        raise InputError("items is 5; give more")

    def reason(subject: Subject) -> str:
        raise Unchecked("there is none")

    def failed(subject: Subject) -> str:
        raise Failed("here")

    checks = [Check(holds.__name__, "", holds) for holds in (broken, refused, reason, failed, lambda _: "fine")]
    result = conformance([liars.subject()], checks)
    assert [(row.verdict, row.told) for row in result.rows] == [
        (FAILED, "ZeroDivisionError: a"),
        (FAILED, "items is 5; give more"),
        (UNCHECKED, "there is none"),
        (FAILED, "here"),
        (HELD, "fine"),
    ]
    assert not result.held
    assert [row.check for row in result.failures] == ["broken", "refused", "failed"]
    assert repr(result) == "<unary: 1 held, 3 failed, 1 not checked>"
    assert result.frame().shape == (5, 5)
    assert result.as_json()["rows"][0]["told"] == "ZeroDivisionError: a"


def test_the_sampler_must_return_the_querys_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def wide(self: object, private: Ints, query: Query, coins: Coins) -> Ints:
        return np.zeros((len(private), query.bits + 1), np.int64)

    monkeypatch.setattr(liars.Device, "randomize", wide)
    assert "randomize returns shape" in found(sampler, liars.subject()).told
