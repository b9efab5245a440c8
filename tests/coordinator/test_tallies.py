"""How far a learning has come, in public numbers: rounds, answers, refusals and what a device has spent at most."""

from __future__ import annotations

from fractions import Fraction

import pytest
from boundary import SEED, leaves, shows_a_secret
from hypothesis import given
from hypothesis import strategies as st
from runs import here, small

from coordinator.server.rounds.state import RunProgress, Spending
from scenarios.config.scenario import Scenario

ASKS = st.lists(st.tuples(st.integers(0, 19), st.integers(1, 20), st.sampled_from(["1/3", "1/2", "1"])), max_size=12)


@given(ASKS)
def test_what_a_device_has_spent_at_most(asks: list[tuple[int, int, str]]) -> None:
    """Device by device: nobody answers beyond the budget."""
    spending, spent = Spending(Fraction(1)), [Fraction(0)] * 40
    for first, width, cost in asks:
        spending.ask(first, first + width, Fraction(cost))
        for device in range(first, first + width):
            if spent[device] + Fraction(cost) <= 1:
                spent[device] += Fraction(cost)
        assert spending.most == float(max(spent))


@pytest.mark.parametrize(
    ("changes", "planned"),
    [
        ({}, 1),
        ({"design": "sign", "policy": "fixed", "rounds": 3, "answers_per_device": 3, "epsilon": 3}, 3),
        ({"design": "sign", "policy": "eliminate", "confidence": 0.9, "users": 9000}, None),
        ({"epsilon": "inf"}, 1),
        ({"dropout": 0.3}, 1),
    ],
)
def test_the_last_tally_is_what_the_result_says(changes: dict[str, object], planned: int | None) -> None:
    told: list[RunProgress] = []
    run = here(small(seed=SEED, **changes), progress=told.append)
    state, last = run.outcome.state, told[-1]
    assert last.count == state.answers_asked
    assert (last.rounds, last.planned) == (len(state.asked), planned)
    assert last.answers == sum(counts.answered for counts in state.counts)
    assert last.refused == sum(counts.refused for counts in state.counts)
    spent = [float("inf") if amount is None else float(amount) for _, _, amount in run.spent]
    assert last.epsilon == max(spent)
    pools = [40 if ask.query.pool is None else ask.query.pool.size for ask in state.asked]
    assert last.undecided == (pools[-1] if changes.get("policy") == "eliminate" else None)


def test_a_tally_is_on_the_list_of_what_may_be_shown() -> None:
    told: list[RunProgress] = []
    here(Scenario.model_validate({"items": 40, "rated": 5, "users": 500, "seed": SEED}), progress=told.append)
    assert [leaf for tally in told for leaf in leaves(tally, items=40)]
    assert not shows_a_secret(told, SEED)
