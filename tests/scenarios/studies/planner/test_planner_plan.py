"""Plans: what rows hold, what is recommended, what is blind, and the bounds beside them."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console
from thoroughness import sample

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.custom import UNCHECKED
from coordinator.server.mechanisms import server_halves
from coordinator.server.server_half import POSTERIOR, TRUST_LOCAL
from scenarios.config.mechanism_settings import variants
from scenarios.config.scenario import Scenario
from scenarios.studies.planner import plan as planning
from scenarios.studies.planner.least_users import Candidate, Target, candidates
from scenarios.studies.planner.plan import TOO_MANY, DesignPlan, in_words, plan, quick_best
from scenarios.studies.planner.plan_tables import show_plan
from scenarios.theory.predictors import predictor

pytestmark = pytest.mark.usefixtures("few_draws")
SURE = Target(success=0.95, accuracy=None)
HALF = Target(success=None, accuracy=0.9)
MIRRORED = ((0.9, 0.1), (0.1, 0.9))


def planned(monkeypatch: pytest.MonkeyPatch, designs: set[str], target: Target = SURE, **more: Any) -> DesignPlan:
    """A plan among some designs: pairs take seconds."""
    names = {name: more.pop(name) for name in ("users", "inverse") if name in more}

    def few(world: Scenario, own: None = None) -> list[Candidate]:
        able = [one for one in candidates(world) if one.design in designs]
        return [one for one in able if one.settings.get("agreement", "rated-equal") == "rated-equal"]

    monkeypatch.setattr(planning, "candidates", few)
    return plan(Scenario.model_validate({"items": 40, "rated": 6, **more}), target, **names)


def row_of(made: DesignPlan, **named: Any) -> dict[str, Any]:
    rows = [row for row in made.rows if all(row.get(name) == value for name, value in named.items())]
    assert rows
    return rows[0]


def test_every_design_has_a_row_for_each_of_its_decoders() -> None:
    every = candidates(Scenario())
    assert {one.design for one in every} == set(server_halves())
    for half in server_halves().values():
        for variant in variants(half):
            wanted = {"design": half.name, **variant}
            named = [one.settings["decoder"] for one in every if one.settings.items() >= wanted.items()]
            others = [decoder for decoder in half.decoders if decoder != POSTERIOR]
            assert named == (others or [POSTERIOR])
    safe = {one.design for one in every if one.protects_all}
    assert safe == {half.name for half in server_halves().values() if half.private and half.trust == TRUST_LOCAL}
    assert all(one.settings.get("rated_items") != "public" for one in every if one.protects_all)


def test_the_standard_setting_and_theorem_15(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, {"maxsense", "curator-items"}, items=1000, rated=30)
    assert row_of(made, decoder="centred")["users"] == pytest.approx(10.0e6, rel=0.02)
    assert row_of(made, decoder="paper")["users"] == pytest.approx(18.2e6, rel=0.02)
    delta, hat, n = 0.8 * math.exp(-0.5), 2 * math.tanh(0.5), 1000
    by_hand = 300 * n**2 * (math.log(2) + math.log(n / 0.05)) / (hat**2 * delta**2 * 30 * (1 - 1 / 30) ** 2)
    assert made.sufficient == pytest.approx(by_hand, rel=1e-9)
    assert made.best is not None
    assert (made.best["design"], made.best["decoder"]) == ("maxsense", "centred")
    assert row_of(made, design="curator-items")["users"] < made.best["users"] < made.sufficient
    lower = {row["name"]: row["users"] for row in made.bounds if row["valid"]}
    assert max(lower.values()) < made.best["users"]
    assert [row["name"] for row in made.bounds if row["binds"]] == ["capacity"]


def test_rows_are_consistent_with_their_predictors(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, set(server_halves()) - {"pairwise", "curator-pairs", "anchor"})
    for row in made.rows:
        assert row["exact"] >= 0.95
        assert 0.99 < row["accuracy"] < 1
        assert row["note"] == ""
        assert row["epsilon"] == (1.0 if row["private"] else "inf")
        assert row["guarantee"].startswith("none") == (not row["private"])
    assert made.recommended is not None
    assert made.recommended.protects_all
    cheapest = min(row["users"] for row in made.rows)
    assert made.best is not None
    assert (
        cheapest
        < made.best["users"]
        == min(row["users"] for row in made.rows if row["trust_model"] == "local" and row["private"])
    )


def test_anchor_sensing_is_recommended_where_classes_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    """279,034 [261,327, 296,740] users were measured in 20 seeds; see docs/anchor.md."""
    made = planned(monkeypatch, {"sign", "anchor"}, items=400, rated=40, like=MIRRORED)
    assert made.best is not None
    assert made.best["design"] == "anchor"
    assert made.best["users"] == pytest.approx(279_034, rel=0.1)
    assert row_of(made, design="sign")["users"] is None
    stronger = planned(monkeypatch, {"sign", "anchor"}, items=400, rated=40, like=MIRRORED, epsilon=2)
    assert row_of(stronger, design="anchor")["users"] < made.best["users"] / 2
    plain = planned(monkeypatch, {"sign", "anchor"}, items=400, rated=40, like=((0.9, 0.1),))
    assert plain.best is not None
    assert plain.best["design"] == "sign"  # which adaptive rounds let do with a fifth of what one round needs
    assert plain.best["users"] / 5 < row_of(plain, design="anchor")["users"] < plain.best["users"]
    assert made.why is None
    assert plain.why is not None
    assert f"needs {row_of(plain, design='anchor')['users']:,} users, and its rounds adapt already" in plain.why
    assert plain.as_json()["recommended_why"] == plain.why
    three = planned(monkeypatch, {"anchor"}, like=((0.9, 0.1, 0.5),)).rows[0]
    assert (three["users"], "predicted for 2 clusters" in three["note"]) == (None, True)


@pytest.mark.parametrize("order", [1, -1])
def test_the_cheapest_that_protects_all_is_recommended(order: int) -> None:
    """By users, or by epsilon and then by users; whatever stands first, and whatever is cheaper but protects less."""
    every = {one.design: one for one in candidates(Scenario()) if one.settings["decoder"] != "paper"}
    needs: dict[str, tuple[int | None, float | None]] = {
        "maxsense": (900, 0.5),
        "sign": (700, 1.0),
        "grr": (800, 0.5),
        "oue": (None, 0.25),
        "olh": (600, None),
        "curator-items": (10, 0.1),
        "full-reveal": (20, 0.1),
    }
    rows = [(every[name], {"users": users, "epsilon": epsilon}) for name, (users, epsilon) in needs.items()][::order]
    for key, design in (("users", "sign"), ("epsilon", "grr")):
        best = planning._recommended(rows, key)
        assert best is not None
        assert best[0].design == design
    claimed = [(one, row | {"channel": UNCHECKED}) for one, row in rows]
    assert planning._recommended(claimed, "users") is None


@pytest.mark.parametrize("epsilon", ["1/2", "3/2", 8])
def test_auto_never_needs_more_than_the_papers_questions(epsilon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = planned(monkeypatch, {"multi-maxsense"}, epsilon=epsilon, rated=30).rows
    assert len(rows) == 4
    for (ceil, auto), decoder in ((rows[::2], "centred"), (rows[1::2], "paper")):
        assert ceil["decoder"] == auto["decoder"] == decoder
        assert ceil["questions"] == math.ceil(parse_epsilon(epsilon) or 0)
        assert auto["users"] <= ceil["users"] * 1.0002
    assert (rows[2]["users"] < 0.8 * rows[0]["users"]) == (epsilon != "1/2")


def test_blind_designs_are_named_and_not_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = {"maxsense", "multi-maxsense", "curator-items"}
    made = planned(monkeypatch, blind, like=MIRRORED)
    assert {row["note"] for row in made.rows} == {"blind to clusters 0 and 1"}
    assert {row["users"] for row in made.rows} == {None}
    assert (made.best, made.recommended, made.sufficient) == (None, None, None)
    unequal = planned(monkeypatch, blind, like=MIRRORED, class_shares=(0.7, 0.3))
    assert all(row["users"] for row in unequal.rows)
    assert quick_best(Scenario(items=40, rated=6, like=((0.5, 0.5),)), HALF, users=10) is None


def test_pairs_see_what_sets_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, {"maxsense", "pairwise"}, items=40, rated=40, like=MIRRORED, target=HALF)
    assert made.best is not None
    assert made.recommended is not None
    assert (made.best["design"], made.recommended.settings.get("rated_items")) == ("pairwise", None)
    public = row_of(made, rated_items="public", decoder="centred")
    assert public["users"] == pytest.approx(made.best["users"], rel=1e-3)  # nobody has an unrated item


def test_one_rated_item_leaves_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, {"maxsense", "curator-items", "curator-pairs"}, rated=1, target=HALF)
    assert "blind" in row_of(made, design="maxsense")["note"]
    assert "at least 2" in row_of(made, design="curator-pairs")["note"]
    assert row_of(made, design="curator-items")["users"] > 0
    assert made.best is None


def test_given_users_tell_what_they_achieve(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (planned(monkeypatch, {"maxsense"}, users=users).rows[0] for users in (1000, 1_000_000))
    assert few["users"] == many["users"]
    assert few["accuracy"] < 0.8
    assert many["accuracy"] > 0.999
    assert few["exact"] < 0.01
    assert many["exact"] > 0.99


def test_epsilon_is_sought_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, {"multi-maxsense", "curator-items"}, users=60_000, inverse=True)
    assert {row["users"] for row in made.rows} == {60_000}
    assert all(row["exact"] == pytest.approx(0.95, abs=2e-3) for row in made.rows)
    assert made.best is not None
    assert made.recommended is not None
    local = [row["epsilon"] for row in made.rows if row["trust_model"] == "local"]
    assert made.best["epsilon"] == min(local)
    found = predictor(made.recommended.at(parse_epsilon(made.best["epsilon"])))
    assert found is not None
    assert found.exact(60_000) >= 0.95 - 1e-9
    none = planned(monkeypatch, {"maxsense"}, users=3, inverse=True)
    assert none.best is None
    assert {row["note"] for row in none.rows} == {"no epsilon is enough"}


def test_more_users_than_anybody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, {"maxsense", "multi-maxsense"}, epsilon="1e-9")
    assert {row["note"] for row in made.rows} == {TOO_MANY} == {"more than 10^15 users"}
    assert made.best is None


def test_item_queries_are_planned_for_small_catalogues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four items of three clusters want more yeses an item than rounding of a share above 1 once let through."""
    made = planned(monkeypatch, {"item-query"}, items=4, rated=4, like=((0.9, 0.1, 0.5),))
    assert made.rows[0]["users"] > 100
    assert made.rows[0]["exact"] >= 0.95


