"""Results: tables, figures and what a notebook shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from runs import planted_ratings, write_movielens

import blindrec
from scenarios.show import tables as report

HERE = blindrec.InProcess(workers=1)
SMALL = blindrec.Scenario(items=12, rated=4, epsilon=3, users=600)


@pytest.fixture(autouse=True)
def headless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Figures are drawn without a display, never shown, and closed."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 (plotting, where something is drawn)

    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("a figure is shown"))
    yield
    plt.close("all")


def test_a_result_is_a_mapping_that_is_not_changed_from_outside() -> None:
    result = blindrec.run(SMALL, HERE, progress=False)
    assert result["design"] == "maxsense"
    assert {*result} == {*dict(result)}
    assert len(result) == len(dict(result))
    taken = result.frame("items")
    taken["cluster"] = 7
    assert set(result.frame("items")["cluster"]) <= {0, 1}
    with pytest.raises(TypeError):
        result["design"] = "sign"  # type: ignore[index] # what is refused


@pytest.mark.parametrize("epsilon", ["3", "inf"])
def test_a_run_is_drawn_item_by_item(epsilon: str) -> None:
    result = blindrec.run(blindrec.Scenario(items=12, rated=4, epsilon=epsilon, users=600), HERE, progress=False)
    axes = result.plot()
    items = result.frame("items")
    assert len(axes.containers) == items["cluster"].nunique()
    points = np.concatenate([bars.lines[0].get_ydata() for bars in axes.containers])  # type: ignore[attr-defined] # error bars
    np.testing.assert_array_equal(np.sort(points), np.sort(items["score"]))
    assert result.frame()["epsilon"].tolist() == [float(epsilon)]
    assert axes.get_legend_handles_labels()[1] == ["cluster 0", "cluster 1"]


@pytest.mark.parametrize(
    "flags", [{"design": "sign", "policy": "eliminate"}, {"design": "pairwise"}, {"design": "curator-items"}]
)
def test_every_kind_of_run_has_tables_and_a_figure(flags: dict[str, Any]) -> None:
    result = blindrec.run(blindrec.Scenario(items=12, rated=4, epsilon=3, users=600, **flags), HERE, progress=False)
    assert result.plot().has_data()
    assert result.frame("rounds")["asked"].sum() == result["asked"]
    assert repr(result).startswith(f"RunResult({flags['design']}, items=12, users=600, epsilon=3, accuracy=")
    assert "<td>design</td><td>" in result._repr_html_()


def test_a_file_has_a_result_without_accuracy(tmp_path: Path) -> None:
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=12, each=6))
    result = blindrec.run(blindrec.Scenario(ratings=file, epsilon=4), HERE, progress=False)
    assert "accuracy=" not in repr(result)
    assert "hit_rate=" in repr(result)
    assert result.plot().has_data()


def test_a_plan_is_drawn_on_a_log_axis() -> None:
    found = blindrec.plan(items=24, rated=6, epsilon=2)
    axes, table = found.plot(), found.frame()
    points, ends = (
        [float(np.asarray(line.get_xdata())[0]) for line in axes.get_lines() if (line.get_marker() in marks) == within]
        for marks, within in ((("None", "|"), False), (("|",), True))
    )
    assert points == table["users"].dropna().tolist()
    assert sorted(ends) == sorted(table[["users_low", "users_high"]].stack().dropna())
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "users needed")
    assert table["epsilon"].dtype == float
    assert "<table" in found._repr_html_()


def test_a_plan_that_recommends_nothing_has_a_figure() -> None:
    assert blindrec.plan(items=60, rated=60, like=[0.5, 0.5], epsilon="inf").plot().get_title()


def test_a_sweep_is_drawn_as_its_folders_figure() -> None:
    grid = {"seeds": 2, "base": {"rated": 5, "epsilon": 4}, "grid": [{"items": [10, 20]}]}
    measured = blindrec.sweep(grid, HERE, progress=False)
    axes = measured.plot()
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("items N", "users U*", "log")
    assert [one.get_title() for one in axes.figure.axes][1] == "0.99 of labels right, half of the seeds"
    assert measured.frame("seeds")["seed"].nunique() == 2
    assert "SweepResult(4 of 4 thresholds reached, 2 seeds)" in measured._repr_html_()


@pytest.mark.parametrize(
    ("console", "widgets", "bar"),
    [
        (Console(force_terminal=True), False, True),
        (Console(force_terminal=False, force_jupyter=False), True, False),
        (Console(force_jupyter=True), True, True),
        (Console(force_jupyter=True), False, False),
    ],
)
def test_a_bar_moves_on_a_terminal_and_in_a_notebook_with_widgets(
    console: Console, widgets: bool, bar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.show.tables.importlib.util.find_spec", lambda _: object() if widgets else None)
    assert report.shows_bars(console) is bar
