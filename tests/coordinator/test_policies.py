"""Policies: adaptive ones decide what they should, and stray ones are stopped in a line."""

import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from runs import present
from worlds import Devices, answers, conduct, in_world, setting_of

from actors.device import Cohort
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.law import BlockPeople
from coordinator.protocol.mechanism import InWorld
from coordinator.protocol.mechanisms import mechanisms
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.protocol.moments.blocks import BlockParameters
from coordinator.server.rounds.learner import Learner, PosteriorLearner
from coordinator.server.rounds.policies import Eliminate, ItemByItem, next_ask, policy_name
from coordinator.server.rounds.rounds import Outcome
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, Policy, ServerState
from scenarios.theory.draws import Drawn

# A policy that goes astray after some good rounds, and the devices that it asks.
ITEMS, USERS = 20, 400
DESIGN = in_world(Sign, items=ITEMS, rated=5)
SETTING = Setting(design=DESIGN, epsilon=Fraction(1), public_seed=worlds.PUBLIC)
LEARNER = PosteriorLearner(clusters=2, design=DESIGN)


def devices(budget: Epsilon = Fraction(1)) -> Devices:
    """All of them; without a budget they answer for ever."""
    ratings = worlds.block_ratings(worlds.world(items=ITEMS, rated=5), USERS)
    return Devices(Cohort(ratings, worlds.SECRET, 0, USERS, budget))


def query(**changes: Any) -> Callable[[Ask, ServerState], Ask]:
    return lambda ask, _: replace(ask, query=replace(ask.query, **changes))


def pool(*items: float, kind: Any = np.int32) -> Callable[[Ask, ServerState], Ask]:
    return query(pool=np.array(items, kind))


@dataclass(frozen=True)
class Stray:
    """Asks well for some rounds, a hundred devices each, and then makes of a good round what ``bad`` makes of it."""

    bad: Callable[[Ask, ServerState], Any]
    good: int

    def next_query(self, state: ServerState) -> Ask | None:
        ask = present(SETTING.ask(state, users=100))
        answer: Ask | None = ask if len(state.asked) < self.good else self.bad(ask, state)
        return answer


@dataclass(frozen=True)
class Watched:
    """Asks as another policy does, and keeps the states that it saw."""

    policy: Policy
    states: list[ServerState] = field(default_factory=list)

    def next_query(self, state: ServerState) -> Ask | None:
        self.states.append(state)
        return self.policy.next_query(state)


def learner_of(setting: Setting) -> Learner:
    assert isinstance(setting.design, InWorld)
    return PosteriorLearner(clusters=setting.clusters, design=setting.design, confidence=setting.confidence)


def emulated(
    policy: Policy, setting: Setting, *, users: int, like: Sequence[float] = (0.9, 0.1), seed: int = 0, most: int = 2000
) -> tuple[Outcome, list[bool]]:
    """A run without devices and without Ray: what the server ended with, and which items are right."""
    assert isinstance(setting.design, InWorld)
    truth = np.arange(setting.design.items) % len(like)
    block = BlockParameters(
        rated=setting.design.rated,
        like=np.array([like]),
        class_shares=np.ones(1),
        cluster_sizes=np.bincount(truth),
    )
    transport = Drawn(BlockPeople.of(block, truth.astype(np.int32)), np.random.default_rng(seed))
    outcome = conduct(policy, learner_of(setting), transport, devices=users, budget=setting.epsilon, most_rounds=most)
    return outcome, (outcome.model.cluster == truth).tolist()


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


@pytest.mark.few(3)
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


@pytest.mark.few(1)
@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.statistical
def test_item_by_item_asks_about_one_item_until_it_is_decided(sets: bool) -> None:
    """A wrong label is the false alarm, less than 1e-6. Rounds too small to tell anything would go on to the last."""
    setting, users = setting_of(items=6, sets=sets, epsilon=Fraction(3)), 60_000
    world = worlds.world(items=6, rated=5)
    devices = Devices(Cohort(worlds.block_ratings(world, users), worlds.SECRET, 0, users, setting.epsilon))
    policy, learner = ItemByItem(setting=setting), learner_of(setting)
    outcome = conduct(policy, learner, devices, devices=users, budget=setting.epsilon, most_rounds=200)
    assert outcome.failure is None
    pools = [ask.query.pool for ask in outcome.state.asked]
    assert all(pool is not None and pool.size == 1 for pool in pools)
    assert [int(pool[0]) for pool in pools if pool is not None][:6] == list(range(6))
    assert outcome.model.cluster.tolist() == [0, 1] * 3
    assert outcome.state.answers_asked < 60_000


