"""Adaptive policies: they ask about open items only, decide rightly, and are pure functions of the state."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
import worlds
from answering import Devices, answers, setting_of

from actors.device import Cohort
from coordinator.protocol.errors import InputError
from coordinator.server.mechanisms.maxsense import MaxSense
from coordinator.server.mechanisms.pairwise import Pairwise
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.rounds.learner import Learner, PosteriorLearner
from coordinator.server.rounds.policies import Eliminate, ItemByItem
from coordinator.server.rounds.rounds import Outcome, conduct
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, Policy, ServerState
from scenarios.theory.emulated_runs import Emulated


@dataclass(frozen=True)
class Watched:
    """Asks as another policy does, and keeps the states that it saw."""

    policy: Policy
    states: list[ServerState] = field(default_factory=list)

    def next_query(self, state: ServerState) -> Ask | None:
        self.states.append(state)
        return self.policy.next_query(state)


def learner_of(setting: Setting) -> Learner:
    """The learner that goes with an adaptive policy."""
    assert isinstance(setting.design, MaxSense | SignSensing)
    return PosteriorLearner(clusters=setting.clusters, design=setting.design, confidence=setting.confidence)


def emulated(
    policy: Policy, setting: Setting, *, users: int, like: Sequence[float] = (0.9, 0.1), seed: int = 0, most: int = 2000
) -> tuple[Outcome, list[bool]]:
    """A run without devices and without Ray: what the server ended with, and which items are right."""
    assert isinstance(setting.design, SignSensing)
    truth = np.arange(setting.design.items) % len(like)
    likes, coins = np.array(like)[truth], np.random.default_rng(seed)
    transport = Emulated(
        design=setting.design, likes=likes[None, :], class_shares=np.ones(1), rated=setting.design.rated, coins=coins
    )
    outcome = conduct(policy, learner_of(setting), transport, devices=users, budget=setting.epsilon, most_rounds=most)
    return outcome, (outcome.model.cluster == truth).tolist()


def on_devices(policy: Policy, setting: Setting, *, users: int, most: int = 2000) -> tuple[Outcome, Devices]:
    """A run with devices in this process; items belong to two clusters in turn."""
    world = worlds.world(items=setting.design.items, rated=5)
    devices = Devices(Cohort(worlds.block_ratings(world, users), worlds.SECRET, 0, users, setting.epsilon))
    return (
        conduct(policy, learner_of(setting), devices, devices=users, budget=setting.epsilon, most_rounds=most),
        devices,
    )


RUNS: dict[str, tuple[Setting, int, tuple[float, ...]]] = {
    "two clusters": (setting_of(), 10**7, (0.9, 0.1)),
    "three answers a device": (setting_of(answers_per_device=3), 30_000, (0.9, 0.1)),
    "three clusters": (setting_of(clusters=3), 10**7, (0.9, 0.5, 0.1)),
    "close clusters": (setting_of(), 10**7, (0.6, 0.4)),
    "no noise": (setting_of(epsilon=None), 10**7, (0.9, 0.1)),
    "users run out": (setting_of(answers_per_device=2), 4000, (0.9, 0.1)),
    "nothing to tell apart": (setting_of(), 5000, (0.5, 0.5)),
}


@pytest.fixture(scope="module", params=RUNS)
def adaptive(request: pytest.FixtureRequest) -> tuple[Setting, int, Watched, Outcome, list[bool]]:
    """A run of `Eliminate`, emulated."""
    setting, users, like = RUNS[request.param]
    watched = Watched(Eliminate(setting=setting))
    outcome, right = emulated(watched, setting, users=users, like=like)
    assert outcome.failure is None
    return setting, users, watched, outcome, right


@pytest.mark.statistical
def test_eliminate_asks_about_open_items_only_and_ends_with_none(
    adaptive: tuple[Setting, int, Watched, Outcome, list[bool]],
) -> None:
    """Deciding wrongly is the false alarm: less than 1e-6 in each run, by the confidence that is asked for."""
    setting, users, watched, outcome, right = adaptive
    for state, ask in zip(watched.states[1:], outcome.state.asked[1:], strict=False):
        posterior = setting.believe(state)
        undecided = ~posterior.decided(setting.failure)
        assert ask.query.pool is not None
        assert ask.query.pool.tolist() == np.flatnonzero(undecided).tolist()
        if not posterior.apart:
            assert undecided.all()
            assert ask.stop - ask.first == min(state.answers_asked, users - ask.first)
    posterior = setting.believe(outcome.state)
    decided = posterior.decided(setting.failure)
    assert decided.all() or not setting.users_left(outcome.state)
    assert posterior.apart or not posterior.decided(0.5).any()
    assert all(np.array(right)[decided])
    assert max(answers(outcome.state.asked if users < 10**6 else ()).values(), default=0) <= setting.answers_per_device
    assert len(outcome.state.asked) < 40


def test_policies_are_pure(adaptive: tuple[Setting, int, Watched, Outcome, list[bool]]) -> None:
    """Asked again, in another order, and as another process would have it, a policy answers the same; states stay."""
    _, _, watched, outcome, _ = adaptive
    other: Policy = pickle.loads(pickle.dumps(watched.policy))
    told = pickle.dumps(watched.states)
    again = [other.next_query(state) for state in reversed(watched.states)]
    assert again[::-1] == [*outcome.state.asked, None][: len(again)]
    assert pickle.dumps(watched.states) == told


@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.statistical
def test_eliminate_learns_from_devices_whatever_the_sketch(times: int, sets: bool) -> None:
    """A wrong label is the false alarm, less than 1e-6. Nobody refuses, nobody spends more than the budget."""
    setting = setting_of(sets=sets, epsilon=Fraction(3), answers_per_device=times)
    outcome, devices = on_devices(Eliminate(setting=setting), setting, users=60_000 if sets else 20_000)
    assert outcome.failure is None
    assert outcome.posterior is not None
    assert outcome.posterior.decided(setting.failure).all()
    assert outcome.model.cluster.tolist() == [item % 2 for item in range(20)]
    assert sum(statistic.refused for statistic in outcome.state.counts) == 0
    spent = {devices.cohort.ledger.spent(device) for device in range(devices.cohort.stop)}
    assert spent <= {Fraction(3 * k, times) for k in range(times + 1)}
    assert len({ask.query.pool.size for ask in outcome.state.asked if ask.query.pool is not None}) > 3


@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.statistical
def test_item_by_item_asks_about_one_item_until_it_is_decided(sets: bool) -> None:
    """A wrong label is the false alarm, less than 1e-6. Rounds too small to tell anything would go on to the last."""
    setting = setting_of(items=6, sets=sets, epsilon=Fraction(3))
    outcome, _ = on_devices(ItemByItem(setting=setting), setting, users=60_000, most=200)
    assert outcome.failure is None
    pools = [ask.query.pool for ask in outcome.state.asked]
    assert all(pool is not None and pool.size == 1 for pool in pools)
    assert [int(pool[0]) for pool in pools if pool is not None][:6] == list(range(6))
    assert outcome.model.cluster.tolist() == [0, 1] * 3
    assert outcome.state.answers_asked < 60_000


def test_what_a_design_cannot_do_is_told() -> None:
    with pytest.raises(InputError, match="pool holds 0 items; ask about at least one, or stop by returning None"):
        setting_of().query(ServerState(devices=100), pool=np.empty(0, np.int32))
    pairs = Setting(design=Pairwise(items=20, agreement="equal"), epsilon=Fraction(1), public_seed=worlds.PUBLIC)
    state = ServerState(devices=100)
    for policy in (Eliminate(setting=pairs), ItemByItem(setting=pairs)):
        with pytest.raises(
            InputError, match="Pairwise asks about no pools of items; choose a design that can follow policy eliminate"
        ):
            policy.next_query(state)
    with pytest.raises(InputError, match=r"Pairwise .* pool"):
        pairs.ask(state, users=5, pool=np.arange(3, dtype=np.int32))
    assert pairs.ask(state, users=5) is not None
    with pytest.raises(InputError, match="nothing to believe yet"):
        setting_of().believe(state)


@dataclass(frozen=True)
class TopTen:
    """One's own: a first look at all items, then at the ten that seem to be liked most."""

    setting: Setting

    def next_query(self, state: ServerState) -> Ask | None:
        if not state.asked:
            return self.setting.ask(state, users=2000)
        if state.estimates is None or len(state.asked) > 3:
            return None
        best = np.sort(np.argsort(-state.estimates.value)[:10]).astype(np.int32)
        return self.setting.ask(state, users=2000, pool=best)


@pytest.mark.statistical
def test_ones_own_policy_runs_without_ray() -> None:
    """The estimate of one liked item, 0.8, is off by six of its standard errors with probability 2e-9."""
    setting = setting_of(rated=10)
    outcome, _ = emulated(TopTen(setting), setting, users=10_000)
    assert [ask.query.pool.size for ask in outcome.state.asked if ask.query.pool is not None] == [20, 10, 10, 10]
    assert outcome.state.estimates is not None
    best = outcome.state.estimates.information.argmax()
    assert abs(outcome.state.estimates.value[best] - 0.8) < 6 * outcome.state.estimates.error[best]
