"""What `data` and `plan` say of a file: the answer that `compare` gives, by rows that take seconds, or why none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import Command, planted_ratings, refused, result_in, write_movielens

from scenarios.studies.compare.rungs import FEWEST
from scenarios.studies.plan_of_file import WHOLE

HERE = ("--backend", "inprocess", "--workers", 1, "--json", "-")
LADDER = ("--trust-models", "ladder", "--worth", 0.95, "--of", "popularity")
FEW = ("chance", "popularity", "set")
"""Rows that are measured here; golden results have all of them."""


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.studies.plan_of_file.QUICK", FEW)


@pytest.fixture(scope="module")
def tastes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of two tastes: half of the people like one half of the items; the first items are rated most."""
    coins, often = np.random.default_rng(1), 1 / np.arange(1, 31)
    rows = [
        (user, int(item) + 30 * half, float(coins.choice([4, 5] if half == user % 2 else [1, 2])))
        for user in range(FEWEST + 200)
        for half in (0, 1)
        for item in coins.choice(30, size=8, replace=False, p=often / often.sum())
    ]
    return write_movielens(tmp_path_factory.mktemp("tastes") / "ratings.csv", rows)


def test_data_and_plan_give_the_answer_of_a_comparison(tastes: Path, blindrec: Command, tmp_path: Path) -> None:
    rows = ",".join(FEW)
    compared = blindrec("compare", tastes, *LADDER, "--mechanisms", rows, "--people", 3000, *HERE).result
    shown = blindrec("data", tastes, "--people", 3000, "--json", tmp_path / "result.json")
    described = result_in(tmp_path)
    planning = blindrec("plan", "--ratings", tastes, "--users", 3000, "--json", tmp_path / "result.json", *HERE[:2])
    planned = result_in(tmp_path)
    for at in compared["answer"]["by_epsilon"]:
        for rung in at["rungs"]:  # the risk of what leads a rung is measured by a comparison alone
            assert [risk["view"] for risk in rung["risks"]][:1] == ["holds"]
            rung["risks"] = []
    for result in (described, planned):
        assert (result["answer"], result["people"]) == (compared["answer"], compared["people"])
        assert [row["ndcg"] for row in result["rows"]] == [row["ndcg"] for row in compared["rows"]]
    assert compared["answer"]["people"] == 3000
    assert "with your 3,000 people" in shown.words
    whole = f"the best list without privacy: blindrec compare {tastes.name} --worth 0.95 --of popularity --people 3000"
    assert whole in shown.words
    assert planning.words.endswith(whole)  # and no default beside it


def test_the_best_list_without_privacy_is_looked_for_where_shares_are_of_it(
    tastes: Path, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.studies.plan_of_file.QUICK", FEW[:2])
    answer = blindrec("data", tastes, "--of", "best", "--json", "-").result["answer"]
    assert answer["of"] == "best"
    assert answer["best_name"] in WHOLE


@pytest.mark.thorough  # two comparisons; by default the test above says whose people count
def test_more_people_there_are_is_what_devices_count(tastes: Path, blindrec: Command) -> None:
    answers: dict[int, dict[str, Any]] = {}
    for people in (100, 10**7):
        answers[people] = blindrec("data", tastes, "--people", people, "--json", "-").result["answer"]
    few, many = ({one["key"]: one for one in answer["by_epsilon"][0]["rungs"]} for answer in answers.values())
    assert few["local"]["reaches"] == "no"
    assert many["local"]["reaches"] == "yes"
    assert many["local"]["needed"]["value"] == pytest.approx(few["local"]["needed"]["value"], rel=0.5)
    assert "people is 7, and scale names" in refused(blindrec, "compare", tastes, "--people", 7, "--scale", 2)


def test_of_too_few_people_and_of_noise_nothing_is_said(tmp_path: Path, blindrec: Command) -> None:
    """Whatever they rated: a person, too few with likes to hold out, and many to whom all items are alike."""
    coins = np.random.default_rng(0)
    noise = [
        (user, int(item), float(coins.integers(1, 6))) for user in range(700) for item in coins.permutation(40)[:14]
    ]
    lonely = [*noise[: 14 * 90], *((user, 1, 5.0) for user in range(90, 700))]
    files: dict[str, tuple[list[tuple[int, int, float]], str]] = {
        "one": (
            [(0, item, float(item % 5 + 1)) for item in range(40)],
            "the file has 1 person, and fewer than 400 say little",
        ),
        "few": (noise[: 14 * (FEWEST - 1)], "the file has 399 people, and fewer than 400 say little"),
        "likes": (lonely, "people with likes to hold out, and fewer than 400 say little"),
        "noise": (noise, "is not surely better than random lists"),
        "items": (planted_ratings(users=50, items=12, each=8), "the file has 12 items; lists of ten"),
    }
    for name, (rows, why) in files.items():
        file = write_movielens(tmp_path / f"{name}.csv", rows)
        shown = blindrec("data", file)
        assert "nothing can be said: " in shown.words, name
        assert why in shown.words, name
        result = blindrec("plan", "--ratings", file, *HERE).result
        assert (result["answer"], result["rows"]) == (None, [])
        assert why in result["answer_not"]


def test_what_cannot_be_used_is_refused(tastes: Path, blindrec: Command, tmp_path: Path) -> None:
    assert "worth is 0; it must be above 0" in refused(blindrec, "plan", "--ratings", tastes, "--worth", 0)
    assert "worth is 0.9, which is about ratings files" in refused(blindrec, "plan", "--worth", 0.9)
    assert "of is 'best', which is about ratings files" in refused(blindrec, "plan", "--of", "best")
    assert "features file" in refused(blindrec, "data", tastes, "--features", tmp_path / "none.csv")
