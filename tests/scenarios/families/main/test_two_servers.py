"""Runs with two servers: the same on every layout, promises that results state, and liars with proofs or none."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from evidence import variance_fits
from messages import SEED, shows_a_secret
from runs import here, small

from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError, WithheldError
from coordinator.protocol.messages import pack
from coordinator.protocol.shares import SIDES, RollError, ShareRoll, secret_of
from coordinator.server.fleet.intermediaries import ATTEMPTS, SumQuerying
from scenarios.backends.selection import InProcess
from scenarios.backends.session import InMemoryRounds
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.families.main.main_columns import record
from scenarios.families.main.run import MainResult, run
from scenarios.store.journal import Journal
from scenarios.studies.scrutiny.audit import audit, design_names


def shared(**changes: Any) -> Scenario:
    return small(**{"design": "totals", "users": 401, "seed": SEED, **changes})


PAIRS = {"design": "pair-totals", "pair_items": 9}


def digests(result: MainResult) -> tuple[str, ...]:
    return (result.outcome.releases_sha256, *result.outcome.transcripts)


CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"noise": "devices", "dropout": 0.05},
    {"delta": 0, "neighbours": "add-remove"},
)
TIMED = {"periods": 3, "schedule": "front", "drift": 0.1, "churn": 0.1, "noise": "devices", "dropout": 0.1}


@pytest.mark.parametrize(("design", "changes"), [*product(({}, PAIRS), CHANGES), ({}, TIMED)], ids=str)
def test_digests_are_the_same_on_every_layout_and_of_a_run_that_goes_on(
    design: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Digests of what is published and of what each server got; a run that lost rounds publishes nothing anew."""
    rounds, scenario = InMemoryRounds(), shared(**design, **changes)
    one = run(scenario, InProcess(1), rounds=rounds)
    for workers, devices_per_actor in ((1, 7), (3, 100), (2, None)):
        assert digests(here(scenario, workers=workers, devices_per_actor=devices_per_actor)) == digests(one)
    for first in range(len(rounds.rounds) + 1):
        stored = InMemoryRounds(*rounds.rounds[:first])
        assert digests(run(scenario, InProcess(1), rounds=stored)) == digests(one)
        assert len(stored.rounds) == len(rounds.rounds)
    other = here(scenario.model_copy(update={"seed": SEED + 1}))
    assert not set(digests(one)) & set(digests(other))
    assert len(set(digests(one))) == 3
    read = Journal.codec.decode(*Journal.codec.encode(rounds.rounds[-1]))
    assert (read.digest, read.transcripts) == (rounds.rounds[-1].digest, rounds.rounds[-1].transcripts)


def test_noise_without_delta_is_that_of_two_doses() -> None:
    """Golden results hold what is promised, and what is left if both servers collude."""
    pure = record(here(shared(delta=0)))
    # two doses of discrete Laplace noise of sensitivity 10, which one user's five likes and five others change
    assert pure["noise_deviation"] == pytest.approx(20.0, rel=0.01)
    assert record(here(shared(delta=0, neighbours="add-remove")))["noise_deviation"] == pytest.approx(10.0, rel=0.02)


def test_enough_users_are_right_and_few_are_not() -> None:
    assert record(here(shared(users=20_000)))["accuracy"] == 1
    assert record(here(shared(users=20)))["accuracy"] < 0.9


@pytest.mark.statistical
def test_published_totals_err_as_they_say() -> None:
    """400 totals stray from the exact ones by their stated error: chi-square, 1e-6. Twins: errors a third off."""
    noisy, bare = (here(shared(users=2000, items=400, epsilon=epsilon)).outcome.model for epsilon in ("1/2", "inf"))
    errors = (noisy.score - bare.score) / noisy.error
    assert [variance_fits(errors, factor**2) for factor in (3 / 4, 1, 4 / 3)] == [False, True, False]


