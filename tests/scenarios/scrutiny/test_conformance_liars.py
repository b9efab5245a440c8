"""`blindrec check` sees who is honest in one round, with one seed or in one pool, and who estimates what is not so."""

from __future__ import annotations

from collections.abc import Callable

import foreign_dishonest as dishonest
import foreign_mechanisms as foreign
import pytest

from coordinator.protocol.own import Mechanism
from scenarios.scrutiny.checks import Check, at_the_runs_size, layouts, log_ratio
from scenarios.scrutiny.mechanism import Subject, subjects
from scenarios.scrutiny.server_checks import estimates, prediction
from scenarios.scrutiny.verdicts import FAILED, HELD, Row

pytestmark = pytest.mark.statistical
"""False alarm of estimates and predictions: 1e-5 each."""


def found(holds: Callable[[Subject], str], mechanism: Mechanism) -> Row:
    return Check("the check", "its meaning", holds).of(subjects(mechanism)[-1])


@pytest.mark.parametrize(
    ("mechanism", "told"),
    [
        (dishonest.Later(), "round 1"),
        (dishonest.Seeded(), "gives away 0.2 nats"),
        (dishonest.OtherSeeded(), "gives away 0.2 nats"),
        (dishonest.SomePool(), "gives away 0.2 nats"),
    ],
)
def test_a_channel_that_is_honest_somewhere_is_seen(mechanism: Mechanism, told: str) -> None:
    row = found(log_ratio, mechanism)
    assert row.verdict == FAILED
    assert told in row.told
    assert found(at_the_runs_size, mechanism).verdict == FAILED


def test_a_sketch_that_is_its_own_in_the_first_round_only_is_seen() -> None:
    row = found(layouts, dishonest.RandomLater())
    assert row.verdict == FAILED
    assert row.told.startswith("round 1: cohorts of ")


@pytest.mark.parametrize("mechanism", [foreign.OUE(), foreign.LocalHashing()])
def test_honest_estimates_hold(mechanism: Mechanism) -> None:
    row = found(estimates, mechanism)
    assert row.verdict == HELD, row.told


@pytest.mark.parametrize(
    ("mechanism", "told"),
    [
        (dishonest.OtherErrors(factor=0.5), "of the standard errors that it states from their mean"),
        (dishonest.UpsideDown(), "items that are liked more have lower values"),
    ],
)
def test_estimates_that_are_not_so_are_seen(mechanism: Mechanism, told: str) -> None:
    row = found(estimates, mechanism)
    assert row.verdict == FAILED
    assert told in row.told


@pytest.mark.parametrize("information", [40.0, 1e6, 1e-6])
def test_a_prediction_of_all_or_nothing_is_held_to_it(information: float) -> None:
    row = found(prediction, dishonest.Promises(information=information))
    assert row.verdict == FAILED, row.told
    assert "of the items are right" in row.told
