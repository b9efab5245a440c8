"""Sweeps of results: rows are what runs of several seeds tell, of any experiment, one's own mechanisms included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from runs import Command

from coordinator.protocol.errors import InputError
from scenarios.places.backends import opened
from scenarios.places.in_process import InProcess
from scenarios.sweep.folder import Swept, swept
from scenarios.sweep.kinds import sweep_of

HERE = ("--backend", "inprocess", "--workers", 1)


def run(out: Path, **values: Any) -> Swept:
    wanted = sweep_of({"sweep": "results", **values})
    return swept(wanted, opened(InProcess(1)), out / "sweep", Console(quiet=True))


def test_a_row_is_what_several_seeds_of_that_command_tell(blindrec: Command, tmp_path: Path) -> None:
    done = run(
        tmp_path,
        seeds=3,
        columns=["accuracy", "exact", "answered", "accuracy_predicted"],
        base={"rated": 5, "items": 24, "seed": 7},
        grid=[{"users": [800, 3000], "epsilon": [1, "inf"]}],
    )
    rows = done.result["settings"]
    assert [(row["users"], row["epsilon"]) for row in rows] == [(800, "1"), (800, "inf"), (3000, "1"), (3000, "inf")]
    for row in rows:
        flags = ("--items", 24, "--rated", 5, "--users", row["users"], "--epsilon", row["epsilon"], "--seed", 7)
        told = blindrec("run", *flags, "--repeat", 3, *HERE, "--json", "-").result
        for name in ("accuracy", "exact", "answered", "accuracy_predicted"):
            low, high = told["intervals"].get(name, (None, None))
            assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == (told[name], low, high)
    units = pd.read_parquet(tmp_path / "sweep" / "units.parquet")
    assert list(units["seed"]) == [seed for seed in (7, 8, 9) for _ in rows]
    first = units[(units["setting"] == 0)]
    assert rows[0]["accuracy"] == pytest.approx(first["accuracy"].mean())
    points = pd.read_csv(tmp_path / "sweep" / "figure.csv")
    assert set(points["column"]) == {"accuracy", "exact", "answered", "accuracy_predicted"}
    assert set(points["x"]) == {800, 3000}
    assert set(points["label"]) == {"epsilon 1", "epsilon inf"}


@pytest.mark.parametrize(
    ("experiment", "base", "grid", "column"),
    [
        ("online", {"rounds": 30, "voters": 16, "peers": 2}, {"recommender": ["p-rec", "plurality"]}, "loss"),
        (
            "two-tier",
            {"planted": "80,30,2000", "rank": 2, "regularisation": 1, "public": 20, "private": 20},
            {"mechanism": ["none", "exact"]},
            "rmse",
        ),
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
    designs = ["foreign_mechanisms:GRR", "maxsense"]
    done = run(tmp_path, seeds=2, columns=["accuracy"], base=base, grid=[{"design": designs}])
    assert [row["design"] for row in done.result["settings"]] == designs
    assert all(0.5 <= row["accuracy"] <= 1 for row in done.result["settings"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"experiment": "ran", "grid": [{"items": 9}]}, ["'ran'", "run, online, two-tier"]),
        ({}, ["grid is empty"]),
        ({"columns": ["accurcy"], "grid": [{"items": 9}]}, ["'accurcy'", "accuracy"]),
        ({"columns": ["releases_sha256"], "grid": [{"items": 9}]}, ["'releases_sha256'"]),
        ({"grid": [{"items": [9, 9]}]}, ["(items = 9)", "twice"]),
        ({"grid": [{"seed": [1, 2]}]}, ["seed", "[base]"]),
        ({"grid": [{"itms": 9}]}, ["(itms = 9)", "'itms'", "items"]),
        ({"experiment": "online", "grid": [{"objects": 1}]}, ["(objects = 1)", "objects is 1"]),
        ({"seeds": 0, "grid": [{"items": 9}]}, ["seeds is 0"]),
    ],
)
def test_grids_that_are_wrong(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        sweep_of({"sweep": "results", **values})
    line = str(refused.value)
    assert "\n" not in line
    assert all(word in line for word in words), line
