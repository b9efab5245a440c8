"""Tables and progress: what they show and leave out, and that every number stands whole at 80 columns."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from evidence import THOROUGH
from rich.console import Console
from runs import Command, here, planted_ratings, printed, small, write_movielens

from coordinator.server.rounds.state import RunProgress
from scenarios.cli import command_line
from scenarios.commands import scrutiny_commands as commands
from scenarios.commands.lookup_commands import show_bounds
from scenarios.config.scenario import Scenario
from scenarios.families.main.main_columns import COLUMNS, record
from scenarios.families.online.adversaries import show_rows
from scenarios.show import tables as report
from scenarios.show.columns import mean_of
from scenarios.studies.planner import plan as tables
from scenarios.studies.planner.least_users import Candidate, Target
from scenarios.studies.planner.plan import DesignPlan, plan
from scenarios.studies.scrutiny.verdicts import FAILED, HELD, CheckRow, Conformance
from scenarios.theory.bounds import all_bounds, bounds_rows


def paper(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    """A console that writes into a string."""
    sheet = io.StringIO()
    return Console(file=sheet, width=120, force_terminal=terminal, color_system=None), sheet


def shown(result: dict[str, Any], width: int = 120) -> str:
    """The table of a run."""
    return printed(lambda console: report.show(console, result, "a run", COLUMNS), width)


def row(text: str, words: str) -> str:
    """The row that starts with these words."""
    (found,) = [line for line in text.splitlines() if line.strip("│ ").startswith(words + " ")]
    return found.split("│")[2].strip()


def test_the_table_tells_trust_model_guarantee_measure_and_prediction() -> None:
    result = record(here(small(epsilon="1/4")))
    text = shown(result, 160)
    assert text.startswith("a run")
    assert row(text, "trust model") == "local"
    words = "epsilon-local differential privacy of all that a device holds; neighbours replace, delta 0"
    assert row(text, "guarantee") == words
    assert row(text, "epsilon (local) [nats]") == "0.2500"
    assert row(text, "users") == "3,001"
    assert row(text, "share of items right, predicted") == f"{result['accuracy_predicted']:.4f}"
    assert row(text, "all items right") == ("yes" if result["exact"] else "no")
    assert row(text, "SHA-256 of all releases") == result["releases_sha256"]


def test_an_epsilon_says_whether_it_is_central_or_local() -> None:
    central, local = "epsilon (central) [nats]", "epsilon (local) [nats]"
    told = {"epsilon": 1.0, "trust_model": "shuffled", "epsilon_local": 4.25}
    text = shown(told)
    assert (row(text, central), row(text, local)) == ("1", "4.2500")
    for trust_model, words in {"local": local, "curator": central, "two-servers": central}.items():
        assert row(shown({"epsilon": 1.0, "trust_model": trust_model}), words) == "1"


def test_what_is_null_or_absent_has_no_row() -> None:
    text = shown({"users": 3, "accuracy": None})
    assert not [words for words in ("items right", "NDCG") if words in text]
    assert row(text, "users") == "3"


def test_means_come_with_their_intervals() -> None:
    shared = {"copies_max": 1, "person_epsilon": 1.0, "releases_sha256": ""}
    text = shown(mean_of(COLUMNS, [{**shared, "accuracy": 0.5}] * 3))
    assert row(text, "share of items right") == "0.5000  [0.5000, 0.5000]"


def test_a_share_that_is_whole_is_told_from_a_number_and_a_digest_stands_on_one_line() -> None:
    digest = "0123456789abcdef" * 4
    for width, line in ((120, digest), (80, f"{digest[:49]}…")):
        text = shown({"items": 1, "accuracy": 1.0, "exact": True, "releases_sha256": digest}, width)
        cells = [row(text, words) for words in ("items", "share of items right", "all items right")]
        assert cells == ["1", "1.0000", "yes"]
        assert row(text, "SHA-256 of all releases") == line


def test_a_description_shows_every_number() -> None:
    values = {"users": 12345, "ratings_per_user": {"min": 1.0, "median": 2.5}, "like_from": None}
    text = printed(lambda console: report.show_description(console, values, "a file"))
    assert row(text, "users") == "12,345"
    assert row(text, "ratings per user") == "min 1, median 2.5000"
    assert row(text, "like from") == "above each user's own mean"


def test_progress_is_plain_lines_now_and_then_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 6.0, 6.0, 7.0, 12.5, 12.5])
    monkeypatch.setattr("scenarios.show.tables.time.monotonic", lambda: next(clock))
    console, sheet = paper()
    with report.progress(console, 4000, "seed 3") as tell:
        for answers in (1000, 2000, 3000, 4000):
            tell(RunProgress(count=answers), 75.0 if answers < 4000 else None)
    lines = [
        "seed 3: 2,000 of 4,000 devices answered, about 1 min 15 s left",
        "seed 3: 4,000 of 4,000 devices answered",
    ]
    assert sheet.getvalue().splitlines() == lines


def test_progress_is_a_bar_on_a_terminal_and_leaves_nothing_behind() -> None:
    console, sheet = paper(terminal=True)
    with report.progress(console, 4000, "seed 3") as tell:
        tell(RunProgress(count=2000), 75.0)
    assert all(words in sheet.getvalue() for words in ("seed 3", "about 1 min 15 s left"))
    assert "50%" in sheet.getvalue()
    assert sheet.getvalue().endswith("\x1b[2K")


Show = Callable[[Console], None]
TITLE = "blindrec plan: all items right with probability 0.95 and a share of 0.99 of the items right"
NUMBER = re.compile(r"\d(?:[\d,.]*\d)?(?:e[+-]?\d+)?")


@cache
def planned(users: int | None, *, inverse: bool = False) -> DesignPlan:
    """A plan among designs that are quick to plan, of a large catalogue of many clusters."""
    world = Scenario(items=9724, rated=70, like=((0.625839, 0.3757, 0.11),), cluster_shares=(0.5, 0.3, 0.2))
    quick = [{"design": "curator-items"}, {"design": "full-reveal"}]
    quick += [{"design": "maxsense", "decoder": one} for one in ("centred", "paper")]
    with pytest.MonkeyPatch.context() as patch:
        able = [Candidate(world=world, settings=settings) for settings in quick]
        patch.setattr("scenarios.studies.planner.plan.candidates", lambda *_: able)
        return plan(world, Target(success=0.95, accuracy=0.99), users=users, inverse=inverse)


def simulated(console: Console) -> None:
    """A design of one's own with a long name and an interval of thousands of millions."""
    made = planned(5_000_000_000)
    row = made.rows[0] | {"users": 98_765_432_109, "simulated": 20, "users_low": 97_000_000_001, "note": "simulated so"}
    rows = [row | {"users_high": 99_000_000_001}, row | {"users_high": None}, row | {"users": None, "note": "no fit"}]
    tables.show_plan(console, replace(made, rows=[*rows, *made.rows]), TITLE, "nothing of the file itself")


