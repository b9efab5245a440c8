"""Processes of devices that die and forget, without Ray: nobody spends or answers otherwise."""

import random
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
import worlds
from evidence import sample, size
from faults import DEATHS, Actor, Deaf, Fate, at, lives, stand_in
from worlds import in_world

from actors.device import Cohort
from actors.host import DeviceHost
from actors.keeper import Keeper, LedgerClient, once_a_reason, refusals_of, spent_by
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import BlindrecError, LostError
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.server.fleet.cohorts import Cohorts, Layout, dealt
from coordinator.server.fleet.coordinator_actor import Coordinator
from coordinator.server.fleet.querying import Aggregator
from coordinator.server.rounds.learner import PosteriorLearner
from coordinator.server.rounds.rounds import Outcome, QueryPlan, Round
from coordinator.server.rounds.state import Ask, ServerState


def by_chance(seed: int, share: float = 0.03) -> Fate:
    """Let each call be somebody's last with a probability."""
    chance = random.Random(seed)
    return lambda _: chance.choice(DEATHS) if chance.random() < share else "lives"


ITEMS, USERS, EACH, BUDGET = 20, 320, 40, Fraction(2)
SIGN = in_world(Sign, items=ITEMS, rated=5)
RATINGS = worlds.block_ratings(worlds.world(items=ITEMS, rated=5), USERS)
LAYOUT = Layout(devices=USERS, workers=2, devices_per_actor=EACH)
BOUNDS = LAYOUT.cohorts
ALONE = replace(LAYOUT, workers=1)  # Where the coordinator's own process adds up
ROUNDS = [(Fraction(3, 4), 0, 320), (Fraction(3, 4), 10, 320), (Fraction(3, 4), 0, 250), (Fraction(1, 2), 100, 320)]
"""What is asked: epsilon, first device and the one after the last. The third round most devices must refuse."""


@dataclass(frozen=True)
class Given:
    def next_query(self, state: ServerState) -> Ask | None:
        if (number := len(state.asked)) == len(ROUNDS):
            return None
        epsilon, first, stop = ROUNDS[number]
        query = SIGN.query(round_number=number, public_seed=worlds.PUBLIC, epsilon=epsilon)
        return Ask(query=query, first=first, stop=stop)


PLAN = QueryPlan(policy=Given(), learner=PosteriorLearner(clusters=2, design=SIGN), devices=USERS, budget=BUDGET)


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    monkeypatch.setattr(
        "coordinator.server.fleet.querying.start_aggregators",
        lambda count, _: [Actor(Aggregator) for _ in range(count)],
    )


@dataclass
class Seen:
    outcome: Outcome
    refused: list[int]
    spent: list[tuple[int, int, Epsilon]]
    retries: int
    deaths: int
    rounds: list[Round]
    reasons: list[str]  # Why devices refused, once a reason


def run(
    fate: Fate = lives,
    earlier: list[Round] | None = None,
    keeper: Keeper | None = None,
    books: LedgerClient | None = None,
    layout: Layout = LAYOUT,
) -> Seen:
    """Conduct the rounds; two hosts stand behind eight cohorts, six blocks are under way."""
    keeper = Keeper() if keeper is None else keeper
    hosts = [
        Actor(partial(DeviceHost, partial(Cohort, budget=BUDGET), RATINGS, worlds.SECRET, own, books or keeper), fate)
        for own in dealt(BOUNDS, 2)
    ]
    server = Coordinator(PLAN, {"devices": Cohorts(bounds=BOUNDS, hosts=hosts)}, layout)
    for over in earlier or []:
        server.replay(over)
    outcome, _ = server.run()
    counted = zip(outcome.state.asked, outcome.state.counts, strict=True)
    asked = [(ask.query.id, ask.query.epsilon, ask.first, ask.stop, counts.refused) for ask, counts in counted]
    return Seen(
        outcome=outcome,
        refused=[counts.refused for counts in outcome.state.counts],
        spent=spent_by(keeper, USERS),
        retries=server.retries(),
        deaths=sum(host.deaths for host in hosts),
        rounds=server.new_rounds(0),
        reasons=once_a_reason(refusals_of(keeper, USERS, BUDGET, asked)),
    )


class Elsewhere(DeviceHost):
    """Answers for one device fewer than it was asked for."""

    def ask(self, question: Any, first: int, stop: int, *_: Any) -> Any:
        return super().ask(question, first, stop - 1)


