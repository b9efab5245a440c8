"""Files as people have them: ratings given twice, times, few ratings, no line of names, and no ratings at all."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evidence import sample
from runs import Command, Ended, planted_ratings, present, refused, write_movielens

from coordinator.protocol.errors import InputError
from scenarios.config.settings import Duplicates
from scenarios.data.datasets import RatingTable, read_for, read_ratings
from scenarios.data.values import stand_apart
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.worlds import table_of, world_of

pytestmark = pytest.mark.usefixtures("undrawn")

TWICE = "user,item,rating,timestamp\na,x,1,30\nb,x,3,10\na,x,5,10\na,x,3,20\na,y,2,5\n"
PEOPLE = planted_ratings(users=40, items=30, each=12)
ROWS = ("--mechanisms", "popularity,set", "--trust-models", "none,local")
FEW = ("--backend", "inprocess", "--seeds", 3, "--epsilon", 2, "--scale", 1, *ROWS)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def triples(table: RatingTable) -> list[tuple[str, str, float]]:
    return [
        (str(table.user_labels[user]), str(table.item_labels[item]), float(value))
        for user, item, value in zip(table.owners, table.items, table.values, strict=True)
    ]


def test_a_file_that_somebody_has_written_to_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one session of Python, and where a file of another folder has the same relative path."""
    lines = "user,item,rating\na,x,1\na,y,5\na,z,5\nb,x,1\nb,y,5\nb,z,5\n"
    found = []
    for folder, text in (("one", lines), ("one", lines + "c,x,5\nc,y,5\n"), ("two", lines.replace("b,", "c,"))):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        wanted = Comparison(ratings=written(Path("ratings.csv"), text), like_from=4)
        found.append((table_of(wanted).user_labels.tolist(), world_of(wanted, 0).people))
    assert found == [(["a", "b"], 2), (["a", "b", "c"], 3), (["a", "c"], 2)]


@pytest.mark.parametrize(
    ("duplicates", "text", "rating"),
    [
        ("last", TWICE, 1.0),  # by time, not by line
        ("first", TWICE, 5.0),
        ("mean", TWICE, 3.0),
        ("last", TWICE.replace("timestamp", "note"), 3.0),  # by line
        ("first", TWICE.replace("timestamp", "note"), 1.0),
    ],
)
def test_one_of_several_ratings_counts(duplicates: Duplicates, text: str, rating: float, tmp_path: Path) -> None:
    """As all commands read a file: by time, where it has times."""
    table = read_for(Comparison(ratings=written(tmp_path / "x.csv", text), duplicates=duplicates))
    assert triples(table) == [("a", "x", rating), ("a", "y", 2.0), ("b", "x", 3.0)]


def test_times_belong_to_their_ratings(tmp_path: Path) -> None:
    found = read_ratings(written(tmp_path / "x.csv", TWICE), duplicates="last", times=True)
    assert present(found.times).tolist() == [30, 5, 10]
    dates = "who,what,how,when\na,x,1,2020-01-02\nb,x,2,2020-01-01T00:00:10Z\n"
    told = read_ratings(written(tmp_path / "d.csv", dates), columns=("who", "what", "how", "when"), times=True)
    assert told.times is not None
    assert (told.times[0] - told.times[1]).item() == 24 * 3600 - 10
    soon = written(tmp_path / "e.csv", dates.replace("2020-01-01T00:00:10Z", "soon"))
    with pytest.raises(InputError, match=r"line 3 .*'soon', which is neither a number nor a date"):
        read_ratings(soon, columns=("who", "what", "how", "when"), times=True)


@pytest.mark.parametrize(
    ("first", "second", "days"),
    [("31/12/2019", "1/1/2020", 1), ("12/31/2019", "01/02/2020", 2), ("13.1.2020", "2.2.2020 12:00", 20.5)],
)
def test_days_or_months_come_first_as_a_file_shows(first: str, second: str, days: float, tmp_path: Path) -> None:
    text, columns = "who,what,how,when\na,x,1,{}\nb,x,2,{}\n", ("who", "what", "how", "when")
    ratings = read_ratings(written(tmp_path / "d.csv", text.format(first, second)), columns=columns, times=True)
    assert ratings.times is not None
    assert (ratings.times[1] - ratings.times[0]).item() == days * 24 * 3600
    for other in ("3/4/2020", "12/13/2020"):  # either order; both in one file
        one = written(tmp_path / "open.csv", text.format("1/2/2020" if other == "3/4/2020" else "13/12/2020", other))
        with pytest.raises(InputError, match="days or months may come first: write the year first"):
            read_ratings(one, columns=columns, times=True)


