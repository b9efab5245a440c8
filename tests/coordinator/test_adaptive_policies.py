"""Policies: a ring of devices that never overspends, pools of open items only, and pure functions of the state."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds

from actors.device import Cohort
from actors.ledger import Ledger
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Release
from coordinator.server.aggregation import aggregate
from coordinator.server.mechanisms.maxsense import MaxSense
from coordinator.server.mechanisms.pairwise import Pairwise
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.rounds.elimination import Eliminate, ItemByItem
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.query_rounds import Outcome, conduct
from coordinator.server.rounds.schedules import Fixed
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, Policy, ServerState, absorb
from coordinator.server.server_half import POSTERIOR
from coordinator.server.statistics.statistic import Statistic
from scenarios.theory.emulation import Emulated

SURE = 1 - 1e-6
"""A confidence at which a wrong label is a false alarm of this suite's usual probability."""


def setting_of(*, items: int = 20, rated: int = 5, clusters: int = 2, sets: bool = False, **more: Any) -> Setting:
    """A setting of sign sensing, or of MaxSense."""
    design = MaxSense(items=items, rated=rated) if sets else SignSensing(items=items, rated=rated)
    usual = {"epsilon": Fraction(1), "confidence": SURE, "public_seed": worlds.PUBLIC}
    return Setting(design=design, clusters=clusters, **{**usual, **more})


@dataclass(frozen=True)
class Watched:
    """Asks as another policy does, and keeps the states that it saw."""

    policy: Policy
    states: list[ServerState] = field(default_factory=list)

    def next_query(self, state: ServerState) -> Ask | None:
        self.states.append(state)
        return self.policy.next_query(state)


@dataclass
class Devices:
    """Devices in this process."""

    cohort: Cohort

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        release = self.cohort.answer(ask.query, ask.first, ask.stop)
        return aggregate(ask.query, release), [release]


def learner_of(setting: Setting) -> Learner:
    """The learner that goes with an adaptive policy."""
    assert isinstance(setting.design, MaxSense | SignSensing)
    return Learner(clusters=setting.clusters, decoder=POSTERIOR, design=setting.design, confidence=setting.confidence)


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


def walk(setting: Setting, users: int, sizes: Iterator[int]) -> list[Ask]:
    """All rounds that a setting gives, each for as many devices as the next size says."""
    state, asks = ServerState(devices=users), list[Ask]()
    while (ask := setting.ask(state, users=next(sizes))) is not None:
        asks.append(ask)
        state = absorb(state, ask, worlds.empty_statistic(setting.design.items))
    return asks


def answers(asks: Sequence[Ask]) -> Counter[int]:
    """How often each device was asked."""
    return Counter(device for ask in asks for device in range(ask.first, ask.stop))


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
        with pytest.raises(InputError, match="Pairwise asks about no pools of items; choose maxsense or sign"):
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
