"""Bad input: exit code 2 and one line that names the thing, its value and the remedy, before any device is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import Command, planted_ratings, refused, write_movielens

pytestmark = pytest.mark.usefixtures("nobody_asks")
RUN = ["run", "--backend", "inprocess", "--users", "100"]


FLAGS: dict[str, list[str]] = {
    "--cluster-shares 1,0": ["cluster_shares", "(1.0, 0.0)", "larger"],
    "--design pairwise --agreement same": ["agreement", "'same'", "'rated-equal'"],
    "--design pairwise --items 5001": ["items is 5001", "at most 5000"],
    "--answers-per-item 2": ["answers_per_item is 2", "item-query", "maxsense"],
    "--design item-query --decoder centred": ["decoder is 'centred'", "shares", "item-query"],
    "--design full-reveal --epsilon 1/3": ["epsilon is 0.333", "not private", "inf"],
    "--like-from 3": ["like_from", "3.0", "ratings"],
    "--workers 0": ["workers", "0", "1"],
    "--devices-per-actor 0": ["devices_per_actor", "0", "1"],
    "--backend spark": ["backend", "'spark'", "ray or inprocess"],
    "--json {tmp}": ["json file", "{tmp}", "name a file"],
    "--json {tmp}/none/r.json": ["json file", "{tmp}/none/r.json", "existing folder"],
    "--json {tmp}/file/r.json": ["json file", "{tmp}/file/r.json", "existing folder"],
    "--out {tmp}/file": ["output folder", "{tmp}/file", "name another"],
    "--users 1,00": ["--users", "'1,00'", "integer"],
}


@pytest.mark.parametrize("flags", FLAGS)
def test_flags_that_are_wrong(flags: str, blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    line = refused(blindrec, *RUN, *flags.replace("{tmp}", str(tmp_path)).split())
    for word in FLAGS[flags]:
        assert word.replace("{tmp}", str(tmp_path)) in line, line
    assert (tmp_path / "file").read_text() == "mine"


FILES: dict[str, tuple[str, list[str]]] = {
    "empty.csv": ("", ["empty.csv", "is empty", "give a file with ratings"]),
    "only-a-head.csv": ("userId,movieId,rating,timestamp\n", ["only-a-head.csv", "rating"]),
    "unknown-columns.csv": ("who,what,stars\n1,2,3\n", ["unknown-columns.csv", "user", "who, what, stars"]),
    "range.csv": (
        "userId,movieId,rating,timestamp\n1,1,4.0,0\n1,2,5.5,0\n",
        ["range.csv", "line 3", "5.5", "0.5", "5"],
    ),
    "range.dat": ("1::1::4::0\n1::2::0::0\n", ["range.dat", "line 2", "0", "0.5", "5"]),
    "twice.csv": (
        "userId,movieId,rating,timestamp\n7,8,4.0,0\n7,9,4.0,0\n7,8,3.0,0\n",
        ["twice.csv", "'7'", "'8'", "line 2", "line 4", "keep one"],
    ),
    "words.csv": ("user,item,rating\n1,1,good\n", ["words.csv", "good", "line 2"]),
    "nan.csv": ("user,item,rating\n1,1,nan\n", ["nan.csv", "nan", "line 2"]),
    "poem.txt": ("Shall I compare thee to a summer's day?\n", ["poem.txt", "Shall I compare"]),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", [["data"], ["run", "--backend", "inprocess", "--ratings"]])
def test_files_that_are_wrong(name: str, command: list[str], blindrec: Command, tmp_path: Path) -> None:
    text, words = FILES[name]
    (tmp_path / name).write_text(text)
    line = refused(blindrec, *command, tmp_path / name)
    assert all(word in line for word in words), line


ON_A_FILE: dict[str, list[str]] = {
    "--columns user,item,rating": ["user", "userId, movieId, rating"],
    "--rated 13": ["rated", "13", "12"],
    "--theta 5.5": ["theta", "5.5", "5"],
    "--clusters 13": ["clusters", "13", "12"],
    "--items 12": ["items", "12", "ratings.csv"],
    "--like 0.9,0.1": ["like", "0.9", "ratings.csv"],
    "--held-out -1": ["held_out", "-1", "0"],
    "--like-from nan": ["like_from", "nan", "finite"],
}


@pytest.mark.parametrize("flags", ON_A_FILE)
def test_flags_that_a_file_contradicts(flags: str, blindrec: Command, tmp_path: Path) -> None:
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=20, items=12, each=6))
    ended = blindrec("run", "--backend", "inprocess", "--ratings", file, *flags.split())
    assert (ended.code, ended.out) == (2, "")
    line = ended.err.splitlines()[-1]
    assert line.startswith("blindrec: ")
    assert all(word in line for word in ON_A_FILE[flags]), line


def test_a_folder_that_holds_another_run_is_left_as_it_is(blindrec: Command, tmp_path: Path) -> None:
    before = {"result.json": '{"accuracy": 1.0}\n', "notes.txt": "mine"}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    line = refused(blindrec, *RUN, "--out", tmp_path, "--json", tmp_path / "more.json")
    assert str(tmp_path) in line
    assert "holds another run; name a new one" in line
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("flags", ["--items 0", "--backend spark", "--workers 0", "--cluster-shares 1,0", "--like 0.5"])
def test_results_of_before_survive_whatever_is_wrong(flags: str, blindrec: Command, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text("{}")
    refused(blindrec, *RUN, "--json", old, *flags.split())
    assert old.read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
