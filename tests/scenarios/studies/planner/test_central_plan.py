"""Plans behind a shuffler and of two servers: what runs do with as many users, the inverse, and what is refused."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import Command, present, refused

from scenarios.config.scenario import Scenario
from scenarios.studies.planner import plan as planning
from scenarios.studies.planner.central_plan import FINENESS, CentralPlans, is_predicted
from scenarios.studies.planner.least_users import Candidate, Target, candidates, users_needed
from scenarios.studies.planner.plan import DesignPlan, plan
from scenarios.theory.emulated_runs import MOST_USERS

TRUST = {"trust": "shuffled", "delta": 1e-5}
WORLD: dict[str, Any] = {"items": 40, "rated": 6}
ACCURATE = Target(success=None, accuracy=0.9)


def candidate(design: str, trust: dict[str, Any] = TRUST, **settings: Any) -> Candidate:
    world = Scenario.model_validate(WORLD)
    return Candidate(world=world, settings={"design": design, "decoder": "k-means", **settings}, trust=trust)


def limit_to(monkeypatch: pytest.MonkeyPatch, *designs: str) -> None:
    """Let plans be made among some designs: all of them take half a minute."""

    def few(*names: Any) -> list[Candidate]:
        return [one for one in candidates(*names) if one.design in designs]

    monkeypatch.setattr(planning, "candidates", few)


def planned(monkeypatch: pytest.MonkeyPatch, *designs: str, **options: Any) -> DesignPlan:
    """A plan behind a shuffler among some designs."""
    limit_to(monkeypatch, *designs)
    return plan(Scenario.model_validate(WORLD | {"epsilon": 1}), ACCURATE, trust=TRUST, **options)


def run_of(blindrec: Command, row: dict[str, Any], *more: object) -> dict[str, Any]:
    """What a run of a plan's design with as many users tells."""
    flags = ["--items", 40, "--rated", 6, "--design", row["design"], "--users", row["users"], "--epsilon", 1]
    ended = blindrec("run", *flags, "--delta", 1e-5, *more, "--backend", "inprocess", "--json", "-")
    assert ended.code == 0, ended.err
    return ended.result


@pytest.mark.parametrize("design", ["grr", "set"])
def test_a_plan_says_what_such_a_run_does(design: str, monkeypatch: pytest.MonkeyPatch, blindrec: Command) -> None:
    row = planned(monkeypatch, design).rows[0]
    record = run_of(blindrec, row, "--trust", "shuffled")
    for name in ("trust_model", "epsilon", "epsilon_local", "delta", "neighbours", "amplified_for", "bound"):
        assert row[name] == record[name], name
    assert row["accuracy"] == pytest.approx(record["accuracy_predicted"])
    assert row["accuracy"] >= 0.9
    assert row["amplified_for"] == row["users"] * 9 // 10


def test_fewer_users_do_not_meet_the_target_and_a_smaller_epsilon_neither() -> None:
    """To the fineness of both searches; twice for a number that was rounded up."""
    plans = CentralPlans(candidate("grr"), ACCURATE)
    users = present(plans.least_users(Fraction(1)))
    assert plans.margin(Fraction(1), users) >= 0 > plans.margin(Fraction(1), int(users * (1 - 2 * FINENESS)))
    least = present(plans.least_epsilon(users))
    assert 0.9 < least <= 1 + FINENESS
    assert plans.margin(least, users) >= 0 > plans.margin(least * Fraction(95, 100), users)


class Jump(CentralPlans):
    """Plans that miss the goal by half a nat below a number of users, and are well above it from there on.

    A search for the place where they meet it ends below that, where the margin is nearer to 0.
    """

    def __init__(self, middle: float) -> None:
        super().__init__(candidate("grr", {"trust": "shuffled"}), ACCURATE)  # with a delta that limits no plan
        self._middle = middle

    def margin(self, epsilon: Fraction, users: int) -> float:
        return -0.5 if users < self._middle else 1.0


def test_the_users_found_are_enough_where_the_search_ends_below_them() -> None:
    """Never fewer than the goal takes, and hardly more: twice the fineness for a number that was rounded up."""
    for middle in np.geomspace(2_000, 2_000_000, 5).tolist():
        users = present(Jump(middle).least_users(Fraction(1)))
        assert middle <= users <= middle * (1 + 2 * FINENESS) + 1


def test_a_shuffler_takes_fewer_users_than_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, "grr", "maxsense", users=3000)
    assert [row["design"] for row in made.rows] == ["grr"]  # a question by address hides nobody
    local = users_needed(candidate("grr", {}), Fraction(1), ACCURATE)
    assert made.rows[0]["users"] < present(local.users) / 10
    assert (made.bounds, made.sufficient) == ([], None)  # those of local privacy do not hold
    assert made.best is not None
    assert made.rows[0]["amplified_for"] == 2700  # of the users that there are


def test_a_delta_that_is_too_large_for_enough_users_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRUST, "delta", 1e-2)
    (row,) = planned(monkeypatch, "grr").rows
    assert (row["users"], row["trust_model"]) == (None, "shuffled")
    assert row["note"] == "more than 111 users, for whom this delta is too large; give a smaller one"


def test_what_a_shuffler_can_hide_is_planned_and_nothing_else() -> None:
    every = [one for one in candidates(Scenario.model_validate(WORLD), trust=TRUST) if is_predicted(one)]
    assert {one.design for one in every} == {"grr", "oue", "subset", "set", "rappor"}