def test_what_a_design_cannot_do_is_told() -> None:
    with pytest.raises(InputError, match="pool holds 0 items; ask about at least one, or stop by returning None"):
        setting_of().query(ServerState(devices=100), pool=np.empty(0, np.int32))
    pairs = Setting(
        design=in_world(Pairwise, items=20, agreement="equal"), epsilon=Fraction(1), public_seed=worlds.PUBLIC
    )
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


TICKS = itertools.count(1)


def changed(**changes: Any) -> Callable[[Ask, ServerState], Ask]:
    """Changes parts of the round, whatever their types."""
    return lambda ask, _: replace(ask, **changes)


def fails(error: BaseException) -> Callable[[Ask, ServerState], Ask]:
    def bad(ask: Ask, state: ServerState) -> Ask:
        raise error

    return bad


class Unspeakable:
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def of_setting(**given: Any) -> Callable[[Ask, ServerState], Ask | None]:
    """Asks by its setting, with these arguments."""
    return lambda _, state: SETTING.ask(state, **{"users": 100, **given})


def writes(ask: Ask, state: ServerState) -> Ask:
    """Writes into what the server knows."""
    assert state.estimates is not None
    state.estimates.information[:] = 0
    return ask


def of_maxsense(ask: Ask, state: ServerState) -> Ask:
    """A good query of another design."""
    other = in_world(MaxSense, items=ITEMS, rated=5)
    return replace(ask, query=other.query(round_number=len(state.asked), public_seed=bytes(16), epsilon=Fraction(1)))


STRAY: dict[str, tuple[Callable[[Ask, ServerState], Any], list[str]]] = {
    "raises": (fails(KeyError("mood")), ["it raised KeyError", "mood"]),
    "raises in two lines": (fails(ValueError("first\nsecond")), ["it raised ValueError", "first", "second"]),
    "returns text": (lambda *_: "the next one", ["'the next one'", "blindrec.Ask", "None to stop"]),
    "returns what cannot be shown": (lambda *_: Unspeakable(), ["Unspeakable", "blindrec.Ask"]),
    "unknown design": (query(design="oracle"), ["design 'oracle'", "maxsense", "sign"]),
    "items outside": (pool(3, ITEMS), ["pool", "0 to 19"]),
    "unsorted pool": (pool(5, 3), ["pool", "not ascending"]),
    "an item twice": (pool(3, 3), ["pool", "twice"]),
    "empty pool": (pool(), ["pool", "empty"]),
    "float pool": (pool(1.0, 2.0, kind=float), ["pool", "float64", "int32"]),
    "wide pool": (pool(1, 2, kind=np.int64), ["pool", "int64", "int32"]),
    "epsilon above the budget": (query(epsilon=Fraction(1001, 1000)), ["epsilon 1.001", "budget of 1"]),
    "no noise": (query(epsilon=None), ["epsilon inf", "budget of 1"]),
    "epsilon 0": (query(epsilon=Fraction(0)), ["epsilon is 0", "above 0"]),
    "epsilon below 0": (query(epsilon=Fraction(-1, 2)), ["epsilon is -1/2", "above 0"]),
    "epsilon that is not exact": (query(epsilon=0.5), ["epsilon", "0.5"]),
    "devices outside": (changed(stop=USERS + 1), ["401", "there are 400"]),
    "devices below": (changed(first=-1), ["devices -1", "there are 400"]),
    "nobody": (lambda ask, _: replace(ask, stop=ask.first), ["devices"]),
    "half a device": (changed(stop=50.5), ["stop of the devices", "50.5", "give an int"]),
    "devices counted by NumPy": (changed(first=np.int64(0)), ["first of the devices", "int64", "give an int"]),
    "ends the process": (fails(SystemExit(3)), ["it raised SystemExit in line ", "3"]),
    "asks by chance": (
        lambda ask, _: replace(ask, stop=ask.first + next(TICKS)),
        ["a fresh copy of this policy asks something else"],
    ),
    "an item of another catalogue": (of_setting(pool=[3, ITEMS]), ["pool names items 3 to 20", "0 to 19"]),
    "an item that wraps": (of_setting(pool=[2**33 + 1]), ["pool names items 8589934593", "0 to 19"]),
    "an unsorted list": (of_setting(pool=[5, 3]), ["pool does not ascend", "np.unique"]),
    "a mask": (of_setting(pool=np.ones(ITEMS, bool)), ["pool holds bool", "np.flatnonzero"]),
    "nobody at all": (of_setting(users=0), ["users is 0", "a round asks at least 1"]),
    "no number of users": (of_setting(users=float("nan")), ["users is nan", "at least 1"]),
    "expectations of all": (of_setting(pool=[1, 2], expected=np.zeros(ITEMS)), ["expected has shape (20,)", "2 items"]),
    "no expectations": (of_setting(expected=np.full(ITEMS, np.nan)), ["expected has shape (20,)", "finite"]),
}
LATER: dict[str, tuple[Callable[[Ask, ServerState], Any], list[str]]] = {
    "another design": (of_maxsense, ["maxsense", "sign"]),
    "another catalogue": (query(items=21), ["21 items", "20"]),
    "the same question again": (lambda _, state: state.asked[-1], ["round"]),
    "writes into the state": (writes, ["it raised ValueError in line ", "read-only"]),
    "a round that was": (query(round=0), ["round"]),
}
REFUSED: dict[str, tuple[Callable[[Ask, ServerState], Any], list[str]]] = {
    "sign without a pool": (query(pool=None), ["names no pool"]),
    "a pool of another catalogue": (query(items=21, pool=np.arange(21, dtype=np.int32)), ["21 items", "20"]),
    "wrong parameters": (query(parameters={"sensing": 0.2}), ["parameters ['sensing']", "['kept', 'vectors']"]),
    "three vectors": (
        query(parameters={"vectors": 3, "kept": 1}),
        ["cannot be asked: ", "3 sign", "power of two"],
    ),
    "too many kept": (query(parameters={"vectors": 1, "kept": 2}), ["keeps 2"]),
    "two questions": (query(questions=2), ["2 questions"]),
    "more bits": (query(answer_bits=2), ["2 bits"]),
    "a seed of text": (query(public_seed="seed"), ["seed"]),
}


