import random
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import complains

from coordinator.protocol.errors import InputError
from scenarios.data.datasets import RatingTable, read_ratings

HEADER = "userId,movieId,rating,timestamp\n"
Triple = tuple[str, str, float]


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def jester_line(ratings: dict[int, str], count: int | None = None) -> str:
    cells = [ratings.get(joke, "99") for joke in range(1, 101)]
    return ",".join([str(len(ratings) if count is None else count), *cells]) + "\n"


def triples(table: RatingTable) -> list[Triple]:
    users, items = table.user_labels[table.owners], table.item_labels[table.items]
    return list(zip(users.tolist(), items.tolist(), table.values.tolist(), strict=True))


SMALL: list[Triple] = [("2", "7", 4.0), ("2", "30", 1.0), ("10", "7", 3.0), ("10", "200", 5.0)]
SMALL_TEXTS = {
    "ratings.csv": (HEADER + "10,200,5.0,1\n10,7,3.0,1\n2,30,1.0,1\n2,7,4.0,1\n", "MovieLens CSV"),
    "ratings.dat": ("10::200::5::1\n10::7::3::1\n2::30::1::1\n2::7::4::1\n", "MovieLens ratings.dat"),
    "u.data": ("10\t200\t5\t1\n10\t7\t3\t1\n2\t30\t1\t1\n2\t7\t4\t1\n", "MovieLens u.data"),
    "semicolons.csv": (
        "userId;movieId;rating;timestamp\n10;200;5;1\n10;7;3;1\n2;30;1;1\n2;7;4;1\n",
        "MovieLens, semicolon-separated",
    ),
    "tabs.csv": (
        "userId\tmovieId\trating\ttimestamp\n10\t200\t5\t1\n10\t7\t3\t1\n2\t30\t1\t1\n2\t7\t4\t1\n",
        "MovieLens, tab-separated",
    ),
    "plain.csv": ("score,user_id,extra,Item ID\n5,10,x,200\n3,10,,7\n1,2,z,30\n4,2,z,7", "CSV with named columns"),
    "tab.tsv": (
        "user\titem\trating\r\n10\t200\t5\r\n\r\n10\t7\t3\r\n2\t30\t1\r\n2\t7\t4\r\n",
        "tab-separated with named columns",
    ),
    "semicolon.csv": (
        '\ufeff"User-ID";"ISBN";"Book-Rating"\n"10";"200";"5"\n"10";"7";" 3"\n2;30;1\n2;7;4\n',
        "semicolon-separated with named columns",
    ),
}


@pytest.mark.parametrize("name", SMALL_TEXTS)
@pytest.mark.parametrize("archived", [False, True])
def test_every_text_format_gives_the_same_table(name: str, archived: bool, tmp_path: Path) -> None:
    text, source = SMALL_TEXTS[name]
    path = written(tmp_path / name, text)
    if archived:
        path = zipped(tmp_path / "a.zip", {f"deep/{name}": text.encode(), "deep/README.txt": b"hello"})
    table = read_ratings(path)
    assert triples(table) == SMALL
    assert (table.users, table.count, table.ratings, table.source) == (2, 3, 4, source)
    assert table.user_labels.tolist() == ["2", "10"]
    assert table.item_labels.tolist() == ["7", "30", "200"]
    assert table.starts.tolist() == [0, 2, 4]
    assert table.density == 4 / 6
    assert table.degrees.tolist() == [2, 2]
    arrays = (table.starts, table.items, table.values, table.user_labels)
    assert [array.dtype.name for array in arrays] == ["int64", "int32", "float64", "object"]


