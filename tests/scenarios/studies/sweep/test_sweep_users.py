"""The sweep over users: grids and what is wrong with them, summaries, the planner beside them, and the figure."""

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import THOROUGH
from runs import line_of, present

from coordinator.protocol.arrays import Floats
from scenarios.show.intervals import paired_ratio
from scenarios.studies.planner.least_users import Candidate, Target, users_needed
from scenarios.studies.sweep import threshold
from scenarios.studies.sweep import users_sweep as users
from scenarios.studies.sweep.grid import SettingKey
from scenarios.studies.sweep.sweeps import built_in_grids, load_sweep
from scenarios.studies.sweep.threshold import ExponentFit, axis_value, bootstrap, guess
from scenarios.studies.sweep.users_sweep import UsersGrid, varied
from scenarios.theory.bounds import all_bounds, binding

read_grid = UsersGrid.read


def grid(*tables: dict[str, Any], **more: Any) -> UsersGrid:
    return read_grid({"base": {"rated": 5}, "grid": list(tables), **more})


def free_grid(*tables: dict[str, Any], **base: Any) -> UsersGrid:
    return read_grid({"base": base, "grid": list(tables)})


def test_lists_of_a_table_expand_as_a_product_and_tables_by_themselves() -> None:
    read = grid({"items": [40, 60], "epsilon": [1, "inf"]}, {"items": 80, "rated": [4, 8]})
    told = [(one.items, one.rated, one.epsilon) for one in read.settings]
    assert told == [(40, 5, 1), (40, 5, None), (60, 5, 1), (60, 5, None), (80, 4, 1), (80, 8, 1)]
    likes = grid({"items": 40, "like": ["0.9,0.1", "0.9,0.1;0.1,0.9"]}).settings  # a text, so that lists stay lists
    assert [one.like for one in likes] == [((0.9, 0.1),), ((0.9, 0.1), (0.1, 0.9))]
    shares = free_grid({"items": [40, 6]}, rated_share=0.25).settings
    assert [(one.items, one.rated) for one in shares] == [(40, 10), (6, 2)]


def test_what_is_not_given_has_a_default() -> None:
    read = grid({"items": 40})
    assert (read.seeds, read.fit, [*read.readings(read.settings[0])]) == (20, (), ["centred"])
    paper = read_grid({"base": {"decoder": "paper"}, "grid": [{"items": 40}], "most_users": 7})
    assert ([*paper.readings(paper.settings[0])], paper.settings[0].users) == (["paper"], 7)


def test_axes_and_divisors() -> None:
    (one,) = grid({"items": 100, "rated": 10, "epsilon": 2}).settings
    assert axis_value("items/rated", one) == 10
    assert axis_value("tanh2", one) == pytest.approx(0.5800, abs=1e-4)
    assert ExponentFit(x="rated", per=("items^2", "log items")).divisor(one) == pytest.approx(1e4 * 4.60517, rel=1e-5)
    assert ExponentFit(x="rated").divisor(one) == 1


def test_where_chooses_settings() -> None:
    read = grid({"items": 40, "epsilon": ["1/2", "inf"], "like": "0.8,0.1"}, {"items": 60, "design": "pairwise"})
    for where, chosen in (
        ({}, [0, 1, 2]),
        ({"epsilon": 0.5}, [0]),
        ({"epsilon": "inf"}, [1]),
        ({"epsilon": "default"}, [2]),
        ({"like": "0.8,0.1", "design": "maxsense"}, [0, 1]),
    ):
        fit = ExponentFit(x="items", where=where)
        assert [place for place, setting in enumerate(read.settings) if fit.concerns(setting)] == chosen


def test_a_sweep_is_known_by_what_results_depend_on() -> None:
    same = [grid({"items": [40, 60]}, seeds=seeds, fit=fit) for seeds, fit in ((3, []), (9, [{"x": "items"}]))]
    assert same[0].content() == same[1].content()
    others = [grid({"items": [40, 61]}), grid({"items": [40, 60], "epsilon": "1.0000000000000000001"})]
    changes: list[dict[str, Any]] = [{"share": 0.98}, {"most_users": 9}, {"decoders": ["centred", "paper"]}, TOP]
    others += [grid({"items": [40, 60]}, **one) for one in changes]
    assert len({json.dumps(one.content()) for one in [*same, *others]}) == 7


