"""In process: one device an answerer or all of them, one thread or three, the same releases, model and advice."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worlds
from runs import here, small

from actors.device import Device
from coordinator.layout import Layout
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.messages import Query
from coordinator.rounds import Learner
from coordinator.schedules import OneRound
from scenarios.config import Scenario
from scenarios.experiment import Run, design_of, silent
from scenarios.populations import populate
from scenarios.session import InProcess, Job

TWO_CLASSES = small(like="0.9,0.1;0.3,0.6", class_shares="0.3,0.7", users=1201, seed=11)


def digest_by_hand(scenario: Scenario) -> str:
    """The digest as promised: who answered, then the bits, in device order; from one `Device` a user."""
    filled = scenario.complete()
    public_seed = derive(scenario.seed, "public")
    query = design_of(filled).query(round_number=0, public_seed=public_seed, epsilon=filled.epsilon)
    ratings, secret = populate(scenario).ratings, derive(scenario.seed, "devices")
    releases = [Device(ratings, secret, user, filled.epsilon).answer(query) for user in range(ratings.users)]
    bits = [int(release.unpacked()[0, 0]) for release in releases]
    packed = np.packbits(np.ones(len(bits), np.uint8)).tobytes() + np.packbits(bits).tobytes()
    return hashlib.sha256(packed).hexdigest()


@pytest.fixture(scope="module")
def whole() -> Run:
    """The run that all layouts must repeat."""
    return here(TWO_CLASSES)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several calls a cohort, as large runs have them."""
    monkeypatch.setattr("coordinator.layout.SMALLEST_BLOCK", 64)


def same(one: Run, other: Run) -> bool:
    """Whether digest, sums, model and advice are equal to the last bit."""
    return all(
        (
            one.outcome.releases_sha256 == other.outcome.releases_sha256,
            np.array_equal(worlds.scores_of(one.statistic).sensed, worlds.scores_of(other.statistic).sensed),
            np.array_equal(worlds.scores_of(one.statistic).scores, worlds.scores_of(other.statistic).scores),
            one.statistic.ones == other.statistic.ones,
            np.array_equal(one.outcome.model.cluster, other.outcome.model.cluster),
            np.array_equal(one.outcome.model.score, other.outcome.model.score),
            np.array_equal(one.ran.advice, other.ran.advice),
        )
    )


@pytest.mark.parametrize("users", [1, 8, 203])
@pytest.mark.parametrize("epsilon", ["1/2", "inf"])
def test_the_digest_is_that_of_one_device_a_user(users: int, epsilon: str) -> None:
    scenario = TWO_CLASSES.model_copy(update={"users": users, "epsilon": small(epsilon=epsilon).epsilon})
    assert here(scenario, devices_per_actor=7).outcome.releases_sha256 == digest_by_hand(scenario)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("devices_per_actor", [1, 7, 1000, 1201, None])
def test_layouts_do_not_change_anything(workers: int, devices_per_actor: int | None, whole: Run) -> None:
    run = here(TWO_CLASSES, workers=workers, devices_per_actor=devices_per_actor)
    assert same(run, whole)
    assert run.workers == workers
    assert run.devices_per_actor == devices_per_actor or devices_per_actor is None


@pytest.mark.parametrize("changed", [{"seed": 12}, {"epsilon": Fraction(9, 10)}, {"theta": 1.5}, {"users": 1200}])
def test_what_is_no_layout_changes_the_digest(changed: dict[str, object], whole: Run) -> None:
    other = here(TWO_CLASSES.model_copy(update=changed))
    assert other.outcome.releases_sha256 != whole.outcome.releases_sha256
    assert not same(other, whole)


def test_the_decoder_sees_the_same_releases(whole: Run) -> None:
    other = here(TWO_CLASSES.model_copy(update={"decoder": "paper"}))
    assert other.outcome.releases_sha256 == whole.outcome.releases_sha256
    assert not np.array_equal(other.outcome.model.score, whole.outcome.model.score)


@pytest.mark.usefixtures("small_blocks")
def test_progress_grows_to_all_devices() -> None:
    told: list[int] = []
    here(TWO_CLASSES, workers=2, devices_per_actor=200, progress=told.append)
    assert told == sorted(told)
    assert len(told) > 6
    assert told[-1] == 1201


def test_advice_goes_to_a_thousand_devices_at_most_and_repeats_nothing_rated() -> None:
    few, many = here(small(users=30)), here(small(users=3001))
    assert few.ran.advice.shape == (30, 10)
    assert many.ran.advice.shape == (1000, 10)
    scenario = few.scenario
    _, items, _ = few.population.ratings.rated(as_words(derive(scenario.seed, "devices")), 0, 30)
    for rated, advice in zip(items.reshape(30, 5), few.ran.advice, strict=True):
        assert not set(rated.tolist()) & set(advice.tolist())
        assert len(set(advice.tolist())) == 10


def job(budget: Fraction | None, *, epsilon: Fraction | None) -> Job:
    """A job whose devices may spend ``budget``, asked at ``epsilon``."""
    scenario = small(users=50)
    return Job(
        ratings=populate(scenario).ratings,
        secret=derive(0, "devices"),
        budget=budget,
        policy=OneRound(design=design_of(scenario), epsilon=epsilon, public_seed=derive(0, "public")),
        learner=Learner(clusters=2, decoder="centred"),
        layout=Layout(devices=50, workers=1, devices_per_actor=20),
    )


@pytest.mark.parametrize("epsilon", [Fraction(3, 2), None])
def test_devices_without_the_budget_all_refuse_and_the_run_ends_all_the_same(epsilon: Fraction | None) -> None:
    ran = InProcess(1).run(job(Fraction(1), epsilon=epsilon), advised=50, top=10, progress=silent)
    (statistic,) = ran.outcome.state.statistics
    assert (statistic.asked, statistic.answered, statistic.refused, statistic.missing) == (50, 0, 50, 0)
    assert not worlds.scores_of(statistic).sensed.any()
    assert not worlds.scores_of(statistic).scores.any()
    assert ran.outcome.releases_sha256 == hashlib.sha256(bytes(7) + bytes(7)).hexdigest()


def test_the_warm_up_spends_nothing_and_lets_nothing_out() -> None:
    exactly = job(Fraction(1), epsilon=Fraction(1))
    ran = InProcess(1).run(exactly, advised=0, top=10, progress=silent)
    assert ran.outcome.state.statistics[0].answered == 50
    assert ran.advice.shape == (0, 10)


def test_a_job_compiles_for_the_query_that_the_server_will_ask() -> None:
    first = job(None, epsilon=Fraction(1)).first_query()
    ran = InProcess(1).run(job(None, epsilon=Fraction(1)), advised=0, top=10, progress=silent)
    assert isinstance(first, Query)
    assert first == ran.outcome.state.asked[0].query
    assert replace(first, round=1) != first
