"""Commands for the cluster are checked here: their flags, and the files that they name."""

from pathlib import Path
from typing import Any

import pytest

from coordinator.protocol.errors import InputError
from scenarios.cli import command_line
from scenarios.cluster.job_request import Request, check_request

TREE: Any = command_line()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a scenario, one that names data, a world, and data."""
    place = tmp_path / "work"
    (place / "in").mkdir(parents=True)
    (place / "in" / "small.toml").write_text("items = 40\n")
    (place / "real.toml").write_text('ratings = "ratings.csv"\n')
    (place / "far.toml").write_text('ratings = "/data/ratings.csv"\n')
    (place / "ratings.csv").write_text("user,item,rating\n")
    (tmp_path / "outside.toml").write_text("items = 40\n")
    monkeypatch.chdir(place)
    return place


def check(*arguments: str) -> Request:
    """Check a command against the working directory."""
    return check_request(TREE, arguments, Path.cwd())


def test_a_command_without_files_goes_as_it_is() -> None:
    words = ("run", "--users", "5", "--like", "0.9,0.1", "--out", "/data/first")
    assert check(*words) == Request(arguments=words, out=Path("/data/first"))
    assert check("sweep", "sample-complexity", "toys", "--out", "/data/x").arguments[2] == "toys"
    assert check("sweep", "toys", "--out", "/data/x").arguments[1] == "toys"


def test_files_that_travel_are_named_as_the_job_sees_them(folder: Path) -> None:
    assert check("run", "in/small.toml").arguments == ("run", "in/small.toml")
    assert check("run", str(folder / "in" / "small.toml")).arguments == ("run", "in/small.toml")
    assert check("online", f"--world={folder}/in/small.toml").arguments == ("online", "--world=in/small.toml")
    assert check("sweep", "sample-complexity", f"{folder}/in/small.toml", "--out", "/x").arguments[2] == "in/small.toml"


def test_data_on_the_cluster_is_named_for_the_job_to_look_for() -> None:
    assert check("run", "--ratings", "/data/ratings.csv").data == ("/data/ratings.csv",)
    assert check("run", "far.toml").data == ("/data/ratings.csv",)


def test_a_figure_in_a_folder_of_the_cluster_goes_as_it_is() -> None:
    assert check("run", "--figure", "/data/items.svg").arguments[-1] == "/data/items.svg"


HERE_ONLY = r"ratings\.csv is on this machine only, and data is not sent; place the file"
NO_COMMAND = r"^command '\w*' cannot be submitted; after submit name one of"
REFUSED: dict[tuple[str, ...], str] = {
    ("run", "../outside.toml"): "^scenario file ../outside.toml (lies outside|does not exist)",
    ("run", "missing.toml"): "^scenario file missing.toml (lies outside|does not exist)",
    ("run", "--ratings", "ratings.csv"): HERE_ONLY,
    ("data", "ratings.csv"): HERE_ONLY,
    ("run", "real.toml"): HERE_ONLY,
    ("online", "real.toml"): HERE_ONLY,
    ("run", "--ratings", "nowhere.csv"): r"^ratings nowhere\.csv is no absolute path",
    ("run", "--out", "runs/first"): r"^out is runs/first, a folder beside the job's copy .* absolute path",
    ("run", "--figure", "items.svg"): r"^figure is items\.svg, a file beside the job's copy .* absolute path",
    **dict.fromkeys([(), ("frob",), ("submit", "run"), ("stop", "id"), ("sweep",)], NO_COMMAND),
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_cannot_be_submitted_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=REFUSED[words]):
        check(*words)
