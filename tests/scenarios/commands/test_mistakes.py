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
    "digits.toml": "items = " + "9" * 5000,
    "deep.toml": "like = " + "[" * 3000 + "]" * 3000,
    "long.toml": f"{'x' * 100_000} = 1",
    "path.toml": "ratings = 5",
    "text.toml": 'items = "many"',
    "settings.toml": "[settings]\ntheta = 2",
    "code.toml": 'design = "mine.module:Mine"',
    "zero.toml": 'ratings = "a\\u0000b"',
    "nested.toml": 'design = "multi-maxsense"\nquestions = -1',
    "setting.toml": "most_users = 2000\n[base]\nrated = 5\n[[grid]]\nitems = [1]",
    "seeds.toml": "seeds = 0\n[[grid]]\nitems = [20]",
    "twice.csv": "userId,movieId,rating,timestamp\n7,8,4.0,0\n7,9,4.0,0\n7,8,3.0,0\n",
}
"""Files that the mistakes name."""
WORDS = {"ZERO": "\0", "HALF": "\udcff", "LONG": "x" * 300}
"""What no shell types: a zero byte, a byte that is no UTF-8, and a name too long for a file."""
MISTAKES: dict[str, str] = {
    "lern": "No such command 'lern'.",
    "data": "Missing argument 'file'.",
    "data twice.csv": "user '7' rated item '8' twice, on line 2 of ...",
    "run --items": "Option '--items' requires an argument.",
    "run --epsilom 1": "--epsilom is no flag of blindrec run; did you mean --epsilon? --help lists all",
    "run --mechanism oue": "--mechanism is no flag of blindrec run; did you mean --design? --help lists all",
    "compare --dataset mine": "--dataset is no flag of blindrec compare; did you mean the argument file? --help lists all",
    "sweep standard --ratings mine --out new": "--ratings is no flag of blindrec sweep sample-complexity; --help lists all",
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
    "run --design aHALFb": "design is 'a\\udcffb', which is not UTF-8 text; retype it",
    "run --json LONG": "json 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... (302 characters) ... xxxxxxxxxxxxxxxxx' is not a valid name (File name too long); name another",
    "run --out LONG": "out 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... (302 characters) ... xxxxxxxxxxxxxxxxx' is not a valid name (File name too long); name another",
    "sweep LONG --out new": "grid 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... (302 characters) ... xxxxxxxxxxxxxxxxx' is not a valid name (File name too long); name another",
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
    "run --design sortition": "design is 'sortition'; choose one of maxsense, sign, anchor, multi-maxsense, grr, oue, olh, hadamard, subset, set, pairs, pairwise, totals, pair-totals, curator-items, curator-pairs, item-query, full-reveal, rappor, or your own, mypackage.mymodule:MyMechanism",
    "run --design item-query --epsilon 1": "epsilon is 1, but item-query is not private; say inf or leave it out",
    "run --decoder oracle": "decoder is 'oracle'; choose one of centred, paper, posterior for maxsense",
    "run --policy adaptive": "policy is 'adaptive'; choose one of one-round, fixed, eliminate, item-by-item for maxsense, or your own, mypackage.mymodule:MyPolicy",
    "run --rounds 3": "rounds is 3, which is about policy fixed, not one-round; leave it out",
    "run --design pairwise --theta 2": "theta is 2.0, which is about maxsense and multi-maxsense; the design is pairwise, leave it out",
    "run --design multi-maxsense --questions 21": "questions is 21; it must lie between 1 and 1/p = rated/theta, here 20: sets of 10 of 200 items must not overlap",
    "run --attack untargeted": "attack is 'untargeted', but nobody lies; give --malicious too",
    "run --design grr --attack early --malicious 0.1": "attack is 'early'; choose one of input:R, untargeted, promote:R",
    "run --design curator-pairs --ratings mine --features mine": "features is 'mine', but scores of curator-pairs are no popularity; leave it out",
    "run --public 0.5 --ratings mine": "public is 0.5, which set weighs with popularity, not maxsense by centred; leave it out",
    "run --design pairwise --agreement same": "agreement is 'same': input should be 'rated-equal', 'equal' or 'positive'",
    "run --design pairwise --items 5001": "items is 5001; pairwise needs at least 2, and at most 5000 to hold all pairs",
    "run --like-from 3": "like_from is 3.0, which is about ratings files; give --ratings too",
    "run --workers 0": "workers is 0; it must be at least 1",
    "run --devices-per-actor 0": "devices_per_actor is 0; it must be at least 1",
    "run --backend spark": "backend is 'spark'; choose auto, ray or inprocess",
    "run --out mine": "output folder mine cannot be made (Not a directory); name another one",
    "run --users 1,00": "Invalid value for '--users': Input should be a valid integer, unable to parse string as an integer (it is '1,00')",
    "run --ratings twice.csv": "user '7' rated item '8' twice, on line 2 of ...",
    "run --ratings ratings.csv --items 12": "items is 12, but 'ratings.csv' brings its own; give one of them",
    "run --ratings ratings.csv --like 0.9,0.1": "like is ((0.9, 0.1),), but 'ratings.csv' brings its own; give one of them",
    "run --ratings ratings.csv --held-out -1": "held_out is -1; give a share of everybody's ratings below 1, or a whole number, 0 or more",
    "run --address 127.0.0.1:6379 --backend inprocess": "address is 127.0.0.1:6379, but --backend inprocess uses no Ray; leave one of them out",
    "run unknown.toml": "key 'epsilom' is unknown; did you mean 'epsilon'? known are policy, rounds, ...",
    "run list.toml": "like.0.1 is 1.1: input should be less than or equal to 1",
    "run broken.toml": "scenario file broken.toml is no TOML: Invalid value (at end of document)",
    "run huge.toml": "scenario file huge.toml is no TOML: it holds a whole number of 67 bits; give at most 63",
    "run digits.toml": "scenario file digits.toml holds a whole number of thousands of digits; give a shorter one",
    "run deep.toml": "scenario file deep.toml is no TOML: its lists or tables are nested too deep",
    "run long.toml": "key 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ... (100,002 characters) ... xxxxxxxxxxxxxxx' is unknown; known are ...",
    "run path.toml": "ratings: 5 is no path; write it in quotes",
    "run text.toml": "items is 'many': input should be a valid integer, unable to parse string as an integer",
    "run settings.toml": "key 'settings' is unknown: write a mechanism's settings beside the other keys",
    "run code.toml": "scenario file code.toml names code, design = 'mine.module:Mine', which would run with your rights; read that code, then give --allow-code, or name it by a flag",
    "run zero.toml": "ratings: file 'a\\x00b' is not a valid name (embedded null byte); name another",
    "run nested.toml": "questions is -1: input should be greater than or equal to 1",
    "run none.toml": "scenario file none.toml cannot be read (No such file or directory); name a TOML file",
    "sweep setting.toml --out new": "setting (items = 1): items is 1: input should be greater than or equal to 2",
    "sweep seeds.toml --out new": "seeds is 0: input should be greater than or equal to 1",
    "online --voters 1.5": "Invalid value for '--voters': Input should be a valid integer, unable to parse string as an integer (it is '1.5')",
    "online --recommender best": "recommender is 'best'; choose among p-rec, p-rec-sim, p-rec-lean, p-rec-sharp, p-rec-wide, p-rec-literal, plurality, multiplicative-weights, dsybil, naive, random",
    "two-tier --planted=-1,5,5": "planted is '-1,5,5', with -1 users; users must be 2 to 100000000",
    "two-tier --planted=5,1,5": "planted is '5,1,5', with 1 items; items must be 2 to 10000000",
    "two-tier --planted=5,5,0": "planted is '5,5,0', with 0 ratings; ratings must be 1 to 10000000000",
    "two-tier --planted=60,30,900 --scale=1:1e9:1e-9": "scale is '1:1e9:1e-9'; give 1 to 256 ratings",
    "compare ratings.csv --like-from nan": "like_from is nan: input should be a finite number",
    "compare ratings.csv --ridge inf": "ridge is inf: input should be a finite number",
    "check grr --epsilon 1e-12": "epsilon is 1e-12; give at least 1e-09",
    "plan --epsilon 0": "epsilon is 0; it must be above 0 (inf means no noise)",
    "plan --success 0": "success is 0.0; it must lie above 0 and below 1",
    "plan --accuracy nan": "accuracy is nan; it must lie above 0 and below 1",
    "plan --success x": "Invalid value for '--success': Input should be a valid number, unable to parse string as a number (it is 'x')",
    "plan --repeat 0": "repeat is 0; it must be at least 1",
    "plan --seed -1 --check": "seed is -1; it must be at least 0 and below 2^63",
    "plan --items 1": "items is 1: input should be greater than or equal to 2",
    "plan --theta 21": "theta is 21.0; it must lie above 0 and be at most rated, 20",
    "plan --like 0.9": "like has 1 numbers a user class; give one for each of at least 2 item clusters",
    "plan --cluster-shares 0.001,0.999": "cluster_shares is (0.001, 0.999): cluster 0 of 2 would hold none of 200 items; give a larger share or more",
    "plan --columns a,b,c": "columns is 'a,b,c', which is about ratings files; give --ratings too",
    "plan --json nowhere/x": "json file nowhere/x cannot be written (No such file or directory); name a file in an existing folder",
    "plan --ratings ratings.csv --items 30": "items is 30, but 'ratings.csv' brings its own; give one of them",
    "plan --ratings ratings.csv --rated 3": "rated is 3, but 'ratings.csv' brings its own; give one of them",
    "plan --ratings ratings.csv --like 0.9,0.1": "like is '0.9,0.1', but 'ratings.csv' brings its own; give one of them",
    "plan --ratings ratings.csv --cluster-shares 0.5,0.5": "cluster_shares is '0.5,0.5', but 'ratings.csv' brings its own; give one of them",
    "plan --ratings ratings.csv --columns a": "columns is 'a'; name three, user,item,rating; two without ratings, four with times",
    "plan --ratings ratings.csv --block-model --theta 9": "theta is 9.0; it must lie above 0 and be at most rated, 4",
    **{
        f"plan --ratings ratings.csv --{name.replace('_', '-')} {value}": f"{name} is {shown}, which is about block models; give --block-model too"
        for name, value, shown in (
            ("theta", 2, "2.0"),
            ("accuracy", 0.9, "0.9"),
            ("success", 0.9, "0.9"),
            ("malicious", 0.1, "0.1"),
            ("check", "", "True"),
            ("cost", "", "True"),
        )
    },
    "plan --ratings ratings.csv --block-model --worth 0.9": "worth is 0.9, which is about lists, and a block model has none",
    "plan --block-model": "block_model is True, which is about ratings files; give --ratings too",
    "plan --ratings ratings.csv --like-from nan": "like_from is nan: input should be a finite number",
    "plan --ratings none.csv": "no file ...",
    "bounds --items 1000 --rated 30 --items 1": "items 1: a catalogue to cluster has 2 items or more",
    "bounds --items 1000 --rated 30 --epsilon 0": "epsilon is 0; it must be above 0 (inf means no noise)",
    "bounds --items 1000 --rated 30 --failure 2": "failure 2.0: give a probability of at least 0 and below 1",
    "bounds --items 1000 --rated 30 --clusters 1": "clusters 1 of 1000 items: give 2 to 1000",
    "audit maxsense --releases x": "Invalid value for '--releases': Input should be a valid integer, unable to parse string as an integer (it is 'x')",
}
"""A command, and what it is refused with; a line that ends with three dots goes on. See `test_datasets` for files."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(
    mistake: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    write_movielens(Path("ratings.csv"), planted_ratings(users=4, items=4, each=4))
    words = mistake.split()
    for name, sign in WORDS.items():
        words = [word.replace(name, sign) for word in words]
    line, expected = refused(blindrec, *words).rstrip("\n"), MISTAKES[mistake]
    assert line == expected or (expected.endswith("...") and line.startswith(expected[:-3])), line


@pytest.mark.parametrize("flags", ["--items 0", "--backend spark", "--workers 0", "--cluster-shares 1,0", "--like 0.5"])
def test_results_of_before_survive_whatever_is_wrong(flags: str, blindrec: Command, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text("{}")
    refused(blindrec, "run", "--backend", "inprocess", "--users", 100, "--json", old, *flags.split())
    assert old.read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