def led_astray(bad: Callable[[Ask, ServerState], Any], good: int) -> tuple[str, Outcome | None]:
    """The complaint about a policy that goes astray after some good rounds, and what these told."""
    policy = Stray(bad, good)
    if not good:
        with pytest.raises(PolicyError) as raised:
            conduct(policy, LEARNER, devices(), devices=USERS, budget=Fraction(1))
        return str(raised.value), None
    outcome = conduct(policy, LEARNER, devices(), devices=USERS, budget=Fraction(1))
    assert outcome.failure is not None
    return outcome.failure, outcome


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "good"), [*itertools.product([*STRAY, *REFUSED], [0, 2]), *((name, 2) for name in LATER)]
)
def test_a_complaint_names_policy_and_round(name: str, good: int) -> None:
    """What does not go with earlier rounds, and what devices would refuse, among it; the rounds before it count."""
    bad, words = (STRAY | REFUSED | LATER)[name]
    line, outcome = led_astray(bad, good)
    assert "\n" not in line
    assert line.startswith(f"policy Stray, round {good}: ")
    assert all(word in line for word in words), line
    assert len(line) < 450
    if outcome:
        well = conduct(Stray(lambda *_: None, good), LEARNER, devices(), devices=USERS, budget=Fraction(1))
        assert well.failure is None
        assert (outcome.state.asked, outcome.releases_sha256) == (well.state.asked, well.releases_sha256)
        np.testing.assert_array_equal(outcome.model.score, well.model.score)


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
    assert outcome.failure.startswith("policy Counting, round 3: a fresh copy of this policy asks something else")
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


def test_without_a_budget_any_epsilon_goes_that_coins_can_express() -> None:
    state = ServerState(devices=USERS)
    for epsilon in (None, Fraction(20)):
        assert next_ask(Stray(query(epsilon=epsilon), 0), state, most_rounds=1) is not None
    with pytest.raises(PolicyError, match=r"policy Stray, round 0: its query cannot be asked: .*40"):
        next_ask(Stray(query(epsilon=Fraction(40)), 0), state, most_rounds=1)


def test_two_mechanisms_go_on_until_everything_is_learned() -> None:
    assert {name for name, kind in mechanisms().items() if kind.learns_all} == {"anchor", "item-query"}
