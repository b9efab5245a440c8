"""Policies that go astray: whatever they do, one line names the policy and the round, and earlier rounds are kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from straying import ITEMS, LEARNER, SETTING, USERS, Stray, devices, pool, query

from coordinator.protocol.errors import PolicyError
from coordinator.server.mechanisms.maxsense import MaxSense
from coordinator.server.rounds.rounds import Outcome, conduct
from coordinator.server.rounds.state import Ask, ServerState

TICKS = itertools.count(1)


def changed(**changes: Any) -> Callable[[Ask, ServerState], Ask]:
    """Changes parts of the round, whatever their types."""
    return lambda ask, _: replace(ask, **changes)


def fails(error: BaseException) -> Callable[[Ask, ServerState], Ask]:
    """Raises."""

    def bad(ask: Ask, state: ServerState) -> Ask:
        raise error

    return bad


class Unspeakable:
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def of_setting(**given: Any) -> Callable[[Ask, ServerState], Ask | None]:
    """Asks by its setting, with these arguments."""
    return lambda _, state: SETTING.ask(state, **{"users": 100, **given})


def writes(ask: Ask, state: ServerState) -> Ask:
    """Writes into what the server knows."""
    assert state.estimates is not None
    state.estimates.information[:] = 0
    return ask


def of_maxsense(ask: Ask, state: ServerState) -> Ask:
    """A good query of another design."""
    other = MaxSense(items=ITEMS, rated=5)
    return replace(ask, query=other.query(round_number=len(state.asked), public_seed=bytes(16), epsilon=Fraction(1)))


STRAY: dict[str, tuple[Callable[[Ask, ServerState], Any], list[str]]] = {
    "raises": (fails(KeyError("mood")), ["it raised KeyError", "mood"]),
    "raises in two lines": (fails(ValueError("first\nsecond")), ["it raised ValueError", "first", "second"]),
    "returns text": (
        lambda *_: "the next one",
        ["'the next one'", "blindrec.Ask", "None to stop"],
    ),
    "returns a query": (lambda ask, _: ask.query, ["Query(", "blindrec.Ask"]),
    "returns an array": (lambda *_: np.zeros((4, 4)), ["array(", "blindrec.Ask"]),
    "returns what cannot be shown": (lambda *_: Unspeakable(), ["Unspeakable", "blindrec.Ask"]),
    "an ask of text": (changed(query="sign"), ["blindrec.Ask"]),
    "unknown design": (query(design="oracle"), ["design 'oracle'", "maxsense", "sign"]),
    "design of no name": (query(design=["sign"]), ["design"]),
    "items outside": (pool(3, ITEMS), ["pool", "0 to 19"]),
    "items below": (pool(-1, 3), ["pool", "0 to 19"]),
    "unsorted pool": (pool(5, 3), ["pool", "not ascending"]),
    "an item twice": (pool(3, 3), ["pool", "twice"]),
    "empty pool": (pool(), ["pool", "empty"]),
    "float pool": (pool(1.0, 2.0, kind=float), ["pool", "float64", "int32"]),
    "wide pool": (pool(1, 2, kind=np.int64), ["pool", "int64", "int32"]),
    "pool in a square": (query(pool=np.zeros((2, 2), np.int32)), ["pool", "shape (2, 2)"]),
    "pool in a list": (query(pool=[np.int32(1), np.int32(2)]), ["pool"]),
    "epsilon above the budget": (query(epsilon=Fraction(1001, 1000)), ["epsilon 1.001", "budget of 1"]),
    "no noise": (query(epsilon=None), ["epsilon inf", "budget of 1"]),
    "epsilon 0": (query(epsilon=Fraction(0)), ["epsilon is 0", "above 0"]),
    "epsilon below 0": (query(epsilon=Fraction(-1, 2)), ["epsilon is -1/2", "above 0"]),
    "epsilon that is not exact": (query(epsilon=0.5), ["epsilon", "0.5"]),
    "epsilon in words": (query(epsilon="little"), ["epsilon", "a str"]),
    "devices outside": (changed(stop=USERS + 1), ["401", "there are 400"]),
    "devices below": (changed(first=-1), ["devices -1", "there are 400"]),
    "nobody": (lambda ask, _: replace(ask, stop=ask.first), ["devices"]),
    "backwards": (changed(first=9, stop=3), ["devices 9 to 3"]),
    "half a device": (changed(stop=50.5), ["stop of the devices", "50.5", "give an int"]),
    "devices counted by NumPy": (changed(first=np.int64(0)), ["first of the devices", "int64", "give an int"]),
    "ends the process": (fails(SystemExit(3)), ["it raised SystemExit in line ", "3"]),
    "asks by chance": (
        lambda ask, _: replace(ask, stop=ask.first + next(TICKS)),
        ["made anew it would go on otherwise"],
    ),
    "an item of another catalogue": (of_setting(pool=[3, ITEMS]), ["pool names items 3 to 20", "0 to 19"]),
    "an item that wraps": (of_setting(pool=[2**33 + 1]), ["pool names items 8589934593", "0 to 19"]),
    "an unsorted list": (of_setting(pool=[5, 3]), ["pool does not ascend", "np.unique"]),
    "a mask": (of_setting(pool=np.ones(ITEMS, bool)), ["pool holds bool", "np.flatnonzero"]),
    "no number of users": (of_setting(users=float("nan")), ["users is nan", "at least 1"]),
    "users in words": (of_setting(users="100"), ["users is '100'", "at least 1"]),
    "expectations of all": (of_setting(pool=[1, 2], expected=np.zeros(ITEMS)), ["expected has shape (20,)", "2 items"]),
    "no expectations": (of_setting(expected=np.full(ITEMS, np.nan)), ["expected has shape (20,)", "finite"]),
}
LATER: dict[str, tuple[Callable[[Ask, ServerState], Any], list[str]]] = {
    "another design": (of_maxsense, ["maxsense", "sign"]),
    "another catalogue": (query(items=21), ["21 items", "20"]),
    "the same question again": (lambda _, state: state.asked[-1], ["round"]),
    "writes into the state": (writes, ["it raised ValueError in line ", "read-only"]),
    "a round that was": (query(round=0), ["round"]),
}
REFUSED: dict[str, tuple[Callable[[Ask, ServerState], Any], list[str]]] = {
    "sign without a pool": (query(pool=None), ["names no pool"]),
    "another catalogue": (query(items=21, pool=np.arange(21, dtype=np.int32)), ["21 items", "20"]),
    "wrong parameters": (query(parameters={"sensing": 0.2}), ["parameters ['sensing']", "['kept', 'vectors']"]),
    "no parameters": (query(parameters=None), ["parameters"]),
    "three vectors": (query(parameters={"vectors": 3, "kept": 1}), ["3 sign vectors", "power of two"]),
    "too many kept": (query(parameters={"vectors": 1, "kept": 2}), ["keeps 2"]),
    "vectors in words": (query(parameters={"vectors": "one", "kept": 1}), ["one"]),
    "two questions": (query(questions=2), ["2 questions"]),
    "more bits": (query(answer_bits=2), ["2 bits"]),
    "a seed of text": (query(public_seed="seed"), ["seed"]),
}


def led_astray(bad: Callable[[Ask, ServerState], Any], good: int) -> tuple[str, Outcome | None]:
    """The complaint about a policy that goes astray after some good rounds, and what these told."""
    policy = Stray(bad, good)
    if not good:
        with pytest.raises(PolicyError) as raised:
            conduct(policy, LEARNER, devices(), devices=USERS, budget=Fraction(1))
        return str(raised.value), None
    outcome = conduct(policy, LEARNER, devices(), devices=USERS, budget=Fraction(1))
    assert outcome.failure is not None
    return outcome.failure, outcome


def check(line: str, words: list[str], good: int) -> None:
    """The line names policy, round, and what is wrong."""
    assert "\n" not in line
    assert line.startswith(f"policy Stray, round {good}: ")
    assert all(word in line for word in words), line
    assert len(line) < 400


@pytest.mark.parametrize("good", [0, 2])
@pytest.mark.parametrize("name", STRAY)
def test_a_complaint_names_policy_and_round(name: str, good: int) -> None:
    bad, words = STRAY[name]
    line, outcome = led_astray(bad, good)
    check(line, words, good)
    if outcome:
        well = conduct(Stray(lambda *_: None, good), LEARNER, devices(), devices=USERS, budget=Fraction(1))
        assert well.failure is None
        assert (outcome.state.asked, outcome.releases_sha256) == (well.state.asked, well.releases_sha256)
        np.testing.assert_array_equal(outcome.model.score, well.model.score)


@pytest.mark.parametrize("name", LATER)
def test_a_complaint_about_what_does_not_go_with_earlier_rounds(name: str) -> None:
    bad, words = LATER[name]
    line, outcome = led_astray(bad, 2)
    check(line, words, 2)
    assert outcome is not None
    assert len(outcome.state.asked) == 2


@pytest.mark.parametrize("good", [0, 2])
@pytest.mark.parametrize("name", REFUSED)
def test_what_devices_refuse_is_the_policys_failure(name: str, good: int) -> None:
    bad, words = REFUSED[name]
    line, outcome = led_astray(bad, good)
    check(line, words, good)
    assert outcome is None or len(outcome.state.asked) == 2
