"""`blindrec years` as it runs: rows, the answer, going on, both backends, pictures, and what is refused."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import Command, lines_of_units, refused

import blindrec as face
from scenarios.pages.promises import promises_of
from scenarios.show.records import pictures_of
from scenarios.studies.years.curves import next_place, users_at
from scenarios.studies.years.years_sweep import years

HERE = face.InProcess(workers=1)
SMALL: dict[str, Any] = {
    "items": 200,
    "likes": 5,
    "periods": 3,
    "seeds": 4,
    "people": 3000,
    "trust_models": "curator,local",
    "progress": False,
}
FLAGS = (
    *("--items", 200, "--likes", 5, "--periods", 3, "--people", 3000),
    *("--seeds", 4, "--trust-models", "curator,local"),
)
KEYS = {"trust_model", "schedule", "epsilon_horizon", "periods", "users_needed", "users_low", "users_high"}
KEYS |= {"users_once", "ndcg", "unit", "delta"}


@pytest.fixture(scope="module")
def result() -> face.SweepResult:
    return face.years(backend=HERE, **SMALL)


def test_a_row_each_rung_and_schedule(result: face.SweepResult) -> None:
    rows = result["rows"]
    names = [(row["trust_model"], row["schedule"]) for row in rows]
    assert names == list(itertools.product(("curator", "local"), ("once", "split", "rotate", "front")))
    for row in rows:
        assert set(row) >= KEYS
        assert (row["periods"], row["epsilon_horizon"], row["unit"]) == (3, 1, "person-history")
        assert len(row["ndcg"]) == 3 == len(result["popularity"])
        assert row["users_once"] is not None
        if row["users_needed"] is not None:
            assert (row["users_low"] or 0) <= row["users_needed"] <= (row["users_high"] or np.inf)
    assert result["epsilon_of_all"]["local"] == 3
    assert 1 < result["epsilon_of_all"]["curator"] < 3


def test_trust_takes_fewer_people_and_schedules_are_ordered_as_derived(result: face.SweepResult) -> None:
    needed = {(row["trust_model"], row["schedule"]): row["users_needed"] for row in result["rows"]}
    assert needed["curator", "front"] < needed["curator", "rotate"]
    assert needed["local", "rotate"] < needed["local", "split"]
    assert needed["curator", "front"] < needed["local", "front"]


def test_the_answer_has_the_best_schedule_of_each_rung(result: face.SweepResult) -> None:
    table = result.frame("answer")
    assert table["who is trusted"].tolist() == ["a curator", "nobody", "all see: popularity"]
    (at,) = result["answer"]["by_epsilon"]
    for rung in at["rungs"]:
        rows = [row for row in result["rows"] if row["trust_model"] == rung["key"]]
        fewest = min(rows, key=lambda row: row["users_needed"] or np.inf)
        assert rung["cell"]["mechanism"] == fewest["schedule"]
        assert rung["needed"]["value"] == fewest["users_needed"]
        assert rung["cell"]["share"]["value"] == pytest.approx(fewest["of_popularity"], abs=1e-6)
    assert "schedules reach the target" in repr(result)


def test_the_command_prints_the_answer_first_and_its_folder_goes_on(
    blindrec: Command, tmp_path: Path, result: face.SweepResult
) -> None:
    out = tmp_path / "years"
    printed = blindrec("years", *FLAGS, "--backend", "inprocess", "--out", out, "--details").out
    assert max(map(len, printed.splitlines())) <= 100
    places = [printed.index(words) for words in ("who is trusted", "guess right", "people for 95 % of popularity in")]
    assert places == sorted(places)
    assert {path.name for path in out.iterdir()} >= {"result.json", "units.parquet", "table.csv", "figure.png"}
    count = len(lines_of_units(out))
    again = blindrec("years", *FLAGS, "--backend", "inprocess", "--out", out, "--json", "-")
    assert again.result["rows"] == result["rows"]
    assert len(lines_of_units(out)) == count


def test_another_world_is_another_study() -> None:
    assert years({"drift": 0.2}).content != years({}).content == years({"trust_models": "curator"}).content


@pytest.mark.cluster
def test_ray_measures_the_same(lent: None, result: face.SweepResult) -> None:
    assert face.years(backend=face.Ray(), **SMALL)["rows"] == result["rows"]


def test_pictures_show_every_schedule(result: face.SweepResult) -> None:
    (picture,) = pictures_of("years", result)
    people, worth = picture.panels
    assert {mark.label for mark in people.marks} >= {"split", "rotate", "front", "one period"}
    assert worth.points is not None
    assert worth.points.groupby("label").size().to_dict() == dict.fromkeys(("once", "split", "rotate", "front"), 3)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--churn 1.5", "churn"),
        ("--periods 1", "periods"),
        ("--periods 5000", "periods"),
        ("--schedule twice", "schedule 'twice' is unknown"),
        ("--schedule once,once", "name each of them once"),
        ("--schedule counter --trust-models local", "counter is about --trust-models curator or two-servers"),
        ("--schedule memoize --trust-models shuffled", "memoize is about --trust-models local"),
        ("--schedule nothing:There", "cannot be imported"),
        ("--schedule examples.two_stages:TwoStages", "schedule examples.two_stages:TwoStages"),
        ("--epsilon inf", "epsilon is inf"),
        ("--delta 0", "delta"),
        ("--trust-models two-tier", "trust model"),
        ("--filter-drift -1", "filter_drift"),
        ("--period month", "which is about files"),
        ("--period week", "choose month, quarter, year"),
        ("--period 0d", "choose month, quarter, year"),
        ("--likes 900", "likes is 900 of 2000 items"),
        ("--worth 1.2", "worth"),
        ("nowhere.csv", "nowhere.csv"),
    ],
)
def test_bad_input_is_refused_in_a_line(blindrec: Command, flags: str, words: str) -> None:
    assert words in refused(blindrec, "years", *flags.split())


def test_few_people_say_nothing(blindrec: Command, tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    rows = [f"{person},{item},5,{86_400 * 31 * (item % 3)}" for person in range(30) for item in range(40)]
    path.write_text("userId,movieId,rating,timestamp\n" + "\n".join(rows) + "\n", encoding="utf-8")
    told = refused(blindrec, "years", path, "--like-from", 4)
    assert "30 people" in told
    assert "about made worlds" in refused(blindrec, "years", path, "--drift", 0.3)


def test_memoized_answers_have_no_epsilon_and_are_nowhere_best(blindrec: Command, tmp_path: Path) -> None:
    """Spec I 11; counters are a curator's, and take fewer people than independent noise does for the later periods."""
    flags = [*FLAGS, "--schedule", "split,counter,memoize", "--backend", "inprocess", "--json", tmp_path / "years.json"]
    printed = blindrec("years", *flags).out
    assert "memoize, no epsilon" in printed
    assert "memoize keeps no epsilon for histories" in " ".join(printed.split())
    result = json.loads((tmp_path / "years.json").read_text(encoding="utf-8"))
    rows = {(row["trust_model"], row["schedule"]): row for row in result["rows"]}
    assert set(rows) == {
        *itertools.product(("curator", "local"), ("split",)),
        ("curator", "counter"),
        ("local", "memoize"),
    }
    assert {name for name, row in rows.items() if row["epsilon_horizon"] is None} == {("local", "memoize")}
    assert rows["local", "memoize"]["users_needed"] < rows["local", "split"]["users_needed"]
    leaders = [rung["cell"]["mechanism"] for rung in result["answer"]["by_epsilon"][0]["rungs"] if rung["cell"]]
    assert "memoize" not in leaders
    (picture,) = pictures_of("years", result)
    assert "memoize" not in {mark.label for panel in picture.panels for mark in panel.marks}
    (none,) = [promise for promise in promises_of("years", result) if promise.kind == "none"]
    assert none.about == "local: memoize"


def test_a_schedule_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[4] / "examples")
    mine = years({**SMALL, "schedule": "every_second:EverySecond", "trust_models": "curator"} | {"progress": None})
    assert "every_second:EverySecond" in str(mine.content)
    assert len(mine.units({})) == 3


def test_places_of_the_grid() -> None:
    """Whatever the curve's crossing is, two neighbours bracket it in the end, and more lie on either side."""
    for crossing in range(-6, 40):
        reaches: dict[int, bool] = {}
        place: int | None = 12
        while place is not None and len(reaches) < 30:
            reaches[place] = place >= crossing
            place = next_place(reaches)
        assert {crossing - 1, crossing} <= set(reaches)
        assert place is None
    assert users_at(2) == 2 * users_at(0)


def test_a_page_says_for_how_many_periods_epsilon_holds(
    blindrec: Command, tmp_path: Path, result: face.SweepResult
) -> None:
    (tmp_path / "years.json").write_text(json.dumps(dict(result)), encoding="utf-8")
    blindrec("report", tmp_path / "years.json", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Asked in 3 periods." in page
    assert "Asked once." not in page
    assert "4 worlds" in page
    assert "epsilon 1 holds for all of them together" in page
    assert "users needed" in page
