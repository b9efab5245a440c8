"""The coordinator's panel of a comparison: p-REC on the file's rounds, as the sweep of recommenders measures it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from runs import Command, planted_ratings, refused, write_movielens

from scenarios.studies.compare.scoring import SERVED, show_panel

HERE = ("--backend", "inprocess")
PANEL = (*HERE, "--trust-models", "coordinator", "--like-from", 4, "--clients", 4, "--seeds", 3)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=40, items=80, each=60))


@pytest.fixture
def panel(blindrec: Command, ratings: Path) -> dict[str, Any]:
    found: dict[str, Any] = blindrec("compare", ratings, *PANEL, "--json", "-").result["coordinator"]
    return found


def test_it_is_what_the_sweep_of_recommenders_measures(
    blindrec: Command, ratings: Path, panel: dict[str, Any], tmp_path: Path
) -> None:
    told = ("--like-from", 4, "--clients", 4, "--seeds", 3, "--recommenders", ",".join(SERVED))
    blindrec("sweep", "online", "--ratings", ratings, *told, "--backend", "inprocess", "--out", tmp_path / "out")
    swept = json.loads((tmp_path / "out" / "result.json").read_text())
    assert panel["recommenders"] == swept["recommenders"]
    assert [row["recommender"] for row in panel["recommenders"]] == list(SERVED)


def test_its_table_fits_into_80_columns_and_its_losses_are_set_beside_others(panel: dict[str, Any]) -> None:
    written = io.StringIO()
    show_panel(Console(file=written, width=80), panel)
    assert max(map(len, written.getvalue().splitlines())) <= 80
    by_name = {row["recommender"]: row for row in panel["recommenders"]}
    assert by_name["plurality"]["to_plurality_share"] == 0
    assert by_name["p-rec"]["epsilon_median"] > by_name["p-rec-sharp"]["epsilon_median"] > 0


def test_a_file_of_too_few_rounds_says_so_and_has_all_other_rows(blindrec: Command, tmp_path: Path) -> None:
    few = write_movielens(tmp_path / "few.csv", planted_ratings(users=30, items=30, each=16))
    assert "users have 20 rounds" in refused(blindrec, "compare", few, *PANEL)
    more = ("--trust-models", "none,coordinator", "--mechanisms", "popularity,p-rec", "--seeds", 3, "--json", "-")
    told = blindrec("compare", few, *HERE, *more).result
    assert told["coordinator"] is None
    assert told["remarks"][-1].startswith("coordinator: clients is 20, but only ")
    assert len(told["rows"]) == 1