def test_the_command_says_what_is_left(monkeypatch: pytest.MonkeyPatch, blindrec: Command, tmp_path: Path) -> None:
    limit_to(monkeypatch, "grr")
    flags = ["--items", 40, "--rated", 6, "--accuracy", 0.9, "--trust", "shuffled", "--users", 2000]
    ended = blindrec("plan", *flags, "--json", tmp_path / "plan.json")
    assert (ended.code, ended.err) == (0, "")
    (row,) = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["designs"]
    assert (row["users"], row["amplified_for"], row["trust_model"]) == (2000, 1800, "shuffled")
    assert row["epsilon"] < row["epsilon_local"]
    page = " ".join(ended.out.split())
    assert "shuffler:" in page
    assert f"a local epsilon of {row['epsilon_local']:.4g}, counted on" in page
    assert "any epsilon-LDP learner" not in page


@pytest.mark.parametrize(
    "settings", [{}, {"noise": "devices"}, {"neighbours": "add-remove"}], ids=["servers", "devices", "add-remove"]
)
def test_a_plan_of_two_servers_says_what_such_a_run_does(settings: dict[str, str], blindrec: Command) -> None:
    trust = {"trust": "two-servers", "delta": 1e-5}
    made = plan(Scenario.model_validate(WORLD | {"epsilon": 1}), ACCURATE, trust=trust, settings=settings)
    (row,) = made.rows
    assert made.best == row  # of those whose trust was asked for
    flags = [part for name, value in settings.items() for part in (f"--{name}", value)]
    record = run_of(blindrec, row, *flags, "--repeat", 8)
    for name in ("trust_model", "epsilon", "delta", "neighbours", "guarantee", "bytes_per_device", "honest_noise"):
        assert row[name] == record[name], name
    for name in ("epsilon_local", "if_trust_fails", "trusted", "noise"):
        assert row[name] == record[name], name
    assert row["noise_deviation"] == pytest.approx(record["noise_deviation"])
    assert row["accuracy"] == pytest.approx(record["accuracy_predicted"])
    assert abs(record["accuracy"] - row["accuracy"]) < 0.08  # 8 seeds of 40 items err by some .02; 1e-4


def test_laplace_noise_and_a_delta_that_is_too_large_for_enough_users_are_planned() -> None:
    for delta, most in ((0.0, 10**15), (1e-2, 100)):
        trust = {"trust": "two-servers", "delta": delta}
        plans = CentralPlans(candidate("totals", trust, decoder="totals"), ACCURATE)
        assert plans.most_users == most
        users = plans.least_users(Fraction(1))
        assert (users is None) == (delta > 0)
        if users is not None:
            least = present(plans.least_epsilon(users))
            assert 0.9 < least <= 1 + FINENESS


def test_questions_of_their_own_are_planned_and_run_alike(monkeypatch: pytest.MonkeyPatch, blindrec: Command) -> None:
    monkeypatch.setattr(f"{__name__}.TRUST", TRUST | {"own_questions": True})
    row = planned(monkeypatch, "maxsense", "grr").rows[0]
    assert (row["design"], row["own_questions"], row["bound"]) == ("maxsense", True, "two levels")
    record = run_of(blindrec, row, "--repeat", 4, "--trust", "shuffled", "--own-questions", "--decoder", row["decoder"])
    for name in ("epsilon", "epsilon_local", "delta", "amplified_for", "bound"):
        assert row[name] == record[name], name
    assert row["accuracy"] == pytest.approx(record["accuracy_predicted"])
    assert abs(record["accuracy"] - row["accuracy"]) < 0.12  # 4 seeds of 40 items err by some .03; 1e-4


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--trust", "nobody"], ["trust is 'nobody'", "local, shuffled, two-servers"]),
        (["--trust", "two-servers", "--own-questions"], ["own_questions is True", "--trust shuffled"]),
        (["--trust", "two-servers", "--expected-answers", "0.5"], ["expected_answers is 0.5", "noise of devices"]),
        (["--own-questions"], ["own_questions is True", "--trust shuffled"]),
        (["--delta", "1e-5"], ["delta is 1e-05", "--trust shuffled"]),
        (["--expected-answers", "0.5"], ["expected_answers is 0.5", "--trust shuffled"]),
        (["--trust", "shuffled", "--epsilon", "inf"], ["epsilon is inf"]),
        (["--trust", "shuffled", "--malicious", "0.1"], ["malicious is 0.1"]),
    ],
)
def test_what_cannot_be_planned_ends_with_one_line(arguments: list[str], parts: list[str], blindrec: Command) -> None:
    line = refused(blindrec, "plan", *arguments)
    assert all(part in line for part in parts), line


@pytest.mark.parametrize(
    ("trust", "about"), [("shuffled", {"design": "grr"}), ("two-servers", {"design": "totals", "decoder": "totals"})]
)
def test_delta_falls_with_users_where_nobody_gives_one(trust: str, about: dict[str, str]) -> None:
    """So that it limits no plan; one that is given does, and stands in each row."""
    free, limited = (
        CentralPlans(candidate(**about, trust={"trust": trust, **delta}), ACCURATE) for delta in ({}, {"delta": 1e-6})
    )
    assert free.most_users == MOST_USERS > 1_200_000 > limited.most_users
    assert [free.about(Fraction(1), users)["delta"] for users in (100_000, 4_000_000)] == [1e-6, 2.5e-8]
