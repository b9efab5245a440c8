"""The ledger of device ranges against a naive one: a dictionary a device."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction

import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from actors.ledger import Ledger
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Query

FIRST, STOP = 5, 17

COSTS: list[Epsilon] = [Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(2, 7), None]
QUERIES = [worlds.maxsense_query(items=4, sensing=0.5, epsilon=cost, round_number=k) for k, cost in enumerate(COSTS)]

CHARGES = st.lists(st.tuples(st.sampled_from(QUERIES), st.integers(FIRST, STOP), st.integers(FIRST, STOP)), max_size=25)


class Naive:
    """One dictionary a device, from query id to what it cost; None is infinite."""

    def __init__(self, budget: Epsilon) -> None:
        self.budget = budget
        self.paid: dict[int, dict[bytes, Epsilon]] = {device: {} for device in range(FIRST, STOP)}

    def spent(self, device: int) -> Epsilon:
        costs = list(self.paid[device].values())
        return None if None in costs else sum((cost for cost in costs if cost is not None), start=Fraction(0))

    def charge(self, query: Query, device: int) -> bool:
        """Charge one device; return whether it refuses."""
        if query.id in self.paid[device]:
            return False
        spent = self.spent(device)
        if self.budget is not None and (query.epsilon is None or spent is None or spent + query.epsilon > self.budget):
            return True
        self.paid[device][query.id] = query.epsilon
        return False


@settings(max_examples=examples(200))
@given(budget=st.sampled_from([Fraction(1), Fraction(5, 6), Fraction(2), Fraction(1, 10), None]), charges=CHARGES)
def test_stretches_keep_the_same_books_as_a_dictionary_a_device(
    budget: Epsilon, charges: list[tuple[Query, int, int]]
) -> None:
    ledger, naive = Ledger(FIRST, STOP, budget), Naive(budget)
    for query, one, other in charges:
        first, stop = min(one, other), max(one, other)
        refused = [device for start, end in ledger.charge(query, first, stop) for device in range(start, end)]
        assert refused == [device for device in range(first, stop) if naive.charge(query, device)]
        assert [ledger.spent(device) for device in range(FIRST, STOP)] == [
            naive.spent(device) for device in range(FIRST, STOP)
        ]


@settings(max_examples=examples(50))
@given(cuts=st.lists(st.integers(FIRST, STOP), max_size=5), charges=CHARGES)
def test_a_charge_in_pieces_is_the_charge(cuts: list[int], charges: list[tuple[Query, int, int]]) -> None:
    whole, pieces = Ledger(FIRST, STOP, Fraction(1)), Ledger(FIRST, STOP, Fraction(1))
    for query, one, other in charges:
        first, stop = min(one, other), max(one, other)
        marks = [first, *sorted(cut for cut in cuts if first < cut < stop), stop]
        told = [range(*bounds) for a, b in itertools.pairwise(marks) for bounds in pieces.charge(query, a, b)]
        asked = [range(*bounds) for bounds in whole.charge(query, first, stop)]
        assert [device for some in told for device in some] == [device for some in asked for device in some]


@pytest.mark.parametrize(("first", "stop"), [(4, 6), (16, 18), (0, 5), (17, 20), (9, 7)])
def test_devices_of_others_are_not_charged(first: int, stop: int) -> None:
    ledger = Ledger(FIRST, STOP, Fraction(1))
    with pytest.raises(IndexError):
        ledger.charge(QUERIES[0], first, stop)
    assert [ledger.spent(device) for device in range(FIRST, STOP)] == [0] * (STOP - FIRST)


def test_a_million_devices_asked_alike_are_quick_and_exact() -> None:
    """One row for all of them: thirty rounds in twenty blocks each end at the exact sum."""
    ledger, share = Ledger(0, 10**6, Fraction(1)), Fraction(1, 30)
    for round_number in range(30):
        query = worlds.maxsense_query(items=4, sensing=0.5, epsilon=share, round_number=round_number)
        for first in range(0, 10**6, 50_000):
            assert ledger.charge(query, first, first + 50_000) == []
    assert {ledger.spent(device) for device in (0, 49_999, 50_000, 999_999)} == {Fraction(1)}
    assert ledger.charge(QUERIES[0], 0, 10**6) == [(0, 10**6)]


@contextmanager
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def test_blocks_charged_by_several_threads_are_all_charged() -> None:
    """The in-process backend answers blocks of one cohort on several threads: no charge may get lost."""
    with hasty_threads():
        for query in QUERIES[:3] * 2:
            ledger = Ledger(0, 300, None)
            with ThreadPoolExecutor(4) as threads:
                firsts = range(0, 300, 2)
                list(threads.map(ledger.charge, [query] * 150, firsts, [first + 2 for first in firsts]))
            assert {ledger.spent(device) for device in range(300)} == {query.epsilon}


def test_neighbours_that_spent_alike_on_different_queries_are_one_stretch() -> None:
    ledger = Ledger(0, 12, Fraction(1))
    for number, (first, stop) in enumerate([(2, 5), (5, 9)]):
        query = worlds.maxsense_query(items=4, sensing=0.5, epsilon=Fraction(1, 2), round_number=number)
        assert ledger.charge(query, first, stop) == []
    assert ledger.spending() == [(0, 2, 0), (2, 9, Fraction(1, 2)), (9, 12, 0)]