LATEST_SMALL = {
    "items": 9724,
    "rated": 70,
    "like": ((0.6258, 0.3757),),
    "cluster_shares": (6249 / 9724, 3475 / 9724),
}
"""The shape of MovieLens latest-small, as `shape_of` finds it."""
SHAPES: dict[str, tuple[dict[str, Any], Target, str | None]] = {
    "one rated": ({"items": 40, "rated": 1}, SURE, "sign"),
    "latest-small": ({**LATEST_SMALL, "epsilon": 1}, Target(success=None, accuracy=0.99), "sign"),
    "latest-small, epsilon 8": ({**LATEST_SMALL, "epsilon": 8}, Target(success=None, accuracy=0.99), None),
    "all rated, mirrored tastes": ({"items": 30, "rated": 30, "like": MIRRORED}, HALF, "pairwise"),
    "three clusters": ({"items": 30, "rated": 8, "like": ((0.9, 0.5, 0.1),), "epsilon": 2}, HALF, None),
    "nothing to tell": ({"items": 40, "rated": 6, "like": ((0.5, 0.5),)}, HALF, None),
}


@pytest.mark.parametrize("shape", sample(list(SHAPES), 2))
def test_the_quick_recommendation_is_that_of_the_plan(shape: str) -> None:
    """`blindrec data` names what `blindrec plan` recommends among all of its candidates, with all their numbers."""
    settings, target, design = SHAPES[shape]
    world = Scenario.model_validate(settings)
    best = plan(world, target, users=500).best
    assert quick_best(world, target, users=500) == best
    assert design in (None, best and best["design"])


