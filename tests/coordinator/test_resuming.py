"""Interrupted runs: with the rounds of before a run goes on as if nothing had happened, and devices remember them."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
import worlds
from evidence import sample
from worlds import conduct, in_world

from actors.device import Cohort
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import PolicyError
from coordinator.protocol.mechanism import InWorld
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.protocol.messages import Release
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.learner import PosteriorLearner
from coordinator.server.rounds.policies import Eliminate, Fixed
from coordinator.server.rounds.rounds import Outcome, Round, require_same
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, Policy, ServerState

ITEMS, USERS, BUDGET = 20, 1500, Fraction(2)
SIGN, SETS = in_world(Sign, items=ITEMS, rated=5), in_world(MaxSense, items=ITEMS, rated=5)


class Devices:
    def __init__(self) -> None:
        ratings = worlds.block_ratings(worlds.world(items=ITEMS, rated=5), USERS)
        self.cohort, self.asked = Cohort(ratings, worlds.SECRET, 0, USERS, BUDGET), list[Ask]()

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        self.asked.append(ask)
        release = self.cohort.answer(ask.query, ask.first, ask.stop)
        return aggregate(ask.query, release), [release]

    def book(self, ask: Ask) -> None:
        """Know what was answered before, as devices do from their keeper."""
        assert self.cohort.ledger.charge(ask.query, ask.first, ask.stop) == []

    @property
    def spent(self) -> list[Epsilon]:
        return [self.cohort.ledger.spent(device) for device in range(USERS)]


def setting_of(design: InWorld, times: int) -> Setting:
    return Setting(design=design, epsilon=BUDGET, public_seed=worlds.PUBLIC, answers_per_device=times)


POLICIES: dict[str, Policy] = {
    "eliminate": Eliminate(setting=setting_of(SIGN, 1)),
    "eliminate, three answers": Eliminate(setting=setting_of(SIGN, 3)),
    "eliminate by sets": Eliminate(setting=setting_of(SETS, 2)),
    "fixed": Fixed(setting=setting_of(SETS, 3), rounds=6),
}


@dataclass
class Kept:
    outcome: Outcome
    devices: Devices
    rounds: list[Round]


def run(policy: Policy, earlier: Sequence[Round] = (), devices: Devices | None = None) -> Kept:
    design = SETS if getattr(policy, "setting", setting_of(SIGN, 1)).design is SETS else SIGN
    learner, rounds, mine = PosteriorLearner(clusters=2, design=design), list[Round](), devices or Devices()
    for over in earlier if devices is None else ():
        mine.book(over.ask)
    outcome = conduct(policy, learner, mine, devices=USERS, budget=BUDGET, earlier=earlier, keep=rounds.append)
    return Kept(outcome, mine, rounds)


@functools.cache
def whole_of(name: str) -> Kept:
    return run(POLICIES[name])


@pytest.mark.parametrize("name", POLICIES)
def test_a_run_goes_on_after_any_round_as_if_nothing_had_happened(name: str) -> None:
    whole = whole_of(name)
    asked = list(whole.outcome.state.asked)
    assert [over.ask for over in whole.rounds] == whole.devices.asked == asked
    assert len(asked) > 3
    assert whole.outcome.failure is None
    for k in sample(range(len(asked) + 1), 4):
        resumed = run(POLICIES[name], whole.rounds[:k])
        assert resumed.devices.asked == asked[k:]
        assert [over.ask for over in resumed.rounds] == asked[k:]
        assert list(resumed.outcome.state.asked) == asked
        assert resumed.outcome.releases_sha256 == whole.outcome.releases_sha256
        assert resumed.devices.spent == whole.devices.spent
        for part in ("cluster", "score", "error"):
            np.testing.assert_array_equal(getattr(resumed.outcome.model, part), getattr(whole.outcome.model, part))


@dataclass(frozen=True)
class Changed:
    """Asks as another policy does, until a round."""

    policy: Policy
    change: str
    at: int = 1

    def next_query(self, state: ServerState) -> Ask | None:
        ask = self.policy.next_query(state)
        if len(state.asked) != self.at or ask is None:
            return ask
        pool = np.arange(ITEMS - 1, dtype=np.int32)
        changes = {
            "a smaller round": replace(ask, stop=ask.stop - 1),
            "other devices": replace(ask, first=ask.first + 1),
            "other items": replace(ask, query=replace(ask.query, pool=pool)),
            "another epsilon": replace(ask, query=replace(ask.query, epsilon=Fraction(1, 2))),
            "another seed": replace(ask, query=replace(ask.query, public_seed=bytes(16))),
            "stops": None,
        }
        return changes[self.change]


CHANGES = ["a smaller round", "other devices", "other items", "another epsilon", "another seed", "stops"]


def held_against(policy: Policy, earlier: Sequence[Round]) -> None:
    learner = PosteriorLearner(clusters=2, design=SIGN)
    require_same(policy, learner, earlier, devices=USERS, budget=BUDGET)


@pytest.mark.parametrize("change", CHANGES)
def test_a_policy_whose_code_changed_is_refused_where_it_asks_otherwise(change: str) -> None:
    """Whether it would ask otherwise than it did, or would have stopped before."""
    whole, policy = whole_of("eliminate"), Changed(POLICIES["eliminate"], change)
    with pytest.raises(PolicyError, match=r"^policy Changed, round 1: [^\n]*, or start in a new folder$"):
        held_against(policy, whole.rounds[:3])
    held_against(policy, whole.rounds[:1])
    held_against(POLICIES["eliminate"], whole.rounds)


@pytest.mark.few(1)
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_asked_is_taken_as_it_was_kept(change: str) -> None:
    """A policy that would ask earlier rounds otherwise, by last bits of its numbers or more, goes on after them."""
    whole = whole_of("eliminate")
    asked = list(whole.outcome.state.asked)
    resumed = run(Changed(POLICIES["eliminate"], change), whole.rounds[:3])
    assert resumed.devices.asked == asked[3:]
    assert resumed.outcome.releases_sha256 == whole.outcome.releases_sha256
    assert resumed.devices.spent == whole.devices.spent


@dataclass(frozen=True)
class NextTo:
    """Asks as another policy does, with numbers that differ in their last bits."""

    policy: Policy
    factor: float

    def next_query(self, state: ServerState) -> Ask | None:
        ask = self.policy.next_query(state)
        if ask is None:
            return None
        parameters = {name: value * self.factor for name, value in ask.query.parameters.items()}
        return replace(ask, query=replace(ask.query, parameters=parameters))


def test_last_bits_of_a_number_make_no_other_policy() -> None:
    rounds = whole_of("eliminate by sets").rounds
    learner = PosteriorLearner(clusters=2, design=SETS)
    policy = POLICIES["eliminate by sets"]
    assert NextTo(policy, 1 + 2**-50).next_query(ServerState(devices=USERS, budget=BUDGET)) != rounds[0].ask
    require_same(NextTo(policy, 1 + 2**-50), learner, rounds, devices=USERS, budget=BUDGET)
    with pytest.raises(PolicyError, match="policy NextTo, round 0: its code has changed"):
        require_same(NextTo(policy, 1.001), learner, rounds, devices=USERS, budget=BUDGET)


@pytest.mark.parametrize("change", ["devices that there are not", "a round twice", "another catalogue"])
def test_what_cannot_have_been_asked_is_refused(change: str) -> None:
    first, second, *_ = whole_of("eliminate").rounds
    asks = {
        "devices that there are not": replace(second.ask, stop=USERS + 1),
        "a round twice": first.ask,
        "another catalogue": replace(second.ask, query=replace(second.ask.query, items=ITEMS + 1)),
    }
    devices = Devices()
    with pytest.raises(PolicyError, match=r"^round 1 cannot have been asked: .*; start in a new folder$"):
        run(POLICIES["eliminate"], [first, replace(second, ask=asks[change])], devices)
    assert devices.asked == []
