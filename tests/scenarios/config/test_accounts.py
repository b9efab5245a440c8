"""A scenario behind a shuffler: its account, the local epsilon under which devices answer, and what is refused."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from runs import account_of, alike, complains, here, present, small

import blindrec
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.amplification import TwoLevels, shuffled_epsilon
from coordinator.protocol.composition import ShuffledRounds, plan_delta
from coordinator.protocol.errors import WithheldError
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.moments.sign_moments import sign_contrast
from scenarios.config import shuffled_account
from scenarios.config.accounts import RoundSize
from scenarios.config.compatibility import check
from scenarios.config.resolve import ResolvedRun, resolve
from scenarios.config.scenario import Scenario
from scenarios.config.shuffled_account import smallest_round
from scenarios.data import populations
from scenarios.families.main import main_job
from scenarios.families.main.main_columns import record
from scenarios.studies.scrutiny.audit import audit
from scenarios.studies.scrutiny.shuffling import amplified, local_epsilon

pytestmark = pytest.mark.usefixtures("few_draws")

SEED = 7  # One of whose two rounds the second alone falls short


def behind(**changes: Any) -> Scenario:
    """A small scenario behind a shuffler."""
    return small(**{"design": "grr", "trust": "shuffled", "users": 2000, **changes})


def settled(**changes: Any) -> ResolvedRun:
    return resolve(behind(**changes))


@pytest.mark.parametrize(("trust", "amplified"), [("local", 0), ("shuffled", 1)])
def test_a_run_is_completed_resolved_and_amplified_once(trust: str, amplified: int) -> None:
    scenario = Scenario(design="grr", trust=trust, items=20, users=2000)
    with (
        mock.patch.object(Scenario, "complete", autospec=True, side_effect=Scenario.complete) as completions,
        mock.patch.object(main_job, "resolve", side_effect=resolve) as resolutions,
        mock.patch.object(populations, "resolve", side_effect=resolve) as again,
        mock.patch.object(shuffled_account, "_local", side_effect=shuffled_account._local) as amplifications,
    ):
        blindrec.run(scenario)
    assert (completions.call_count, resolutions.call_count + again.call_count) == (1, 1)
    assert amplifications.call_count == amplified


def test_devices_answer_under_the_largest_local_epsilon_that_keeps_the_central_one() -> None:
    resolved = settled()
    account = account_of(resolved)
    other = local_epsilon("grr", 1800, epsilon=1, items=40, rated=5)
    assert (float(account.answer_local), account.devices) == (other.epsilon_local, 1800)
    assert resolved.account.budget == account.answer_local > 1
    assert resolved.setting.epsilon == account.answer_local
    query = resolved.design.query(**resolved.setting.header(_start(resolved)))
    assert account.central(query, account.devices) <= 1 < account.central(query, account.devices - 20)
    assert (resolved.account.trust.name, *resolved.account.guarantee[1::2]) == ("shuffled", "replace", 1e-6)
    assert account.agreement.reports(2000) == 1800


def test_a_round_of_any_size_has_a_central_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nobody it is that of one device; in a large round delta may be above one in so many devices."""
    resolved, devices = settled(delta=5e-4), list[int]()
    account = account_of(resolved)
    query = resolved.design.query(**resolved.setting.header(_start(resolved)))
    assert account.central(query, 4000) < account.central(query, 1800) <= 1
    monkeypatch.setattr(shuffled_account, "shuffled_epsilon", lambda *_, **told: devices.append(told["devices"]))
    for answered in (0, 1, 2):
        account.central(query, answered)
    assert devices == [1, 1, 2]
    assert [account.agreement.planned(asked) for asked in (7, 2000, 9000)] == [6, 1800, 1800]


def test_several_answers_of_a_device_share_epsilon_and_delta() -> None:
    resolved = settled(policy="fixed", rounds=4, answers_per_device=2, composition="added")
    account = account_of(resolved)
    assert account.devices == 900  # of the thousand that each of four rounds asks
    alone = local_epsilon("grr", 900, epsilon=Fraction(1, 2), delta=5e-7, items=40, rated=5)
    assert float(account.answer_local) == alone.epsilon_local
    assert resolved.account.budget == 2 * account.answer_local


def test_several_answers_of_a_device_are_certified_as_one_plan() -> None:
    """Each has more than its part of a sum; what devices and shuffler hold is the plan."""
    resolved, added = (
        settled(policy="fixed", rounds=4, answers_per_device=2, composition=way) for way in (None, "added")
    )
    account, agreement = account_of(resolved), resolved.agreement
    assert account.answer_local > account_of(added).answer_local
    assert (agreement.composed, agreement.levels) == (True, (1 / 41, 1 / 41))
    plan = ShuffledRounds(TwoLevels(1 / 41, 1 / 41), account.answer_local, 900, 2)
    assert plan_delta([plan], epsilon=1, delta=agreement.delta) <= agreement.delta
    assert Agreement.of_content(agreement.content()) == agreement
    assert not {"composed", "levels"} & set(added.agreement.content())
    with complains("composition is exact, but a round that is told short breaks the plan"):
        settled(policy="fixed", rounds=4, answers_per_device=2, composition="exact", short_rounds="tell")


