"""`blindrec compare` as it runs: rows and their columns, going on, tables at 80 columns, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from runs import Command, lines_of_units, planted_ratings, refused, write_movielens

import blindrec as face
from scenarios.cli import main
from scenarios.studies.compare import comparison as sweep
from scenarios.studies.compare.comparison_settings import PUBLIC_RATES, TRUST_MODELS, Comparison
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.summary import show

COLUMNS = {"trust_model", "mechanism", "features", "epsilon", "users", "simulated", "seconds", "public"}
COLUMNS |= {f"{name}{end}" for name in ("hit_rate", "ndcg", "recall") for end in ("", "_low", "_high")}
HERE = ("--backend", "inprocess")
FEW = (*HERE, "--like-from", 4, "--seeds", 3, "--neighbours", 5, "--rank", 3, "--ridge", 5, "--top", 20, "--likes", 8)


def write_files(folder: Path) -> tuple[Path, Path]:
    """A file of ratings, and one of its items' kinds."""
    kinds = folder / "kinds.csv"
    kinds.write_text(
        "item,kind\n" + "".join(f"{item + 1},{'ab'[item // 15]}\n" for item in range(30)), encoding="utf-8"
    )
    return write_movielens(folder / "ratings.csv", planted_ratings(users=50, items=30, each=16)), kinds


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    return write_files(tmp_path)[0]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The whole comparison, made once for the tests that read it."""
    folder = tmp_path_factory.mktemp("comparison")
    ratings, kinds = write_files(folder)
    words = ("compare", ratings, "--features", kinds, *FEW, "--epsilon", "2,inf", "--scale", "1,40", "--devices", 100)
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in (*words, "--public", "0.2", "--json", folder / "result.json")])
    assert not end.value.code
    value: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    return value


def test_every_row_is_there_with_its_columns(result: dict[str, Any]) -> None:
    rows = result["rows"]
    assert all(row.keys() >= COLUMNS for row in rows)
    assert {(row["trust_model"], row["mechanism"]) for row in rows} == {
        (row.trust_model, row.mechanism) for row in registered_rows().values() if row.trust_model != PUBLIC_RATES
    }
    assert [model for model in TRUST_MODELS if model in {row["trust_model"] for row in rows}] == list(TRUST_MODELS)
    local = [row for row in rows if row["trust_model"] == "local"]
    assert {(row["users"], row["simulated"]) for row in local} == {(50, "devices"), (2000, "aggregate")}
    assert {row["epsilon"] for row in local} == {2.0, "inf"}
    assert {row["epsilon"] for row in rows if row["trust_model"] == "none"} == {None}
    assert all(row["ndcg_low"] <= row["ndcg"] <= row["ndcg_high"] and row["seeds"] == 3 for row in rows)
    assert "nobody in the file is protected" in result["remarks"][0]


def test_what_is_learned_is_worth_more_than_chance(result: dict[str, Any]) -> None:
    worth = {
        (row["trust_model"], row["mechanism"]): row["ndcg"]
        for row in result["rows"]
        if not row["features"] and row["users"] == 50
    }
    for model in ("popularity", "item kNN", "EASE"):
        assert worth["none", model] > 1.2 * worth["none", "chance"]
    free = [
        row for row in result["rows"] if row["epsilon"] == "inf" and row["users"] == 2000 and row["mechanism"] == "set"
    ]
    assert all(row["ndcg"] == pytest.approx(worth["none", "popularity"], abs=0.1) for row in free)


def test_every_table_fits_into_80_columns(result: dict[str, Any]) -> None:
    written = io.StringIO()
    show(Console(file=written, width=80), result, "blindrec compare")
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    for model in TRUST_MODELS:
        assert any(line.startswith(f"{model}: ") for line in lines)


def test_rows_that_are_there_are_not_computed_again(
    blindrec: Command, ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, one = (
        tmp_path / "out",
        ("--trust-models", "none,curator,local", "--mechanisms", "popularity,set", "--scale", 1),
    )
    first = blindrec("compare", ratings, *FEW, *one, "--epsilon", 1, "--out", out, "--json", "-").result
    assert len(lines_of_units(out)) == 3 * 3
    figure = tmp_path / "worth.png"
    more = blindrec("compare", ratings, *FEW, *one, "--epsilon", "1,4", "--out", out, "--figure", figure, "--json", "-")
    assert more.err.startswith("9 of 15 units were done before")
    assert len(lines_of_units(out)) == 3 * 5
    assert figure.read_bytes().startswith(b"\x89PNG")
    same = [row for row in more.result["rows"] if row["epsilon"] in (None, 1.0)]
    assert same == first["rows"]
    monkeypatch.setattr(sweep.CompareSweep, "measure", None)
    assert (
        blindrec("compare", ratings, *FEW, *one, "--epsilon", "1,4", "--out", out, "--json", "-").result == more.result
    )
    assert json.loads((out / "result.json").read_text()) == more.result
    told = refused(blindrec, "compare", ratings, *FEW, *one, "--rank", 4, "--out", out)
    assert "another sweep" in told


def test_numbers_depend_neither_on_workers_nor_on_the_order(blindrec: Command, ratings: Path) -> None:
    def numbers(*more: object) -> list[dict[str, Any]]:
        rows = blindrec(
            "compare", ratings, *FEW, "--epsilon", 2, "--scale", 40, "--public", 0.2, "--json", "-", *more
        ).result["rows"]
        return sorted(({**row, "seconds": 0} for row in rows), key=str)

    assert numbers("--workers", 1) == numbers("--workers", 3)


def test_from_python_it_is_the_same(blindrec: Command, ratings: Path) -> None:
    told = blindrec(
        "compare",
        ratings,
        "--mechanisms",
        "popularity",
        "--seeds",
        3,
        "--epsilon",
        1,
        "--scale",
        1,
        *HERE,
        "--json",
        "-",
    ).result
    compared = face.compare(ratings, mechanisms="popularity", seeds=3, epsilon=1, scale=1, progress=False)
    assert [row["ndcg"] for row in compared["rows"]] == [row["ndcg"] for row in told["rows"]]
    assert repr(compared) == f"SweepResult({len(told['rows'])} rows, 3 seeds)"
    assert compared.frame("seeds")["ndcg"].between(0, 1).all()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--seeds", "2"), "seeds is 2; an interval over splits takes 3 or more of them; raise --seeds"),
        (("--scale", "0"), "scale is '0', no list of whole numbers from 1 on"),
        (("--epsilon", "1,1"), "epsilon is '1,1'; name each value once"),
        (("--public", "2"), "public is '2', no list of shares"),
        (("--trust-models", "god"), "trust model 'god' is unknown; choose among none, curator"),
        (("--mechanisms", "magic"), "mechanism 'magic' is unknown; choose among"),
        (("--mechanisms", "EASE", "--trust-models", "local"), "none of the mechanisms is of these trust models"),
        (("--features", "missing.csv"), "missing.csv cannot be read"),
    ],
)
def test_what_cannot_be_compared_is_told_in_a_line(
    blindrec: Command, ratings: Path, flags: tuple[str, ...], told: str
) -> None:
    assert told in refused(blindrec, "compare", ratings, *HERE, *flags)


def test_a_list_of_names_names_each_row(blindrec: Command, ratings: Path) -> None:
    """No name holds the comma between names: every row can be named, and a name selects that row alone."""
    assert not [row.mechanism for row in registered_rows().values() if "," in row.mechanism]
    one = ("--epsilon", 1, "--scale", 1, "--seeds", 3, "--public", 0.2, "--json", "-")
    told = blindrec("compare", ratings, "--mechanisms", "popularity, pairs with EASE,lifts with set", *FEW[:4], *one)
    assert {(row["trust_model"], row["mechanism"]) for row in told.result["rows"]} == {
        *((model, "popularity") for model in ("none", "curator", "two-tier")),
        ("curator", "pairs with EASE"),
        ("two-tier", "lifts with set"),
    }
    known = refused(blindrec, "compare", ratings, "--mechanisms", "popularity,pairs by EASE")
    assert known.startswith("mechanism 'pairs by EASE' is unknown; choose among EASE, MaxSense, ")
    assert ", pairs with EASE, " in known
    earlier = Comparison(ratings=ratings, mechanisms=["pairs, EASE", "popularity, set"])  # type: ignore[arg-type] # read
    assert earlier.mechanisms == ("pairs with EASE", "popularity with set")
