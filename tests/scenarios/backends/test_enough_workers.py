"""How many workers a run takes that was not told: as many as it gains from, by the bits that devices release."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from runs import small

from coordinator.server.rounds.rounds import QueryPlan
from scenarios.backends.on_ray import BITS_A_WORKER, OnRay
from scenarios.backends.selection import InProcess
from scenarios.config.run_spec import RunSpec
from scenarios.data.populations import populate, settled


def plan(design: str) -> QueryPlan:
    """Return what is asked of a few devices of 40 items."""
    filled = settled(populate(small(design=design, users=100))).scenario
    return QueryPlan(policy=RunSpec(filled).policy, learner=RunSpec(filled).learner, devices=100)


@pytest.mark.parametrize(("design", "least"), [("maxsense", 1), ("oue", 40)])
def test_workers_grow_with_released_bits(design: str, least: int) -> None:
    place, asked = OnRay(8, most=True), plan(design)
    query = asked.rehearsal()
    assert query is not None
    assert query.bits >= least
    each = BITS_A_WORKER // query.bits
    assert [place.choose_workers(asked, answers) for answers in (1, each, each + 1, 3 * each, 9 * each)] == [
        1,
        1,
        2,
        3,
        8,
    ]


def test_who_names_a_number_gets_it_and_whose_mechanism_is_unknown_gets_all() -> None:
    asked: Any = plan("maxsense")
    assert OnRay(8).choose_workers(asked, 1) == InProcess(8).choose_workers(asked, 1) == 8
    assert OnRay(8, most=True).choose_workers(asked, 1) == 1
    assert OnRay(8, most=True).choose_workers(SimpleNamespace(own="somebody's", rehearsal=asked.rehearsal), 1) == 8