def test_a_plan_is_refused_by_whoever_finds_another_question_in_it() -> None:
    agreement = settled(policy="fixed", rounds=4, answers_per_device=2).agreement
    resolved = settled(policy="fixed", rounds=4, answers_per_device=2)
    query = agreement.stamped(
        resolved.design.query(round_number=0, public_seed=bytes(16), epsilon=account_of(resolved).answer_local)
    )
    agreement.require_amplified(query, 1000)
    with complains("is none of the 2 answers that were agreed as one plan"):
        agreement.require_amplified(query, 900)
    too_much = replace(query, epsilon=present(query.epsilon) + Fraction(1, 1000))
    with complains("has a local epsilon above"):
        agreement.require_amplified(too_much, 1000)
    others: tuple[dict[str, Any], ...] = (
        {"levels": (1 / 40, 1 / 40)},
        {"epsilon": Fraction(1, 2)},
        {"answers": 3, "budget": 3 * account_of(resolved).answer_local},
    )
    for other in others:
        changed = replace(agreement, **other)  # the last under the same local epsilon, which three may not have
        with complains("agreed as one plan"):
            changed.require_amplified(changed.stamped(query), 1000)


def test_liars_hide_nobody() -> None:
    honest, lied = (account_of(settled(**more)) for more in ({}, {"assume_malicious": 0.5}))
    assert (lied.devices, lied.agreement.reports(2000)) == (900, 1800)
    assert lied.answer_local < honest.answer_local


@pytest.mark.parametrize("design", ["subset", "set"])
def test_subsets_have_the_size_that_is_best_for_the_central_epsilon(design: str) -> None:
    resolved, local = settled(design=design), resolve(small(design=design, users=2000))
    chosen = resolved.design.query(**resolved.setting.header(_start(resolved))).parameters["chosen"]
    assert chosen < local.design.query(**local.setting.header(_start(local))).parameters["chosen"]
    assert resolved.scenario.settings.model_dump()["chosen"] == chosen
    alone = local_epsilon(design, 1800, epsilon=1, items=40, rated=5)
    assert (alone.settings["chosen"], alone.epsilon_local) == (
        chosen,
        float(present(resolved.account.mechanism_epsilon)),
    )


def _start(resolved: ResolvedRun) -> Any:
    from coordinator.server.rounds.state import ServerState  # noqa: PLC0415 (only here)

    return ServerState(devices=2000, budget=resolved.account.budget)


SHUFFLED = {"expected_answers": 0.5, "short_rounds": "tell", "smallest_round": 10}
REFUSALS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"design": "maxsense"}, ("public address", "grr, oue, subset or set")),
    ({"epsilon": "inf"}, ("epsilon is inf", "finite")),
    ({"design": "curator-items"}, ("do not randomize",)),
    ({"design": "full-reveal", "epsilon": "inf"}, ("do not randomize",)),
    ({"design": "pairs", "counted_group": 0.1}, ("counted_group is 0.1", "leave it out")),
    ({"design": "pairs", "smallest_round": 10}, ("smallest_round is 10", "groups")),
    ({"delta": 0}, ("delta is 0", "positive")),
    ({"delta": 0.01}, ("delta is 0.01", "at most 0.000555")),
    ({"users": 1}, ("delta is 1e-06", "ask more users")),
    ({"smallest_round": 10}, ("smallest_round is 10", "one-round")),
    ({"trust": "local", "delta": 1e-6}, ("delta is 1e-06", "the trust is local")),
    ({"trust": "local", "assume_malicious": 0.1}, ("assume_malicious is 0.1",)),
]


@pytest.mark.parametrize(
    ("trust", "name", "value", "owner"),
    [
        ("local", "delta", 1e-7, "shuffled or two-servers"),
        ("local", "expected_answers", 0.5, "shuffled or two-servers"),
        *(("local", name, value, "shuffled") for name, value in SHUFFLED.items() if name != "expected_answers"),
        ("two-servers", "short_rounds", "tell", "shuffled"),
        ("two-servers", "smallest_round", 10, "shuffled"),
    ],
)
def test_settings_of_another_trust_model_are_refused(trust: str, name: str, value: Any, owner: str) -> None:
    design = "totals" if trust == "two-servers" else "maxsense"
    scenario = small(design=design, trust=trust, **{name: value})
    with complains(f"{name} is {value!r}, which is about --trust {owner}; the trust is {trust}"):
        check(scenario)


