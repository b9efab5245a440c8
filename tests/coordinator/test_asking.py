"""Asking a policy: what goes through as it is, what no device would answer, and when a policy has to stop."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import worlds
from straying import DESIGN, ITEMS, LEARNER, SETTING, USERS, Stray, devices, pool, query

from coordinator.protocol.errors import PolicyError
from coordinator.server.rounds.policies import complaint_about, next_ask, policy_name
from coordinator.server.rounds.rounds import conduct
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState

DEVICES_SAY: dict[str, tuple[dict[str, Any], str]] = {
    "no parameters": ({"design": "maxsense", "parameters": {}}, "parameters [], not ['sensing']"),
    "an epsilon beyond its coins": ({"epsilon": Fraction(40)}, "40"),
    "three vectors": ({"parameters": {"vectors": 3.0, "kept": 1.0}}, "power of two"),
}


@pytest.mark.parametrize("name", DEVICES_SAY)
def test_what_no_device_would_answer_is_a_complaint_before_anyone_is_asked(name: str) -> None:
    """Before, it failed at the devices; where rounds were lost and asked again it named no policy and no round."""
    changes, words = DEVICES_SAY[name]
    state = ServerState(devices=USERS, budget=None)
    ask = SETTING.ask(state, users=100)
    assert ask is not None
    assert complaint_about(ask, state) is None
    complaint = complaint_about(replace(ask, query=replace(ask.query, **changes)), state)
    assert complaint is not None
    assert complaint.startswith("its query cannot be asked: ")
    assert words in complaint


def test_a_policy_that_asks_nothing_at_all() -> None:
    with pytest.raises(PolicyError, match=r"^policy Stray, round 0: [^\n]*$"):
        conduct(Stray(lambda *_: None, 0), LEARNER, devices(), devices=USERS, budget=Fraction(1))


def test_a_policy_that_never_stops_is_stopped_at_the_cap() -> None:
    ring = Setting(design=DESIGN, epsilon=None, public_seed=worlds.PUBLIC, answers_per_device=10**6)

    class Endless:
        def next_query(self, state: ServerState) -> Ask | None:
            return ring.ask(state, users=3)

    outcome = conduct(Endless(), LEARNER, devices(None), devices=USERS, most_rounds=7)
    assert outcome.failure is not None
    assert outcome.failure.startswith("policy Endless, round 7: ")
    assert "after 7 rounds" in outcome.failure
    assert "most_rounds" in outcome.failure
    assert len(outcome.state.asked) == 7


def test_a_policy_that_remembers_is_told_so() -> None:
    """It counts its rounds itself: resumed after the first it would ask three more."""

    class Counting:
        asked = 0

        def next_query(self, state: ServerState) -> Ask | None:
            self.asked += 1
            return SETTING.ask(state, users=50) if self.asked <= 3 else None

    outcome = conduct(Counting(), LEARNER, devices(), devices=USERS, budget=Fraction(1))
    assert outcome.failure is not None
    assert outcome.failure.startswith("policy Counting, round 3: made anew it would go on otherwise")
    assert len(outcome.state.asked) == 3

    class Held(Counting):
        def __deepcopy__(self, _: object) -> None:
            raise TypeError("a file")

    with pytest.raises(PolicyError, match="policy Held cannot be copied: TypeError: a file; keep"):
        conduct(Held(), LEARNER, devices(), devices=USERS, budget=Fraction(1))


def test_a_policy_may_stop_at_the_cap() -> None:
    outcome = conduct(Stray(lambda *_: None, 2), LEARNER, devices(), devices=USERS, budget=Fraction(1), most_rounds=2)
    assert outcome.failure is None
    assert len(outcome.state.asked) == 2


def test_what_is_asked_well_passes_as_it_is() -> None:
    """Among it a whole budget at once, all devices, one device, one item."""
    state = ServerState(devices=USERS, budget=Fraction(1))
    everybody = SETTING.ask(state, users=10**9)
    assert everybody is not None
    good = [
        everybody,
        replace(everybody, first=USERS - 1),
        pool(ITEMS - 1)(everybody, state),
        pool(0)(everybody, state),
    ]
    for ask in good:
        policy = Stray(lambda *_, ask=ask: ask, 0)
        assert next_ask(policy, state, most_rounds=1) is ask
    assert next_ask(Stray(lambda *_: None, 0), state, most_rounds=1) is None
    assert policy_name(Stray(lambda *_: None, 0), state) == "policy Stray, round 0"


def test_without_a_budget_any_epsilon_goes() -> None:
    state = ServerState(devices=USERS)
    for epsilon in (None, Fraction(20)):
        assert next_ask(Stray(query(epsilon=epsilon), 0), state, most_rounds=1) is not None