def test_times_of_parquet_and_movielens_are_read(tmp_path: Path) -> None:
    table = pd.DataFrame({"user": [1, 2], "item": [3, 3], "rating": [4.0, 5.0], "time": [7, 5]})
    table.to_parquet(tmp_path / "x.parquet")
    movielens = written(tmp_path / "ratings.dat", "1::3::4::7\n2::3::5::5\n")
    found = [read_ratings(path, times=True) for path in (tmp_path / "x.parquet", movielens)]
    assert [one.times.tolist() for one in found if one.times is not None] == [[7, 5], [7, 5]]


def test_people_of_few_ratings_are_left_out(tmp_path: Path) -> None:
    found = read_ratings(written(tmp_path / "x.csv", TWICE), duplicates="mean", min_ratings=2)
    assert (triples(found), found.users) == ([("a", "x", 3.0), ("a", "y", 2.0)], 1)
    found = read_ratings(written(tmp_path / "x.csv", TWICE), duplicates="sum", min_ratings=2)
    assert triples(found) == [("a", "x", 9.0), ("a", "y", 2.0)]
    with pytest.raises(InputError, match=r"no user of .* has 9 ratings; lower --min-ratings"):
        read_ratings(tmp_path / "x.csv", duplicates="mean", min_ratings=9)


def test_columns_may_be_named_by_number_and_nobody_need_rate(tmp_path: Path) -> None:
    bare = written(tmp_path / "bare.csv", "7;u1;ignored;i1\n8;u2;;i1\n9;u1;;i2\n")
    assert triples(read_ratings(bare, columns=("2", "4"))) == [("u1", "i1", 1.0), ("u1", "i2", 1.0), ("u2", "i1", 1.0)]
    found = read_ratings(bare, columns=("2", "4", "1"))
    assert [value for *_, value in triples(found)] == [7, 9, 8]
    with pytest.raises(InputError, match=r"no column '9' in .*; give --columns USER,ITEM,RATING of 1, 2, 3, 4"):
        read_ratings(bare, columns=("2", "9"))


SHORT = {
    "run": ("--backend", "inprocess", "--workers", 1),
    "online": ("--backend", "inprocess", "--workers", 1, "--rounds", 2, "--radius", 1),
    "two-tier": ("--backend", "inprocess", "--public", 10, "--private", 5, "--rank", 2, "--regularisation", 1,
                 "--holdout", 2, "--iterations", 2),
    "plan": (),
    "compare": FEW,
    "data": (),
}  # fmt: skip
SWEEPS = {
    "online": ("--clients", 2, "--rounds", 5, "--recommenders", "p-rec", "--seeds", 1),
    "two-tier": ("--figures", "2", "--public", 10, "--private", 5, "--rank", 2, "--regularisation", 1, "--holdout", 2,
                 "--mechanisms", "none", "--seeds", 1),
}  # fmt: skip


def called(blindrec: Command, name: str, path: Path, *more: object) -> Ended:
    """Call one of all commands that read a file of ratings, for its JSON."""
    file = (path,) if name in ("compare", "data") else ("--ratings", path)
    return blindrec(name, *file, *SHORT[name], *more, "--json", "-")


def with_times(path: Path, *more: str) -> Path:
    """Write ratings of four columns without a line of names, of which some were given again, and more lines."""
    rows = [f"u{user};i{item};{rating};{1000 - item}" for user, item, rating in PEOPLE]
    again = [f"u{user};i{item};{6 - rating};{2000 - item}" for user, item, rating in PEOPLE[:50]]
    return written(path, "\n".join([*again, *rows, *more]))


@pytest.mark.parametrize("name", SHORT)
def test_every_command_reads_the_same_files(name: str, blindrec: Command, tmp_path: Path) -> None:
    """Four columns with times and no line of names, ratings given again, one far off, and lines that are bad."""
    far = "u1;i99;99;3"
    path = with_times(tmp_path / "mine.csv", far, "u1;i2;many;3", "u1;i2", ";i2;3;3")
    columns = ("--columns", "1,2,3,4")
    refusal = called(blindrec, name, path, *columns, "--duplicates", "last")
    assert refusal.code == 2
    last = 51 + len(PEOPLE)
    assert f"3 lines of '{path}' cannot be read: line {last + 1} has the rating 'many'" in refusal.err
    assert f"; line {last + 2} does not fit " in refusal.err
    assert f"; line {last + 3} has no '1': correct or drop them, or leave them out by --bad-lines skip" in refusal.err
    twice = called(blindrec, name, path, *columns, "--bad-lines", "skip")
    assert "let --duplicates choose: last, first, mean or sum" in twice.err
    ended = called(blindrec, name, path, *columns, "--duplicates", "last", "--bad-lines", "skip")
    assert not ended.code, ended.err
    assert ended.result["lines_skipped"] == 3
    if name not in ("compare", "data"):  # which tell it in their tables
        assert "bad lines of the file that were left out: 3" in ended.err
    words = "".join(ended.result["remarks"]) if name in ("compare", "data") else ended.err
    assert "warning: 1 rating of 99 stands apart from all others, which lie from 1 to 5" in words
    whole = called(blindrec, name, with_times(tmp_path / "whole.csv", far), *columns, "--duplicates", "last")
    assert "lines_skipped" not in whole.result
    for key in ("users", "items", "people_in_file", "releases_sha256", "recommendations_sha256"):
        assert ended.result.get(key) == whole.result.get(key)


