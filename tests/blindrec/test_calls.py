"""`blindrec.run`, `sweep` and `plan`: the commands' answers, records and folders; their tables, figures, and ends."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from runs import Command, lasting, planted_ratings, write_movielens

import blindrec
from coordinator.server.rounds.rounds import Round
from scenarios.show import tables as report
from scenarios.store.journal import Journal
from scenarios.studies.planner.request import PlanRequest

if TYPE_CHECKING:
    from scenarios.backends.on_ray import OnRay


pytestmark = pytest.mark.usefixtures("headless")
face = blindrec  # where a test has the fixture of this name
HERE = blindrec.InProcess(workers=1)
SMALL = blindrec.Scenario(items=12, rated=4, epsilon=3, users=600)
FLAGS = ["--items", 12, "--rated", 4, "--epsilon", 3, "--users", 600]
LOCAL = ["--backend", "inprocess", "--workers", 1, "--json", "-"]
GRID: dict[str, Any] = {"seeds": 2, "base": {"rated": 5, "epsilon": 4}, "grid": [{"items": [10, 20]}]}
TIMES = {"seconds", "devices_per_second"}


def as_record(result: blindrec.Result) -> Any:
    """A result as JSON gives it back."""
    return lasting(json.loads(json.dumps(dict(result))), TIMES)


@pytest.mark.parametrize("repeat", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_a_run_is_the_commands(repeat: int, blindrec: Command, tmp_path: Path) -> None:
    result = face.run(SMALL, HERE, repeat=repeat, out=tmp_path / "ours", progress=False)
    theirs = blindrec("run", *FLAGS, *LOCAL, "--repeat", repeat, "--out", tmp_path / "theirs").result
    assert as_record(result) == lasting(theirs, TIMES)
    assert (tmp_path / "ours" / "scenario.json").read_bytes() == (tmp_path / "theirs" / "scenario.json").read_bytes()
    assert {one.name for one in (tmp_path / "ours").iterdir()} == {one.name for one in (tmp_path / "theirs").iterdir()}
    for name in ("items", "rounds"):
        kept = pd.read_parquet(tmp_path / "theirs" / f"{name}.parquet")
        pd.testing.assert_frame_equal(result.frame("items" if name == "items" else "rounds"), kept, check_dtype=False)
    assert result.frame()["seed"].tolist() == list(range(repeat))


def test_a_plan_is_the_commands(blindrec: Command, no_pairs: None) -> None:
    flags = ["--items", 24, "--rated", 6, "--epsilon", 2, "--like", "0.9,0.2;0.1,0.8", "--class-shares", "0.3,0.7"]
    ours = face.plan(items=24, rated=6, epsilon=2, like=[[0.9, 0.2], [0.1, 0.8]], class_shares=[0.3, 0.7])
    assert as_record(ours) == lasting(blindrec("plan", *flags, "--json", "-").result, TIMES)
    assert ours.frame("bounds").shape[0] == len(ours["bounds"])
    with pytest.raises(face.errors.InputError, match=r"did you mean 'bounds'\? choose among designs, bounds$"):
        ours.frame("bound")  # type: ignore[arg-type]


def test_a_plan_for_some_users_asks_what_the_command_asks(blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not planned to its end: the smallest epsilon takes a minute."""
    asked: list[PlanRequest] = []

    def refused(one: PlanRequest, *_: object) -> None:
        asked.append(replace(one, settings={name: told for name, told in one.settings.items() if told is not None}))
        raise face.errors.InputError("enough was seen")

    for module in ("from_python", "studies.plan_of_file"):
        monkeypatch.setattr(f"scenarios.{module}.planned", refused)
    with pytest.raises(face.errors.InputError, match="enough"):
        face.plan(items=60, rated=6, users=10**6, accuracy=0.9, theta=2)
    flags = ["--items", 60, "--rated", 6, "--users", 10**6, "--accuracy", 0.9, "--theta", 2]
    assert blindrec("plan", *flags).code == 2
    assert asked == [PlanRequest(items=60, rated=6, users=10**6, accuracy=0.9, settings={"theta": 2})] * 2


@pytest.mark.parametrize("block_model", [False, True])
def test_a_plan_of_a_file_is_the_commands(block_model: bool, blindrec: Command, no_pairs: None, tmp_path: Path) -> None:
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=12, each=6))
    ours = face.plan(ratings=str(file), epsilon=4, block_model=block_model)
    flags = ["--ratings", file, "--epsilon", 4, *["--block-model"] * block_model, "--json", "-"]
    assert as_record(ours) == lasting(blindrec("plan", *flags).result, TIMES)
    assert ("recommended" if block_model else "the file has 12 items") in repr(ours)
    assert ours.frame().empty is not block_model
    with pytest.raises(face.errors.InputError, match=r"items is 5, but .* brings its own"):
        face.plan(ratings=file, items=5)