def described(console: Console) -> None:
    spread = dict.fromkeys(("min", "lower quartile", "median", "upper quartile", "max", "mean"), 1_234_567.25)
    report.show_description(console, {"users": 162_541, "ratings": 25_000_095, "ratings_per_user": spread}, "a file")
    row: dict[str, object] = {"design": "pairwise", "agreement": "rated-equal", "rated_items": "private"}
    row |= {"decoder": "posterior", "accuracy": 0.98765, "not_for": "no file"}
    row |= {"holds_for": "a block model of 1,234,567 and 7,654,321 items"}
    tables.show_learnable(console, [row | {"epsilon": one, "users": 852_295_483 * 10**one} for one in (1, 2, 4, 8)])


def checked(console: Console) -> None:
    told = "release 0101010101 of sketch [0, 1, 0, 1] at epsilon 0.1: 0.12345 of 1048576 devices, says 0.23456" * 2
    words = {"mechanism": "oue:OUE odds=2.0", "meaning": "m", "told": told}
    rows = [CheckRow(check=f"check {one}", verdict=one, **words) for one in (HELD, FAILED)]
    commands.show_conformance(console, Conformance((*rows, replace(rows[0], told=f"digest {'a' * 64}"))))


def adversaries(console: Console) -> None:
    """As many recommenders as anybody compares."""
    row = {"no_algorithm_expects_less": 19.0, "loss": 123456.75, "at_least_times_P_over_lnT": 1e7, "epsilon": None}
    show_rows(console, [row | {"recommender": f"recommender-{one}", "loss": one + 0.5} for one in range(9)], "a title")