@pytest.mark.parametrize("name", SWEEPS)
def test_sweeps_read_the_same_files(name: str, blindrec: Command, tmp_path: Path) -> None:
    path = with_times(tmp_path / "mine.csv", "u1;i2")
    more = ("--columns", "1,2,3,4", "--duplicates", "last", "--backend", "inprocess", "--out", tmp_path / "out")
    assert "--bad-lines skip" in refused(blindrec, "sweep", name, "--ratings", path, *SWEEPS[name], *more)
    skip = ("--bad-lines", "skip", "--json", "-")
    ended = blindrec("sweep", name, "--ratings", path, *SWEEPS[name], *more, *skip)
    assert not ended.code, ended.err
    assert ended.result["lines_skipped"] == 1
    assert "left out: 1" in ended.err


def test_what_is_seen_is_liked_by_every_command(blindrec: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "seen.csv", "".join(f"{user},{item}\n" for user, item, _ in PEOPLE))
    for name in ("run", "online", "data", "compare"):
        ended = called(blindrec, name, path, "--columns", "1,2")
        assert not ended.code, ended.err
    assert "are likes" in refused(blindrec, "plan", "--ratings", path, "--columns", "1,2", "--block-model")
    told = called(blindrec, "run", path, "--columns", "1,2").result
    assert told["evaluated"] == 40
    assert "without ratings" in refused(blindrec, "two-tier", "--ratings", path, "--columns", "1,2")


def test_of_many_bad_lines_ten_are_named(tmp_path: Path) -> None:
    bad = "".join(f"u{number},x,{'5' if number % 3 else 'x' * 50}\n\n" for number in range(90))
    path = written(tmp_path / "x.csv", f"user,item,rating\n{bad}u1,x\nu2,y,nan\n,x,5\n")
    with pytest.raises(InputError) as refusal:
        read_ratings(path)
    line = str(refusal.value)
    assert line.startswith(f"33 lines of '{path}' cannot be read: line 2 has the rating 'xxxxxxxxxxxx', which is no")
    assert line.count("; line ") == 9
    assert "; and 23 more: correct or drop them, or leave them out by --bad-lines skip" in line
    found = read_ratings(path, bad_lines="skip")
    assert (found.skipped, found.ratings, found.users) == (33, 60, 60)
    with pytest.raises(InputError, match="holds no rating besides 1 bad lines"):
        read_ratings(written(tmp_path / "y.csv", "user,item,rating\n1,,3\n"), bad_lines="skip")


def test_bad_lines_of_every_format_are_left_out(tmp_path: Path) -> None:
    def jester(*ratings: str, count: int = 2) -> str:
        return ",".join([str(count), *ratings, *["99"] * (100 - len(ratings))]) + "\n"

    frame = pd.DataFrame({"user": ["a", None, "b"], "item": ["x", "x", "y"], "rating": [1.0, 2.0, None]})
    frame.to_parquet(tmp_path / "x.parquet")
    texts = {
        "ratings.dat": "1::2::3::4\n1::3:4::4\n1:x:3::4::4\n2::2::9::4\n",
        "u.data": "1\t2\t3\t4\n1\t3\n",
        "ratings.csv": "userId,movieId,rating,timestamp\n1,2,3,4\n1,3,99,4\n",
    }
    for name, text in texts.items():
        found = read_ratings(written(tmp_path / name, text), bad_lines="skip")
        bad = text.count("\n") - text.startswith("userId") - 1
        assert (triples(found), found.skipped) == ([("1", "2", 3.0)], bad)
    (tmp_path / "l.csv").write_bytes(b"user,item,rating\n1,2,3\n\xe9,2,3\n")
    assert triples(read_ratings(tmp_path / "l.csv", bad_lines="skip")) == [("1", "2", 3.0)]
    assert triples(read_ratings(tmp_path / "x.parquet", bad_lines="skip")) == [("a", "x", 1.0)]
    lines = jester("1", "2") + jester("1", "ha") + jester("1", "2", count=3) + "2,3\n" + jester("3", "4")
    found = read_ratings(written(tmp_path / "j.csv", lines), bad_lines="skip")
    assert triples(found) == [("1", "1", 1.0), ("1", "2", 2.0), ("5", "1", 3.0), ("5", "2", 4.0)]
    assert found.skipped == 3