def test_sign_sensing_is_considered() -> None:
    """The best for latest-small's shape was said to be Multi-MaxSense with 1.59 thousand million users."""
    best = quick_best(Scenario.model_validate(LATEST_SMALL), Target(success=None, accuracy=0.99), users=610)
    assert best is not None
    assert (best["design"], best["users_here"]) == ("sign", 610)
    assert best["users"] == pytest.approx(852_295_483, rel=1e-3)


def test_rows_tell_which_users_their_shares_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 500 users of many more that are needed, no row tells a share that only the needed ones would have."""
    made = planned(monkeypatch, {"maxsense", "item-query"}, HALF, users=500)
    assert made.users_here == 500
    for row in made.rows:
        assert row["users"] > row["users_here"] == 500
        assert row["accuracy"] is None if row["design"] == "item-query" else row["accuracy"] < 0.9
    told = planned(monkeypatch, {"maxsense"}, HALF)
    assert (told.users_here, told.rows[0]["users_here"]) == (None, None)
    assert told.rows[0]["accuracy"] >= 0.9


def test_what_a_plan_holds_for_is_said_in_words() -> None:
    told = in_words(Scenario.model_validate({**LATEST_SMALL, "epsilon": 1}))
    for words in ("70 of 9,724 items", "sizes 6,249, 3,475", "0.6258, 0.3757", "one label for all puts 0.6426"):
        assert words in told
    mixed = in_words(Scenario(items=40, rated=6, like=MIRRORED, class_shares=(0.7, 0.3)))
    assert "0.9, 0.1 by 0.7 of the users; 0.1, 0.9 by 0.3 of the users" in mixed


def test_at_which_failure_bounds_hold_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sure, half = (planned(monkeypatch, {"sign"}, target) for target in (SURE, HALF))
    assert [(made.failure, made.mistakes) for made in (sure, half)] == [(0.05, 0), (0.5, 4)]
    assert (half.as_json()["failure"], half.as_json()["mistakes"]) == (0.5, 4)
    for made, words in (
        (sure, "any epsilon-LDP learner needs to fail with probability 0.05 at most: fano"),
        (half, "any epsilon-LDP learner needs to have more than 4 items wrong with probability 0.5 at most: fano"),
    ):
        written = io.StringIO()
        show_plan(Console(file=written, width=300), made, "a plan")
        assert words in written.getvalue()
