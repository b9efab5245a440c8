"""A sweep's figure: which axes it has, what makes one curve, and bounds below every measured point."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scenarios.sweep.grid import Grid, read_grid
from scenarios.sweep.users import curves, varied
from scenarios.theory.bounds import all_bounds, binding


def grid(*tables: dict[str, Any], **base: Any) -> Grid:
    return read_grid({"base": base, "grid": list(tables)})


def points(read: Grid, users: int | None = 10**6) -> Any:
    """The points of a summary in which every setting needs as many users."""
    rows: list[dict[str, Any]] = [
        {"setting": place, "criterion": criterion, "decoder": "centred", "users": users, "low": 1, "high": None}
        for place in range(len(read.settings))
        for criterion in ("exact", "share")
    ]
    for row in rows:
        if row["criterion"] == "exact" and read.settings[row["setting"]].rated == 5:
            row["predicted"] = 7.0
    return curves(read, rows)


def labels(read: Grid, axis: str) -> dict[str, list[float]]:
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
    assert varied(grid(*tables).settings) == axes


def test_what_goes_in_step_with_an_axis_makes_no_curve_of_its_own() -> None:
    read = grid({"items": [40, 60], "rated_share": 0.5, "epsilon": [1, 2]})
    assert labels(read, "items") == {f"maxsense, epsilon {e}, centred": [40, 60] for e in ("1.0", "2.0")}


def test_two_tables_of_one_design_are_two_curves() -> None:
    read = grid({"items": 40, "rated": [4, 8, 16]}, {"items": 60, "rated": [6, 12], "epsilon": 2})
    told = labels(read, "rated")
    assert sorted(map(len, told.values())) == [2, 3]
    assert told["maxsense, items 60, epsilon 2.0, centred"] == [6, 12]


def test_bounds_are_those_of_the_setting_and_of_the_criterion() -> None:
    read = grid({"items": [200, 400]}, rated=5)
    table = points(read)
    for success, mistakes in (("exact", 0), ("share", 2)):
        best = binding(all_bounds(items=200, rated=5, epsilon=1, clusters=2, mistakes=mistakes))
        row = table[(table["criterion"] == success) & (table["kind"] == "lower bound") & (table["x"] == 200)]
        assert best is not None
        assert row["users"].tolist() == [best.users]
    assert set(table.query("kind == 'predicted'")["criterion"]) == {"exact"}
    assert set(table.query("kind == 'predicted'")["users"]) == {7.0}


def test_what_cannot_be_drawn_is_left_out_and_what_was_not_reached_stays() -> None:
    table = points(grid({"items": 40, "rated": 4, "epsilon": [1, 2, "inf"]}), users=None)
    assert table["x"].map(math.isfinite).all()
    assert "predicted" not in set(table["kind"])
    assert table.query("kind == 'measured'")["users"].isna().all()
    noiseless = points(grid({"items": [40, 60], "rated": 4, "epsilon": "inf"}))
    assert (noiseless.query("kind != 'measured'")["users"] > 0).all()


def test_what_the_summary_says_is_planned_is_drawn_for_every_criterion() -> None:
    read = grid({"items": 40, "rated": [4, 8]})
    row = {"decoder": "centred", "users": 90, "low": 1, "high": None}
    rows = [
        {**row, "setting": place, "criterion": criterion, "predicted": planned}
        for place in (0, 1)
        for criterion, planned in (("exact", 100.0), ("share", 50.0))
    ]
    drawn = curves(read, rows).query("kind == 'predicted'")
    assert drawn.groupby("criterion")["users"].unique().to_dict() == {"exact": [100.0], "share": [50.0]}


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
    drawn = points(grid({"items": 60, **setting}))
    assert set(drawn["kind"]) - {"measured", "predicted"} == kinds
