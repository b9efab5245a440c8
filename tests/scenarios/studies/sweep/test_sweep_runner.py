"""Sweeps as they run: what is finished stays, Ctrl-C and crashes lose nothing else, and the same command goes on."""

import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from runs import Command, refused, result_in, sweep_into

from coordinator.protocol.errors import InputError
from scenarios.store.manifest import FOLDER, MANIFEST
from scenarios.store.whole_files import locked_folder

GRID = """
seeds = 2
share = 0.9
most_users = 20_000
probe = 0.9
decoders = ["centred", "paper"]
[base]
rated = 5
epsilon = 4
[[grid]]
items = [16, 24]
[[fit]]
x = "items"
per = ["log items"]
expected = 2
"""
HERE = ("--backend", "inprocess", "--workers", 1)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path / "grid.toml"


@pytest.fixture
def swept(swept: Command, grid: Path) -> Command:
    """`blindrec sweep sample-complexity` on the small grid, without the figure."""
    return partial(swept, "sample-complexity", grid)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep that ran without interruption, with everything in it."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.toml").write_text(GRID)
    return sweep_into(folder, "sample-complexity", folder / "grid.toml")


def test_what_it_writes_opens_with_pandas(whole: Path) -> None:
    every = pd.read_parquet(whole / "thresholds.parquet")
    assert len(every) == 2 * 2 * 2 * 2
    exact = every[(every["items"] == 16) & (every["decoder"] == "centred") & (every["criterion"] == "exact")]
    assert min(exact["users"]) == result_in(whole)["settings"][0]["users"]
    assert set(exact["seed"]) == {0, 1}
    assert len(pd.read_csv(whole / "settings.csv")) == 8
    points = pd.read_csv(whole / "figure.csv")
    assert set(points["kind"]) == {"measured", "predicted", "lower bound", "lower bound, capacity"}
    best = points[points["kind"] == "lower bound"].groupby("x")["users"].max()
    measured = points[points["kind"] == "measured"]
    assert (measured["users"] > measured["x"].map(best)).all()


def test_a_sweep_holds_its_folder(swept: Command, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = shutil.copytree(whole / FOLDER, tmp_path / "sweep" / FOLDER).parent

    def drawn(*_: object) -> None:
        with pytest.raises(InputError, match="is in use by another blindrec"):
            locked_folder(out).__enter__()
        drawings.append(out)

    drawings = list[Path]()
    monkeypatch.setattr("scenarios.studies.study.draw", drawn)
    assert swept("--out", out).code == 0
    assert drawings == [out]
    with locked_folder(out):
        assert (out / "result.json").exists()


@pytest.mark.usefixtures("nobody_asks")
def test_what_is_wrong_is_told_in_one_line_before_anything_runs(blindrec: Command, grid: Path, tmp_path: Path) -> None:
    command = ("sweep", "sample-complexity")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    (tmp_path / "odd" / FOLDER).mkdir(parents=True)
    (tmp_path / "odd" / FOLDER / MANIFEST).write_text("{")
    new = tmp_path / "new"
    for arguments, words in (
        ((grid, *HERE, "--out", new, "--json", tmp_path), ["json file"]),
        ((grid, "--backend", "spark", "--out", new), ["'spark'"]),
        ((grid, "--backend", "inprocess", "--workers", 0, "--out", new), ["workers is 0"]),
        ((grid, *HERE, "--out", tmp_path / "mine"), ["holds another run", "new"]),
        ((grid, *HERE, "--out", tmp_path / "odd"), [MANIFEST, "is damaged"]),
        ((grid, *HERE, "--out", grid), ["cannot be made"]),
        ((grid, *HERE), ["--out"]),
    ):
        line = refused(blindrec, *command, *arguments)
        assert all(word in line for word in words), line
    assert not new.exists()