@pytest.mark.parametrize(
    ("changes", "terms"),
    [
        ({"trust": "local"}, (0.0, 1.0, 0.0)),
        ({"trust": "two-servers"}, (1e-6, 0.9, 0.0)),
        ({"trust": "two-servers", "delta": 1e-3, "expected_answers": 0.5, "assume_malicious": 0.25}, (1e-3, 0.5, 0.25)),
    ],
)
def test_two_servers_are_told_delta_answers_and_liars(changes: dict[str, Any], terms: tuple[float, ...]) -> None:
    assert small(**changes).terms_of_servers == terms


@pytest.mark.parametrize(("changes", "words"), REFUSALS)
def test_what_is_refused_and_why(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    with complains(*words):
        resolve(behind(**changes))


def test_reports_count_as_they_would_without_a_shuffler() -> None:
    through = here(behind(seed=5, dropout=0.05))
    local = here(
        small(design="grr", users=2000, seed=5, dropout=0.05, epsilon=through.resolved.account.mechanism_epsilon)
    )
    assert through.statistic.answered == local.statistic.answered < 2000
    assert through.statistic.devices == local.statistic.devices == 2000
    for name in through.statistic.counts:
        assert (getattr(through.statistic, name) == getattr(local.statistic, name)).all()
    assert through.outcome.releases_sha256 != local.outcome.releases_sha256


def test_a_short_round_is_withheld_and_nobody_learns() -> None:
    with pytest.raises(WithheldError, match="was withheld"):
        here(behind(dropout=0.3))


def test_a_short_round_that_is_told_has_a_larger_epsilon() -> None:
    run = here(behind(dropout=0.3, short_rounds="tell"))
    values, account = record(run), account_of(run.resolved)
    levels_of_query = mechanism_of("grr").levels(run.outcome.state.asked[0].query)
    assert isinstance(levels_of_query, TwoLevels)
    answered = values["answered"]
    assert answered < account.devices
    exact = shuffled_epsilon(
        levels_of_query, local_epsilon=float(present(account.mechanism_epsilon)), devices=answered, delta=1e-6
    )
    assert values["epsilon"] == exact > 1
    assert values["person_epsilon"] == exact


def test_a_later_round_that_is_withheld_ends_the_run_with_what_was_learned() -> None:
    run = here(behind(policy="fixed", rounds=2, dropout=0.1, seed=SEED))
    assert run.outcome.failure is not None
    assert "round 1 was withheld: 8" in run.outcome.failure
    assert run.statistic.answered >= 900
    assert record(run)["rounds"] == 1


def test_rounds_are_no_smaller_than_the_promise_counts_on() -> None:
    changes = {"told": "rated", "policy": "eliminate", "users": 2000}
    setting = settled(design="subset", smallest_round=300, **changes).setting
    state = _start(settled(design="subset", **changes))
    first = present(setting.ask(state, users=10))
    assert (first.first, first.stop) == (0, 300)
    most = present(setting.ask(state, users=1701))
    assert most.stop == 2000  # no round could ask the 299 that are left
    assert settled(design="subset", **changes).setting.smallest_round == 200
    assert small(design="subset", **changes).complete().users == 2000


MU = {0.5: 0.124, 1: 0.237, 2: 0.448}
"""Distance of two normal laws of which (epsilon, 1e-6) holds, as the page of the law has it."""
BEST = {(100, 0.5): 1000, (100, 1): 500, (100, 2): 250, (300, 0.5): 2000, (300, 1): 2000, (300, 2): 1000}
"""Of five sizes a factor of two apart, the one with which elimination took the fewest users: docs/measured.json."""


@pytest.mark.parametrize(("items", "epsilon"), [*BEST, (1000, 0.5), (1000, 1), (1000, 2)])
def test_rounds_have_the_size_that_the_law_says(items: int, epsilon: float) -> None:
    """``sqrt(8 A) / mu`` for one bit, with users A without noise from the contrast and Wald's mean information."""
    size = _eliminate(items=items, epsilon=epsilon, users=900_000, delta=1e-6)
    contrast = sign_contrast(items, items=items, rated=30, vectors=1, best_count=1, epsilon=None)
    share = 0.05 / items
    noiseless = (1 - 2 * share) * math.log(1 / share - 1) / 2 / contrast**2
    assert size.devices == pytest.approx(math.sqrt(8 * noiseless) / MU[epsilon], rel=0.1)
    best = BEST.get((items, epsilon), size.devices)
    assert best / 1.6 < size.devices < best * 1.6  # users are flat there: a factor of two costs a tenth at most
    assert "fewest users" in size.reason
    assert not best / 1.6 < 900_000 // 10 < best * 1.6  # the twin that knows no law


def test_the_law_never_asks_for_more_than_a_tenth_of_the_users_and_settings_win() -> None:
    few = _eliminate(items=300, users=10_000)
    assert few.devices == 1000
    assert "10th of the users; 1,664" in few.reason
    assert _eliminate(items=300, users=10_000, smallest_round=77) == (77, "")
    assert _eliminate(items=300, users=900_000, policy="item-by-item") == (90_000, "a 10th of the users")
    nothing_to_amplify = _eliminate(items=300, users=10_000, epsilon=20)
    assert nothing_to_amplify == (1000, "a 10th of the users")
    half, whole = (_eliminate(items=300, users=900_000, expected_answers=share).devices for share in (0.5, 1))
    assert half == pytest.approx(whole * math.sqrt(2), rel=0.1)  # those who are silent hide nobody, but end it late


def test_anchors_ask_rounds_of_the_law_too() -> None:
    size = _eliminate(items=100, users=900_000, design="anchor", policy="anchor")
    # a start takes six first looks of 227 users without noise, turned signs 2,021 as elimination
    assert size.devices == pytest.approx(math.sqrt(8 * (6 * 226.9 + 2021)) / MU[1], rel=0.1)


def _eliminate(**changes: Any) -> RoundSize:
    rounds = {"design": "sign", "policy": "eliminate", "rated": 30, "own_questions": True, "expected_answers": 1}
    scenario = behind(**{**rounds, **changes})
    return smallest_round(scenario.complete())


def test_the_record_says_why_rounds_are_no_smaller() -> None:
    changes = {"design": "sign", "policy": "eliminate", "own_questions": True, "epsilon": 2}
    values = record(here(behind(**changes)))
    assert values["smallest_round_reason"].startswith("a 10th of the users")
    others: list[dict[str, Any]] = [{**changes, "smallest_round": 300}, {}, {"design": "pairs"}]
    assert not any("smallest_round_reason" in record(here(behind(**one))) for one in others)


def test_a_custom_mechanism_that_looks_at_addresses_is_refused() -> None:
    with complains("depends on addresses", "shuffling hides nobody"):
        settled(design="mechanisms:LocalHashing")


def test_groups_are_amplified_each_by_its_own_size() -> None:
    changes: dict[str, Any] = {"design": "pairs", "pair_items": 10, "users": 6000}
    resolved = settled(**changes)
    account = account_of(resolved)
    sizes = np.diff([0, *resolved.design.group_ends(6000)])  # type: ignore[attr-defined] # of a design of groups
    assert account.devices == min(int(0.9 * size) for size in sizes)
    run = here(behind(**changes, seed=5))
    rounds = run.outcome.state.asked
    assert [ask.stop - ask.first for ask in rounds] == list(sizes)
    epsilons = [ask.query.epsilon for ask in rounds if ask.query.epsilon is not None]
    assert len(set(epsilons)) == 3
    assert max(epsilons) == resolved.account.budget
    for ask in rounds:
        honest = account.agreement.planned(ask.stop - ask.first)
        assert account.central(ask.query, honest) <= 1 < account.central(ask.query, int(0.97 * honest))
    assert record(run)["epsilon"] == 1.0
    assert alike(here(behind(**changes, seed=5), devices_per_actor=700), run)


def test_a_group_that_falls_short_is_withheld_for_itself() -> None:
    changes: dict[str, Any] = {"design": "pairs", "pair_items": 10, "users": 6000, "dropout": 0.3}
    with pytest.raises(WithheldError, match="needs 1,080"):
        here(behind(**changes))
    told = here(behind(**changes, short_rounds="tell"))
    assert record(told)["epsilon"] > 1


@pytest.mark.thorough  # five seconds, of millions of people
def test_delta_falls_with_people_where_nobody_gives_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1e-6 a guarantee to more than a million people is none for somebody."""
    for users, delta in ((2000, 1e-6), (4_000_000, 2.5e-8)):
        servers = small(design="totals", trust="two-servers", users=users).complete()
        specs = [resolve(behind(users=users).complete()), resolve(servers)]
        promises: list[Any] = [
            local_epsilon("grr", users, items=40, rated=5),
            amplified("grr", users, items=40, rated=5),
        ]
        deltas = [one.account.guarantee.delta for one in specs] + [one.delta for one in promises]
        assert deltas == [delta] * 4
    for view in ("shuffler_view", "servers_view"):
        monkeypatch.setattr(f"scenarios.studies.scrutiny.{view}.FEWEST_ROUNDS", 2)
    monkeypatch.setattr("scenarios.studies.scrutiny.shuffler_view.SIMULATIONS", 1)
    assert audit("grr", trust="shuffled", users=4000, releases=4000)["delta"] == 1 / 4000
    assert audit("totals", trust="two-servers", users=2000, releases=2000)["delta"] == 1 / 2000
