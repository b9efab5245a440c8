"""Commands for the cluster are checked here: their flags, and the files that they name."""

from pathlib import Path
from typing import Any

import pytest

from coordinator.protocol.errors import InputError
from scenarios.cli import command_line
from scenarios.cluster.job_request import Request, check_request, parsed

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


@pytest.mark.parametrize("file", ["../outside.toml", "missing.toml"])
def test_files_that_will_not_be_there_are_refused(file: str) -> None:
    with pytest.raises(InputError, match=f"^scenario file {file} (lies outside|does not exist)"):
        check("run", file)


@pytest.mark.parametrize(
    "words",
    [("run", "--ratings", "ratings.csv"), ("data", "ratings.csv"), ("run", "real.toml"), ("online", "real.toml")],
)
def test_data_of_this_machine_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"ratings\.csv is on this machine only, and data is not sent; place the file"):
        check(*words)


def test_data_on_the_cluster_is_named_for_the_job_to_look_for() -> None:
    assert check("run", "--ratings", "/data/ratings.csv").data == ("/data/ratings.csv",)
    assert check("run", "far.toml").data == ("/data/ratings.csv",)
    with pytest.raises(InputError, match=r"^ratings nowhere\.csv is no absolute path"):
        check("run", "--ratings", "nowhere.csv")


def test_a_folder_that_would_be_deleted_is_refused() -> None:
    with pytest.raises(InputError, match=r"^out is runs/first, a folder beside the job's copy .* absolute path"):
        check("run", "--out", "runs/first")
    with pytest.raises(InputError, match=r"^figure is items\.svg, a file beside the job's copy .* absolute path"):
        check("run", "--figure", "items.svg")
    assert check("run", "--figure", "/data/items.svg").arguments[-1] == "/data/items.svg"


@pytest.mark.parametrize("words", [(), ("frob",), ("submit", "run"), ("stop", "id"), ("sweep",)])
def test_what_cannot_be_submitted_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"^command '\w*' cannot be submitted; after submit name one of"):
        check(*words)


def test_unknown_flags_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(Exception, match="--userz"):
        check("run", "--userz", "5")


def test_commands_have_a_result_in_json() -> None:
    assert "json" in parsed(TREE, ["bounds", "--items", "9", "--rated", "1"])
    assert parsed(TREE, ["run", "--users", "5"])["users"] == 5
