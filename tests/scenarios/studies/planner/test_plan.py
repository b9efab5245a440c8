"""Plans: their rows, what they recommend, what they need with liars, and what they load."""

import math
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from evidence import sample
from runs import present, printed
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.custom import UNCHECKED
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import POSTERIOR
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.trust_models import LOCAL, TWO_SERVERS
from scenarios.config.mechanism_settings import variants
from scenarios.config.resolve import block_of, resolve
from scenarios.config.scenario import Scenario
from scenarios.data.metrics import best_matching
from scenarios.show.tables import name_of
from scenarios.studies.planner import plan as planning
from scenarios.studies.planner.least_users import Candidate, Target, any_design, candidates, users_needed
from scenarios.studies.planner.plan import DesignPlan, in_words, plan, quick_best, show_plan
from scenarios.studies.planner.withstanding import _needed, _pooled, _rows, withstanding
from scenarios.theory.liars import Influence, influence_of, universal_limit
from scenarios.theory.predictors import predictor

pytestmark = pytest.mark.usefixtures("few_draws")
SURE = Target(success=0.95, accuracy=None)
HALF = Target(success=None, accuracy=0.9)
MIRRORED = ((0.9, 0.1), (0.1, 0.9))


def planned(monkeypatch: pytest.MonkeyPatch, designs: set[str], target: Target = SURE, **more: Any) -> DesignPlan:
    """A plan among some designs: pairs take seconds."""
    names = {name: more.pop(name) for name in ("users", "inverse", "settings") if name in more}

    def few(world: Scenario, own: None = None, settings: dict[str, Any] | None = None) -> list[Candidate]:
        able = [one for one in candidates(world, own, settings) if one.design in designs]
        return [one for one in able if one.settings.get("agreement", "rated-equal") == "rated-equal"]

    monkeypatch.setattr(planning, "candidates", few)
    return plan(Scenario.model_validate({"items": 40, "rated": 6, **more}), target, **names)


@pytest.mark.thorough  # six seconds
def test_a_custom_design_whose_runs_miss_its_plan_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its precision is claimed, its estimates are biased; the honest class beside it is planned."""
    monkeypatch.setattr(planning, "candidates", lambda *options: candidates(*options)[:1])
    world = Scenario(items=20, rated=10, epsilon=3)
    honest, biased = (
        plan(world, HALF, custom={"design": name}).rows[0] for name in ("mechanisms:OUE", "mechanisms:Biased")
    )
    assert honest["users"] is not None
    assert (biased["users"], honest["note"]) == (None, "")
    assert "of the items right, where" in biased["note"]


def row_of(made: DesignPlan, **named: Any) -> dict[str, Any]:
    rows = [row for row in made.rows if all(row.get(name) == value for name, value in named.items())]
    assert rows
    return rows[0]


def test_every_design_has_a_row_for_each_of_its_decoders() -> None:
    """But for those of two servers, whose noise is that of a central promise."""
    every = candidates(Scenario())
    halves = [half for half in registered_mechanisms().values() if half.trust != TWO_SERVERS]
    assert {one.design for one in every} == {half.name for half in halves}
    for half in halves:
        for variant in variants(half):
            wanted = {"design": half.name, **variant}
            named = [one.settings["decoder"] for one in every if one.settings.items() >= wanted.items()]
            others = [decoder for decoder in half.decoders if decoder != POSTERIOR]
            assert named == (others or [POSTERIOR])
    safe = {one.design for one in every if one.protects_all}
    assert safe == {half.name for half in registered_mechanisms().values() if half.private and half.trust == LOCAL}
    assert all(one.settings.get("rated_items") != "public" for one in every if one.protects_all)


def test_replacement_takes_a_curator_the_users_of_addition_at_half_of_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of twice the scale is that of half of epsilon; devices' rows are about replacement in any case."""
    both, adds = {"maxsense", "curator-items"}, {"neighbours": "add-remove"}
    made = planned(monkeypatch, both, epsilon=2)
    halved = planned(monkeypatch, both, epsilon=1, settings=adds)
    one, other = (row_of(each, design="curator-items") for each in (made, halved))
    assert (one["users"], one["accuracy"]) == (other["users"], other["accuracy"])
    assert (one["neighbours"], other["neighbours"], other["delta"]) == ("replace", "add-remove", 0.0)
    assert "one user added or removed" in other["guarantee"]
    assert "one user's ratings replaced" in one["guarantee"]
    assert row_of(halved, design="maxsense")["neighbours"] == "replace"
    assert one["users"] > row_of(planned(monkeypatch, both, epsilon=2, settings=adds), design="curator-items")["users"]
    for plan_of, words in ((halved, "0; curator-items: neighbours add-remove, delta 0"), (made, "0\n")):
        text = printed(partial(show_plan, made=plan_of, title="a plan"), 300)
        assert f"epsilon: neighbours replace, delta {words}" in text


