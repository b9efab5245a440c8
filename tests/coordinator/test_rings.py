"""Rings of devices: rounds go around until everybody has answered as often as it may, and never overspend."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import worlds
from answering import answers, setting_of

from actors.ledger import Ledger
from coordinator.protocol.errors import InputError
from coordinator.server.rounds.policies import Fixed
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState, absorb


def walk(setting: Setting, users: int, sizes: Iterator[int]) -> list[Ask]:
    """All rounds that a setting gives, each for as many devices as the next size says."""
    state, asks = ServerState(devices=users), list[Ask]()
    while (ask := setting.ask(state, users=next(sizes))) is not None:
        asks.append(ask)
        state = absorb(state, ask, worlds.empty_statistic(setting.design.items))
    return asks


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), None])
@pytest.mark.parametrize("times", [1, 2, 3, 7])
def test_the_ring_asks_everybody_as_often_as_it_may_and_the_ledger_never_refuses(
    times: int, epsilon: Fraction | None
) -> None:
    setting = setting_of(epsilon=epsilon, answers_per_device=times)
    sizes = (int(size) for size in np.random.default_rng(times).integers(1, 40, 1000))
    asks = walk(setting, 23, sizes)
    assert answers(asks) == dict.fromkeys(range(23), times)
    assert [ask.query.round for ask in asks] == list(range(len(asks)))
    assert {ask.query.epsilon for ask in asks} == {None if epsilon is None else epsilon / times}
    ledger = Ledger(0, 23, epsilon)
    for ask in asks:
        assert 0 <= ask.first < ask.stop <= 23
        assert ledger.charge(ask.query, ask.first, ask.stop) == []
    assert {ledger.spent(device) for device in range(23)} == {epsilon}


def test_one_answer_more_or_a_budget_a_little_smaller_is_refused() -> None:
    """The twin: the ledger that never refused is exact to the last share."""
    setting = setting_of(answers_per_device=3)
    asks = walk(setting, 23, iter([10] * 100))
    full, short = Ledger(0, 23, Fraction(1)), Ledger(0, 23, Fraction(1) - Fraction(1, 10**30))
    for ask in asks:
        full.charge(ask.query, ask.first, ask.stop)
        last = short.charge(ask.query, ask.first, ask.stop)
    assert last == [(asks[-1].first, asks[-1].stop)]
    more = setting.design.query(round_number=99, public_seed=worlds.PUBLIC, epsilon=Fraction(1, 10**30))
    assert sum(stop - first for first, stop in full.charge(more, 0, 23)) == 23


def test_a_round_of_the_ring_may_be_sized_by_numpy() -> None:
    ask = setting_of().ask(ServerState(devices=20), users=np.int64(7), pool=np.array([3, 5]))  # type: ignore[arg-type] # what is tried
    assert ask is not None
    assert (type(ask.first), type(ask.stop), ask.stop) == (int, int, 7)
    assert ask.query.pool is not None
    assert ask.query.pool.tolist() == [3, 5]


@pytest.mark.parametrize("pool", [[0.5, 1.7], [False, True]])
def test_a_pool_that_is_no_list_of_items_is_no_other_pool(pool: list[float]) -> None:
    with pytest.raises(InputError, match="pool"):
        setting_of().ask(ServerState(devices=20), users=7, pool=np.array(pool))


@pytest.mark.parametrize("users", [0, -1])
def test_a_round_asks_somebody(users: int) -> None:
    with pytest.raises(InputError, match=f"users is {users}; a round asks at least 1"):
        setting_of().ask(ServerState(devices=20), users=users)


@pytest.mark.parametrize(
    ("users", "rounds", "times"), [(100, 1, 1), (100, 4, 1), (10, 3, 1), (10, 6, 1), (11, 6, 3), (101, 10, 5)]
)
def test_fixed_rounds_are_as_many_as_asked_for_and_alike(users: int, rounds: int, times: int) -> None:
    setting = setting_of(answers_per_device=times)
    policy, state, asks = Fixed(setting=setting, rounds=rounds), ServerState(devices=users), list[Ask]()
    while (ask := policy.next_query(state)) is not None:
        asks.append(ask)
        state = absorb(state, ask, worlds.empty_statistic(20))
    sizes = [ask.stop - ask.first for ask in asks]
    assert len(asks) == rounds
    assert max(sizes) - min(sizes) <= -(-times * users // rounds) - 1
    assert answers(asks) == dict.fromkeys(range(users), times)
