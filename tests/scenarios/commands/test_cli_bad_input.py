"""Bad input: exit code 2 and one line that names the thing, its value and the remedy, before any device is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import Command, planted_ratings, refused, write_movielens

pytestmark = pytest.mark.usefixtures("nobody_asks")
RUN = ["run", "--backend", "inprocess", "--users", "100"]


FLAGS: dict[str, list[str]] = {
    "--items 0": ["items", "0", "2"],
    "--items 1": ["items", "1", "2"],
    "--users 0": ["users", "0", "1"],
    "--users -3": ["users", "-3", "1"],
    "--rated 201": ["rated", "201", "200"],
    "--rated 0": ["rated", "0", "1"],
    "--items 10 --rated 11": ["rated", "11", "10"],
    "--epsilon 0": ["epsilon", "0", "inf"],
    "--epsilon -1": ["epsilon", "-1", "above 0"],
    "--epsilon nan": ["epsilon", "nan", "above 0"],
    "--epsilon much": ["epsilon", "much", "above 0"],
    "--epsilon 31": ["epsilon", "31", "30"],
    "--like 1.5,0.1": ["like", "1.5", "1"],
    "--like 0.5,-0.1": ["like", "-0.1", "0"],
    "--like 0.5": ["like", "1", "2"],
    "--like good,bad": ["like", "'good,bad'", "0.9,0.1"],
    "--like 0.9,0.1;0.5": ["like", "2, 1", "one number"],
    "--class-shares 0.5,0.6 --like 1,0;0,1": ["class_shares", "1.1", "1"],
    "--cluster-shares 0.5,0.4": ["cluster_shares", "0.9", "1"],
    "--cluster-shares 1,0": ["cluster_shares", "(1.0, 0.0)", "larger"],
    "--cluster-shares 0.5,0.3,0.2": ["cluster_shares", "3", "2"],
    "--theta 21": ["theta", "21", "20"],
    "--theta 0": ["theta", "0", "greater"],
    "--theta nan": ["theta", "nan"],
    "--clusters 1": ["clusters", "1", "2"],
    "--clusters 201": ["clusters", "201", "200"],
    "--seed -1": ["seed", "-1", "0"],
    "--decoder oracle": ["decoder", "'oracle'", "centred, paper"],
    "--design sortition": ["design", "'sortition'", "maxsense", "curator-pairs"],
    "--design pairwise --agreement same": ["agreement", "'same'", "'rated-equal'"],
    "--design pairwise --items 5001": ["items is 5001", "at most 5000"],
    "--design pairwise --items 3 --clusters 3 --rated 2": ["clusters is 3", "items, 3"],
    "--design pairwise --items 30 --rated 31": ["rated", "31", "30"],
    "--design item-query --items 30 --rated 31": ["rated", "31", "30"],
    "--design full-reveal --items 30 --rated 31": ["rated", "31", "30"],
    "--design pairwise --items 1": ["items is 1", "2"],
    "--design multi-maxsense --questions 21": ["questions is 21", "1/p", "20"],
    "--design multi-maxsense --questions 0": ["questions is 0", "1"],
    "--design multi-maxsense --questions few": ["questions", "'few'", "auto"],
    "--design multi-maxsense --epsilon inf": ["questions", "inf", "auto"],
    "--design multi-maxsense --epsilon 70 --questions 2": ["epsilon 35", "30"],
    "--questions 2": ["questions is 2", "multi-maxsense", "maxsense"],
    "--design pairwise --theta 2": ["theta is 2", "maxsense", "pairwise"],
    "--agreement equal": ["agreement is 'equal'", "pairwise", "maxsense"],
    "--rated-items public": ["rated_items is 'public'", "pairwise", "maxsense"],
    "--design pairwise --rated-items some": ["rated_items is 'some'", "'public'"],
    "--design pairwise --rated-items public --rated 1": ["rated is 1", "at least 2"],
    "--answers-per-item 2": ["answers_per_item is 2", "item-query", "maxsense"],
    "--design item-query --answers-per-item 0": ["answers_per_item is 0", "1"],
    "--design item-query --epsilon 1": ["epsilon is 1", "not private", "inf"],
    "--design item-query --epsilon 1e400": ["epsilon", "not private"],
    "--design item-query --decoder centred": ["decoder is 'centred'", "shares", "item-query"],
    "--design full-reveal --epsilon 1/3": ["epsilon is 0.333", "not private", "inf"],
    "--design full-reveal --reveal-share 0": ["reveal_share is 0", "greater"],
    "--reveal-share 0.5": ["reveal_share is 0.5", "full-reveal", "maxsense"],
    "--design curator-items --decoder paper": ["decoder is 'paper'", "totals", "curator-items"],
    "--design curator-items --epsilon 0": ["epsilon is 0", "above 0"],
    "--design curator-items --epsilon 1e-300": ["epsilon 1e-300", "raise it"],
    "--design curator-items --rated 201": ["rated is 201", "200"],
    "--design curator-pairs --rated 1": ["rated is 1", "at least 2"],
    "--like-from 3": ["like_from", "3.0", "ratings"],
    "--held-out 2": ["held_out", "2", "ratings"],
    "--workers 0": ["workers", "0", "1"],
    "--devices-per-actor 0": ["devices_per_actor", "0", "1"],
    "--repeat 0": ["repeat", "0", "1"],
    "--columns a": ["columns", "'a'", "three"],
    "--address 127.0.0.1:6379": ["address", "127.0.0.1:6379", "leave one"],
    "--backend spark": ["backend", "'spark'", "ray or inprocess"],
    "--json {tmp}": ["json file", "{tmp}", "name a file"],
    "--json {tmp}/none/r.json": ["json file", "{tmp}/none/r.json", "existing folder"],
    "--json {tmp}/file/r.json": ["json file", "{tmp}/file/r.json", "existing folder"],
    "--out {tmp}/file": ["output folder", "{tmp}/file", "name another"],
    "{tmp}/none.toml": ["scenario file", "{tmp}/none.toml", "name a TOML file"],
    "--items many": ["--items", "'many'", "integer"],
    "--users 1e-6": ["--users", "'1e-6'", "integer"],
    "--users 1,00": ["--users", "'1,00'", "integer"],
    "--users 1.5e0": ["--users", "'1.5e0'", "integer"],
    "--rated 2.5": ["--rated", "'2.5'", "integer"],
    "--theta x": ["--theta", "'x'", "number"],
    "--seed x": ["--seed", "'x'", "integer"],
    "--workers two": ["--workers", "'two'", "integer"],
    "--devices-per-actor all": ["--devices-per-actor", "'all'", "integer"],
    "--repeat x": ["--repeat", "'x'", "integer"],
    "--like-from x": ["--like-from", "'x'", "number"],
    "--epsilom 1": ["--epsilom", "No such option", "--epsilon"],
    "--items": ["--items", "requires an argument"],
    "one.toml two.toml": ["two.toml", "unexpected"],
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilom = 1", ["epsilom", "unknown", "epsilon"]),
        ("workers = 2", ["workers", "unknown"]),
        ("items = 0", ["items", "0"]),
        ("epsilon = nan", ["epsilon", "nan"]),
        ("like = [[0.9, 1.1]]", ["like", "1.1"]),
        ("class_shares = [0.5, 0.6]\nlike = [[1, 0], [0, 1]]", ["class_shares", "1.1"]),
        ("theta = 21.0", ["theta", "21", "20"]),
        ("items = ", ["scenario.toml", "no TOML"]),
        ("design = ['pairwise']", ["design", "pairwise"]),
        ("design = 'multi-maxsense'\nquestions = -1", ["questions is -1", "1"]),
    ],
)
def test_scenario_files_that_are_wrong(text: str, words: list[str], blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(text)
    line = refused(blindrec, "run", tmp_path / "scenario.toml", "--backend", "inprocess")
    assert all(word in line for word in words), line


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


def test_a_command_that_is_none(blindrec: Command) -> None:
    assert "'lern'" in refused(blindrec, "lern")
    assert "file" in refused(blindrec, "data")
