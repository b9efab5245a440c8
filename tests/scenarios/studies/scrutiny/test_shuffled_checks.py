"""`blindrec check --trust shuffled`: what holds of every design that a shuffler can hide, and a broken twin of each."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import dishonest
import pytest
from runs import Command

from coordinator.protocol.amplification import ShufflerBound, TwoLevels, kary_levels, largest_local_epsilon
from coordinator.protocol.mechanisms.oracles import Grr
from coordinator.protocol.messages import Query
from coordinator.protocol.randomizers import TWO_LEVELS, Randomizer
from scenarios.config.mechanism_settings import server_half
from scenarios.studies.scrutiny import shuffled_checks
from scenarios.studies.scrutiny.mechanism_under_test import TINY, MechanismUnderTest, subject_of
from scenarios.studies.scrutiny.shuffled_checks import SHUFFLED_CHECKS
from scenarios.studies.scrutiny.verdicts import FAILED, HELD, UNCHECKED, CheckRow

CHECKS = {one.name: one for one in SHUFFLED_CHECKS}


def grr() -> MechanismUnderTest:
    return subject_of(server_half("grr"), {}, size=TINY)


def test_every_check_holds_of_an_honest_mechanism(blindrec: Command) -> None:
    ended = blindrec("check", "grr", "--trust", "shuffled", "--setting", "told=liked", "--json", "-")
    assert (ended.code, ended.err) == (0, "")
    assert [(row["check"], row["verdict"]) for row in ended.result["rows"]] == [(name, HELD) for name in CHECKS]


@pytest.mark.parametrize("design", ["oue", "subset", "set"])
def test_levels_are_those_of_the_channel(design: str) -> None:
    row = CHECKS["levels"].of(subject_of(server_half(design), {}, size=TINY))
    assert row.verdict == HELD, row


class OtherLevels(Grr):
    """Its levels are a hundredth off."""

    parts: dict[str, float]

    def levels(self, query: Query) -> TwoLevels:
        honest = super().levels(query)
        return TwoLevels(**{"pi": honest.pi, "kappa": honest.kappa, **self.parts})


@pytest.mark.parametrize("parts", [{"kappa": 0.165}, {"pi": 0.168}])
def test_levels_that_are_a_hundredth_off_are_found(parts: dict[str, float]) -> None:
    row = CHECKS["levels"].of(replace(grr(), public=OtherLevels(parts=parts)))
    assert (row.verdict, next(iter(parts)) in row.told) == (FAILED, True), row


def test_a_channel_without_levels_is_not_checked_for_them() -> None:
    class Plain(Grr):
        def levels(self, query: Query) -> None:  # type: ignore[override] # as any custom half
            assert query.design == "grr"

    assert CHECKS["levels"].of(replace(grr(), public=Plain())).verdict == UNCHECKED


@dataclass(frozen=True)
class Changed:
    """K-ary levels whose delta is another one: ``change`` gets the honest bound and what is asked of it."""

    change: Callable[[Callable[[float, float, int], float], float, float, int], float]

    def delta(self, epsilon: float, local_epsilon: float, devices: int) -> float:
        return self.change(kary_levels(6).delta, epsilon, local_epsilon, devices)


def row_of_bound(monkeypatch: pytest.MonkeyPatch, name: str, bound: ShufflerBound) -> CheckRow:
    monkeypatch.setattr(shuffled_checks, "randomizer_of", lambda *_: Randomizer(bound, TWO_LEVELS))
    return CHECKS[name].of(grr())


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
    row = CHECKS["rounding"].of(grr())
    assert (row.verdict, words in row.told) == (FAILED, True), row


def test_devices_that_ask_themselves_keep_their_bound() -> None:
    """A question of one's own and a bit about it have the levels of one bit."""
    row = CHECKS["from below"].of(dishonest.asking(public=False))
    assert row.verdict == HELD, row