def test_a_sweep_is_the_commands(blindrec: Command, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text("seeds = 3\n[base]\nrated = 5\nepsilon = 4\n[[grid]]\nitems = [10, 20]\n")
    theirs = blindrec("sweep", "sample-complexity", file, "--seeds", 2, "--out", tmp_path / "theirs", *LOCAL).result
    ours = [
        face.sweep({**GRID, "seeds": 5}, HERE, seeds=2, out=tmp_path / "ours", progress=False),
        face.sweep(file, HERE, seeds=2, out=tmp_path / "theirs", progress=False),
    ]
    assert all(as_record(one) == lasting(theirs, TIMES) for one in ours)
    assert {one.name for one in (tmp_path / "ours").iterdir()} == {one.name for one in (tmp_path / "theirs").iterdir()}
    assert (tmp_path / "ours" / "figure.csv").read_bytes() == (tmp_path / "theirs" / "figure.csv").read_bytes()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: blindrec.run(SMALL, HERE, repeat=0), "repeat is 0; it must be at least 1"),
        (lambda: blindrec.run(SMALL, HERE, devices_per_actor=0), "devices_per_actor is 0; it must be at least 1"),
        (lambda: blindrec.run(SMALL, cast("blindrec.Ray", "ray")), "backend is 'ray'; give blindrec.InProcess() or"),
        (lambda: blindrec.InProcess(workers=0), "workers is 0; it must be at least 1"),
        (lambda: blindrec.Ray(workers=0), "workers is 0; it must be at least 1"),
        (lambda: blindrec.plan(users=0), "users is 0; it must be at least 1"),
        (lambda: blindrec.plan(like_from=3.0), "like_from is 3.0, which is about ratings files"),
        (lambda: blindrec.sweep({"seeds": 2}, HERE), "grid is empty; give at least one [[grid]] table"),
        (lambda: blindrec.sweep("no-such-grid", HERE), "grid 'no-such-grid' is unknown; name a TOML file or one of"),
    ],
)
@pytest.mark.usefixtures("nobody_asks")
def test_what_cannot_be_used_is_told_in_a_line(call: Any, told: str) -> None:
    with pytest.raises(blindrec.errors.InputError, match=f"^{re.escape(told)}") as refused:
        call()
    assert "\n" not in str(refused.value)


ASTRAY = """
class Tired:
    def __init__(self, setting):
        self.setting = setting

    def next_query(self, state):
        if len(state.asked) == 1:
            raise RuntimeError("I am tired")
        return self.setting.ask(state, users=400)
"""


def test_a_policy_that_goes_astray_leaves_what_it_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tired_policy.py").write_text(ASTRAY)
    scenario = SMALL.model_copy(update={"policy": "tired_policy:Tired"})
    with pytest.raises(blindrec.errors.PolicyError, match=r"round 1: .* RuntimeError in line 8: I am tired") as astray:
        blindrec.run(scenario, HERE, progress=False)
    assert astray.value.result is not None
    assert (astray.value.result["rounds"], astray.value.result["answered"]) == (1, 400)
    with pytest.raises(blindrec.errors.PolicyError, match="cannot be imported") as unknown:
        blindrec.run(SMALL.model_copy(update={"policy": "no_such_module:Tired"}), HERE, progress=False)
    assert unknown.value.result is None


@pytest.mark.parametrize(
    ("cause", "error"),
    [(blindrec.errors.LostError, blindrec.errors.ResumableError), (KeyboardInterrupt, KeyboardInterrupt)],
)
def test_a_run_that_was_cut_off_tells_what_it_keeps(
    cause: type[BaseException], error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, keep = SMALL.model_copy(update={"policy": "fixed", "rounds": 3}), Journal.keep

    def full(self: Journal, over: Round) -> None:
        if over.ask.query.round == 1:
            raise cause("round 1 cannot be kept")
        keep(self, over)

    monkeypatch.setattr(Journal, "keep", full)
    with pytest.raises(error, match=r"1 round is kept in .* goes on"):
        blindrec.run(scenario, HERE, out=tmp_path / "out", progress=False)


def test_progress_can_be_left_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.show.tables.EVERY", 0.0)
    blindrec.run(SMALL, HERE, progress=False)
    assert capsys.readouterr() == ("", "")
    blindrec.run(SMALL, HERE)
    out, err = capsys.readouterr()
    assert (out, "of 600 devices answered" in err) == ("", True)


@pytest.mark.cluster
def test_a_ray_that_the_caller_has_joined_is_not_ended(ray_session: OnRay) -> None:
    import ray  # noqa: PLC0415 (a second that other tests need not wait)

    with pytest.raises(blindrec.errors.InputError) as refused:
        blindrec.run(blindrec.Scenario(users=20), blindrec.Ray(), progress=False)
    line = "Ray runs in this process already, and would end with the run; call ray.shutdown() first"
    assert str(refused.value) == line
    assert ray.is_initialized()


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


def test_a_file_has_a_result_without_accuracy(tmp_path: Path) -> None:
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=12, each=6))
    result = blindrec.run(blindrec.Scenario(ratings=file, epsilon=4), HERE, progress=False)
    assert "accuracy=" not in repr(result)
    assert "hit_rate=" in repr(result)
    assert result.plot().has_data()


def test_a_plan_is_drawn_on_a_log_axis(no_pairs: None) -> None:
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
    axes = blindrec.plan(items=60, rated=60, like=[0.5, 0.5], epsilon="inf").plot()
    assert axes.get_title()
    axes.figure.canvas.draw()


def test_a_sweep_is_drawn_as_its_folders_figure() -> None:
    measured = blindrec.sweep(GRID, HERE, progress=False)
    axes = measured.plot()
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("items N", "users U*", "log")
    assert [one.get_title() for one in axes.figure.axes][1] == "0.99 of labels right, half of the seeds"
    assert measured.frame("seeds")["seed"].nunique() == 2
    with pytest.raises(face.errors.InputError, match=r"did you mean 'seeds'\? choose among settings, seeds$"):
        measured.frame("seed")  # type: ignore[arg-type]
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
