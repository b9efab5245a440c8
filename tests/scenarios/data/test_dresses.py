"""One file of ratings as people have it: packed, in other formats, with other numbers, dates, quotes and comments."""

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from runs import Command, complains, planted_ratings, present, refused

from scenarios.data.datasets import RatingTable, read_ratings
from scenarios.data.side_tables import read_descriptions

PEOPLE, ITEMS = 24, 22
PLANTED = planted_ratings(users=PEOPLE, items=ITEMS, each=6)
BASE = [(u, i, round(r), 1_500_000_000 + 86400 * ((7 * u + i) % 300)) for u, i, r in PLANTED]
NAMES = ["userId", "itemId", "rating", "timestamp"]
ORDER = np.random.default_rng(3).permutation(len(BASE))
ROWS = [BASE[place] for place in ORDER]


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def lz4(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="lz4", asbytes=True))


def zipped(content: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", "what this is")
        archive.writestr("ml/ratings.txt.gz", gzip.compress(content))
    return target.getvalue()


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "gz twice": lambda content: gzip.compress(content[:100]) + gzip.compress(content[100:]),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
    "lz4": lz4,
    "gz in a zip": zipped,
}


Row = Callable[..., list[Any]]


def text(delimiter: str = ",", *, head: str | None = None, end: str = "\n", row: Row | None = None) -> bytes:
    lines = [delimiter.join(NAMES) if head is None else head] if head != "" else []
    lines += [delimiter.join(str(part) for part in (one if row is None else row(*one))) for one in ROWS]
    return (end.join(lines) + end).encode()


def day(time: int, form: str) -> str:
    return datetime.fromtimestamp(time, UTC).strftime(form)


def dated(form: str, quote: str = '"') -> bytes:
    return text(row=lambda u, i, r, t: [u, i, r, f"{quote}{day(t, form)}{quote}"])


def json_lines(**more: Any) -> bytes:
    return b"".join(json.dumps(dict(zip(NAMES, one, strict=True)) | more).encode() + b"\n" for one in ROWS)


def parquet(**types: str) -> bytes:
    target = io.BytesIO()
    pd.DataFrame(ROWS, columns=NAMES).astype(types).to_parquet(target)
    return target.getvalue()


def changes() -> bytes:
    """Parquet whose texts are written as changes of the one before."""
    target, encoding = io.BytesIO(), dict.fromkeys(NAMES[:2], "DELTA_BYTE_ARRAY") | dict.fromkeys(NAMES[2:], "PLAIN")
    columns = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
    table = pa.table(
        {name: [str(one) for one in columns[name]] if name in NAMES[:2] else columns[name] for name in NAMES}
    )
    pa.parquet.write_table(table, target, use_dictionary=False, column_encoding=encoding)
    return target.getvalue()


TYPED = "user_id:token{0}item_id:token{0}rating:float{0}timestamp:float"
DRESSES: dict[str, bytes] = {
    "csv": text(),
    "carriage returns": text(end="\r\n"),
    "carriage returns alone": text(end="\r"),
    "mark": b"\xef\xbb\xbf" + text(),
    "semicolons": text(";"),
    "tabs": text("\t"),
    "pipes": text("|"),
    "spaces": text(" "),
    "many spaces": text("   "),
    "spaces after commas": text(", "),
    "nameless spaces": text(" ", head=""),
    "nameless tabs": text("\t", head=""),
    "nameless pipes": text("|", head=""),
    "konect": text(head="% asym weighted\n% 144 24 22", row=lambda u, i, r, t: [f"{u} {i} {r}\t{t}"]),
    "of a spreadsheet": b"sep=;\r\n" + text(";", end="\r\n"),
    "comments": b"# made by hand\n#\n\n" + text(),
    "named in a comment": text("\t", head="# userId\titemId\trating\ttimestamp"),
    "names after a mark": text(head="#" + ",".join(NAMES)),
    "an index after a mark": text(head="#," + ",".join(NAMES), row=lambda *one: [ROWS.index(one), *one]),
    "typed": text("\t", head=TYPED.format("\t")),
    "typed csv": text(head=TYPED.format(",")),
    "dots": text("::", head=""),
    "quoted": text(head='"userId","itemId","rating","timestamp"', row=lambda *one: [f'"{part}"' for part in one]),
    "quoted tabs": text("\t", head="\t".join(f'"{n}"' for n in NAMES), row=lambda *one: [f'"{p}"' for p in one]),
    "json lines": json_lines(),
    "json lines with more": json_lines(text='two\nlines, "quoted"', likes=[1, 2], other=None),
    "parquet": parquet(),
    "parquet of floats": parquet(userId="float64", itemId="float32"),
    "parquet of changes": changes(),
    "parquet of texts": parquet(userId="str", itemId="category", rating="str"),
    "float ids": text(row=lambda u, i, r, t: [f"{u}.0", f"{i}.0", r, t]),
    "decimal commas": text(";", row=lambda u, i, r, t: [u, i, f"{r},0", t]),
    "iso": dated("%Y-%m-%d"),
    "month names": dated("%b %d, %Y"),
    "days and months": dated("%d-%B-%Y", ""),
    "weekdays": dated("%a, %d %b %Y 00:00:00 GMT"),
    "twelve hours": dated("%B %d, %Y 12:00:00 AM"),
    "months first": dated("%m/%d/%Y", ""),
    "amazon's dates": dated("%m %d, %Y"),
    "reviews": text(head=",".join([*NAMES, "review"]), row=lambda *one: [*one, '"a ""good""\n\none, I say"']),
}
DAYS = {"iso", "month names", "days and months", "weekdays", "twelve hours", "months first", "amazon's dates"}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> RatingTable:
    return read_ratings(written(tmp_path_factory.mktemp("base") / "base.csv", text()), times=True)