def bounds(console: Console) -> None:
    found = all_bounds(items=10**9, rated=10**4, epsilon=1e-3, clusters=30, ours=True)
    show_bounds(console, {"bounds": bounds_rows(found), "failure": 0.123456, "mistakes": 10**9 - 1})


SHOWN: dict[str, Show] = {
    "plan": lambda console: tables.show_plan(console, planned(None), TITLE),
    "plan, users": lambda console: tables.show_plan(console, planned(5_000_000_000), TITLE),
    "plan, the smallest epsilon": lambda console: tables.show_plan(console, planned(5 * 10**9, inverse=True), TITLE),
    "plan, simulated": simulated,
    "data": described,
    "check": checked,
    "adversary": adversaries,
    "bounds": bounds,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SHOWN)
def test_every_number_of_a_wide_table_stands_in_a_narrow_one(name: str) -> None:
    wide, narrow = (printed(SHOWN[name], width) for width in (300, 80))
    assert max(map(len, narrow.splitlines())) <= 80
    assert "…" not in narrow
    assert len(NUMBER.findall(wide)) > 5
    assert sorted(NUMBER.findall(narrow)) == sorted(NUMBER.findall(wide))


def test_a_table_that_is_squeezed_is_found() -> None:
    """The same at half of the columns loses numbers."""
    assert NUMBER.findall(printed(simulated, 40)) != NUMBER.findall(printed(simulated, 300))


HELPS = [*command_line().commands, *(f"sweep {name}" for name in command_line().commands["sweep"].commands)]
HERE = "--backend inprocess --workers 1"
CHEAP = [
    f"run --ratings ratings.csv --like-from 3 {HERE}",
    f"run --items 20 --rated 6 --users 2000 --repeat 2 --out out {HERE}",
    "status out",
    "watch out",
    "resume out",
    "report out --out page.html",
    f"online --rounds 60 --voters 24 --clients 2 --budget 3/2 {HERE}",
    f"compare ratings.csv --trust-models none,local,shuffled --mechanisms popularity,set --seeds 3 {HERE}",
    "data ratings.csv",
    "bounds --items 1000 --rated 30 --epsilon 1",
    "amplify oue --epsilon 0.5 --users 100000",
    "adversary theorem-6 --rounds 40 --radius 4",
]
if THOROUGH:  # tables of theirs are in tests of their own, too
    CHEAP += [
        f"two-tier --planted 90,30,1500 --public 60 --private 20 --iterations 3 --holdout 3 --rank 2 {HERE}",
        f"compare ratings.csv --trust-models local --mechanisms set --scale 1,1000 --seeds 3 --details {HERE}",
        f"sweep online --seeds 2 --rounds 20 --voters 16 --axes rounds=20 --out swept {HERE}",
    ]


def test_nothing_that_a_command_says_is_wider_than_a_hundred_columns(
    blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor where there is no terminal; errors are one line, however long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=24, each=8))
    wide = []
    for command in [*(f"{name} --help" for name in HELPS), *CHEAP]:
        ended = blindrec(*command.split())
        assert ended.code == 0, (command, ended.err)
        wide += [(command, line) for line in f"{ended.out}\n{ended.err}".splitlines() if len(line) > 100]
    assert wide == []
