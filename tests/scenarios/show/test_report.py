"""Reports: what a table tells and leaves out, and progress with and without a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from runs import here, small

from coordinator.server.rounds.state import RunProgress
from scenarios.families.main.main_job import COLUMNS
from scenarios.families.main.score import record
from scenarios.show import tables as report
from scenarios.show.columns import mean_of


def paper(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    """A console that writes into a string."""
    sheet = io.StringIO()
    return Console(file=sheet, width=120, force_terminal=terminal, color_system=None), sheet


def row(text: str, words: str) -> str:
    """The row that starts with these words."""
    (found,) = [line for line in text.splitlines() if line.strip("│ ").startswith(words + " ")]
    return found.split("│")[2].strip()


def test_the_table_tells_trust_model_guarantee_measure_and_prediction() -> None:
    result = record(here(small(epsilon="1/4")))
    console, sheet = paper()
    report.show(console, result, "a run", COLUMNS)
    text = sheet.getvalue()
    assert text.startswith("a run")
    assert row(text, "trust model") == "local"
    assert row(text, "guarantee") == "epsilon-local differential privacy of all that a device holds"
    assert row(text, "epsilon of a device [nats]") == "0.2500"
    assert row(text, "users") == "3,001"
    assert row(text, "items right, predicted") == f"{result['accuracy_predicted']:.4f}"
    assert row(text, "all items right") == ("yes" if result["exact"] else "no")
    assert row(text, "SHA-256 of all releases") == result["releases_sha256"]


def test_without_noise_the_table_says_that_nothing_is_private() -> None:
    console, sheet = paper()
    report.show(console, record(here(small(epsilon="inf"))), "a run", COLUMNS)
    assert row(sheet.getvalue(), "guarantee") == "none: epsilon is infinite, answers are not private"
    assert row(sheet.getvalue(), "epsilon of a device [nats]") == "inf"


def test_what_is_null_or_absent_has_no_row() -> None:
    console, sheet = paper()
    report.show(console, {"users": 3, "accuracy": None}, "a run", COLUMNS)
    assert "items right" not in sheet.getvalue()
    assert "NDCG" not in sheet.getvalue()
    assert row(sheet.getvalue(), "users") == "3"


def test_means_come_with_their_intervals() -> None:
    shared = {"copies_max": 1, "person_epsilon": 1.0, "releases_sha256": ""}
    console, sheet = paper()
    report.show(
        console, mean_of(COLUMNS, [{**shared, "accuracy": accuracy} for accuracy in (0.5, 0.5, 0.5)]), "runs", COLUMNS
    )
    assert row(sheet.getvalue(), "items right") == "0.5000  [0.5000, 0.5000]"


def test_a_description_shows_every_number() -> None:
    console, sheet = paper()
    spread = {"min": 1.0, "median": 2.5}
    report.show_description(console, {"users": 12345, "ratings_per_user": spread, "like_from": None}, "a file")
    assert row(sheet.getvalue(), "users") == "12,345"
    assert row(sheet.getvalue(), "ratings per user") == "min 1, median 2.5000"
    assert row(sheet.getvalue(), "like from") == "above each user's own mean"


def test_progress_is_plain_lines_now_and_then_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 6.0, 6.0, 7.0, 12.5, 12.5])
    monkeypatch.setattr("scenarios.show.tables.time.monotonic", lambda: next(clock))
    console, sheet = paper()
    with report.progress(console, 4000, "seed 3") as tell:
        for answers in (1000, 2000, 3000, 4000):
            tell(RunProgress(count=answers))
    assert sheet.getvalue().splitlines() == [
        "seed 3: 2,000 of 4,000 devices answered",
        "seed 3: 4,000 of 4,000 devices answered",
    ]


def test_progress_is_a_bar_on_a_terminal_and_leaves_nothing_behind() -> None:
    console, sheet = paper(terminal=True)
    with report.progress(console, 4000, "seed 3") as tell:
        tell(RunProgress(count=2000))
    assert "seed 3" in sheet.getvalue()
    assert "50%" in sheet.getvalue()
    assert sheet.getvalue().endswith("\x1b[2K")
