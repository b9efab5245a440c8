"""The adaptive sweep as it runs: from end to end, interrupted and resumed, emulated, and what it refuses."""

import math
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from runs import Command, here, labels_of, refused, result_in, sweep_into

from scenarios.config.scenario import Scenario
from scenarios.families.main.run import MainResult
from scenarios.store.manifest import FOLDER
from scenarios.studies.sweep.adaptive_sweep import SCHEMES

SWEEP = ("adaptive", "--items", 30, "--rated", 10, "--epsilon", 4)
SHARED = {"items": 30, "rated": 10, "epsilon": 4}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep that ran without interruption, with everything in it."""
    return sweep_into(tmp_path_factory.mktemp("adaptive"), *SWEEP, "--seeds", 3)


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """A copy of that sweep's settings and units."""
    shutil.copytree(whole / FOLDER, tmp_path / "sweep" / FOLDER)
    return tmp_path / "sweep"


def rows_of(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["scheme"]: row for row in result["schemes"]}


def test_a_unit_is_what_runs_tell(whole: Path) -> None:
    every = pd.read_parquet(whole / "units.parquet").set_index(["scheme", "seed"]).to_dict("index")
    for name in ("adaptive-sign", "adaptive-maxsense"):
        finished = run_of(design=SCHEMES[name].design, policy="eliminate", users=10**6, seed=1)
        unit, state = every[name, 1], finished.outcome.state
        counts = state.answers_asked, len(state.asked), labels_of(finished).exact
        assert (unit["users"], unit["rounds"], unit["right"]) == counts
    planned = {name: row["predicted"] for name, row in rows_of(result_in(whole)).items()}
    for name, kind in (("sign", {"design": "sign"}), ("paper", {"decoder": "paper"})):
        for seed in range(3):
            threshold, start = int(every[name, seed]["users"]), round(planned[name])
            assert labels_of(run_of(**kind, users=threshold, seed=seed)).exact
            assert (threshold <= start) == labels_of(run_of(**kind, users=start, seed=seed)).exact


def run_of(**changes: Any) -> MainResult:
    return here(Scenario.model_validate({**SHARED, **changes}))


def test_files_and_figures_hold_every_point(whole: Path) -> None:
    result, points = result_in(whole), pd.read_csv(whole / "users.csv")
    for row in result["schemes"]:
        mine = points[points["label"] == row["label"]].set_index("kind")
        assert list(mine.loc["measured", ["items", "users", "low"]]) == [30, row["users"], row["low"]]
        assert math.isnan(mine.loc["measured", "high"]) == (row["high"] is None)
        assert ("predicted" in mine.index) != row["adaptive"]
        if not row["adaptive"]:
            assert mine.loc["predicted", "users"] == row["predicted"]
    bound = points[points["kind"] == "lower bound"]
    assert list(bound["users"]) == [one["users"] for one in result["bounds"]]
    assert len(points) == 6 + 3 + 1
    table = pd.read_csv(whole / "table.csv")
    assert list(table["scheme"]) == [*SCHEMES, "lower bound"]
    assert list(table["users"]) == [*(row["users"] for row in result["schemes"]), *bound["users"]]
    course, told = pd.read_csv(whole / "trajectory.csv"), result["trajectory"]
    assert (told["scheme"], told["items"], told["seed"]) == ("adaptive-sign", 30, 0)
    assert course.drop(columns="round").to_dict("records") == told["steps"]


def test_more_seeds_and_fewer_schemes_go_on(swept: Command, out: Path) -> None:
    fewer = swept("--schemes", "sign,adaptive-maxsense", "--seeds", 4, "--out", out, "--json", "-")
    assert fewer.err.startswith("6 of 8 units")
    rows = rows_of(fewer.result)
    assert [row["seeds"] for row in rows.values()] == [4, 4]
    assert [row["ratio"] for row in rows.values()] == [None, None]
    assert fewer.result["trajectory"]["scheme"] == "adaptive-maxsense"
    assert swept("--schemes", "sign", "--out", out, "--seeds", 2, "--json", "-").result["trajectory"] is None


@pytest.mark.usefixtures("nobody_asks")
def test_what_is_wrong_is_refused_in_one_line_before_anything_runs(swept: Command, out: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    for arguments, words in (
        (("--items", "30,many"), ["'30,many'", "100,300,1000"]),
        (("--items", "30,30"), ["30,30", "once"]),
        (("--items", 1), ["1 items", "items is 1"]),
        (("--epsilon", "-1"), ["epsilon", "above 0"]),
        (("--like", "0.9"), ["like", "2 item clusters"]),
        (("--like", "0.9,0.1;0.1,0.9"), ["paper", "clusters 0 and 1", "--schemes"]),
        (("--like", "0.9,0.1;0.1,0.9", "--schemes", "sign"), ["scheme sign", "--like"]),
        (("--like", "0.5000001,0.5"), ["more users than can be simulated", "--epsilon"]),
        (("--cluster-shares", "1,0"), ["cluster_shares", "larger share"]),
        (("--statistic", "guess"), ["'guess'", "'devices' or 'moments'"]),
        (("--statistic", "moments", "--schemes", "paper,centred"), ["moments", "adaptive-sign", "devices"]),
        (("--schemes", "sing"), ["'sing'", "adaptive-sign"]),
    ):
        line = refused(swept, "--out", new, *arguments)
        assert all(word in line for word in words), line
    assert not new.exists()
    for other in (("--confidence", 0.9), ("--statistic", "moments"), ("--vectors", 4), ("--epsilon", "4.0001")):
        assert "another sweep" in refused(swept, "--schemes", "sign", "--out", out, *other)
    assert "--out" in refused(swept)


def test_users_that_run_out_are_told(swept: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.studies.sweep.adaptive_sweep.GENEROUS", 0.2)
    command = ("--schemes", "sign,adaptive-sign", "--seeds", 2, "--out", tmp_path / "few")
    rows = rows_of(swept(*command, "--json", "-").result)
    assert (rows["sign"]["users"], rows["sign"]["ran_out"]) == (None, 2)
    assert rows["adaptive-sign"]["ran_out"] == 2
    assert rows["adaptive-sign"]["users"] == round(0.2 * rows["sign"]["predicted"])
    shown = swept(*command).out
    assert "not reached" in shown
    assert "(2 ran out)" in shown
