"""Records: places are tried before the run, files are whole or not there, and nothing written is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import foreign_mechanisms as foreign
import numpy as np
import pandas as pd
import pytest
from runs import here, of_file, planted_ratings, small, write_movielens, write_run

from coordinator.protocol.errors import InputError
from scenarios.families.main.score import items_table, record, rounds_table
from scenarios.show.records import check_target, deliver, versions
from scenarios.store.whole_files import to_json, try_folder, write_json

COLUMNS = ["item", "score", "standard_error", "cluster"]


def test_a_new_folder_is_made_and_an_empty_one_taken(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "new"
    for _ in range(2):
        try_folder(out)
        assert out.is_dir()
    check_target(str(out / "also.json"))
    check_target("-")
    check_target(None)
    assert list(out.iterdir()) == []


def test_trying_a_file_leaves_it_alone(tmp_path: Path) -> None:
    target = tmp_path / "old.json"
    target.write_text("old")
    check_target(str(target))
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert target.read_text() == "old"


def test_places_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    places = {
        "output folder": [tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")],
        "json file": [tmp_path, tmp_path / "none" / "x.json", tmp_path / "file" / "x.json", Path("/proc/none.json")],
    }
    for thing, paths in places.items():
        for path in paths:
            with pytest.raises(InputError, match=f"^{thing} {re.escape(str(path))} .*; name ") as raised:
                try_folder(path) if thing == "output folder" else check_target(str(path))
            assert "\n" not in str(raised.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_the_folder_of_a_run(tmp_path: Path) -> None:
    scenario = small(epsilon="1/3", like="0.9,0.5,0.1", cluster_shares="0.5,0.25,0.25")
    run = here(scenario)
    result = write_run(tmp_path, run)
    assert {path.name for path in tmp_path.iterdir()} == {
        "result.json",
        "scenario.json",
        "versions.json",
        "items.parquet",
        "rounds.parquet",
    }
    assert json.loads((tmp_path / "result.json").read_text()) == result
    as_run = json.loads((tmp_path / "scenario.json").read_text())
    assert small(**as_run) == run.scenario == scenario.complete()
    assert as_run["epsilon"] == "1/3"
    told = json.loads((tmp_path / "versions.json").read_text())
    assert told.pop("ended").endswith("+00:00")
    assert told == {**versions(), "command": None}
    assert {"python", "ray", "numpy", "blindrec"} <= set(versions())
    for table in ("items", "rounds"):
        assert pd.read_parquet(tmp_path / f"{table}.parquet").attrs == {"releases_sha256": result["releases_sha256"]}


def test_no_noise_is_a_word_in_the_scenario_as_run(tmp_path: Path) -> None:
    run = here(small(epsilon="inf"))
    write_run(tmp_path, run)
    as_run = json.loads((tmp_path / "scenario.json").read_text())
    assert as_run["epsilon"] == "inf"
    assert small(**as_run) == run.scenario


def test_the_items_table_is_the_model(tmp_path: Path) -> None:
    run = here(small())
    write_run(tmp_path, run)
    table = pd.read_parquet(tmp_path / "items.parquet")
    assert list(table.columns) == [*COLUMNS, "rank", "popularity"]
    assert table["item"].tolist() == [f"item {item}" for item in range(40)]
    model = run.outcome.model
    assert table["score"].tolist() == model.score.tolist()
    assert table["standard_error"].tolist() == model.error.tolist()
    assert table["cluster"].tolist() == model.cluster.tolist()
    assert table.groupby("cluster")["score"].mean().is_monotonic_decreasing
    assert bool((table["standard_error"] > 0).all())


def test_what_the_server_is_sure_of_stands_in_the_items_table() -> None:
    run = here(small(design="sign", users=500, confidence=0.8))
    table = items_table(run)
    assert list(table.columns) == [*COLUMNS, "doubt", "decided", "rank", "popularity"]
    assert bool(table["doubt"].between(0, 1).all())
    assert int((~table["decided"]).sum()) == record(run)["undecided"]


def test_the_rounds_table_tells_what_was_asked_of_whom(tmp_path: Path) -> None:
    run = here(small(design="sign", policy="fixed", rounds=4, answers_per_device=2, epsilon="1/3", users=100))
    write_run(tmp_path, run)
    table = pd.read_parquet(tmp_path / "rounds.parquet")
    assert table["round"].tolist() == [0, 1, 2, 3]
    assert set(table["design"]) == {"sign"}
    assert set(table["pool"]) == {40}
    assert table["epsilon"].tolist() == [1 / 6] * 4
    assert table["first_device"].tolist() == [0, 50, 0, 50]
    assert (table["asked"].tolist(), table["answered"].tolist(), table["refused"].tolist()) == (
        [50] * 4,
        [50] * 4,
        [0] * 4,
    )
    assert table["query_id"].tolist() == [ask.query.id.hex() for ask in run.outcome.state.asked]
    assert rounds_table(here(small(epsilon="inf")))["epsilon"].tolist() == [np.inf]


def test_items_of_a_file_keep_their_names(tmp_path: Path) -> None:
    rows = [(user, item * 7, value) for user, item, value in planted_ratings(users=20, items=12, each=6)]
    table = items_table(here(of_file(write_movielens(tmp_path / "ratings.csv", rows))))
    assert table["item"].tolist() == [str(item * 7 + 1) for item in range(12)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_json_is_strict_and_a_failure_leaves_the_old_file(value: float, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    write_json(target, {"accuracy": 0.5})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(target, {"accuracy": value})
    assert json.loads(target.read_text()) == {"accuracy": 0.5}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_delivery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deliver(None, {"a": 1})
    deliver(str(tmp_path / "a.json"), {"a": 1})
    assert capsys.readouterr().out == ""
    deliver("-", {"a": 1})
    assert capsys.readouterr().out == to_json({"a": 1})
    told = json.loads((tmp_path / "a.json").read_text())
    assert told.pop("provenance")["versions"] == versions()
    assert told == {"a": 1}


def test_a_link_is_followed_and_neighbours_are_left_alone(tmp_path: Path) -> None:
    aim, link, neighbour = tmp_path / "aim.json", tmp_path / "link.json", tmp_path / "link.json.part"
    aim.write_text("old", encoding="utf-8")
    neighbour.write_text("mine", encoding="utf-8")
    link.symlink_to(aim)
    check_target(str(link))
    write_json(link, {"a": 1})
    assert link.is_symlink()
    assert json.loads(aim.read_text(encoding="utf-8")) == {"a": 1}
    assert neighbour.read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aim.json", "link.json", "link.json.part"]


def test_what_is_no_regular_file_stays_what_it_is() -> None:
    check_target("/dev/null")
    write_json(Path("/dev/null"), {"a": 1})
    assert Path("/dev/null").is_char_device()


def test_items_of_ones_own_mechanism_are_ranked_as_others_are() -> None:
    """Its contract says that what has a larger estimate is liked more."""
    run = here(small(design=foreign.OUE(), users=20_000, epsilon=3))
    table = items_table(run)
    assert list(table.columns) == [*COLUMNS, "rank", "popularity"]
    assert table.sort_values("rank")["score"].is_monotonic_decreasing
    assert record(run)["rank_correlation"] > 0.5
    assert record(run)["top_50"] == 1
