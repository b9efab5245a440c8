"""Both sides in one place: releases, sums and ledgers equal those of the message-by-message path, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import worlds

from actors.absence import PRESENT, Absence
from actors.device import Cohort
from actors.ratings import Ratings
from coordinator.protocol.messages import Query, Release
from coordinator.server.mechanisms import aggregate
from scenarios.backends import in_process as shared_sets

WORLDS = {
    "few rated": worlds.world(items=61, rated=3),
    "most rated": worlds.world(items=61, rated=50, like=((0.9, 0.1), (0.2, 0.7)), shares=(0.4, 0.6)),
    "all rated": worlds.world(items=40, rated=40, like=((0.05,),)),
    "one item": worlds.world(items=1, rated=1, like=((0.5,),)),
}
MISSING = Absence(dropout=0.2, stragglers=0.3, delay=10.0, deadline=5.0)


def message_by_message(
    query: Query, ratings: Ratings, cohort: Cohort, first: int, stop: int
) -> tuple[dict[str, object], Release]:
    release = cohort.answer(query, first, stop)
    return worlds.as_numbers(aggregate(query, release)), release


def in_one_go(
    query: Query, ratings: Ratings, cohort: Cohort, first: int, stop: int
) -> tuple[dict[str, object], Release]:
    statistic, release = shared_sets.answer(query, ratings, worlds.SECRET, cohort, first, stop)
    return worlds.as_numbers(statistic), release


WAYS = (message_by_message, in_one_go)


def asked_of(world: str, epsilon: Fraction | None, pool: Sequence[int] | None, round_number: int = 0) -> Query:
    items = WORLDS[world].items
    pool = None if pool is None else [item for item in pool if item < items]
    return worlds.maxsense_query(items=items, sensing=0.1, epsilon=epsilon, pool=pool, round_number=round_number)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("pool", [None, [0, 3, 4, 17, 39, 60]], ids=["catalogue", "pool"])
@pytest.mark.parametrize("epsilon", [None, Fraction(1)], ids=["no noise", "epsilon 1"])
@pytest.mark.parametrize("absence", [PRESENT, MISSING], ids=["present", "missing"])
def test_releases_sums_and_ledgers_are_equal(
    name: str,
    pool: Sequence[int] | None,
    epsilon: Fraction | None,
    absence: Absence,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ratings, query = worlds.block_ratings(WORLDS[name], 500), asked_of(name, epsilon, pool)
    cohorts = [Cohort(ratings, worlds.SECRET, 100, 500, None, absence=absence) for _ in range(2)]
    apart = message_by_message(query, ratings, cohorts[0], 130, 470)
    monkeypatch.delattr(Cohort, "answer")  # nobody falls back on it
    assert in_one_go(query, ratings, cohorts[1], 130, 470) == apart
    assert cohorts[0].ledger.spending() == cohorts[1].ledger.spending()


def test_a_device_that_refuses_is_neither_heard_nor_counted() -> None:
    ratings = worlds.block_ratings(WORLDS["few rated"], 300)
    earlier, query = (asked_of("few rated", Fraction(1), None, round_number) for round_number in (0, 1))
    seen = []
    for way in WAYS:
        cohort = Cohort(ratings, worlds.SECRET, 0, 300, Fraction(3, 2), absence=MISSING)
        way(earlier, ratings, cohort, 50, 120)
        seen.append((way(query, ratings, cohort, 0, 300), cohort.ledger.spending()))
    assert seen[0] == seen[1]
    assert seen[1][0][1].refused == 70


def test_more_devices_than_half_a_word_counts() -> None:
    """Sensing everything with many devices would overflow a half word of counts, were it not moved out in time."""
    ratings, query = worlds.block_ratings(WORLDS["one item"], 140_000), asked_of("one item", Fraction(1), None)
    query.parameters["sensing"] = 1.0
    apart, joined = (way(query, ratings, Cohort(ratings, worlds.SECRET, 0, 140_000, None), 0, 140_000) for way in WAYS)
    assert apart == joined
    assert joined[0]["sensed"] == [140_000]


def test_asked_twice_it_repeats_and_spends_nothing_and_a_rehearsal_charges_nothing() -> None:
    ratings, query = worlds.block_ratings(WORLDS["most rated"], 64), asked_of("most rated", Fraction(1), None)
    cohort = Cohort(ratings, worlds.SECRET, 0, 64, Fraction(1))
    shared_sets.rehearse(query, ratings, worlds.SECRET, cohort)
    assert cohort.ledger.spending() == [(0, 64, Fraction(0))]
    first = in_one_go(query, ratings, cohort, 0, 64)
    assert in_one_go(query, ratings, cohort, 0, 64) == first
    assert cohort.ledger.spending() == [(0, 64, Fraction(1))]


def test_what_cannot_share_its_sets_goes_message_by_message() -> None:
    stored = worlds.stored_ratings([{0: True, 2: False}, {1: True}], [0, 1, 1, 0], 3)
    item_query = Query(
        design="item-query",
        items=61,
        round=0,
        public_seed=worlds.PUBLIC,
        epsilon=None,
        pool=np.arange(9, dtype=np.int32),
    )
    cases: list[tuple[Query, Ratings]] = [
        (worlds.maxsense_query(items=3, sensing=0.5, epsilon=Fraction(1)), stored),
        (item_query, worlds.block_ratings(WORLDS["few rated"], 4)),
    ]
    for query, ratings in cases:
        cohorts = [Cohort(ratings, worlds.SECRET, 0, 4, None) for _ in WAYS]
        shared_sets.rehearse(query, ratings, worlds.SECRET, cohorts[0])
        assert cohorts[0].ledger.spending() == [(0, 4, Fraction(0))]
        apart, joined = (way(query, ratings, cohort, 0, 4) for way, cohort in zip(WAYS, cohorts, strict=True))
        assert apart == joined