def test_anchor_sensing_is_recommended_where_classes_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    """279,034 [261,327, 296,740] users were measured in 20 seeds; see docs/explanation/anchor.md."""
    both = {"sign", "anchor"}
    world: dict[str, Any] = {"items": 400, "rated": 40}
    made, plain = (planned(monkeypatch, both, **world, like=like) for like in (MIRRORED, ((0.9, 0.1),)))
    best, other = present(made.best), present(plain.best)
    assert (best["design"], best["users"], made.why) == ("anchor", pytest.approx(279_034, rel=0.1), None)
    assert row_of(made, design="sign")["users"] is None
    stronger = planned(monkeypatch, both, **world, like=MIRRORED, epsilon=2)
    assert row_of(stronger, design="anchor")["users"] < best["users"] / 2
    assert other["design"] == "sign"  # which adaptive rounds let do with a fifth of what one round needs
    anchored = row_of(plain, design="anchor")["users"]
    assert other["users"] / 5 < anchored < other["users"]
    assert f"needs {anchored:,} users, and its rounds adapt already" in present(plain.why)
    assert plain.as_json()["recommended_why"] == plain.why
    three = planned(monkeypatch, {"anchor"}, like=((0.9, 0.1, 0.5),)).rows[0]
    assert (three["users"], "predicted for 2 clusters" in three["note"]) == (None, True)


@pytest.mark.parametrize("order", [1, -1])
def test_the_cheapest_that_protects_all_is_recommended(order: int) -> None:
    """By users, or by epsilon and then by users; whatever stands first, and whatever is cheaper but protects less."""
    every = {one.design: one for one in candidates(Scenario()) if one.settings["decoder"] != "paper"}
    needs: list[tuple[str, int | None, float | None]] = [("maxsense", 900, 0.5), ("sign", 700, 1.0), ("grr", 800, 0.5)]
    needs += [("oue", None, 0.25), ("olh", 600, None), ("curator-items", 10, 0.1), ("full-reveal", 20, 0.1)]
    rows = [(every[name], {"users": users, "epsilon": epsilon}) for name, users, epsilon in needs][::order]
    for key, design in (("users", "sign"), ("epsilon", "grr")):
        best = present(planning._recommended(rows, key))
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
    assert (made.best["design"], made.best.get("rated_items")) == ("pairwise", None)
    public = row_of(made, rated_items="public", decoder="centred")
    assert public["users"] == pytest.approx(made.best["users"], rel=1e-3)  # nobody has an unrated item


def test_one_rated_item_leaves_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, {"maxsense", "curator-items", "curator-pairs"}, rated=1, target=HALF)
    assert "blind" in row_of(made, design="maxsense")["note"]
    assert "at least 2" in row_of(made, design="curator-pairs")["note"]
    assert row_of(made, design="curator-items")["users"] > 0
    assert made.best is None