def test_nothing_that_the_server_holds_shows_a_secret() -> None:
    result = here(shared())
    held = [result.outcome, result.job.plan]
    assert not shows_a_secret(held, SEED)
    for side in SIDES:
        assert secret_of(SEED, side) not in {derive(SEED, "devices"), derive(SEED, "public")}
        assert secret_of(SEED, side).hex() not in repr(held)
        assert secret_of(SEED, side).hex() not in repr(result.job)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"design": "set", "trust": "two-servers"}, "no sum of shares; give totals"),
        ({"trust": "local"}, "say two-servers"),
        ({"trust": "shuffled"}, "trust is shuffled"),
        ({"delta": 0.01}, "at most 1 / users"),
        ({"expected_answers": 0.5}, "here servers add it"),
        ({"most_likes": 41}, None),
        ({"short_rounds": "tell"}, "short_rounds is"),
        ({"malicious": 0.1}, "attack is untargeted"),
        ({"policy": "fixed"}, "takes one-round alone"),
        ({"noise": "devices", "users": 1, "delta": 0}, "nobody is left to add noise"),
    ],
)
def test_what_two_servers_cannot_do_is_refused(changes: dict[str, Any], error: str | None) -> None:
    if error is None:
        assert resolve(shared(**changes)).design.items == 40  # a bound above the catalogue binds nobody
        return
    with pytest.raises(InputError, match=error):
        resolve(shared(**changes))


def test_devices_noise_that_falls_short_opens_nothing() -> None:
    with pytest.raises(WithheldError, match=r"^round 0 was withheld: .* nothing is opened, expect fewer answers"):
        here(shared(noise="devices", dropout=0.4, expected_answers=0.9))
    assert record(here(shared(noise="devices", dropout=0.4, expected_answers=0.5)))["honest_noise"] == 200


@pytest.mark.parametrize(("proofs", "first"), [("ideal", False), ("none", True)])
def test_a_few_liars_come_first_only_where_nobody_proves_anything(proofs: str, *, first: bool) -> None:
    lying = here(shared(users=2000, malicious=0.01, attack="promote:2", proofs=proofs))
    result = record(lying)
    assert (result["promoted_rank"] == 1.5) == first
    assert result["proofs"] == proofs
    assert result["tipping_limit"] is None  # which is about local privacy
    assert lying.outcome.model.score.max() > (1 << 24 if first else 0)
    assert first or lying.outcome.model.score.max() < 2000


def test_many_liars_promote_their_items_through_honest_vectors() -> None:
    for attack in ("promote:2", "input:2"):
        assert record(here(shared(users=2000, malicious=0.4, attack=attack)))["promoted_rank"] < 4
    both_rounds = shared(**PAIRS, users=2000, epsilon=8, malicious=0.4, attack="input:2")
    assert record(here(both_rounds))["promoted_rank"] < 6


class Servers:
    """Two servers that reach the first two and the last two of three devices, and agree from some attempt on."""

    def __init__(self, agree_after: int) -> None:
        self.left, self.among = agree_after, list[bytes | None]()

    def __call__(self, method: str, arguments: Any) -> list[Any]:
        if method == "collect":
            assert arguments[0] == arguments[1]
            self.among.append(arguments[0][-1])
            reached = pack(np.array([1, 1, 0], np.uint8)), pack(np.array([0, 1, 1], np.uint8))
            return [ShareRoll(query_id=bytes(16), first=0, count=3, answered=devices) for devices in reached]
        self.left -= 1
        if self.left >= 0:
            raise RollError("not the same")
        raise InputError("opened")


def test_servers_that_hold_different_shares_collect_again_and_end_in_the_end() -> None:
    scenario = shared()
    policy = resolve(scenario.complete()).policy
    asks = here(scenario).outcome.state.asked
    assert policy is not None
    for agree_after, error in ((1, "opened"), (ATTEMPTS, "not the same")):
        servers = Servers(agree_after)
        with pytest.raises((RollError, InputError), match=error):
            SumQuerying(servers, report_progress=lambda _: None).ask(asks[0])
        both = pack(np.array([0, 1, 0], np.uint8))  # asked for again: whom both could reach
        assert servers.among == [None, *[both] * (min(agree_after + 1, ATTEMPTS) - 1)]


def test_what_is_answered_in_shares_has_no_release_that_an_audit_could_attack() -> None:
    assert "totals" not in design_names("local")
    with pytest.raises(InputError, match="uniform alone"):
        audit("totals")
