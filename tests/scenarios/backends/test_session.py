"""In process: one device an answerer or all of them, one thread or three: the same releases."""

import hashlib
import threading
import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from runs import here, small

from actors.device import Cohort
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import PolicyError
from coordinator.protocol.mechanism import ONE_ROUND, Decoding
from coordinator.protocol.mechanisms import mechanism_of, mechanisms
from coordinator.protocol.messages import Query
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.aggregation import aggregate
from coordinator.server.fleet.cohorts import Layout
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.policies import OneRound
from coordinator.server.rounds.rounds import QueryPlan
from coordinator.server.rounds.state import Ask, ServerState
from scenarios.backends.selection import InProcess
from scenarios.backends.session import InMemoryRounds, silent, stop_if_abandoned
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate
from scenarios.families.main.run import Job, run_job

TWO_CLASSES = small(like="0.9,0.1;0.3,0.6", class_shares="0.3,0.7", users=1201, seed=11)


def digest_by_hand(scenario: Scenario) -> str:
    """The digest as promised: who answered, then the bits, in device order; from a cohort of one for each user."""
    resolved, public_seed = resolve(scenario), derive(scenario.seed, "public")
    query = resolved.design.query(round_number=0, public_seed=public_seed, epsilon=resolved.account.budget)
    ratings, secret = populate(scenario).ratings, derive(scenario.seed, "devices")
    releases = [
        Cohort(ratings, secret, user, user + 1, None).answer(query, user, user + 1) for user in range(ratings.users)
    ]
    bits = [bit for release in releases for bit in release.unpacked()[0].tolist()]
    packed = np.packbits(np.ones(len(releases), np.uint8)).tobytes() + np.packbits(bits).tobytes()
    return hashlib.sha256(packed).hexdigest()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several calls a cohort, as large runs have them."""
    monkeypatch.setattr("coordinator.server.fleet.cohorts.SMALLEST_BLOCK", 64)


MANY = [{**TWO_CLASSES.flat(), "users": users, "epsilon": one} for users in (1, 8, 203) for one in ("1/2", "inf")]
IN_ONE_ROUND = [
    name
    for name, half in mechanisms().items()
    if ONE_ROUND in half.policies and half.trust != TWO_SERVERS  # of which sums are digested
]


@pytest.mark.parametrize("changes", [*MANY, *({"design": name, "users": 61, "seed": 11} for name in IN_ONE_ROUND)])
def test_the_digest_is_that_of_one_device_a_user(changes: dict[str, Any]) -> None:
    scenario = small(**changes)
    assert here(scenario, devices_per_actor=7).outcome.releases_sha256 == digest_by_hand(scenario)


@pytest.mark.usefixtures("small_blocks")
def test_progress_grows_to_all_devices() -> None:
    told: list[int] = []
    here(TWO_CLASSES, workers=2, devices_per_actor=200, progress=lambda tally: told.append(tally.count))
    assert told == sorted(told)
    assert len(told) > 6
    assert told[-1] == 1201


def test_advice_goes_to_a_thousand_devices_at_most_and_repeats_nothing_rated() -> None:
    few, many = here(small(users=30)), here(small(users=3001))
    assert few.advice.shape == (30, 10)
    assert many.advice.shape == (1000, 10)
    scenario = few.scenario
    items = few.population.ratings.rated(as_words(derive(scenario.seed, "devices")), 0, 30).items
    for rated, advice in zip(items.reshape(30, 5), few.advice, strict=True):
        assert not set(rated.tolist()) & set(advice.tolist())
        assert len(set(advice.tolist())) == 10


def job(budget: Fraction | None, *, epsilon: Fraction | None) -> Job:
    """A job whose devices may spend ``budget``, asked at ``epsilon``."""
    scenario = small(users=50)
    policy = OneRound(design=resolve(scenario).design, epsilon=epsilon, public_seed=derive(0, "public"))
    learner = SumLearner(mechanism=mechanism_of("maxsense"), how=Decoding(clusters=2, decoder="centred"))
    return Job(
        ratings=populate(scenario).ratings,
        secret=derive(0, "devices"),
        plan=QueryPlan(policy=policy, learner=learner, devices=50, budget=budget),
        layout=Layout(devices=50, workers=1, devices_per_actor=20),
    )


class Twice:
    """Asks all fifty devices twice."""

    def next_query(self, state: ServerState) -> Ask | None:
        if len(state.asked) == 2:
            return None
        design = resolve(small(users=50)).design
        query = design.query(round_number=len(state.asked), public_seed=derive(0, "public"), epsilon=Fraction(3, 4))
        return Ask(query=query, first=0, stop=50)


def test_devices_without_the_budget_all_refuse_and_the_run_ends_all_the_same() -> None:
    rounds = InMemoryRounds()
    once = job(Fraction(1), epsilon=None)
    wanted = replace(once, plan=replace(once.plan, policy=Twice()), rounds=rounds)
    ran = run_job(wanted, InProcess(1), advised=50, top=10, progress=silent)
    answered, statistic = (over.statistic for over in rounds)
    assert (answered.answered, ran.outcome.failure) == (50, None)
    assert (statistic.devices, statistic.answered, statistic.refused, statistic.missing) == (50, 0, 50, 0)
    assert not worlds.scores_of(statistic).sensed.any()
    assert not worlds.scores_of(statistic).scores.any()
    assert rounds.rounds[1].digest == hashlib.sha256(bytes(7) + bytes(7)).digest()


@pytest.mark.parametrize("epsilon", [Fraction(3, 2), None])
def test_a_question_that_no_budget_holds_is_not_even_asked(epsilon: Fraction | None, nobody_asks: None) -> None:
    above = r"^policy OneRound, round 0: .*above the devices' budget of 1; ask for no more than that$"
    with pytest.raises(PolicyError, match=above):
        run_job(job(Fraction(1), epsilon=epsilon), InProcess(1), advised=50, top=10, progress=silent)


def test_a_job_compiles_for_the_query_that_the_server_will_ask_and_spends_nothing_on_it() -> None:
    exactly = job(Fraction(1), epsilon=Fraction(1))
    first, ran = exactly.plan.rehearsal(), run_job(exactly, InProcess(1), advised=0, top=10, progress=silent)
    assert isinstance(first, Query)
    assert first == ran.outcome.state.asked[0].query
    assert replace(first, round=1) != first
    assert ran.outcome.state.counts[0].answered == 50
    assert ran.advice.shape == (0, 10)


@pytest.mark.parametrize("workers", [1, 3])
def test_each_gives_all_results_by_place_and_errors_as_they_are(workers: int) -> None:
    assert sorted(InProcess(workers).each(lambda x: x * x, range(20))) == [(x, x * x) for x in range(20)]
    assert list(InProcess(workers).each(abs, [])) == []
    with pytest.raises(ZeroDivisionError):
        list(InProcess(workers).each(lambda x: 1 / x, [2, 1, 0]))


def test_each_has_as_many_at_work_as_it_has_workers_and_ends_them_when_it_is_left() -> None:
    together, begun = threading.Barrier(3, timeout=60), []

    def meet(place: int) -> int:
        begun.append(place)
        if place < 3:
            together.wait()
            return place
        while True:
            stop_if_abandoned()
            time.sleep(0.01)

    before, results = threading.active_count(), InProcess(3).each(meet, range(300))
    assert sorted(next(results)[0] for _ in range(3)) == [0, 1, 2]
    assert len(begun) <= 6
    results.close()
    assert threading.active_count() == before


def test_nobody_is_abandoned_elsewhere() -> None:
    stop_if_abandoned()
    assert list(InProcess(1).each(lambda _: stop_if_abandoned(), [0])) == [(0, None)]
    assert list(InProcess(2).each(lambda _: stop_if_abandoned(), [0])) == [(0, None)]


def test_more_devices_than_half_a_word_counts() -> None:
    """Sensing everything with many devices would overflow a half word of counts, were it not moved out in time."""
    ratings = worlds.block_ratings(worlds.world(items=1, rated=1, like=((0.5,),)), 140_000)
    query = worlds.maxsense_query(items=1, sensing=1.0, epsilon=Fraction(1))
    release = Cohort(ratings, worlds.SECRET, 0, 140_000, None).answer(query, 0, 140_000)
    assert worlds.scores_of(aggregate(query, release)).sensed.tolist() == [140_000]
