"""`blindrec risk` as it runs: rows and views, the table, going on, the page, and what is refused."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from answers import answer, curve
from runs import Command, lines_of_units, planted_ratings, write_movielens

import blindrec as face
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED
from scenarios.pages.answer_page import templates
from scenarios.studies.answer import Answer, answer_table, right_at_most
from scenarios.studies.compare.comparison import comparison
from scenarios.studies.compare.risk.risk_study import bound_text, risk, risk_units
from scenarios.studies.compare.risk.views import row_risk
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.rates import GameRate, Rate, ViewRisk

HERE = face.InProcess(workers=1)
FLAGS = ("--like-from", 4, "--likes", 5, "--top", 11, "--backend", "inprocess")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_movielens(
        tmp_path_factory.mktemp("risk") / "ratings.csv", planted_ratings(users=60, items=30, each=12)
    )


@pytest.fixture(scope="module")
def result(file: Path) -> face.SweepResult:
    return face.risk(file, HERE, like_from=4, likes=5, top=11, people=1000, mechanisms="set,pairs", progress=False)


def test_every_row_has_its_views_below_their_bounds(result: face.SweepResult) -> None:
    rows = result.frame()
    names = rows[["trust_model", "mechanism", "view", "how"]].apply(tuple, axis=1).tolist()
    assert names == [
        ("shuffled", "set", "holds", "certified"),
        ("shuffled", "set", "by law", "about"),
        ("shuffled", "set", "lies", "exact"),
        ("shuffled", "pairs", "holds", "certified"),
        ("shuffled", "pairs", "lies", "told"),
        ("local", "set", "holds", "exact"),
        ("local", "pairs", "holds", "told"),
    ]
    for row in rows.to_dict("records"):
        assert 0.5 <= row["like"] < row["whose"] <= row["whose_decile"] <= row["worst"] < row["bound"]
        assert row["whose_low"] <= row["whose"] <= row["whose_high"]
        assert row["like_decile_low"] <= row["like_decile"] <= row["like_decile_high"]
    bounds = dict(zip(zip(rows["trust_model"], rows["view"], strict=True), rows["bound"], strict=True))
    assert bounds["local", "holds"] == right_at_most(1)
    assert bounds["shuffled", "holds"] == right_at_most(1, result["delta"]) < bounds["shuffled", "lies"]


def test_the_command_prints_a_table_and_its_folder_goes_on(blindrec: Command, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "risk"
    printed = blindrec("risk", file, *FLAGS, "--trust-models", "local", "--mechanisms", "set", "--out", out).out
    assert max(map(len, printed.splitlines())) <= 100
    assert [line.split()[0] for line in printed.splitlines()[1:3]] == ["who", "nobody"]
    assert "73.2" in printed
    more = ("--mechanisms", "set,MaxSense", "--trust-models", "local", "--epsilon", "1,4", "--out", out)
    again = blindrec("risk", file, *FLAGS, *more, "--json", "-").result
    assert len(lines_of_units(out)) == 4
    assert [row["epsilon"] for row in again["rows"]] == [1.0, 1.0, 4.0, 4.0]
    assert {path.name for path in out.iterdir()} >= {"result.json", "units.parquet", "table.csv", "figure.png"}
    page = tmp_path / "page.html"
    assert blindrec("report", out, "--out", page).code == 0
    assert "how often the best attack guesses right about 60 of 60 people" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epsilon": "inf"}, "epsilon is inf, where an attacker always guesses right; give finite ones"),
        ({"trust_models": "two-tier"}, "trust model two-tier has no message to attack"),
        ({"mechanisms": "EASE"}, "mechanism 'EASE' is unknown"),
        ({"delta": 0, "trust_models": "shuffled"}, "none of these rows has a guarantee with this number of people"),
    ],
)
def test_what_is_wrong_is_refused(values: dict[str, Any], words: str, file: Path) -> None:
    with pytest.raises(InputError, match=words):
        risk({"ratings": file, "like_from": 4, **values})


def test_a_frame_and_a_file_have_the_same_risk(file: Path) -> None:
    frame = pd.read_csv(file)
    same: dict[str, Any] = {"like_from": 4, "likes": 5, "trust_models": "local", "mechanisms": "set", "progress": False}
    first, second = (face.risk(ratings, HERE, **same) for ratings in (file, frame))
    assert first["rows"] == second["rows"]
    assert first.frame("answer")["whose"].tolist() == second.frame("answer")["whose"].tolist()
    assert "<table" in first._repr_html_()


def test_bounds_are_rounded_up() -> None:
    assert [bound_text(bound) for bound in (0.73106, 0.7310, 0.9997, 0.999999999)] == [
        "73.2",
        "73.1",
        "99.97",
        "always",
    ]


def test_rows_without_a_test_say_the_bound_alone(file: Path) -> None:
    settings = comparison({"ratings": file, "like_from": 4, "people": 1000}).settings
    holds, lies = row_risk(settings, registered_rows()["shuffled: ones"], "1", 1000)
    assert (holds.how, holds.worst, holds.bound) == ("bound", None, right_at_most(1, settings.delta_of(1000)))
    assert (lies.how, lies.bound) == ("bound", 1.0)


def rate(value: float) -> GameRate:
    of = Rate(value=value, low=value - 0.002, high=value + 0.0021)
    return GameRate(mean=of, decile=of)


def risks_of(how: Any) -> tuple[ViewRisk, ...]:
    games: dict[str, Any] = {"worst": 0.7, "like": rate(0.501), "whose": rate(0.5889)}
    return tuple(ViewRisk(view=view, how=how, bound=0.74, **games) for view in ("holds", "lies"))


@pytest.fixture
def made() -> Answer:
    risks = {
        (SHUFFLED, "set", 1.0): risks_of("certified"),
        (LOCAL, "set", 1.0): risks_of("exact")[:1],
        (CURATOR, "set", 1.0): (ViewRisk(view="holds", how="bound", bound=0.74),),
    }
    curves = [curve(rung, {1000: 0.19}, device=6.57) for rung in (CURATOR, SHUFFLED, LOCAL)]
    return answer(*curves, risks=risks)


def test_the_answer_shows_what_was_measured_beside_the_bound(made: Answer) -> None:
    columns, lines = answer_table(made, made.by_epsilon[0])
    assert columns[4:] == ("whose", "at most", "if they lie")
    cells = {line[0]: line[4:6] for line in lines}
    assert cells["a shuffler"] == ["58.9*", "74 of 100"]
    assert cells["nobody"] == ["58.9", "74 of 100"]
    assert cells["a curator"] == ["-", "74 of 100"]
    assert len({len(line) for line in lines}) == 1
    assert Answer.model_validate(made.model_dump(mode="json")) == made


def test_the_page_shows_both_games_and_lies(made: Answer) -> None:
    filters, at = templates().filters, made.by_epsilon[0]
    cells = {rung.key: dict(filters["risks"](rung, at)) for rung in at.rungs}
    assert [list(of) for of in cells.values()] == [filters["risk_names"](at)[1:]] * 3
    measured = "58.9±.3*; of one person in ten 58.9±.3* or more"
    assert cells[SHUFFLED]["whose of two"] == f"{measured}. If they lie: {measured}"
    assert cells[LOCAL]["likes an item"] == "50.1±.3; of one person in ten 50.1±.3 or more"
    assert cells[CURATOR]["whose of two"] == "only the bound is known"
    facts = {rung.key: dict(filters["facts"](rung, made))["guess right"] for rung in at.rungs}
    assert facts == {
        CURATOR: "≤ 74 of 100",
        SHUFFLED: "58.9* of 100, ≤ 74 of 100",
        LOCAL: "58.9 of 100, ≤ 74 of 100",
    }


def test_leaders_are_measured_once_each(made: Answer, file: Path) -> None:
    settings = comparison({"ratings": file, "like_from": 4, "people": 1000}).settings
    keys = list(risk_units(settings, made))
    assert [(key.mechanism, key.epsilon, key.users) for key in keys] == [
        ("curator: set", "1", 1000),
        ("shuffled: set", "1", 1000),
        ("local: set", "1", 1000),
    ]
