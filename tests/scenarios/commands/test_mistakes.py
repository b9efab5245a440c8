"""A table of mistakes that users make: each ends with its exit code and this one line, before any device is asked."""

from pathlib import Path

import pytest
from runs import Command, planted_ratings, refused, write_movielens

# ruff: noqa: E501 (messages stand here as they are said, in one line)

pytestmark = pytest.mark.usefixtures("nobody_asks")

FILES = {
    "mine": "mine",
    "unknown.toml": "epsilom = 1",
    "list.toml": "like = [[0.9, 1.1]]",
    "broken.toml": "items = ",
    "huge.toml": "users = 99999999999999999999",
    "path.toml": "ratings = 5",
    "text.toml": 'items = "many"',
    "settings.toml": "[settings]\ntheta = 2",
    "code.toml": 'design = "mine.module:Mine"',
    "zero.toml": 'ratings = "a\\u0000b"',
    "nested.toml": 'design = "multi-maxsense"\nquestions = -1',
    "setting.toml": "most_users = 2000\n[base]\nrated = 5\n[[grid]]\nitems = [1]",
    "seeds.toml": "seeds = 0\n[[grid]]\nitems = [20]",
}
"""Files that the mistakes name."""
WORDS = {"ZERO": "\0", "HALF": "\udcff", "LONG": "x" * 300}
"""What no shell types: a zero byte, a byte that is no UTF-8, and a name too long for a file."""
MISTAKES: dict[str, str] = {
    "lern": "No such command 'lern'.",
    "data": "Missing argument 'file'.",
    "run --items": "Option '--items' requires an argument.",
    "run --epsilom 1": "No such option: --epsilom (Possible options: --epsilon, --questions)",
    "run one.toml two.toml": "Got unexpected extra argument(s) (two.toml)",
    "bounds --items 1000": "Missing option '--rated'.",
    "run --items many": "Invalid value for '--items': Input should be a valid integer, unable to parse string as an integer (it is 'many')",
    "run --users 1.5e0": "Invalid value for '--users': Input should be a valid integer, unable to parse string as an integer (it is '1.5e0')",
    "run --theta x": "Invalid value for '--theta': Input should be a valid number, unable to parse string as a number (it is 'x')",
    "run --users 9999999999999999999": "users is 9999999999999999999; whole numbers must be smaller than 2^63",
    "run --repeat 1000001": "repeat is 1000001; give at most 1000000",
    "sweep standard --seeds 1000001 --out new": "seeds is 1000001; give at most 1000000",
    "run --repeat 0": "repeat is 0; it must be at least 1",
    "run --design aZEROb": "design is 'a\\x00b'; leave out the zero byte",
    "run --design aHALFb": "design is 'a\\udcffb', which is no text in UTF-8; write it anew",
    "run --json LONG": "json 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... (302 characters) ... xxxxxxxxxxxxxxxxx' cannot be named so (File name too long); name another",
    "run --out LONG": "out 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... (302 characters) ... xxxxxxxxxxxxxxxxx' cannot be named so (File name too long); name another",
    "sweep LONG --out new": "grid 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... (302 characters) ... xxxxxxxxxxxxxxxxx' cannot be named so (File name too long); name another",
    "run --json mine/result.json": "json file mine/result.json cannot be written (Not a directory); name a file in an existing folder",
    "run --epsilon much": "epsilon is much; give a number above 0, or inf for no noise",
    "run --epsilon 31": "epsilon 31 of one bit is above 30, more than a 64-bit coin can express; lower it, or say inf for no noise",
    "run --like good,bad": "like: 'good,bad' is no list of numbers; write it like 0.9,0.1",
    "run --like 1.5,0.1": "like.0.0 is 1.5: input should be less than or equal to 1",
    "run --class-shares 0.5,0.6 --like 1,0;0,1": "class_shares sum to 1.1; they must sum to 1",
    "run --columns a": "columns is 'a'; name three, user,item,rating; two without ratings, four with times",
    "run --clusters 200": "clusters is 200; give fewer than the 200 items, else any labels are right",
    "run --items 10 --rated 11": "rated is 11; it must lie between 1 and the number of items, 10",
    "run --held-out 2": "held_out is 2, which is about ratings files; give --ratings too",
    "run --design sortition": "design is 'sortition'; choose one of maxsense, sign, anchor, multi-maxsense, grr, oue, olh, hadamard, subset, set, pairs, pairwise, totals, pair-totals, curator-items, curator-pairs, item-query, full-reveal, or your own, mypackage.mymodule:MyMechanism",
    "run --design item-query --epsilon 1": "epsilon is 1, but item-query is not private; say inf or leave it out",
    "run --decoder oracle": "decoder is 'oracle'; choose one of centred, paper, posterior for maxsense",
    "run --policy adaptive": "policy is 'adaptive'; choose one of one-round, fixed, eliminate, item-by-item for maxsense, or your own, mypackage.mymodule:MyPolicy",
    "run --rounds 3": "rounds is 3, which is about policy fixed, not one-round; leave it out",
    "run --design pairwise --theta 2": "theta is 2.0, which is about maxsense and multi-maxsense; the design is pairwise, leave it out",
    "run --design multi-maxsense --questions 21": "questions is 21; it must lie between 1 and 1/p = rated/theta, here 20: sets of 10 of 200 items must not overlap",
    "run --attack untargeted": "attack is 'untargeted', but nobody lies; give --malicious too",
    "run --design grr --attack early --malicious 0.1": "attack is early, which is about rounds that depend on answers; choose --design sign --policy eliminate, or untargeted",
    "run --design curator-pairs --ratings mine --features mine": "features is 'mine', but scores of curator-pairs are no popularity; leave it out",
    "run --public 0.5 --ratings mine": "public is 0.5, which set weighs with popularity, not maxsense by centred; leave it out",
    "run --address 127.0.0.1:6379 --backend inprocess": "address is 127.0.0.1:6379, but --backend inprocess uses no Ray; leave one of them out",
    "run unknown.toml": "key 'epsilom' is unknown; did you mean 'epsilon'? known are policy, rounds, ...",
    "run list.toml": "like.0.1 is 1.1: input should be less than or equal to 1",
    "run broken.toml": "scenario file broken.toml is no TOML: Invalid value (at end of document)",
    "run huge.toml": "scenario file huge.toml is no TOML: it holds a whole number of 67 bits; give at most 63",
    "run path.toml": "ratings: 5 is no path; write it in quotes",
    "run text.toml": "items is 'many': input should be a valid integer, unable to parse string as an integer",
    "run settings.toml": "key 'settings' is unknown: a mechanism's own settings stand among the others; take them out",
    "run code.toml": "scenario file code.toml names code, design = 'mine.module:Mine', which could do all that you may; read that code, then give --allow-code, or name it by a flag",
    "run zero.toml": "ratings: file 'a\\x00b' cannot be named so (embedded null byte); name another",
    "run nested.toml": "questions is -1: input should be greater than or equal to 1",
    "run none.toml": "scenario file none.toml cannot be read (No such file or directory); name a TOML file",
    "sweep setting.toml --out new": "setting (items = 1): items is 1: input should be greater than or equal to 2",
    "sweep seeds.toml --out new": "seeds is 0: input should be greater than or equal to 1",
    "online --voters 1.5": "Invalid value for '--voters': Input should be a valid integer, unable to parse string as an integer (it is '1.5')",
    "online --recommender best": "recommender is 'best'; choose among p-rec, p-rec-sim, p-rec-lean, p-rec-sharp, p-rec-wide, p-rec-literal, plurality, multiplicative-weights, dsybil, naive, random",
    "two-tier --planted=-1,5,5": "planted is '-1,5,5', with -1 users; users must be 2 to 100000000",
    "plan --epsilon 0": "epsilon is 0; it must be above 0 (inf means no noise)",
    "audit maxsense --releases x": "Invalid value for '--releases': Input should be a valid integer, unable to parse string as an integer (it is 'x')",
}
"""A command, and what it is refused with; a line that ends with three dots goes on."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(
    mistake: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    words = mistake.split()
    for name, sign in WORDS.items():
        words = [word.replace(name, sign) for word in words]
    line, expected = refused(blindrec, *words).rstrip("\n"), MISTAKES[mistake]
    assert line == expected or (expected.endswith("...") and line.startswith(expected[:-3])), line


RUN = ["run", "--backend", "inprocess", "--users", "100"]


FLAGS: dict[str, list[str]] = {
    "--design pairwise --agreement same": ["agreement", "'same'", "'rated-equal'"],
    "--design pairwise --items 5001": ["items is 5001", "at most 5000"],
    "--like-from 3": ["like_from", "3.0", "ratings"],
    "--workers 0": ["workers", "0", "1"],
    "--devices-per-actor 0": ["devices_per_actor", "0", "1"],
    "--backend spark": ["backend", "'spark'", "ray or inprocess"],
    "--json {tmp}/none/r.json": ["json file", "{tmp}/none/r.json", "existing folder"],
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


@pytest.mark.parametrize("command", [["data"], ["run", "--backend", "inprocess", "--ratings"]])
def test_a_file_that_is_wrong(command: list[str], blindrec: Command, tmp_path: Path) -> None:
    """What readers refuse, and how, stands in `test_datasets`."""
    (tmp_path / "r.csv").write_text("userId,movieId,rating,timestamp\n7,8,4.0,0\n7,9,4.0,0\n7,8,3.0,0\n")
    line = refused(blindrec, *command, tmp_path / "r.csv")
    assert all(word in line for word in ("r.csv", "'7'", "'8'", "line 2", "line 4", "keep one")), line


ON_A_FILE: dict[str, list[str]] = {
    "--items 12": ["items", "12", "ratings.csv"],
    "--like 0.9,0.1": ["like", "0.9", "ratings.csv"],
    "--held-out -1": ["held_out", "-1", "0"],
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
