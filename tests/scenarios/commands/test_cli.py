"""The command line, as a stranger uses it: runs, folders, JSON and files of every format."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from runs import Command, planted_ratings, write_movielens

from scenarios.commands import experiment_commands
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import MainResult, run

pytestmark = pytest.mark.usefixtures("few_draws")

SMALL = ["--backend", "inprocess", "--workers", "1", "--users", "2000", "--items", "40", "--rated", "5"]
ROWS = planted_ratings(users=25, items=12, each=6)


def test_the_demo(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (experiment_commands.DEMO.items, experiment_commands.DEMO.users) == (200, 2_000_000)
    monkeypatch.setattr(experiment_commands, "DEMO", experiment_commands.DEMO.model_copy(update={"users": 40_000}))
    shown = blindrec("demo", "--backend", "inprocess", "--json", tmp_path / "demo.json")
    assert shown.code == 0
    assert shown.out.startswith("blindrec demo, maxsense, inprocess")
    result = json.loads((tmp_path / "demo.json").read_text())
    assert (result["users"], result["answered"], result["trust_model"]) == (40_000, 40_000, "local")
    assert result["accuracy"] > 0.7


def test_progress_goes_to_standard_error(blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.show.tables.EVERY", 0.0)
    twice = ("--policy", "fixed", "--rounds", 2, "--answers-per-device", 2)
    told = blindrec("run", *SMALL, *twice, "--repeat", 2)
    said = [f"seed {seed}: {count} of 4,000 devices answered" for seed in (0, 1) for count in ("2,000", "4,000")]
    assert told.err.splitlines() == said
    assert "[" in told.out  # intervals of means


def test_a_file_is_run_without_noise_too(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Scenario] = []

    def watched(scenario: Scenario, *more: Any, **named: Any) -> MainResult:
        seen.append(scenario)
        return run(scenario, *more, **named)

    monkeypatch.setattr("scenarios.families.main.main_seed.run", watched)
    file = write_movielens(tmp_path / "ratings.csv", ROWS)
    command = ["run", "--backend", "inprocess", "--ratings", file, "--json", "-"]
    outcome = blindrec(*command)
    assert outcome.err.startswith("rated is 5, the file's median; it is public in this run\n")
    assert (outcome.result["users"], outcome.result["items"], outcome.result["accuracy"]) == (25, 12, None)
    assert abs(outcome.result["noiseless_ari"]) <= 1
    assert [scenario.epsilon for scenario in seen] == [1, None]
    assert blindrec(*command, "--epsilon", "inf").result["noiseless_ari"] == 1
    assert len(seen) == 3


def test_data_tells_what_is_in_a_file(blindrec: Command, tmp_path: Path) -> None:
    path, flags = tmp_path / "named.csv", ("--columns", "who,what,how much")
    pd.DataFrame(ROWS, columns=["who", "what", "how much"]).to_csv(path, index=False)
    told = blindrec("data", path, *flags, "--json", "-")
    assert (told.code, told.err) == (0, "")
    assert (told.result["users"], told.result["items"], told.result["ratings"]) == (25, 12, 150)
    assert told.result["density"] == pytest.approx(6 / 12)
    assert told.result["ratings_per_user"]["max"] == 6
    shown = blindrec("data", path, *flags)
    assert shown.out.startswith("blindrec data named.csv")
    assert "above each user's own mean" in shown.out
    likes = blindrec("data", path, *flags, "--like-from", 5, "--json", "-").result
    assert (likes["likes"], likes["like_from"]) == (sum(value == 5 for _, _, value in ROWS), 5)


def test_help_is_no_error(blindrec: Command) -> None:
    for arguments in ([], ["--help"], ["run", "--help"]):
        told = blindrec(*arguments)
        assert (told.code, told.err) == (0, "")
        assert told.out.startswith("Usage: ")
        assert len(told.out.splitlines()) > 5


def test_one_person_behind_several_devices_is_warned_of(blindrec: Command, tmp_path: Path) -> None:
    """With infinite epsilon, or a device each, there is nothing to warn of."""
    path = write_movielens(tmp_path / "ratings.csv", ROWS)
    flags = ("run", "--ratings", path, "--rated", 6, "--epsilon", 2, *SMALL[:4], "--json", "-")
    ended = blindrec(*flags, "--users", 5000)
    most = ended.result["copies_max"]
    assert " ".join(ended.err.split()).startswith(
        f"warning: 5,000 devices are drawn from 25 people, so that one person answers up to {most} times: a person's "
        f"epsilon is {2 * most}, not 2. Leave --users out for a device each; or take the result as that of so many "
        "other people, and nobody in the file as protected"
    )
    assert ended.result["person_epsilon"] == 2 * most
    assert "warning" not in blindrec(*flags).err
    assert "warning" not in blindrec(*flags, "--users", 5000, "--epsilon", "inf").err