@pytest.mark.few(3)
@pytest.mark.parametrize("name", built_in_grids())
def test_built_in_grids_are_sound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where thresholds are looked for is predicted in `make test-thorough`, but for pairs, which take seconds each."""
    monkeypatch.setattr(users, "guess", lambda one: guess(one) if THOROUGH and one.design != "pairwise" else 1e6)
    read = load_sweep(name, seeds=3)
    assert len({key.seed for key in read.units({})}) == 3
    assert ("sweep" in read.content) == (name in ("accuracy", "lying", "poison", "voters"))


TOP = {"criteria": ["top"]}
WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["grid is empty", "[[grid]]"]),
    ({"grid": []}, ["grid is empty"]),
    ({"grid": [{"items": []}]}, ["items", "empty list"]),
    ({"grid": [{"items": [40, 40]}]}, ["(items = 40)", "twice"]),
    ({"grid": [{"items": 40}, {"items": 40, "epsilon": 1}]}, ["(items = 40, epsilon = 1)", "twice"]),
    ({"grid": [{"items": 40, "users": 9}]}, ["users", "leave it out"]),
    ({"base": {"users": 9}, "grid": [{"items": 40}]}, ["users", "leave it out"]),
    ({"base": {"ratings": "r.csv"}, "grid": [{"theta": 1}]}, ["ratings", "block model"]),
    ({**TOP, "base": {"ratings": "r.csv"}, "grid": [{"theta": 1}]}, ["most_users is 1000000000", "100000000"]),
    ({**TOP, "grid": [{"items": 40, "design": "pairwise"}]}, ["criterion top", "pairwise"]),
    ({"grid": [{"items": 40}], "criteria": ["top", "top"]}, ["criteria are top, top", "once"]),
    ({"grid": [{"items": 40}], "criteria": ["best"]}, ["criteria", "'best'"]),
    ({"grid": [{"items": 40, "seed": [1, 2]}]}, ["seed", "[base]"]),
    ({"grid": [{"items": 40, "decoder": ["paper"]}]}, ["decoder", "list decoders"]),
    ({"grid": [{"itens": 40}]}, ["(itens = 40)", "'itens'", "unknown"]),
    ({"grid": [{"items": [40, 1]}]}, ["(items = 1)", "items", "2"]),
    ({"base": {"rated": 20}, "grid": [{"items": [40, 12]}]}, ["(items = 12)", "rated", "20", "12"]),
    ({"grid": [{"items": 40, "epsilon": [1, -1]}]}, ["(items = 40, epsilon = -1)", "above 0"]),
    ({"grid": [{"items": 40, "like": "0.9"}]}, ["like", "2 item clusters"]),
    ({"grid": [{"items": 40, "cluster_shares": "1,0"}]}, ["cluster_shares", "larger share"]),
    ({"grid": [{"items": 40, "rated": 4, "rated_share": 0.1}]}, ["rated_share is 0.1", "rated is 4", "one of them"]),
    ({"grid": [{"items": 40, "rated_share": 1.5}]}, ["rated_share is 1.5", "at most 1"]),
    ({"grid": [{"rated_share": 0.5}]}, ["rated_share", "items"]),
    ({"grid": [{"items": 40, "policy": "fixed"}]}, ["'fixed'", "single round"]),
    ({"base": {"design": "grr"}, "grid": [{"items": 40, "trust": "shuffled"}]}, ["'shuffled'", "threshold"]),
    ({"base": {"design": "set"}, "grid": [{"items": 40, "periods": 3}]}, ["periods is 3", "threshold"]),
    ({"grid": [{"items": 40, "design": "pairwise", "policy": "eliminate"}]}, ["'eliminate'", "pairwise"]),
    ({"grid": [{"items": 40}], "seeds": 0}, ["seeds is 0", "1"]),
    ({"grid": [{"items": 40}], "seeds": 2.5}, ["seeds is 2.5"]),
    ({"grid": [{"items": 40}], "share": 1.1}, ["share is 1.1"]),
    ({"grid": [{"items": 40}], "resolution": 0}, ["resolution is 0"]),
    ({"grid": [{"items": 40}], "most_users": 0}, ["most_users is 0"]),
    ({"grid": [{"items": 40}], "decoders": ["median"]}, ["(items = 40)", "'median'", "centred"]),
    ({"grid": [{"items": 40}], "decoders": ["paper", "paper"]}, ["decoders", "once"]),
    ({"grid": [{"items": 40}], "sedes": 3}, ["'sedes'", "unknown", "seeds"]),
    ({"grid": {"items": 40}}, ["grid"]),
    ({"grid": [{"items": 40}], "fit": [{"x": "users"}]}, ["fit.0.x", "'users'", "items"]),
    ({"grid": [{"items": 40}], "fit": [{"x": "items", "y": 1}]}, ["fit.0.y", "unknown", "where"]),
    ({"grid": [{"items": 40}], "fit": [{"x": "items"}]}, ["U* on items", "1 value", "two"]),
    ({"grid": [{"items": [40, 60]}], "fit": [{"x": "items", "where": {"rates": 1}}]}, ["rates", "no key"]),
    ({"grid": [{"items": [40, 60]}], "fit": [{"x": "items", "where": {"epsilon": 2}}]}, ["0 value"]),
    ({"grid": [{"items": 40, "epsilon": [1, "inf"]}], "fit": [{"x": "epsilon"}]}, ["epsilon", "infinite", "where"]),
    (
        {"grid": [{"items": [40, 60], "design": ["maxsense", "pairwise"]}], "fit": [{"x": "items", "label": "both"}]},
        ["'both'", "maxsense, pairwise rated-equal", "where"],
    ),
]


@pytest.mark.parametrize(("values", "words"), WRONG, ids=lambda one: " ".join(one) if isinstance(one, list) else "")
def test_grids_that_are_wrong(values: dict[str, Any], words: list[str]) -> None:
    line = line_of(lambda: read_grid(values))
    assert all(word in line for word in words), line


def test_grid_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("items = ")
    for name, words in {
        "maxsens": ["'maxsens'", "maxsense-items"],
        str(tmp_path / "none.toml"): ["none.toml", "cannot be read"],
        str(tmp_path / "grid.toml"): ["grid.toml", "no TOML"],
        str(tmp_path): ["cannot be read"],
    }.items():
        line = line_of(partial(load_sweep, name))
        assert all(word in line for word in words), line


def measurement(users: Mapping[tuple[str, str], int | None], **more: Any) -> dict[str, Any]:
    """The thresholds of one setting and seed, by decoder and criterion."""
    thresholds = [{"decoder": key[0], "criterion": key[1], "users": value} for key, value in users.items()]
    return {"thresholds": thresholds, "devices": 7, "seconds": 0.5, "accuracies": {}, **more}


def planted(grid: UsersGrid, power: float, *, ratio: float = 1.0, noise: float = 0.26, most: float = math.inf) -> Any:
    """Units whose thresholds are ``1000 N^power``, log-normal around it; the paper's are ``ratio`` times as large."""
    world = np.random.default_rng(5)
    units: dict[SettingKey, dict[str, Any]] = {}
    for seed in range(grid.seeds):
        for place, setting in enumerate(grid.settings):
            base = 1000 * (setting.items or 0) ** power * math.exp(noise * world.standard_normal())
            users: dict[tuple[str, str], int | None] = {}
            for decoder in grid.readings(setting):
                size = round(base * (ratio if decoder == "paper" else 1))
                users |= {(decoder, "exact"): size if size <= most else None, (decoder, "share"): size // 2}
            units[SettingKey(place, seed)] = measurement(users)
    return units


def small_grid(**more: Any) -> UsersGrid:
    fit = {"x": "items", "per": ["items"], "expected": 1.0}
    table = {"items": [40, 80, 160], "rated": 5}
    return read_grid({"seeds": 12, "decoders": ["centred", "paper"], "grid": [table], "fit": [fit], **more})


def test_a_planted_exponent_comes_back() -> None:
    """Power 2 over N is slope 1 after division by N; power 2.4 is told from it."""
    grid = small_grid()
    for power, covers in ((2.0, True), (2.4, False)):
        told = grid.result(planted(grid, power))["fits"]
        exact = next(row for row in told if (row["decoder"], row["criterion"]) == ("centred", "exact"))
        assert exact["slope"] == pytest.approx(power - 1, abs=0.15)
        assert exact["low"] < exact["slope"] < exact["high"]
        assert (exact["covers"], exact["expected"], exact["settings"], exact["left_out"]) == (covers, 1.0, [0, 1, 2], 0)
    exactly = grid.result(planted(grid, 2.0, noise=0.0))["fits"][0]
    assert [exactly[name] for name in ("slope", "low", "high")] == pytest.approx([1, 1, 1], abs=1e-3)


def test_settings_that_were_not_always_reached_are_left_out_of_fits() -> None:
    grid = small_grid()
    told = grid.result(planted(grid, 2.0, most=1000 * 160**2))
    exact = next(row for row in told["fits"] if row["criterion"] == "exact")
    assert (exact["settings"], exact["left_out"]) == ([0, 1], 1)
    last = next(row for row in told["settings"] if (row["items"], row["criterion"]) == (160, "exact"))
    assert 0 < last["unreached"] < 12
    nothing = grid.result(planted(grid, 2.0, most=0))
    assert {row["slope"] for row in nothing["fits"] if row["criterion"] == "exact"} == {None}
    assert {row["ratio"] for row in nothing["ratios"] if row["criterion"] == "exact"} == {None}


def _noisy(world: np.random.Generator, x: Floats, seeds: int) -> Floats:
    """Ordinates of slope 1 whose seeds share half of their variance over all settings."""
    shared = world.standard_normal((1, seeds)) * x[:, None]
    return x[:, None] + 0.2 * shared + 0.2 * world.standard_normal((x.size, seeds))


@pytest.mark.few(1)
@pytest.mark.parametrize("seeds", [5, 20])
def test_slopes_are_covered(seeds: int) -> None:
    """95 % intervals of 400 planted fits, with seeds that are dependent over settings: 90 % or more cover.

    If the coverage were 95 %, fewer than 90 % of 400 would cover with probability below 1e-4; resampling settings by
    themselves, as if seeds were independent, covers in about four of five.
    """
    world, x = np.random.default_rng(3), np.log([1.0, 2.0, 4.0])
    found = [bootstrap(x, _noisy(world, x, seeds)) for _ in range(400)]
    assert sum(one is not None and one[0] <= 1 <= one[1] for one in found) >= 360


def test_a_slope_is_least_squares() -> None:
    x, y = np.log([1.0, 2.0, 4.0]), np.array([[0.0, 2.0], [1.0, 3.0], [5.0, 4.0]])
    assert threshold.slope(x, y) == pytest.approx(np.polyfit(np.repeat(x, 2), y.ravel(), 1)[0])
    assert bootstrap(x, y[:, :1]) is None


def test_paired_ratios() -> None:
    """Pairing takes out what seeds share: the interval of a constant ratio is a point."""
    grid = small_grid()
    told = grid.result(planted(grid, 2.0, ratio=1.8))["ratios"]
    assert [(row["items"], row["criterion"]) for row in told[:2]] == [(40, "exact"), (40, "share")]
    for row in told:
        assert [row[name] for name in ("ratio", "low", "high")] == pytest.approx([1.8] * 3, rel=1e-3)
    world = np.random.default_rng(2)
    noisy = paired_ratio(np.exp(0.1 * world.standard_normal(10)), np.ones(10))
    mean = math.log(noisy["ratio"])
    assert math.log(noisy["high"]) - mean == pytest.approx(mean - math.log(noisy["low"]))
    half = paired_ratio(np.array([2.0, math.nan, 8.0]), np.array([1.0, 1.0, 1.0]))
    assert (half["ratio"], half["seeds"]) == (pytest.approx(4), 2)
    assert paired_ratio(np.array([2.0]), np.array([1.0]))["low"] is None


def planned_grid(**more: Any) -> UsersGrid:
    fit = {"x": "items", "per": ["log items"], "criteria": ["exact"]}
    tables = [{"items": [50, 100], "rated": 5}]
    return read_grid({"seeds": 8, "decoders": ["centred", "paper"], "probe": 0.9, "grid": tables, "fit": [fit], **more})


def scattered(read: UsersGrid, factor: float, *, offset: float = 0.0) -> dict[SettingKey, dict[str, Any]]:
    """What seeds would measure that scatter by 1 % around ``factor`` times the planned users."""
    plans = read.predictions()
    found = dict[SettingKey, dict[str, Any]]()
    for place in range(len(read.settings)):
        for seed in range(read.seeds):
            spread = 1 + 0.01 * (seed - (read.seeds - 1) / 2) / read.seeds
            here = {key[1:]: round(factor * spread * (value or 0)) for key, value in plans.items() if key[0] == place}
            shares = dict.fromkeys(read.readings(read.settings[place]), 0.9 + offset + 0.002 * (-1) ** seed)
            found[SettingKey(place, seed)] = measurement(here, accuracies=shares)
    return found


def test_predictions_are_those_of_the_planner() -> None:
    read = planned_grid()
    plans = read.predictions()
    assert len(plans) == 2 * 2 * 2
    for place, setting in enumerate(read.settings):
        for decoder in ("centred", "paper"):
            one = Candidate(world=setting, settings={"design": "maxsense", "decoder": decoder})
            half = users_needed(one, setting.epsilon, Target(success=0.5, accuracy=None)).users
            assert plans[place, decoder, "exact"] == half
            share = present(plans[place, decoder, "share"])
            if place == 0:  # 99 % of 50 items are all of them
                assert share == half
            else:  # one of 100 may be wrong: half of the runs do where 1.678 are expected to be
                one_wrong = Target(success=None, accuracy=1 - 0.01678)
                assert share == pytest.approx(users_needed(one, setting.epsilon, one_wrong).users, rel=1e-3)


@pytest.mark.parametrize(("factor", "inside"), [(1.0, True), (1.1, False), (0.9, False)])
def test_users_inside_the_interval(factor: float, inside: bool) -> None:
    read = planned_grid()
    summary = read.result(scattered(read, factor))
    assert {row["inside"] for row in summary["settings"]} == {inside}
    assert all(row["predicted"] == pytest.approx(row["users"] / factor, rel=0.01) for row in summary["settings"])
    fit = next(row for row in summary["fits"] if row["decoder"] == "centred")
    assert fit["predicted"] == pytest.approx(fit["slope"], abs=0.01)


@pytest.mark.parametrize(("offset", "within"), [(0.0, True), (0.02, False), (-0.02, False)])
def test_probes(offset: float, within: bool) -> None:
    read = planned_grid()
    rows = read.probe_rows(scattered(read, 1.0, offset=offset))
    assert len(rows) == 2 * 2
    for row in rows:
        assert row["predicted"] == pytest.approx(0.9, abs=1e-3)
        assert row["accuracy"] == pytest.approx(0.9 + offset)
        assert row["standard_error"] == pytest.approx(0.002 * math.sqrt(8 / 7) / math.sqrt(8))
        assert row["within"] == within


def test_probes_that_nobody_can_measure_or_predict_have_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned_grid(probe=None).probes_of(planned_grid().settings[0]) == ()
    few = planned_grid(most_users=100, decoders=["centred"])
    assert few.probes_of(few.settings[1]) == (0,)
    assert few.probe_rows(scattered(few, 1.0)) == []
    alone, read = planned_grid(seeds=1), planned_grid()
    assert alone.probe_rows(scattered(alone, 1.0)) == []
    measured = scattered(read, 1.0)
    monkeypatch.setattr(users, "predictor", lambda _: None)
    assert read.probe_rows(measured) == []


def test_a_blind_design_is_not_planned() -> None:
    mirrored = [[0.9, 0.1], [0.1, 0.9]]
    read = planned_grid(base={"like": mirrored}, decoders=["centred"], fit=[])
    assert set(read.predictions().values()) == {None}
    assert {read.probes_of(setting) for setting in read.settings} == {(0,)}
    one = measurement({("centred", "exact"): 5, ("centred", "share"): None})
    measured = {SettingKey(place, 0): one for place in range(2)}
    assert {row["inside"] for row in read.result(measured)["settings"]} == {None}


def points(read: UsersGrid, users: int | None = 10**6) -> Any:
    """The points of a summary in which every setting needs as many users."""
    rows: list[dict[str, Any]] = [
        {"setting": place, "criterion": criterion, "decoder": "centred", "users": users, "low": 1, "high": None}
        for place in range(len(read.settings))
        for criterion in ("exact", "share")
    ]
    for row in rows:
        if row["criterion"] == "exact" and read.settings[row["setting"]].rated == 5:
            row["predicted"] = 7.0
    return read.curves(rows)


def labels(read: UsersGrid, axis: str) -> dict[str, list[float]]:
    """Abscissae of every measured curve along an axis."""
    chosen = points(read).query("kind == 'measured' and criterion == 'exact' and axis == @axis")
    return {str(label): sorted(line["x"]) for label, line in chosen.groupby("label")}


@pytest.mark.parametrize(
    ("tables", "axes"),
    [
        ([{"items": 40}], ["items"]),
        ([{"items": [40, 60]}], ["items"]),
        ([{"items": 40, "rated": [4, 8]}], ["rated"]),
        ([{"items": 40, "epsilon": [1, "inf"]}], ["items"]),
        ([{"items": 40, "epsilon": [1, 2, "inf"]}], ["epsilon"]),
        ([{"items": [40, 60], "epsilon": [1, 2]}], ["items", "epsilon"]),
        ([{"items": [40, 60], "rated_share": 1.0, "design": "pairwise"}], ["items"]),
        ([{"items": 40, "rated": [4, 8]}, {"items": 60, "rated": [6, 12], "epsilon": 2}], ["rated"]),
    ],
)
def test_axes(tables: list[dict[str, Any]], axes: list[str]) -> None:
    assert varied(free_grid(*tables).settings) == axes


def test_two_tables_of_one_design_are_two_curves_and_what_goes_in_step_with_an_axis_makes_none() -> None:
    in_step = free_grid({"items": [40, 60], "rated_share": 0.5, "epsilon": [1, 2]})
    assert labels(in_step, "items") == {f"maxsense, epsilon {e}, centred": [40, 60] for e in ("1.0", "2.0")}
    read = free_grid({"items": 40, "rated": [4, 8, 16]}, {"items": 60, "rated": [6, 12], "epsilon": 2})
    told = labels(read, "rated")
    assert sorted(map(len, told.values())) == [2, 3]
    assert told["maxsense, items 60, epsilon 2.0, centred"] == [6, 12]


def test_bounds_are_those_of_the_setting_and_of_the_criterion() -> None:
    read = free_grid({"items": [200, 400]}, rated=5)
    table = points(read)
    for success, mistakes in (("exact", 0), ("share", 2)):
        best = present(binding(all_bounds(items=200, rated=5, epsilon=1, clusters=2, mistakes=mistakes)))
        row = table[(table["criterion"] == success) & (table["kind"] == "lower bound") & (table["x"] == 200)]
        assert row["users"].tolist() == [best.users]
    assert set(table.query("kind == 'predicted'")["criterion"]) == {"exact"}
    assert set(table.query("kind == 'predicted'")["users"]) == {7.0}


def test_what_cannot_be_drawn_is_left_out_and_what_was_not_reached_stays() -> None:
    table = points(free_grid({"items": 40, "rated": 4, "epsilon": [1, 2, "inf"]}), users=None)
    assert table["x"].map(math.isfinite).all()
    assert "predicted" not in set(table["kind"])
    assert table.query("kind == 'measured'")["users"].isna().all()
    noiseless = points(free_grid({"items": [40, 60], "rated": 4, "epsilon": "inf"}))
    assert (noiseless.query("kind != 'measured'")["users"] > 0).all()


@pytest.mark.parametrize(
    ("setting", "kinds"),
    [
        ({"design": "curator-items"}, set()),
        ({"design": "full-reveal", "rated": 1}, set()),
        ({"design": "pairwise", "rated_items": "public"}, {"lower bound, capacity"}),
        ({"design": "maxsense"}, {"lower bound", "lower bound, capacity"}),
    ],
)
def test_bounds_bind_only_whom_they_are_about(setting: dict[str, Any], kinds: set[str]) -> None:
    """A curator needs fewer users than any locally private learner; public rated items void what hiding them costs."""
    drawn = points(free_grid({"items": 60, **setting}))
    assert set(drawn["kind"]) - {"measured", "predicted"} == kinds
