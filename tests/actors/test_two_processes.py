"""Two processes embody the same devices, since one was taken for dead and is not: they never spend twice."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from actors.device import Cohort
from actors.keeper import Keeper
from actors.ledger import Ledger
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Query
from scenarios.backends.spending import spent_by, sums

USERS = 12
COSTS: list[Epsilon] = [Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(2, 7), None]
QUERIES = [worlds.maxsense_query(items=4, sensing=0.5, epsilon=cost, round_number=k) for k, cost in enumerate(COSTS)]
CUTS = [[(0, 12)], [(0, 5), (5, 12)], [(0, 4), (4, 8), (8, 12)]]
"""Each process has cohorts of its own: it was started by another run of the same devices, perhaps."""
Call = tuple[int, Query, int, int]
CALLS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(QUERIES), st.integers(0, USERS), st.integers(0, USERS)), max_size=30
)


class Late:
    """A keeper that somebody else calls first, as often as the process looked before it books."""

    def __init__(self, keeper: Keeper, others: list[tuple[Ledger, int]]) -> None:
        self._keeper, self.others = keeper, others

    def read(self, first: int, stop: int, since: int = 0) -> tuple[int, list[str]]:
        return self.book(first, stop, since, ())

    def book(self, first: int, stop: int, known: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        if self.others:
            ledger, number = self.others.pop()
            ledger.charge(QUERIES[number], ledger.first, ledger.stop)
        return self._keeper.book(first, stop, known, lines)


def charged(ledgers: list[Ledger], number: int, low: int, high: int) -> None:
    """Ask a process."""
    for ledger in ledgers:
        if (first := max(low, ledger.first)) < (stop := min(high, ledger.stop)):
            ledger.charge(QUERIES[number], first, stop)


@settings(max_examples=examples(150))
@given(budget=st.sampled_from([Fraction(1), Fraction(5, 6), Fraction(2), Fraction(1, 10), None]), calls=CALLS)
def test_processes_that_are_asked_in_any_order_keep_one_book(budget: Epsilon, calls: list[Call]) -> None:
    """As one process that was asked the same: who refuses, and what each device has spent, exactly."""
    keeper, alone = Keeper(), Ledger(0, USERS, budget)
    processes = [[Ledger(first, stop, budget, keeper) for first, stop in cuts] for cuts in CUTS]
    for which, query, one, other in calls:
        low, high = min(one, other), max(one, other)
        refused = [
            device
            for ledger in processes[which]
            if max(low, ledger.first) < min(high, ledger.stop)
            for start, end in ledger.charge(query, max(low, ledger.first), min(high, ledger.stop))
            for device in range(start, end)
        ]
        assert refused == [d for start, end in alone.charge(query, low, high) for d in range(start, end)]
    assert spent_by(keeper, USERS) == sums_of(alone.spending())
    for ledgers in processes:
        assert sums_of([one for ledger in ledgers for one in ledger.spending()]) == sums_of(alone.spending())


def sums_of(stretches: list[tuple[int, int, Epsilon]]) -> list[tuple[int, int, Epsilon]]:
    """Stretches, those that spent alike joined."""
    found: list[tuple[int, int, Epsilon]] = []
    for first, stop, spent in stretches:
        if found and found[-1][2] == spent:
            found[-1] = (found[-1][0], stop, spent)
        else:
            found.append((first, stop, spent))
    return found


@settings(max_examples=examples(100))
@given(
    mine=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    theirs=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=6),
)
def test_what_comes_between_a_look_and_a_charge_is_taken_in(mine: list[int], theirs: list[tuple[int, int]]) -> None:
    """The other process books in the moment before this one does: never above the budget, never twice."""
    keeper, budget = Keeper(), Fraction(4, 3)
    others = [Ledger(first, stop, budget, keeper) for first, stop in CUTS[2]]
    late = Late(keeper, [(others[which], number) for which, number in theirs])
    ledger = Ledger(0, USERS, budget, late)
    for number in mine:
        ledger.charge(QUERIES[number], 0, USERS)
    told = [ledger.spent(device) for device in range(USERS)]
    assert all(spent is not None and spent <= budget for spent in told)
    assert sums_of([(d, d + 1, spent) for d, spent in enumerate(told)]) == spent_by(keeper, USERS)
    lines = keeper.read(0, USERS)[1]
    assert len(lines) == len(set(lines))


def test_threads_of_several_processes_never_spend_above_the_budget() -> None:
    """Their sums are exact, and what one of them answered the other ones repeat."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            keeper = Keeper()
            processes = [[Ledger(a, b, Fraction(1), keeper) for a, b in cuts] for cuts in CUTS]
            with ThreadPoolExecutor(6) as threads:
                todo = [(one, number, k, k + 3) for k in range(0, 12, 3) for number in range(4) for one in processes]
                list(threads.map(charged, *zip(*todo, strict=True)))
            spent = {amount for _, _, amount in spent_by(keeper, USERS)}
            assert all(amount is not None and Fraction(1, 2) < amount <= 1 for amount in spent)
            for ledgers in processes:
                own = [one for ledger in ledgers for one in ledger.spending()]
                assert sums_of(own) == spent_by(keeper, USERS)
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.parametrize("cuts", CUTS)
def test_a_second_process_repeats_bits_and_refuses_what_the_first_one_spent(cuts: list[tuple[int, int]]) -> None:
    """The server made a second cohort of the same devices, and told it nothing."""
    world, keeper = worlds.world(items=20, rated=4), Keeper()
    first, second = (
        worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1), round_number=number) for number in range(2)
    )
    before = Cohort(worlds.block_ratings(world), world.secret, 0, USERS, Fraction(1), keeper=keeper).answer(
        first, 0, USERS
    )
    booked = keeper.read(0, USERS)
    for low, high in cuts:
        again = Cohort(worlds.block_ratings(world), world.secret, low, high, Fraction(1), keeper=keeper)
        assert again.answer(second, low, high).refused == high - low
        told = again.answer(first, low, high)
        assert told.refused == 0
        assert told.unpacked().tolist() == before.unpacked()[low:high].tolist()
    assert keeper.read(0, USERS) == booked


def test_sums_of_no_charges_are_nothing() -> None:
    assert sums([], 5) == [(0, 5, Fraction(0))]
    assert sums([], 0) == []
