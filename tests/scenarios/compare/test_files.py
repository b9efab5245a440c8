"""Files as people have them: ratings given twice, times, few ratings, no line of names, and no ratings at all."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from runs import Command, planted_ratings, refused

from coordinator.protocol.errors import InputError
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import table_of, world_of
from scenarios.data.datasets import Dated, read_dated

TWICE = "user,item,rating,timestamp\na,x,1,30\nb,x,3,10\na,x,5,10\na,x,3,20\na,y,2,5\n"
FEW = ("--seeds", 3, "--epsilon", 2, "--scale", 1, "--mechanisms", "popularity,set", "--trust-models", "none,local")


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def triples(dated: Dated) -> list[tuple[str, str, float]]:
    table = dated.table
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
def test_one_of_several_ratings_counts(
    duplicates: Literal["last", "first", "mean"], text: str, rating: float, tmp_path: Path
) -> None:
    found = read_dated(written(tmp_path / "x.csv", text), duplicates=duplicates)
    assert triples(found) == [("a", "x", rating), ("a", "y", 2.0), ("b", "x", 3.0)]


def test_times_belong_to_their_ratings(tmp_path: Path) -> None:
    found = read_dated(written(tmp_path / "x.csv", TWICE), duplicates="last")
    assert found.times is not None
    assert found.times.tolist() == [30, 5, 10]
    dates = "who,what,how,when\na,x,1,2020-01-02\nb,x,2,2020-01-01T00:00:10Z\n"
    told = read_dated(written(tmp_path / "d.csv", dates), columns=("who", "what", "how", "when"))
    assert told.times is not None
    assert (told.times[0] - told.times[1]).item() == 24 * 3600 - 10
    with pytest.raises(InputError, match=r"line 3 .*'soon', which is neither a number nor a date"):
        read_dated(
            written(tmp_path / "e.csv", dates.replace("2020-01-01T00:00:10Z", "soon")),
            columns=("who", "what", "how", "when"),
        )


def test_times_of_parquet_and_movielens_are_read(tmp_path: Path) -> None:
    import pandas as pd  # noqa: PLC0415 (only this test writes Parquet)

    table = pd.DataFrame({"user": [1, 2], "item": [3, 3], "rating": [4.0, 5.0], "time": [7, 5]})
    table.to_parquet(tmp_path / "x.parquet")
    found = [
        read_dated(tmp_path / "x.parquet"),
        read_dated(written(tmp_path / "ratings.dat", "1::3::4::7\n2::3::5::5\n")),
    ]
    assert [one.times.tolist() for one in found if one.times is not None] == [[7, 5], [7, 5]]


def test_people_of_few_ratings_are_left_out(tmp_path: Path) -> None:
    found = read_dated(written(tmp_path / "x.csv", TWICE), duplicates="mean", min_ratings=2)
    assert (triples(found), found.table.users) == ([("a", "x", 3.0), ("a", "y", 2.0)], 1)
    with pytest.raises(InputError, match=r"no user of .* has 9 ratings; lower --min-ratings"):
        read_dated(tmp_path / "x.csv", duplicates="mean", min_ratings=9)


def test_columns_may_be_named_by_number_and_nobody_need_rate(tmp_path: Path) -> None:
    bare = written(tmp_path / "bare.csv", "7;u1;ignored;i1\n8;u2;;i1\n9;u1;;i2\n")
    assert triples(read_dated(bare, columns=("2", "4"))) == [("u1", "i1", 1.0), ("u1", "i2", 1.0), ("u2", "i1", 1.0)]
    found = read_dated(bare, columns=("2", "4", "1"))
    assert [value for *_, value in triples(found)] == [7, 9, 8]
    with pytest.raises(InputError, match=r"no column '9' in .*: name three columns of 1, 2, 3, 4"):
        read_dated(bare, columns=("2", "9"))


def test_what_is_seen_is_liked_where_nobody_rates(tmp_path: Path) -> None:
    rows = "".join(
        f"{user},{item}\n" for user, item, rating in planted_ratings(users=40, items=30, each=12) if rating > 3
    )
    wanted = Comparison(ratings=written(tmp_path / "seen.csv", rows), columns=("1", "2"))
    fold = world_of(wanted, 0).fold
    assert fold.liked.items.size == fold.train.items.size
    assert fold.held.items.size >= 40


def test_by_time_everybodys_latest_likes_are_held_out(tmp_path: Path) -> None:
    rows = [(user, item, 4 + (user + item) % 2, item) for user in range(30) for item in range(30)]
    path = written(
        tmp_path / "x.csv", "user,item,rating,timestamp\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
    )
    fold = world_of(Comparison(ratings=path, like_from=5, split_by="time"), 0).fold
    for person in range(30):
        held = fold.held.block(person, person + 1).items
        assert held.size == 3
        assert held.min() > fold.liked.block(person, person + 1).items.max()
    assert np.array_equal(
        fold.held.items, world_of(Comparison(ratings=path, like_from=5, split_by="time"), 1).fold.held.items
    )
    without = written(tmp_path / "y.csv", "user,item,rating\n1,2,3\n")
    with pytest.raises(InputError, match="has no column of times"):
        table_of(Comparison(ratings=without, split_by="time"))


def test_from_such_a_file_to_the_table_in_one_command(blindrec: Command, tmp_path: Path) -> None:
    rows = [
        (f"person {user}", f"i{item}", rating, 1000 - item)
        for user, item, rating in planted_ratings(users=40, items=30, each=12)
    ]
    lines = [f"{a};{b};{c - 0.5};{d}" for a, b, c, d in (*rows, *rows[:50])]
    path = written(tmp_path / "mine.csv", "\n".join(["customer;product;score;time", *lines]))
    assert "--duplicates" in refused(blindrec, "compare", path, *FEW)
    more = ("--duplicates", "last", "--min-ratings", 5, "--split-by", "time", "--like-from", 3.5, "--json", "-")
    ended = blindrec("compare", path, *FEW, *more)
    assert not ended.code, ended.err
    told = ended.result
    assert (told["split_by"], told["duplicates"], told["people_in_file"], len(told["rows"])) == ("time", "last", 40, 2)