@pytest.mark.parametrize("layout", [LAYOUT, ALONE])
def test_an_answer_of_other_devices_than_were_asked_is_refused(layout: Layout) -> None:
    hosts = [Actor(partial(Elsewhere, partial(Cohort, budget=BUDGET), RATINGS, worlds.SECRET, BOUNDS))]
    server = Coordinator(PLAN, {"devices": Cohorts(bounds=BOUNDS, hosts=hosts)}, layout)
    with pytest.raises(BlindrecError, match=r"39 devices from (\d+) on answered, devices \1 to"):
        server.run()


def same(one: Seen, other: Seen) -> bool:
    """Whether devices answered, refused and spent alike."""
    digests = one.outcome.releases_sha256 == other.outcome.releases_sha256
    return digests and (one.refused, one.spent) == (other.refused, other.spent)


def test_an_undisturbed_run_retries_nothing() -> None:
    """What it spends is what the rounds say: the third is refused by who was asked twice before."""
    seen = run()
    assert (seen.retries, seen.deaths) == (0, 0)
    assert seen.refused == [0, 0, 240, 0]
    (reason,) = seen.reasons
    assert reason.startswith("240 beyond their budget: asked for 0.75 nats, 0.5 of 2 left (1.5 spent); lower epsilon")
    spent = [one for first, stop, one in seen.spent for _ in range(first, stop)]
    assert spent == [Fraction(3, 2)] * 100 + [Fraction(2)] * 220


def test_processes_that_die_at_any_time_change_nothing() -> None:
    undisturbed, deaths = run(), 0
    for seed in range(size(80, 4)):
        seen = run(by_chance(seed, share=0.06))
        assert same(seen, undisturbed), seed
        deaths += seen.deaths
    assert deaths > size(100, 3)


def test_a_coordinator_that_adds_up_itself_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether devices' processes die or not; it starts no aggregators."""
    undisturbed, deaths = run(), 0
    monkeypatch.setattr("coordinator.server.fleet.querying.start_aggregators", None)
    for seed in range(size(20, 3)):
        seen = run(by_chance(seed, share=0.06), layout=ALONE)
        assert same(seen, undisturbed), seed
        assert seen.outcome.model.score.tolist() == undisturbed.outcome.model.score.tolist()
        deaths += seen.deaths
    assert deaths > size(20, 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("how", DEATHS)
def test_every_answer_may_be_a_process_last(how: str) -> None:
    """Answers that a process gave before it died come in after the next one was found out, or are the run's last."""
    undisturbed = run()
    calls = range(8 + 8 + 7 + 6)
    for number in {*sample(calls, 5), calls[-1]}:
        seen = run(at("ask", number, how))
        assert seen.deaths == 1
        assert same(seen, undisturbed), number


@pytest.mark.few(1)
@pytest.mark.parametrize("kept", range(len(ROUNDS) + 1))
def test_a_coordinator_that_goes_on_need_tell_devices_nothing(kept: int) -> None:
    """Whether they are new, too, or die then: all that they know they have from their keeper."""
    keeper = Keeper()
    undisturbed = run(keeper=keeper)
    booked, earlier = keeper.read(0, USERS), undisturbed.rounds[:kept]
    assert same(run(earlier=earlier, keeper=keeper), undisturbed)
    for number in sample(range(6), 2):
        for how in DEATHS:
            assert same(run(at("ask", number, how), earlier, keeper), undisturbed)
    assert keeper.read(0, USERS) == booked


def test_devices_that_do_not_reach_their_keeper_are_counted_as_refusing() -> None:
    keeper, undisturbed = Keeper(), run()
    seen = run(keeper=keeper, books=Deaf(keeper, below=2 * EACH))
    assert seen.refused == [80, 70, 250, 0]
    assert undisturbed.refused == [0, 0, 240, 0]
    silent, short = seen.reasons
    assert silent.startswith("230 could not book the answer: their ledger's keeper did not reply;")
    assert short.startswith("170 beyond their budget: asked for 0.75 nats, 0.5 of 2 left")
    assert seen.spent[0] == (0, 80, Fraction(0))
    assert [counts.answered for counts in seen.outcome.state.counts] == [240, 240, 0, 220]


def test_a_process_that_always_dies_is_given_up() -> None:
    with pytest.raises(LostError, match=r"devices \d+ to \d+ were lost, 8 times"):
        run(lambda called: "dies in it" if called == "ask" else "lives")
