"""`--verify`: fresh devices are asked about decided labels again, and dispute those that liars turned round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coordinator.protocol.errors import InputError
from coordinator.server.moments.sign_moments import sign_contrast
from coordinator.server.rounds.policies import DISPUTED
from coordinator.server.rounds.rounds import Round, conduct
from coordinator.server.rounds.setting import users_on_grid
from scenarios.backends.selection import InProcess
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate
from scenarios.families.main.run import MainResult, run
from scenarios.families.main.score import record
from scenarios.store.journal import ROUNDS
from scenarios.studies.sweep.threshold import emulate, emulated_devices

SMALL: dict[str, Any] = {"design": "sign", "policy": "eliminate", "items": 40, "rated": 8, "users": 200_000}


def verified_run(**given: Any) -> MainResult:
    return run(Scenario(**SMALL, **given), InProcess(1))


def test_verification_comes_last_and_changes_nothing_before() -> None:
    """Its rounds cost what their standard error says; estimates, labels and the rounds before it stay as they were."""
    plain, again = verified_run(), verified_run(verify=10)
    before = plain.outcome.state
    after, told = again.outcome.state, record(again)
    assert after.asked[: len(before.asked)] == before.asked
    rounds = after.asked[len(before.asked) :]
    assert all(ask.verifies for ask in rounds)
    pools = [ask.query.pool for ask in rounds]
    assert sorted(np.concatenate([pool for pool in pools if pool is not None]).tolist()) == list(range(40))
    assert [len(pool) for pool in pools if pool is not None] == [10] * 4
    assert np.array_equal(again.outcome.model.score, plain.outcome.model.score)
    contrast = sign_contrast(10, items=40, rated=8, vectors=1, best_count=1, epsilon=again.scenario.epsilon)
    assert again.outcome.posterior is not None
    mixture = again.outcome.posterior.mixture
    assert mixture is not None
    error = (mixture.levels[0] - mixture.levels[1]) / 2 / 2.3263
    assert told["verifying_answers"] == 4 * users_on_grid(1 / (error * contrast) ** 2)
    assert told["asked"] == record(plain)["asked"] + told["verifying_answers"]
    assert (told["verified"], told["undecided"]) == (40, told["disputed"])
    assert "disputed" not in record(plain)


def test_labels_are_disputed_that_late_liars_turned_round_who_are_not_among_the_fresh_devices() -> None:
    """They lie in rounds about at most nine items; pools that verify are of ten."""
    lies: dict[str, Any] = {"malicious": 0.3, "attack": "late:9", "seed": 3}
    plain, again = record(verified_run(**lies)), record(verified_run(**lies, verify=10))
    assert plain["decided_wrong"] > 2
    assert plain["labels_wrong"] == again["labels_wrong"]
    assert again["decided_wrong"] == 0
    assert again["disputed"] >= again["labels_wrong"]


@pytest.mark.parametrize(("said", "held"), [(DISPUTED, True), (6 * DISPUTED, False)])
def test_honest_devices_dispute_as_many_right_labels_as_is_said(
    said: float, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 items, each disputed with probability .01: more than 28 with probability 1e-6; at .06 fewer with 2e-6."""
    monkeypatch.setattr("coordinator.server.rounds.policies.DISPUTED", said)
    common: dict[str, Any] = {"design": "sign", "policy": "eliminate", "users": 20_000_000, "verify": 10}
    outcome = emulate(populate(Scenario(items=1000, rated=30, **common)))
    assert outcome.posterior is not None
    assert outcome.posterior.disputed is not None
    assert (outcome.posterior.disputed.sum() <= 28) == held
    assert outcome.posterior.disputed.any()


def test_items_that_no_device_was_left_for_are_not_decided() -> None:
    """Devices run out within the verification: what was not asked about again counts as disputed."""
    enough = record(verified_run(verify=10))
    short = run(
        Scenario(**{**SMALL, "users": enough["asked"] - enough["verifying_answers"] // 2}, verify=10), InProcess(1)
    )
    told = record(short)
    assert told["verified"] in (20, 30)
    assert told["undecided"] == 40 - told["verified"] + told["disputed"]
    none = run(Scenario(**{**SMALL, "users": enough["asked"] - enough["verifying_answers"]}, verify=10), InProcess(1))
    assert (record(none)["verified"], record(none)["undecided"]) == (0, 40)


def test_stored_rounds_say_that_they_verify() -> None:
    population, kept = populate(Scenario(**SMALL, verify=20)), list[Round]()
    common: dict[str, Any] = {"devices": SMALL["users"], "budget": population.scenario.epsilon}
    parts = RunSpec(population.scenario).policy, RunSpec(population.scenario).learner, emulated_devices(population)
    first = conduct(*parts, **common, keep=kept.append)
    again = conduct(*parts, **common, earlier=[ROUNDS.decode(*ROUNDS.encode(one)) for one in kept])
    assert [ask.verifies for ask in again.state.asked][-3:] == [False, True, True]
    assert first.posterior is not None
    assert again.posterior is not None
    assert first.posterior.disputed is not None
    assert again.posterior.disputed is not None
    assert first.posterior.disputed.tolist() == again.posterior.disputed.tolist()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"verify": 10}, "verify is 10, which is about sign sensing with policy eliminate; .*; leave it out"),
        ({"design": "anchor", "policy": "eliminate"}, "policy is 'eliminate'; anchor takes anchor alone, leave it out"),
        ({"design": "anchor", "rated": 1}, "rated is 1; anchor sensing begins with pairs of ratings"),
        ({"design": "sign", "policy": "eliminate", "verify": 5, "answers_per_device": 2}, "leave out one"),
    ],
)
def test_what_cannot_be_verified_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        _ = RunSpec(Scenario(**given).complete()).design