@pytest.mark.parametrize("kind", ["int64", "str", "category"])
@pytest.mark.parametrize("rating", ["float32", "int8", "str"])
def test_parquet_gives_the_same_table(kind: str, rating: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(SMALL[::-1], columns=["u", "i", "r"])
    frame = frame.astype({"u": "int64", "i": "int64"}).astype({"u": kind, "i": kind, "r": "int8"}).astype({"r": rating})
    frame.to_parquet(tmp_path / "x.parquet")
    table = read_ratings(tmp_path / "x.parquet", columns=("u", "i", "r"))
    assert triples(table) == SMALL
    inside = zipped(tmp_path / "x.zip", {"x.parquet": (tmp_path / "x.parquet").read_bytes()})
    assert triples(read_ratings(inside, columns=("u", "i", "r"))) == SMALL


def test_named_columns_win_over_usual_names(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "user,viewer,item,rating,mood\n1,b,5,2,-7.25\n1,a,5,2,30\n")
    assert triples(read_ratings(path, columns=("viewer", "item", "mood"))) == [("a", "5", 30.0), ("b", "5", -7.25)]
    movielens = written(tmp_path / "ratings.csv", HEADER + "1,2,3.5,77\n")
    assert read_ratings(movielens, columns=("userId", "movieId", "rating")).source == "MovieLens CSV"
    assert triples(read_ratings(movielens, columns=("movieId", "userId", "timestamp"))) == [("2", "1", 77.0)]


@pytest.mark.parametrize(
    ("labels", "ordered"),
    [
        (["10", "9", "-3", "007", "7"], ["-3", "007", "7", "9", "10"]),
        (["10", "9", "b", "Z"], ["10", "9", "Z", "b"]),
        (["é", "z", "a b"], ["a b", "z", "é"]),
        (["1" * 19, "2"], ["1" * 19, "2"]),
    ],
)
def test_labels_are_ordered_by_number_where_all_have_one(labels: list[str], ordered: list[str], tmp_path: Path) -> None:
    rows = "".join(f"{label},x,1\n" for label in labels)
    assert read_ratings(written(tmp_path / "x.csv", "user,item,rating\n" + rows)).user_labels.tolist() == ordered


def test_jester_reads_a_line_as_a_user(tmp_path: Path) -> None:
    text = (
        jester_line({2: "-9.95", 1: "0", 100: "10"}) + "\n" + jester_line({}) + jester_line({7: "99.00", 8: "3.5"}, 1)
    )
    for path in (written(tmp_path / "j.csv", text), zipped(tmp_path / "j.zip", {"j.csv": text.encode()})):
        table = read_ratings(path)
        assert triples(table) == [("1", "1", 0.0), ("1", "2", -9.95), ("1", "100", 10.0), ("3", "8", 3.5)]
        assert (table.users, table.count, table.source) == (3, 100, "Jester")
        assert table.starts.tolist() == [0, 3, 3, 4]
        assert table.item_labels.tolist() == [str(joke) for joke in range(1, 101)]


def test_an_archive_may_hold_more_than_the_ratings(tmp_path: Path) -> None:
    members = {"ml/movies.csv": b"movieId,title\n1,x\n", "ml/ratings.csv": (HEADER + "1,2,3.0,4\n").encode()}
    assert triples(read_ratings(zipped(tmp_path / "ml.zip", members))) == [("1", "2", 3.0)]


@settings(max_examples=examples(60))
@given(
    ratings=st.dictionaries(
        st.tuples(st.integers(0, 30), st.text("ab,\" \té:'", min_size=1, max_size=3)),
        st.floats(-1e9, 1e9, allow_nan=False),
        min_size=1,
        max_size=40,
    ),
    order=st.randoms(use_true_random=False),
)
def test_reading_inverts_writing_in_any_order(
    ratings: dict[tuple[int, str], float], order: random.Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [(str(user), item, value) for (user, item), value in ratings.items()]
    expected = sorted(rows, key=lambda row: (int(row[0]), row[1]))
    order.shuffle(rows)
    path = tmp_path_factory.mktemp("any") / "x.csv"
    pd.DataFrame(rows, columns=["user", "item", "rating"]).to_csv(path, index=False)
    table = read_ratings(path)
    assert triples(table) == expected
    assert table.user_labels.tolist() == sorted({row[0] for row in rows}, key=int)
    assert table.item_labels.tolist() == sorted({row[1] for row in rows})


@pytest.mark.thorough
def test_many_blocks_of_text_are_one_table(tmp_path: Path) -> None:
    users = np.arange(300_000)
    padding = np.full(len(users), "x" * 60)
    frame = pd.DataFrame({"user": users[::-1], "pad": padding, "item": users % 7, "rating": users % 5})
    frame.to_csv(tmp_path / "x.csv", index=False)
    table = read_ratings(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").stat().st_size > 1 << 24
    assert table.user_labels[:3].tolist() == ["0", "1", "2"]
    np.testing.assert_array_equal(table.items, (users[::-1] % 7)[table.user_labels.astype(np.int64)])
    np.testing.assert_array_equal(table.values, (users[::-1] % 5)[table.user_labels.astype(np.int64)])


def test_the_text_form_shows_no_data(tmp_path: Path) -> None:
    table = read_ratings(written(tmp_path / "x.csv", "user,item,rating\nalice,tea,731\n"))
    assert repr(table) == "RatingTable(users=1, items=1, ratings=1, source='CSV with named columns')"


JESTER_OK = jester_line({1: "1"})
BAD_TEXTS: dict[str, tuple[str, str | bytes, list[str]]] = {
    "empty": ("x.csv", "", ["is empty"]),
    "blank": ("x.csv", "\n \n", ["is empty"]),
    "mark of the order of bytes": ("x.csv", b"\xef\xbb\xbf", ["is empty: give a file with ratings"]),
    "that mark and blank": ("x.csv", b"\xef\xbb\xbf\n\n", ["is empty: give a file with ratings"]),
    "utf-16": ("x.csv", "user,item,rating\n1,1,1\n".encode("utf-16"), ["UTF-8"]),
    "latin-1": ("x.csv", b"user,item,rating\n1,2,3\n\xe9,2,3\n", ["line 3", "UTF8"]),
    "prose": ("x.csv", "hello\nworld\n", ["no known format", "'hello'"]),
    "no header": ("x.csv", "1,2,3\n4,5,6\n", ["no known format", "'1,2,3'"]),
    "header only": ("ratings.csv", HEADER, ["no rating"]),
    "header without end": ("ratings.csv", HEADER.strip(), ["holds no rating"]),
    "no user": ("x.csv", "who,item,rating\n1,2,3\n", ["user", "who, item, rating"]),
    "two users": ("x.csv", "user,user_id,item,rating\n1,1,2,3\n", ["user, user_id"]),
    "column twice": ("x.csv", "user,item,rating,rating\n1,1,2,3\n", ["2 columns", "'rating'"]),
    "word": ("x.csv", "user,item,rating\n1,2,3\n\n1,3,good\n", ["line 4", "'good'", "no finite number"]),
    "underscore": ("x.csv", "user,item,rating\n1,2,1_0\n", ["line 2", "'1_0'"]),
    "thousands": ("x.csv", 'user,item,rating\n1,2,"3,500"\n', ["line 2", "'3,500'"]),
    "nan": ("x.csv", "user,item,rating\n1,2,nan\n", ["line 2", "'nan'"]),
    "infinite": ("x.csv", "user,item,rating\n1,2,1e999\n", ["line 2", "'1e999'", "no finite number"]),
    "no value": ("x.csv", "user,item,rating\n1,2,\n", ["line 2", "has no 'rating'"]),
    "huge": ("x.csv", "user,item,rating\n1,2,1e30\n", ["line 2", "'1e30'", "1e+09"]),
    "no user id": ("x.csv", "user,item,rating\n1,2,3\n,2,3\n", ["line 3", "no 'user'"]),
    "no item id": ("x.csv", 'user,item,rating\n1,"",3\n', ["line 2", "no 'item'"]),
    "long row": ("x.csv", "user,item,rating\n1,2,3\n\n1,2,3,4\n", ["line 4", "4 columns instead of 3", "1,2,3,4"]),
    "short row": ("ratings.csv", HEADER + "1,2,3,4\n5,6\n", ["line 3", "2 columns instead of 4"]),
    "csv above": ("ratings.csv", HEADER + "1,2,5.0,4\n1,3,5.5,4\n", ["line 3", "'5.5'", "0.5 to 5"]),
    "semicolons above": ("x.csv", HEADER.replace(",", ";") + "1;2;5.5;4\n", ["line 2", "'5.5'", "0.5 to 5"]),
    "tabs above": ("x.csv", HEADER.replace(",", "\t") + "1\t2\t5.5\t4\n", ["line 2", "'5.5'", "0.5 to 5"]),
    "csv below": ("ratings.csv", HEADER + "1,2,0,4\n", ["line 2", "'0'", "0.5 to 5"]),
    "dat above": ("ratings.dat", "1::2::5::4\n1::3::6::4\n", ["line 2", "'6'", "0.5 to 5"]),
    "dat torn": ("ratings.dat", "1::2::5::4\n1::3:4::4\n", ["line 2", "MovieLens ratings.dat", "1::3:4::4"]),
    "dat colons": ("ratings.dat", "1::2::5::4\n1:x:3::4::4\n", ["line 2", "3 columns instead of 4", "1:x:3"]),
    "u.data below": ("u.data", "1\t2\t3\t4\n1\t3\t0.5\t4\n", ["line 2", "'0.5'", "1 to 5"]),
    "u.data torn": ("u.data", "1\t2\t3\t4\n1\t3\n", ["line 2", "2 columns instead of 4"]),
    "jester above": ("j.csv", JESTER_OK + jester_line({4: "10.5"}), ["line 2", "joke 4", "'10.5'", "-10 to 10", "99"]),
    "jester word": ("j.csv", jester_line({4: "ha"}), ["line 1", "joke 4", "'ha'"]),
    "jester count": ("j.csv", JESTER_OK + jester_line({4: "1", 5: "2"}, 3), ["line 2", "says 3", "holds 2"]),
    "jester torn": ("j.csv", JESTER_OK + JESTER_OK[:-4] + "\n", ["line 2", "100 columns instead of 101"]),
    "jester without": ("j.csv", jester_line({}), ["no rating"]),
    "duplicate": (
        "x.csv",
        "user,item,rating\n2,b,1\n1,a,1\n2,c,1\n2,c,1\n\n1,a,2\n2,c,3\n",
        ["user '2'", "item 'c'", "line 4", "line 5", "3 ratings"],
    ),
}


def check_refused(path: Path, named: list[str]) -> None:
    """A file is refused in one line that names it."""
    with complains(path.name, *named):
        read_ratings(path)


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_bad_text_is_refused_in_one_line_that_names_it(case: str, tmp_path: Path) -> None:
    name, text, named = BAD_TEXTS[case]
    check_refused(written(tmp_path / name, text), named)


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file '.*nowhere.csv'"):
        read_ratings(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_ratings(tmp_path)


def test_columns_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "user,item,rating\n1,2,3\n")
    with pytest.raises(InputError, match=r"no column 'film' in .*user, item, rating"):
        read_ratings(path, columns=("user", "film", "rating"))
    with pytest.raises(InputError, match="three different columns"):
        read_ratings(path, columns=("user", "user", "rating"))
    with pytest.raises(InputError, match=r"MovieLens u\.data, which names no columns"):
        read_ratings(written(tmp_path / "u.data", "1\t2\t3\t4\n"), columns=("user", "item", "rating"))


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({}, ["no rating file", "nothing"]),
        ({"README.txt": b"x", "b.pdf": b"y"}, ["no rating file", "README.txt, b.pdf"]),
        ({"a.csv": b"x", "b.csv": b"y"}, ["2 files", "a.csv, b.csv"]),
        ({"p/ratings.csv": b"x", "q/ratings.csv": b"y", "c.csv": b"z"}, ["2 files", "p/ratings.csv, q/ratings.csv"]),
        ({"a.csv": b"user,item,rating\n1,2,x\n"}, ["line 2", "'a.csv' in", "'x'"]),
    ],
)
def test_archives_without_a_rating_file_are_refused(
    members: dict[str, bytes], named: list[str], tmp_path: Path
) -> None:
    check_refused(zipped(tmp_path / "a.zip", members), named)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "a.zip", {"a.csv": b"user,item,rating\n" + bytes(range(48, 58)) * 9000}).read_bytes()
    pd.DataFrame({"user": [1], "item": [1], "rating": [1]}).to_parquet(tmp_path / "a.parquet")
    parquet = (tmp_path / "a.parquet").read_bytes()
    torn = bytearray(whole)
    torn[60:70] = bytes(10)
    for name, content in (("cut.zip", whole[:-30]), ("torn.zip", bytes(torn)), ("cut.parquet", parquet[:-20])):
        check_refused(written(tmp_path / name, content), [f"{name}' cannot be read (", "undamaged"])


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        ({"user": [1, 2], "item": [1, 1], "rating": [1.0, None]}, ["row 2", "no 'rating'"]),
        ({"user": [1, 2], "item": ["a", None], "rating": [1, 2]}, ["row 2", "no 'item'"]),
        ({"user": [1, 2], "item": ["a", ""], "rating": [1, 2]}, ["row 2", "no 'item'"]),
        ({"user": [1, 2], "item": [1, 1], "rating": [1.0, np.inf]}, ["row 2", "'inf'"]),
        ({"user": [1, 2], "item": [1, 1], "rating": ["1", "x"]}, ["row 2", "'x'"]),
        ({"user": [1, 1], "item": [1, 1], "rating": [1, 2]}, ["user '1'", "item '1'", "row 1", "row 2"]),
        ({"user": [1.5, 2], "item": [1, 1], "rating": [1, 2]}, ["'user'", "double", "integers or text"]),
        ({"user": [1, 2], "item": [1, 1], "rating": [[1], [2]]}, ["'rating'", "list", "numbers"]),
        ({"user": [1, 2], "film_x": [1, 1], "rating": [1, 2]}, ["item", "user, film_x, rating"]),
        ({"user": [], "item": [], "rating": []}, ["no rating"]),
    ],
)
def test_bad_parquet_is_refused(frame: dict[str, list[object]], named: list[str], tmp_path: Path) -> None:
    pd.DataFrame(frame).to_parquet(tmp_path / "x.parquet")
    check_refused(tmp_path / "x.parquet", named)