def test_times_that_nothing_asks_for_are_not_read(blindrec: Command, tmp_path: Path) -> None:
    rows = "".join(f"{user},{item},{rating},soon\n" for user, item, rating in PEOPLE)
    path = written(tmp_path / "x.csv", "user,item,rating,date\n" + rows)
    for name in SHORT:
        assert not called(blindrec, name, path).code
        assert "neither a number nor a date" in called(blindrec, name, path, "--duplicates", "last").err


HALVES = np.repeat(np.arange(0.5, 5.5, 0.5), 40)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([99.0] * 3, "3 ratings of 99 stand apart from all others, which lie from 0.5 to 5:"),
        ([99.0, 100.0, 1e6], "3 ratings from 99 to 1e+06 stand apart from all others, which lie from 0.5 to 5:"),
        ([-99.0], "1 rating of -99 stands apart from all others, which lie from 0.5 to 5:"),
        ([5.5, 7.0, 10.0], ""),
    ],
)
def test_ratings_that_stand_apart_are_told(more: list[float], told: str) -> None:
    assert stand_apart(np.concatenate([HALVES, more])).startswith(told)
    assert bool(told) == bool(stand_apart(np.concatenate([HALVES, more])))


@pytest.mark.parametrize("seed", sample(range(50), 10))
def test_counts_are_not_said_to_stand_apart(seed: int) -> None:
    """Numbers of plays and purchases, whose tails are thin and long, thin and short, or heavier than any file's."""
    random = np.random.default_rng(seed)
    for size in (60, 1000, 100_000):
        for counts in (
            *(random.zipf(exponent, size) for exponent in (1.5, 2.0, 3.0)),
            *(random.geometric(0.1, size), 1 + random.poisson(2, size)),
            *(np.ceil(random.lognormal(2, 2, size)), np.ceil(random.pareto(1, size))),
        ):
            assert not stand_apart(np.minimum(counts, 1e9).astype(np.float64))


@pytest.mark.few(1)
@pytest.mark.parametrize("people", [20, 40, pytest.param(100, marks=pytest.mark.thorough)])
def test_rows_that_so_few_people_do_not_allow_are_left_out_with_a_remark(
    people: int, blindrec: Command, tmp_path: Path
) -> None:
    """With a hundredth of them public nobody is left to validate on; `PMC` and `trace norm` are there with a fifth."""
    ratings = tmp_path / "few.csv"
    write_movielens(ratings, planted_ratings(users=people, items=30, each=12))
    models = ("--trust-models", "none,two-tier", "--mechanisms", "popularity,trace norm,PMC")
    sizes = ("--scale", 1, "--public", "0.01,0.05,0.2")
    result = blindrec(
        "compare", ratings, "--epsilon", 1, "--backend", "inprocess", "--json", "-", *models, *sizes
    ).result
    shares = {(row["mechanism"], row["public"]) for row in result["rows"] if row["trust_model"] == "two-tier"}
    few = [share for share in (0.01, 0.05, 0.2) if round(share * people) < 2]
    assert shares == {
        *(("popularity", share) for share in (0.01, 0.05, 0.2)),
        *((name, share) for name in ("trace norm", "PMC") for share in (0.01, 0.05, 0.2) if share not in few),
    }
    (left,) = [line for line in result["remarks"] if "not measured" in line]
    assert all(
        f"two-tier: {name} ({100 * share:.1f} % public)" in left for name in ("trace norm", "PMC") for share in few
    )
    assert "rank and regularisation are validated on 2 or more; raise --public" in left
    assert any(f"the file has {people} people, and fewer than 400" in line for line in result["warnings"])


def test_of_fewer_than_twenty_people_nothing_is_said(blindrec: Command, tmp_path: Path) -> None:
    lines = (f"{person},{item},{item % 5}" for person in range(19) for item in range(30))
    for text, words in ((lines, "19 people"), ((f"1,{item},{item % 5}" for item in range(40)), "1 person")):
        ratings = written(tmp_path / "few.csv", "\n".join(["user,item,rating", *text]))
        said = refused(blindrec, "compare", ratings)
        assert said.strip() == f"the file has {words}; a comparison needs at least 20"