def test_epsilon_is_sought_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(monkeypatch, {"multi-maxsense", "curator-items"}, users=60_000, inverse=True)
    assert {row["users"] for row in made.rows} == {60_000}
    assert all(row["exact"] == pytest.approx(0.95, abs=2e-3) for row in made.rows)
    assert made.best is not None
    local = [row["epsilon"] for row in made.rows if row["trust_model"] == "local"]
    assert made.best["epsilon"] == min(local)
    forecast = present(predictor(present(made.recommended).at(parse_epsilon(made.best["epsilon"]))))
    assert forecast.exact(60_000) >= 0.95 - 1e-9
    none = planned(monkeypatch, {"maxsense"}, users=3, inverse=True)
    assert none.best is None
    assert {row["note"] for row in none.rows} == {"no epsilon is enough"}


def test_item_queries_are_planned_for_small_catalogues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four items of three clusters want more yeses an item than rounding of a share above 1 once let through."""
    made = planned(monkeypatch, {"item-query"}, items=4, rated=4, like=((0.9, 0.1, 0.5),))
    assert made.rows[0]["users"] > 100
    assert made.rows[0]["exact"] >= 0.95


LATEST_SMALL = {"items": 9724, "rated": 70, "like": ((0.6258, 0.3757),), "cluster_shares": (6249 / 9724, 3475 / 9724)}
"""The shape of MovieLens latest-small, as `shape_of` finds it."""
SHAPES: dict[str, tuple[dict[str, Any], Target, str | None]] = {
    "one rated": ({"items": 40, "rated": 1}, SURE, "sign"),
    "latest-small": ({**LATEST_SMALL, "epsilon": 1}, Target(success=None, accuracy=0.99), "sign"),
    "latest-small, epsilon 8": ({**LATEST_SMALL, "epsilon": 8}, Target(success=None, accuracy=0.99), None),
    "all rated, mirrored tastes": ({"items": 30, "rated": 30, "like": MIRRORED}, HALF, "pairwise"),
    "three clusters": ({"items": 30, "rated": 8, "like": ((0.9, 0.5, 0.1),), "epsilon": 2}, HALF, None),
    "nothing to tell": ({"items": 40, "rated": 6, "like": ((0.5, 0.5),)}, HALF, None),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", sample(list(SHAPES), 2))
def test_the_quick_recommendation_is_that_of_the_plan(shape: str) -> None:
    """`blindrec data` names what `blindrec plan` recommends among all of its candidates, with all their numbers."""
    settings, target, design = SHAPES[shape]
    world = Scenario.model_validate(settings)
    best = plan(world, target, users=500).best
    assert quick_best(world, target, users=500) == best
    assert design in (None, best and best["design"])


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


def test_classes_that_a_plan_holds_for_are_said_in_words() -> None:
    mixed = in_words(Scenario(items=40, rated=6, like=MIRRORED, class_shares=(0.7, 0.3)))
    assert "0.9, 0.1 by 0.7 of the users; 0.1, 0.9 by 0.3 of the users" in mixed


WORLD = Scenario(items=1000, rated=30, **any_design())
ALL_RIGHT = Target(success=0.95, accuracy=None)


def rows(target: Target, share: float, design: str = "sign") -> dict[float, dict[str, Any]]:
    one = Candidate(world=WORLD, settings={"design": design, "decoder": "posterior" if design == "sign" else "centred"})
    row = {**one.settings, "users": users_needed(one, WORLD.epsilon, target).users, "epsilon": 1.0}
    found = _rows(one, row, target, share)
    return {row["pool_size"] if row["theta"] is None else row["theta"]: row for row in found}


def test_pools_cost_users_and_let_more_liars_be_as_the_spec_says() -> None:
    """f* of one item: .160 % of all items together, .489 % in pools of 100, 1.10 % one by one, the universal limit."""
    found = rows(ALL_RIGHT, 0.001)
    tipping = {size: row["tipping_share"] for size, row in found.items()}
    assert [tipping[size] for size in (1000, 100, 1)] == pytest.approx([0.00160, 0.00489, 0.01097], abs=1e-5)
    assert tipping[1] == pytest.approx(universal_limit(block_of(WORLD), WORLD.epsilon))
    honest, alone = found[1000]["users_honest"], math.comb(29, 14) / 2**29  # that one of 30 signs decides
    for size, cost in ((1000, 1.0), (1, 1000 * alone**2)):
        left = 1 - 0.001 / 0.999 * (1 - tipping[size]) / tipping[size]
        assert found[size]["users"] == pytest.approx(honest * cost / (0.999 * left) ** 2, abs=1)
    assert found[100]["users"] < found[1000]["users"] < found[1]["users"]
    assert rows(ALL_RIGHT, 0.001, "maxsense")[1.0]["tipping_share"] == pytest.approx(0.0034, abs=1e-5)


def test_pools_cost_users_by_the_square_of_their_noise() -> None:
    run = Candidate(world=WORLD, settings={"design": "sign", "decoder": "posterior"}).at(WORLD.epsilon)
    influence = present(influence_of(run))
    pools = list(_pooled(run, influence))
    assert [changed["pool_size"] for changed, _, _ in pools] == [1000, 334, 100, 34, 10, 1]
    for _, cost, pooled in pools:
        assert cost == pytest.approx((pooled.noise / influence.noise) ** 2)


def test_liars_who_move_nothing_cost_their_own_answers_alone() -> None:
    """5 % of the items are wrong where the middle is 1.645 deviations away: 27,055 honest users at a gap of .02."""
    influence = Influence(levels=np.array([0.01, -0.01]), deviation=np.ones(2), shift=lambda _: 0.0)
    run = Candidate(world=WORLD, settings={"design": "sign", "decoder": "posterior"}).at(WORLD.epsilon)
    users, note = _needed(influence, run, Target(success=None, accuracy=0.95), 0.2, 20_000.0)
    least = (ndtri(0.95) / 0.01 / 0.8) ** 2
    assert users is not None
    assert least <= users <= 1.02 * least + 1
    assert not note


@pytest.mark.thorough
def test_one_percent_of_liars_leaves_item_queries_for_all_right_and_everything_for_most() -> None:
    """All right: 10^10 users, one item a pool, and nothing else. 95 % right: little more than honest users take."""
    strict = rows(ALL_RIGHT, 0.01)
    assert [size for size, row in strict.items() if row["users"]] == [1]
    assert 1e10 < strict[1]["users"] < 3e10
    assert "turn an item round from" in strict[1000]["note"]
    pools = rows(Target(success=None, accuracy=0.95), 0.01)
    most = pools[1000]
    assert all(row["users"] > 1.01 * row["users_honest"] for row in pools.values())
    assert pools[100]["users"] < pools[10]["users"] < pools[1]["users"]
    assert 1.1 * most["users_honest"] < most["users"] < 2 * most["users_honest"]


def test_fewer_sensed_items_cost_users_and_let_more_liars_be() -> None:
    """Of MaxSense; an honest gap is (1 - p b')^29, in all."""
    found = rows(ALL_RIGHT, 0.001, "maxsense")
    assert sorted(found) == [0.25, 0.5, 1.0, 2.0]
    tipping = [found[theta]["tipping_share"] for theta in (0.25, 0.5, 1.0, 2.0)]
    assert tipping == sorted(tipping, reverse=True)
    alone, honest = (0.462117 * 0.03 * 0.8 / 2 * (1 - 0.5 * p) ** 29 for p in (0.25 / 30, 1 / 30))
    assert tipping[0] / (1 - tipping[0]) == pytest.approx(alone / (1 - 0.25 / 30), rel=0.05)
    assert tipping[2] / (1 - tipping[2]) == pytest.approx(honest / (1 - 1 / 30), rel=0.05)
    left = 1 - 0.001 / 0.999 * (1 - tipping[0]) / tipping[0]
    cost = found[0.25]["users"] * (0.999 * left) ** 2 / found[0.25]["users_honest"]
    assert 1.5 < cost < 1.8


def test_a_pairs_answer_is_turned_round_as_the_spec_says() -> None:
    """f* of one item: .0257 % at N = 1000 and w = 30; 22.8 % where everybody rated all of 100 items."""
    for items, rated, tips in ((1000, 30, 0.000257), (100, 100, 0.228)):
        influence = present(influence_of(resolve(Scenario(design="pairwise", items=items, rated=rated, users=1000))))
        assert influence.tipping(1) == pytest.approx(tips, rel=5e-3)
        assert influence.tipping(items // 2) == 1.0


@pytest.mark.thorough
def test_beyond_the_universal_limit_nothing_is_planned_and_the_limit_is_named() -> None:
    made = plan(Scenario(items=40, rated=8, **any_design()), ALL_RIGHT)
    odds = math.tanh(0.5) * 0.2 * 0.8
    limit = odds / (1 + odds)
    with pytest.raises(InputError, match=rf"from {limit:.4g} on liars turn an item round at epsilon 1, .* tanh\("):
        withstanding(made, limit, None)
    assert withstanding(made, 0.5 * limit, None)["recommended"]["pool_size"] < 40
    with pytest.raises(InputError, match="above 0 and below 1"):
        withstanding(made, 1.0, None)


@pytest.mark.thorough
def test_liars_lie_at_the_epsilon_that_a_plan_found() -> None:
    made = plan(Scenario(items=20, rated=5, **any_design()), ALL_RIGHT, users=3000, inverse=True)
    found = withstanding(made, 0.03, None)
    sought = {name_of(row): row["epsilon"] for row in made.rows}
    told = {row["design"]: row["epsilon"] for row in found["designs"]}
    assert len(set(told.values())) > 3
    assert told.items() <= sought.items()
    assert found["epsilon"] == max(told.values())
    sign = next(row for row in found["designs"] if row["design"] == "sign" and row["pool_size"] == 20)
    alone = influence_of(resolve(Scenario(design="sign", items=20, rated=5, epsilon=parse_epsilon(sign["epsilon"]))))
    assert alone is not None
    assert sign["tipping_share"] == alone.tipping(1)


def test_where_clusters_are_liked_alike_no_advice_is_given() -> None:
    made = plan(Scenario(items=20, rated=5, like=((0.5, 0.5),), **any_design()), ALL_RIGHT)
    found = withstanding(made, 0.01, None)
    assert (found["designs"], found["recommended"], found["tipping_limit"]) == ([], None, 0.0)


PLAN = """
import sys
from scenarios.cli import main
sys.argv = ["blindrec", "plan", "--items", "4000", "--rated", "120"]  # too many for pairs to be emulated
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("shape", [(2, 2), (2, 1), (3, 3), (4, 2)])
def test_matchings_are_scipys_ties_and_near_ties_among_them(shape: tuple[int, int]) -> None:
    """A tie that is broken otherwise moves a plan's users by one."""
    generator = np.random.default_rng(2)
    whole = generator.integers(0, 4, (200, *shape))
    broken = 0.1 * whole + generator.choice([0, 1e-17, 1e-16], (200, *shape))
    for worth in (*whole, *broken, *generator.random((200, *shape))):
        ours, theirs = best_matching(worth), linear_sum_assignment(worth, maximize=True)
        assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]


def test_no_number_is_matched_by_nothing() -> None:
    with pytest.raises(ValueError, match="invalid numeric entries"):
        best_matching(np.array([[1.0, np.nan], [0.0, 1.0]]))


@pytest.mark.thorough
def test_a_plan_that_emulates_no_pairs_loads_neither_optimizers_nor_statistics() -> None:
    said = subprocess.run([sys.executable, "-c", PLAN], capture_output=True, text=True, check=True)
    assert "recommended: " in said.stdout
    loaded = set(said.stderr.split())
    assert "scipy.special" in loaded
    assert not loaded & {"scipy.optimize", "scipy.stats", "pandas", "sklearn", "ray"}
