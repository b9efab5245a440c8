"""`blindrec sweep two-tier`: figures, intervals, going on where it stopped, and the attack."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import Command, lines_of_units, refused

from scenarios import cli
from scenarios.families.two_tier import attack as attacking
from scenarios.families.two_tier import attack as guessing
from scenarios.families.two_tier.attack import ATTACKED, attack

SWEEP = ["sweep", "two-tier", "--backend", "inprocess", "--workers", "1", "--planted", "80,30,2000"]
SETTLED = ["--rank", "2", "--regularisation", "1", "--public", "20", "--private", "20", "--every", "20"]
CURVES = ["--mechanisms", "none,full,exact,pmc"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished sweep; each test may be the only one that its process runs."""
    out = tmp_path_factory.mktemp("sweep") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.show.records.rendered", lambda *_: b"drawn")
        with pytest.raises(SystemExit) as ended:
            cli.main([*SWEEP, *SETTLED, *CURVES, "--seeds", "2", "--out", str(out)])
    assert not ended.value.code
    return out


def test_all_figures_stand_in_the_folder_with_intervals_over_seeds(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"figure-1-left.png", "figure-1-right.png", "figure-2.png", "result.json", "summary.csv"} <= names
    points = pd.read_csv(folder / "points.csv")
    second = points[points["figure"] == "2"]
    assert set(second["curve"]) == {"none", "full", "exact", "pmc"}
    assert set(second["x"]) == {0, 20}
    start = second[second["x"] == 0].groupby("seed")["rmse"]
    assert start.max().to_numpy() == pytest.approx(start.min().to_numpy())
    summary = pd.read_csv(folder / "summary.csv")
    assert (summary["low"] <= summary["rmse"]).all()
    gains = summary[(summary["figure"] == "2") & (summary["x"] == 20)].set_index("curve")["gain"]
    assert gains["none"] == 0
    assert gains["full"] > 0
    left = points[points["figure"] == "1-left"]
    assert set(left["curve"]) == {"uniform", "weighted", "items' means"}
    assert set(left["x"]) == {15, 30, 80}
    right = points[points["figure"] == "1-right"]
    assert set(right["curve"]) == {"most", "random", "items' means"}
    most = right.groupby(["curve", "x"])["public"].mean()
    assert (most["most"] <= most["random"]).all()


def test_a_sweep_goes_on_with_what_it_has_and_attacks(
    folder: Path, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server plays fewer releases and grows fewer trees: one known rating tells PMC's side all the same."""
    monkeypatch.setattr(attacking, "attack", partial(attack, known_counts=(0, 1), played=100))
    monkeypatch.setitem(guessing.TREES, "max_iter", 10)
    before = lines_of_units(folder)
    figures = ["--figures", "2,attack", "--seeds", "2"]
    ended = blindrec(*SWEEP, *SETTLED, *CURVES, *figures, "--out", folder, "--json", "-")
    assert ended.code == 0, ended.err
    assert lines_of_units(folder)[:-1] == before
    rows = ended.result["attack"]
    assert {row["mechanism"] for row in rows} == {name for name, _ in ATTACKED}
    assert (folder / "attack.png").stat().st_size > 1000
    pmc = next(row for row in rows if row["mechanism"] == "pmc" and row["known"] == 1)
    assert pmc["flip_found"] == 1.0
    summary = json.loads((folder / "result.json").read_text())["summary"]
    assert all(np.isfinite(row["rmse"]) for row in summary)
    assert "another sweep" in refused(blindrec, *SWEEP, *SETTLED, "--public", "10", "--out", folder)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--figures 3", ["figure '3' is unknown", "1-left"]),
        ("--seeds 0", ["seeds is 0"]),
        ("--every 0", ["every is 0"]),
        ("--mechanisms none,pmx", ["'pmx'", "laplace"]),
        ("--mechanisms laplace", ["'laplace'", "laplace:5"]),
        ("--mechanisms pmc:1", ["epsilon is 1"]),
        ("--public 90", ["public is 90", "80 users"]),
    ],
)
def test_sweeps_that_are_wrong(flags: str, words: list[str], blindrec: Command, tmp_path: Path) -> None:
    line = refused(blindrec, *SWEEP, *flags.split(), "--out", tmp_path / "new")
    assert all(word in line for word in words), line
