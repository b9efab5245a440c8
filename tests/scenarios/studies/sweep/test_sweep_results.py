"""Sweeps of results: rows are what runs of several seeds tell, of any experiment, one's own mechanisms included."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from runs import Command, line_of

from scenarios.backends.selection import InProcess, opened
from scenarios.config.scenario import Scenario
from scenarios.experiment.experiment import Running
from scenarios.experiments import EXPERIMENTS
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.studies.study import StudyOutcome, run_study
from scenarios.studies.sweep.sweeps import sweep_of
from scenarios.studies.sweep.threshold import measure_threshold

HERE = ("--backend", "inprocess", "--workers", 1)
QUIETLY = Running(session=InProcess(1), console=Console(quiet=True))


def run(out: Path, **values: Any) -> StudyOutcome:
    wanted = sweep_of({"sweep": "results", **values})
    return run_study(wanted, opened(InProcess(1)), out / "sweep", Console(quiet=True))


@pytest.mark.usefixtures("few_draws")
def test_a_row_is_what_several_seeds_of_that_command_tell(blindrec: Command, tmp_path: Path) -> None:
    columns = ["accuracy", "exact", "answered", "accuracy_predicted"]
    base, grid = {"rated": 5, "items": 24, "seed": 7}, {"users": [800, 3000], "epsilon": [1, "inf"]}
    rows = run(tmp_path, seeds=3, columns=columns, base=base, grid=[grid]).result["settings"]
    assert [(row["users"], row["epsilon"]) for row in rows] == [(800, "1"), (800, "inf"), (3000, "1"), (3000, "inf")]
    for row in rows:
        flags = ("--items", 24, "--rated", 5, "--users", row["users"], "--epsilon", row["epsilon"], "--seed", 7)
        told = blindrec("run", *flags, "--repeat", 3, *HERE, "--json", "-").result
        for name in columns:
            low, high = told["intervals"].get(name, (None, None))
            assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == (told[name], low, high)
    units = pd.read_parquet(tmp_path / "sweep" / "units.parquet")
    assert list(units["seed"]) == [seed for seed in (7, 8, 9) for _ in rows]
    first = units[(units["setting"] == 0)]
    assert rows[0]["accuracy"] == pytest.approx(first["accuracy"].mean())
    points = pd.read_csv(tmp_path / "sweep" / "figure.csv")
    assert set(points["column"]) == set(columns)
    assert set(points["x"]) == {800, 3000}
    assert set(points["label"]) == {"epsilon 1", "epsilon inf"}


PLANTED = {"planted": "80,30,2000", "rank": 2, "regularisation": 1, "public": 20, "private": 20}


@pytest.mark.parametrize(
    ("experiment", "base", "grid", "column"),
    [
        ("online", {"rounds": 30, "voters": 16, "peers": 2}, {"recommender": ["p-rec", "plurality"]}, "loss"),
        pytest.param("two-tier", PLANTED, {"mechanism": ["none", "exact"]}, "rmse", marks=pytest.mark.thorough),
    ],
)
def test_any_experiment(
    experiment: str, base: dict[str, Any], grid: dict[str, Any], column: str, blindrec: Command, tmp_path: Path
) -> None:
    done = run(tmp_path, experiment=experiment, seeds=2, base=base, grid=[grid])
    (field, values), *_ = grid.items()
    flags = [told for name, value in base.items() for told in (f"--{name}", value)]
    for row, value in zip(done.result["settings"], values, strict=True):
        told = blindrec(experiment, *flags, f"--{field}", value, "--repeat", 2, *HERE, "--json", "-").result
        assert (row[field], row[column]) == (value, pytest.approx(told[column]))
        assert [row[f"{column}_low"], row[f"{column}_high"]] == pytest.approx(told["intervals"][column])
    assert column in done.result["columns"]
    assert "guarantee" not in done.result["columns"]


def test_a_mechanism_of_ones_own(tmp_path: Path) -> None:
    base = {"items": 24, "rated": 5, "users": 2000, "epsilon": 4}
    designs = ["mechanisms:GRR", "maxsense"]
    done = run(tmp_path, seeds=2, columns=["accuracy"], base=base, grid=[{"design": designs}])
    assert [row["design"] for row in done.result["settings"]] == designs
    assert all(0.5 <= row["accuracy"] <= 1 for row in done.result["settings"])


def test_a_threshold_of_a_run_is_that_of_a_sweep_over_users(tmp_path: Path) -> None:
    """Two ways to the same numbers: by a run for each number of users, and by prefixes of one run."""
    base: dict[str, Any] = {"items": 16, "rated": 5, "epsilon": 4}
    target = {"column": "exact", "least": 1, "start": 400, "limit": 20_000, "resolution": 0.1}
    done = run(tmp_path, seeds=3, threshold=target, base=base, grid=[{"decoder": ["centred", "paper"]}])
    scenario = Scenario(**base, users=20_000).complete()
    for place, decoder in enumerate(("centred", "paper")):
        how: dict[str, Any] = {"decoders": (decoder,), "criteria": ("exact",), "share": 1, "resolution": 0.1}
        seeds = [scenario.model_copy(update={"seed": seed}) for seed in range(3)]
        users = sorted(measure_threshold(one, **how, start=400)["thresholds"][0]["users"] or 0 for one in seeds)
        row = done.result["settings"][place]
        assert (row["decoder"], row["users"], row["seeds"]) == (decoder, users[1], 3)
        assert users[0] > 0
    assert done.result["columns"] == {"users": "smallest users with exact of at least 1, median over seeds"}
    assert set(pd.read_csv(tmp_path / "sweep" / "figure.csv")["y"]) == {row["users"] for row in done.result["settings"]}


def test_a_threshold_over_any_field_of_another_experiment(tmp_path: Path) -> None:
    """A loss of at most 20 takes some number of peers between 1 and 8; what is never met is not known."""
    base: dict[str, Any] = {"rounds": 60, "voters": 16, "diversity": 0, "radius": 0}
    target = {"column": "loss", "most": 20, "field": "peers", "start": 2, "limit": 16, "resolution": 0.01}
    grid = [{"recommender": ["p-rec", "plurality"]}]
    done = run(tmp_path, experiment="online", seeds=2, threshold=target, base=base, grid=grid)
    for row in done.result["settings"]:
        every = list[int]()
        for seed in range(2):
            shared = {**base, "recommender": row["recommender"], "seed": seed}
            scenarios = [OnlineScenario(**shared, peers=peers) for peers in range(1, 17)]
            losses = [EXPERIMENTS["online"].once(one, QUIETLY).values["loss"] for one in scenarios]
            every += [peers + 1 for peers in range(16) if losses[peers] <= 20 < (losses[peers - 1] if peers else 21)]
        assert row["peers"] in every
    target["most"] = -1
    done = run(tmp_path / "never", experiment="online", seeds=2, threshold=target, base=base, grid=grid)
    assert {row["peers"] for row in done.result["settings"]} == {None}


TARGET = {"column": "accuracy", "least": 0.9}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"grid": [{"items": 9}], "threshold": {"column": "accuracy"}}, ["least or most", "one of them"]),
        ({"grid": [{"items": 9}], "threshold": {**TARGET, "column": "rightness"}}, ["'rightness'", "unknown"]),
        ({"grid": [{"items": 9, "users": 5}], "threshold": TARGET}, ["users", "leave it out"]),
        ({"grid": [{"items": 9}], "threshold": {**TARGET, "field": "rated"}}, ["(items = 9)", "rated is 1000"]),
        ({"experiment": "ran", "grid": [{"items": 9}]}, ["'ran'", "run, online, two-tier"]),
        ({"columns": ["accurcy"], "grid": [{"items": 9}]}, ["'accurcy'", "accuracy"]),
        ({"columns": ["releases_sha256"], "grid": [{"items": 9}]}, ["'releases_sha256'"]),
        ({"grid": [{"itms": 9}]}, ["(itms = 9)", "'itms'", "items"]),
        ({"experiment": "online", "grid": [{"objects": 1}]}, ["(objects = 1)", "objects is 1"]),
    ],
)
def test_grids_that_are_wrong(values: dict[str, Any], words: list[str]) -> None:
    line = line_of(lambda: sweep_of({"sweep": "results", **values}))
    assert all(word in line for word in words), line
