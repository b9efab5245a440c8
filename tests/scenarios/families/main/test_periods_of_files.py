"""Runs over a file's own months: who is there, what devices hold in each, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import stopped
from runs import Command, alike, complains, here, of_file, planted_ratings, present

from actors.ratings import StoredRatings
from coordinator.server.rounds.scheduled import AgeingLearner
from coordinator.server.rounds.state import ServerState
from scenarios.data.populations import populate, resolved_run
from scenarios.families.main.main_columns import record

MONTH = 31 * 86_400


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 people, of whom 45, 30 and 15 come in the first three months of 2026; who came earlier goes on rating."""
    arrivals = np.repeat([0, 1, 2], [45, 30, 15])
    rows = ["userId,movieId,rating,timestamp"]
    for place, (user, item, rating) in enumerate(planted_ratings(users=90, items=20, each=12)):
        month = 0 if place == 0 and arrivals[user] == 0 else arrivals[user] + place % (3 - arrivals[user])
        rows.append(f"{user + 1},{item + 1},{rating},{1_767_700_000 + month * MONTH}")
    path = tmp_path_factory.mktemp("months") / "ratings.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def months(file: Path, **changes: Any) -> Any:
    return of_file(file, **{"design": "set", "periods": 3, "schedule": "split", **changes})


def flags(file: Path, *more: Any) -> list[Any]:
    run = ["run", "--ratings", file, "--design", "set", "--periods", 3, "--backend", "inprocess"]
    return [*run, "--schedule", "split", *more]


@pytest.mark.parametrize(
    ("schedule", "rounds"),
    [
        ("once", [(1, 0, 45), (2, 45, 75), (3, 75, 90)]),
        ("split", [(1, 0, 45), (2, 0, 75), (3, 0, 90)]),
        ("stay:2", [(1, 0, 45), (2, 0, 75), (3, 45, 90)]),
    ],
)
def test_people_answer_from_the_month_of_their_first_rating_on(file: Path, schedule: str, rounds: list[Any]) -> None:
    run = here(months(file, schedule=schedule))
    assert [(ask.query.period, ask.first, ask.stop) for ask in run.outcome.state.asked] == rounds
    values = record(run)
    assert values["spent_max"] == values["epsilon"] == 1.0
    assert values["from_the_file"] == "items, rated, arrivals"
    assert [row["period"] for row in values["by_period"]] == [1, 2, 3]
    assert all(-1 <= row["rank_correlation"] <= 1 for row in values["by_period"])


def test_devices_hold_what_was_rated_until_the_month_and_later_people_nothing(file: Path) -> None:
    population = populate(months(file))
    ratings, train = population.ratings, present(population.split).train
    assert isinstance(ratings, StoredRatings)
    assert population.arrivals == (45, 30, 15)
    times = present(train.times)
    for period in (1, 2, 3):
        rows = ratings.at(period).rows
        until = times <= 1_767_700_000 + (period - 1) * MONTH
        assert rows.items.tolist() == train.items[until].tolist()
        assert not rows.degrees[ratings.user[sum(population.arrivals[:period]) :]].any()
    assert sorted(ratings.user.tolist()) == list(range(90))
    assert ratings.user[:45].tolist() != list(range(45))  # a public coin says who is where
    with pytest.raises(ValueError, match="asks about period 4"):
        ratings.at(4)


def test_layouts_tell_the_same_and_one_month_is_the_run_that_there_was(file: Path) -> None:
    run = here(months(file))
    assert alike(here(months(file), workers=3, devices_per_actor=17), run)
    assert here(months(file, periods=None, period="month")).outcome.releases_sha256 == run.outcome.releases_sha256
    assert here(months(file, seed=1)).outcome.releases_sha256 != run.outcome.releases_sha256


def test_items_that_come_are_estimated_anew(file: Path) -> None:
    """Item 3 comes with the second month: what was estimated before is forgotten, as the twin without it shows."""
    run = here(months(file, ageing=0.0))
    learner, state = run.resolved.learner, run.outcome.state
    assert isinstance(learner, AgeingLearner)
    for came, forgets in ((np.array([3], np.int32), True), (np.empty(0, np.int32), False)):
        after = ServerState(devices=state.devices, budget=state.budget)
        for ask in state.asked[:2]:
            after = replace(learner, new_items=(came,)).absorb(after, ask, run.statistic)
        information = present(after.estimates).information
        assert (information[3] < 0.9 * information[4]) == forgets


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"periods": 9}, "periods is 9, but the file has 3 by month"),
        ({"period": "1d"}, "nobody rated anything in period 2 days before the end"),
        ({"public": 0.1}, "over periods of time nobody's ratings are public"),
        ({"schedule": "front", "trust": "shuffled", "design": "subset"}, "schedule front has unequal shares"),
    ],
)
def test_what_a_file_does_not_have_is_refused_before_anybody_is_asked(
    file: Path, changes: dict[str, Any], words: str
) -> None:
    with complains(words):
        resolved_run(populate(months(file, **changes)))


def test_a_file_without_times_and_drift_of_a_file_are_refused(file: Path, blindrec: Command, tmp_path: Path) -> None:
    timeless = tmp_path / "timeless.csv"
    timeless.write_text("who,what,stars\n" + "".join(f"{k % 9},{k % 7},{k % 5}\n" for k in range(63)), encoding="utf-8")
    for more, words in (
        (["--ratings", timeless, "--columns", "who,what,stars"], "have no column of times, which periods need"),
        (["--drift", 0.1], "drift is 0.1, but"),
    ):
        refusal = blindrec(*flags(file, *more))
        assert refusal.code == 2
        assert words in refusal.err


def test_a_run_over_months_goes_on_to_the_same_digest_and_its_ledger_outlives_it(
    file: Path, blindrec: Command, tmp_path: Path
) -> None:
    whole = blindrec(*flags(file, "--json", "-")).result
    stopped(blindrec, 2, *flags(file, "--out", tmp_path / "out"))
    again = blindrec("resume", tmp_path / "out", "--backend", "inprocess", "--json", "-").result
    for name in ("releases_sha256", "by_period", "spent_max", "agreement_digest", "ndcg"):
        assert again[name] == whole[name]
    ledger = flags(file, "--ledger", tmp_path / "ledger", "--json", "-")
    assert {blindrec(*ledger).result["releases_sha256"] for _ in range(2)} == {whole["releases_sha256"]}
    for more, words in ((["--period", "31d"], "other period"), (["--schedule", "once"], "other schedule")):
        refusal = blindrec(*ledger, *more)
        assert refusal.code != 0
        assert words in refusal.err