def check_same(table: RatingTable, base: RatingTable, *, days: bool = False) -> None:
    """A table holds the very numbers of the base; dates leave out the hour."""
    for name in ("starts", "items", "values", "user_labels", "item_labels"):
        np.testing.assert_array_equal(getattr(table, name), getattr(base, name))
    times = present(base.times)
    np.testing.assert_array_equal(present(table.times), times // 86400 * 86400 if days else times)


@pytest.mark.parametrize("dress", DRESSES)
def test_a_dress_gives_the_numbers_of_the_base(dress: str, base: RatingTable, tmp_path: Path) -> None:
    for packing, pack in PACKINGS.items():
        if packing in ("plain", "gz", "gz in a zip") or dress in ("csv", "json lines", "parquet"):
            path = written(tmp_path / "ratings", pack(DRESSES[dress]))
            check_same(read_ratings(path, times=True), base, days=dress in DAYS)


def marking(mark: int, rating: int) -> int:
    return mark if rating < 3 else rating


def test_numbers_are_read_as_they_are_written(base: RatingTable, tmp_path: Path) -> None:
    def read(row: Callable[[int], Any], delimiter: str = ",", **how: Any) -> RatingTable:
        content = text(delimiter, row=lambda u, i, r, t: [u, i, row(r), t])
        return read_ratings(written(tmp_path / "x.csv", content), **how)

    ways: dict[str, tuple[RatingTable, Callable[[Any], Any]]] = {
        "decimal commas": (read(lambda r: f"{r},5", "\t"), lambda r: r + 0.5),
        "percent": (read(lambda r: f"{20 * r} %"), lambda r: 20 * r),
        "true and false": (read(lambda r: r > 3), lambda r: r > 3),
    }
    for way, (table, value) in ways.items():
        np.testing.assert_array_equal(table.values, value(base.values))
        assert way in table.remarks[0]
    for mark in (0, -1):
        low = partial(marking, mark)
        marked = read(low)
        assert f"are {mark}, which stands for unrated in some files" in marked.remarks[0]
        rated = read(low, unrated=float(mark))
        assert rated.unrated == np.sum(base.values < 3)
        assert rated.remarks == [f"lines without a rating of the file that were left out: {rated.unrated}"]
        np.testing.assert_array_equal(rated.values, base.values[base.values >= 3])
    with complains("has no finite number in its column 'rating': line 2 holds", "/5'"):
        read(lambda r: f"{r}/5", bad_lines="skip")
    with complains("have no 'rating', line 2 the first", "--bad-lines skip"):
        read(lambda r: "" if r == ROWS[0][2] else r)
    some = written(tmp_path / "x.csv", b"user,item,rating\na,x,\na,y,4\nb,x,\nb,y,good\n")
    with complains("line 5 of", "'good'", "2 others have no 'rating', line 2 the first"):
        read_ratings(some)
    left = read_ratings(some, bad_lines="skip")
    assert (left.ratings, left.skipped, left.unrated) == (1, 1, 2)


@pytest.mark.parametrize("delimiter", [",", ";", "|"])
def test_a_quote_that_nothing_closes_takes_no_other_line_with_it(
    delimiter: str, base: RatingTable, tmp_path: Path
) -> None:
    """At a line alone, before a line with quotes, and at the end; a text after a closing quote alike."""
    lines = text(delimiter, head=delimiter.join([*NAMES, "note"]), row=lambda *one: [*one, '"a ""b"", c"']).decode()
    for place in (5, 60, len(ROWS)):
        for wrong in ('"lone', '"closed" late', '"lone ""still'):
            torn = lines.split("\n")
            torn[place] = torn[place].replace('"a ""b"", c"', wrong)
            path = written(tmp_path / "x.csv", "\n".join(torn).encode())
            with complains(f"line {place + 1} of", "has a quote that nothing closes"):
                read_ratings(path)
            table = read_ratings(path, bad_lines="skip")
            assert (table.ratings, table.skipped) == (base.ratings - 1, 1)


def test_in_tabs_and_in_the_middle_quotes_are_text(base: RatingTable, tmp_path: Path) -> None:
    def noted(user: int, item: int, rating: int, time: int) -> list[Any]:
        return [user, item, ('"quoted" band', "the band", '12" mix', '"open')[item % 4], rating, time]

    head = ("userId", "itemId", "artist name", "rating", "timestamp")
    path = written(tmp_path / "x.tsv", text("\t", head="\t".join(head), row=noted))
    check_same(read_ratings(path, times=True), base)
    inches = text(head=",".join(head), row=lambda u, i, r, t: [u, i, '12" mix', r, t])
    check_same(read_ratings(written(tmp_path / "x.csv", inches), times=True), base)


def test_values_over_several_lines_are_said(tmp_path: Path) -> None:
    """Also where they go over the end of what is read at once, and with the line of what is wrong after them."""
    lines = [f'{user},{item},3,"{"a line " * 40}\n{"b " * 60}"\n' for user in range(2500) for item in range(20)]
    path = written(tmp_path / "big.csv", ("user,item,rating,review\n" + "".join(lines)).encode())
    assert path.stat().st_size > 1 << 24
    table = read_ratings(path)
    assert table.ratings == 50_000
    assert "50,000 records of" in table.remarks[0]
    assert "go over several lines, lines 2 to 3 the first" in table.remarks[0]
    with path.open("a") as file:
        file.write("7,7,bad,\n")
    with complains("line 100002 of", "'bad'"):
        read_ratings(path)
    lone = b'user,item,rating,note\n1,1,3,"a\n1,2,3,b\n1,3,4,c"\n2,2,3,d\n'
    (line,) = read_ratings(written(tmp_path / "lone.csv", lone)).remarks
    assert "a record goes over several lines, lines 2 to 4 of" in line


REFUSED: dict[str, tuple[bytes, list[str]]] = {
    "json list": (json.dumps([dict(zip(NAMES, one, strict=True)) for one in ROWS]).encode(), ["JSON lines"]),
    "json laid out": (json.dumps(dict(zip(NAMES, ROWS[0], strict=True)), indent=1).encode(), ["JSON lines"]),
    "json without users": (b'{"who": 1, "item": 2, "rating": 3}\n', ["usual name for the user", "who, item, rating"]),
    "broken json": (json_lines() + b'{"userId": 3\n', [f"line {len(ROWS) + 1} of", "no object of JSON"]),
    "json of lists": (json_lines() + b'{"userId": [3]}\n', [f"line {len(ROWS) + 1} of", "no object of JSON"]),
    "views": (b"visitorid,itemid\n1,2\n", ["--columns visitorid,itemid", "if all that occurs is liked"]),
    "matrix": (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 5\n", ["MatrixMarket"]),
    "comments": (b"# nothing\n# else\n", ["nothing but comments"]),
    "too few names": (text(head="user,item,rating"), ["is as its names say: line 2 does not fit", "4 columns instead"]),
    "cut": (gzip.compress(text())[:-20], ["cannot be read", "undamaged"]),
    "cut xz": (lzma.compress(text())[:-20], ["cannot be read", "undamaged"]),
    "cut zst": (zstd(text())[:-20], ["cannot be read", "undamaged"]),
    "bomb": (gzip.compress(b"1,1,1\n" * 1_000_000) * 20, ["as no real file does"]),
    "long id": (text() + b"7," + b"x" * 200_000 + b",3,4\n", ["has a 'itemId' of 200,000 characters"]),
    "thousands": (text(row=lambda u, i, r, t: [u, i, f'"{r},000"', t]), ["no finite number", ",000'"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_reason_is_one_line(case: str, tmp_path: Path) -> None:
    content, words = REFUSED[case]
    with complains(*words):
        read_ratings(written(tmp_path / "x", content))


def test_a_long_text_in_every_row_takes_the_memory_of_one(tmp_path: Path) -> None:
    """A Parquet file of a few kilobytes, whose rows would be 3.3 GB of text, is refused at once."""
    column = pa.array(["x" * 5_000_000]).dictionary_encode()
    ids = pa.DictionaryArray.from_arrays(pa.array([0] * 660, pa.int32()), column.dictionary)
    table = pa.table({"user": ids, "item": pa.array(range(660)), "rating": pa.array([3.0] * 660)})
    pa.parquet.write_table(table, tmp_path / "x.parquet", compression="zstd")
    with complains("660 rows of", "has a 'user' of 5,000,000 characters"):
        read_ratings(tmp_path / "x.parquet")


LABELS = np.array([str(item) for item in range(ITEMS)], np.object_)
FILMS = [(item, f"Café {item} ({1960 + item})", "Drama|War" if item % 2 else "Comedy") for item in range(ITEMS)]
GENRES = {"Comedy": 5, "Drama": 8, "War": 17}  # By their places among those of MovieLens 100K


def flags(genres: str) -> str:
    places = {GENRES[name] for name in genres.split("|")}
    return "|".join(str(int(place in places)) for place in range(19))


FEATURES: dict[str, bytes] = {
    "csv": ("movieId,title,genres\n" + "".join(f'{i},"{t}",{g}\n' for i, t, g in FILMS)).encode(),
    "latin": ("movieId;title;genres\n" + "".join(f"{i};{t};{g}\n" for i, t, g in FILMS)).encode("latin-1"),
    "movies.dat": "".join(f"{i}::{t}::{g}\n" for i, t, g in FILMS).encode("latin-1"),
    "u.item": "".join(f"{i}|{t}|01-Jan-1995||http://x|{flags(g)}\n" for i, t, g in FILMS).encode("latin-1"),
    "typed": ("item_id:token\ttitle:token\tgenres:token\n" + "".join(f"{i}\t{t}\t{g}\n" for i, t, g in FILMS)).encode(),
    "json lines": b"".join(
        json.dumps({"parent_asin": i, "title": t, "genres": g.split("|")}).encode() + b"\n" for i, t, g in FILMS
    ),
}


@pytest.mark.parametrize("kind", FEATURES)
def test_features_are_read_in_every_dress(kind: str, tmp_path: Path) -> None:
    plain = read_descriptions(written(tmp_path / "films.csv", FEATURES["csv"]), LABELS)
    assert [name for name in plain.features.names if "genres" in name] == [
        "genres: Comedy",
        "genres: Drama",
        "genres: War",
    ]
    for pack in (PACKINGS["plain"], PACKINGS["xz"]):
        told = read_descriptions(written(tmp_path / "films", pack(FEATURES[kind])), LABELS)
        assert told.features.names == plain.features.names
        np.testing.assert_array_equal(told.features.has, plain.features.has)
        assert present(told.titles).tolist() == [title for _, title, _ in FILMS]
        assert told.remarks == (f"features describe {ITEMS} of the {ITEMS} items by title, genres",)


def test_numbers_and_dates_are_no_features_unless_they_are_named(tmp_path: Path) -> None:
    head = "id,title,genre,runtime,length,added,stars\n"
    lines = [
        f"{i},Film {i},{'ab'[i % 2]},{90 + i % 3},{90 + i % 3} min,2020-01-0{1 + i % 3},{i % 2}\n" for i in range(ITEMS)
    ]
    path = written(
        tmp_path / "titles.csv", (head + "".join(lines[:15]) + "99,Other,a,90,90 min,2020-01-01,1\n").encode()
    )
    told = read_descriptions(path, LABELS)
    assert told.features.names == ("genre: a", "genre: b")
    (line,) = told.remarks
    assert line.startswith(
        f"features describe 15 of the {ITEMS} items by genre; left out: title (no word of 5 items), "
    )
    assert "runtime (numbers), length (numbers), added (dates), stars (numbers); --feature-columns names" in line
    named = read_descriptions(path, LABELS, columns=("stars", "genre"))
    assert named.features.names == ("stars: 0", "stars: 1", "genre: a", "genre: b")
    with complains("feature_columns names 'genres'", "did you mean 'genre'"):
        read_descriptions(path, LABELS, columns=("genres",))
    with complains("feature_columns names 'title', which has no word of 5 items"):
        read_descriptions(path, LABELS, columns=("title",))
    with complains("none of its 16 ids, such as '0', '1'", "such as 'x0', 'x1'"):
        read_descriptions(path, np.array([f"x{item}" for item in range(ITEMS)], np.object_))
    torn = written(tmp_path / "torn.csv", (head + "".join(lines).replace("Film 5,", '"Film 5,')).encode())
    with complains("line 7 of", "has a quote that nothing closes"):
        read_descriptions(torn, LABELS)
    left = read_descriptions(torn, LABELS, skip=True)
    assert left.remarks[0] == "bad lines of the features file that were left out: 1"
    assert f"describe {ITEMS - 1} of the {ITEMS} items" in left.remarks[1]


RUN = ("run", "--design", "set", "--epsilon", 4, "--backend", "inprocess", "--workers", 1, "--ratings")


def test_a_run_takes_any_dress_and_says_what_it_takes(blindrec: Command, tmp_path: Path) -> None:
    plain = blindrec(*RUN, written(tmp_path / "base.csv", text()), "--json", "-").result
    packed = written(tmp_path / "x", bz2.compress(json_lines()))
    films = written(tmp_path / "films.dat", FEATURES["movies.dat"])
    ended = blindrec(*RUN, packed, "--json", "-")
    assert ended.result["releases_sha256"] == plain["releases_sha256"]
    described = blindrec(*RUN, packed, "--features", films, "--feature-columns", "genres", "--json", "-")
    assert "features describe 22 of the 22 items by genres" in described.err
    assert "give --features too" in refused(blindrec, *RUN, packed, "--feature-columns", "genres")
    zeros = text(row=lambda u, i, r, t: [u, i, r if r > 2 else 0, t])
    unrated = blindrec(*RUN, written(tmp_path / "zeros.csv", zeros), "--unrated", 0, "--json", "-")
    assert unrated.result["lines_unrated"] > 0
    assert "lines without a rating of the file that were left out" in unrated.err


def test_where_nobody_likes_anything_nobody_is_asked(blindrec: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", text(row=lambda u, i, _, t: [u, i, 5, t]))
    out = tmp_path / "out"
    assert "holds no like" in refused(blindrec, *RUN, path, "--out", out)
    assert "rounds" not in {one.name for one in out.glob("*")}


def test_people_are_read_in_every_dress_and_joined(blindrec: Command, tmp_path: Path) -> None:
    ratings = written(tmp_path / "ratings.csv", text())
    compare = ("compare", ratings, "--backend", "inprocess", "--workers", 1, "--trust-models", "none", "--mechanisms",
               "popularity", "--by", "gender", "--json", "-", "--people-file")  # fmt: skip
    kinds = {
        "users.dat": "".join(f"{user}::{'FM'[user % 2]}::1::10::48067\n" for user in range(18)).encode(),
        "u.user": b"".join(b"%d|24|%s|technician|85711\n" % (user, b"FM"[user % 2 :][:1]) for user in range(18)),
        "csv.gz": gzip.compress(b"id,gender\n" + b"".join(b"%d,%s\n" % (u, b"FM"[u % 2 :][:1]) for u in range(18))),
    }
    groups = []
    for name, content in kinds.items():
        told = blindrec(*compare, written(tmp_path / name, content)).result
        assert any(line.startswith("the people file knows 18 of the 24 people") for line in told["remarks"])
        groups.append(told["who_pays"])
    assert groups[0] == groups[1] == groups[2] != []
    assert "among the ratings' own" in refused(blindrec, *compare, written(tmp_path / "x.csv", b"id,gender\nu1,F\n"))
    torn = written(tmp_path / "torn.csv", b'id,gender\n0,"F\n1,M\n2,F\n')
    assert "line 2 of" in refused(blindrec, *compare, torn)
    left = blindrec(*compare, torn, "--bad-lines", "skip").result
    assert "bad lines of the people file that were left out: 1" in left["remarks"]
