"""What holds for every experiment: flags from its fields, TOML, seeds, folders, tables, and the same run again."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from golden.comparing import differences, kept
from runs import Command, planted_ratings, refused, tree, write_movielens

from scenarios.config.mechanism_settings import all_settings
from scenarios.experiments import EXPERIMENTS
from scenarios.show.columns import Average

pytestmark = pytest.mark.usefixtures("few_draws")

NAMES = list(EXPERIMENTS)
SMALL: dict[str, dict[str, Any]] = {
    "run": {"items": 20, "rated": 6, "users": 2000, "epsilon": "7/3", "like": "0.9,0.2"},
    "online": {"rounds": 60, "voters": 24, "clients": 2, "budget": "3/2"},
    "two-tier": {"planted": "90,30,1500", "public": "60", "private": 20, "iterations": 3, "holdout": 3, "rank": 2},
}
TABLES = {
    "run": {"items", "rounds"},
    "online": {"clients", "rounds", "voters"},
    "two-tier": {"iterations", "validated"},
}


def flags(name: str) -> list[str]:
    return [part for key, value in SMALL[name].items() for part in (f"--{key}", str(value))]


def here(*arguments: object) -> tuple[object, ...]:
    return (*arguments, "--backend", "inprocess", "--json", "-")


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_a_flag_that_tells_what_it_is(name: str, blindrec: Command) -> None:
    fields = {key: field for key, field in EXPERIMENTS[name].kind.model_fields.items() if key != "settings"}
    if EXPERIMENTS[name].accepts_custom:
        fields |= all_settings()
    told = " ".join(blindrec(name, "--help").out.split())
    assert fields
    for key, field in fields.items():
        assert field.description, key
        assert f"--{key.replace('_', '-')} " in told
        assert field.description.split()[0] in told


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_what_flags_say_and_flags_win(name: str, blindrec: Command, tmp_path: Path) -> None:
    lines = [f"{key} = {json.dumps(value)}" for key, value in SMALL[name].items()]
    (tmp_path / "scenario.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    by_file = blindrec(*here(name, tmp_path / "scenario.toml", "--seed", 3)).result
    assert list(differences(kept(by_file), blindrec(*here(name, *flags(name), "--seed", 3)).result)) == []
    assert by_file["seed"] == 3


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_run_and_told_together(name: str, blindrec: Command) -> None:
    singles = [blindrec(*here(name, *flags(name), "--seed", seed)).result for seed in (4, 5)]
    both = blindrec(*here(name, *flags(name), "--seed", 4, "--repeat", 2)).result
    assert [list(differences(kept(one), run)) for one, run in zip(singles, both["runs"], strict=True)] == [[], []]
    assert (both["repeat"], both["seed"], [run["seed"] for run in both["runs"]]) == (2, 4, [4, 5])
    measured = [column.name for column in EXPERIMENTS[name].columns if column.average is Average.MEAN]
    for key in set(measured) & set(both) - {"seconds", "devices_per_second"}:
        values = [one[key] for one in singles if one[key] is not None]
        if values:
            assert both[key] == pytest.approx(sum(values) / len(values)), key
            low, high = both["intervals"][key]
            assert low <= both[key] <= high, key
            assert low >= 0 or min(values) < 0, f"the interval of {key} begins below what it can be"


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_holds_everything_and_runs_again(name: str, blindrec: Command, tmp_path: Path) -> None:
    """``blindrec NAME DIR/scenario.json`` is the same run; fractions and defaults come back as they were."""
    first = blindrec(*here(name, *flags(name), "--repeat", 2, "--out", tmp_path / "out")).result
    files = {f"{table}.parquet" for table in TABLES[name]} | {"result.json", "scenario.json", "versions.json"}
    assert set(tree(tmp_path / "out")) == files
    assert json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8")) == first
    for table in TABLES[name]:
        assert len(pd.read_parquet(tmp_path / "out" / f"{table}.parquet").columns) > 2
    again = blindrec(*here(name, tmp_path / "out" / "scenario.json", "--repeat", 2)).result
    assert list(differences(kept(first), again)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_a_file_runs_again_from_elsewhere(
    name: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=25, items=60, each=50))
    few = {"two-tier": ("--public", 15, "--private", 8, "--holdout", 1, "--rank", 2, "--iterations", 2)}.get(name, ())
    first = blindrec(*here(name, "--ratings", ratings.name, *few, "--out", tmp_path / "out")).result
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = blindrec(*here(name, tmp_path / "out" / "scenario.json")).result
    if name == "run":  # the folder's scenario names rated, so that it is declared now
        assert (first.pop("from_the_file"), again.pop("from_the_file")) == ("items, rated", "items")
    assert list(differences(kept(first), again)) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_a_scenario_does_not_have_is_refused_by_name(name: str, blindrec: Command, tmp_path: Path) -> None:
    for content in ('{"item": 3}', "[1]", "{"):
        (tmp_path / "scenario.json").write_text(content, encoding="utf-8")
        told = refused(blindrec, *here(name, tmp_path / "scenario.json"))
        assert "scenario.json" in told or "'item' is unknown" in told


@pytest.mark.parametrize("name", NAMES)
def test_the_table_has_a_line_for_every_column_that_has_words(name: str, blindrec: Command) -> None:
    arguments = (name, *flags(name), "--backend", "inprocess")
    told, result = blindrec(*arguments).out, blindrec(*arguments, "--json", "-").result
    shown = [column for column in EXPERIMENTS[name].columns if column.shown(result)]
    assert len(shown) > 10
    flat = " ".join(told.replace("│", " ").split())
    for column in shown:
        assert column.label.split()[0] in flat
    assert max(map(len, told.splitlines())) <= 100


def test_cohorts_of_one_size_cannot_be_chosen(blindrec: Command) -> None:
    assert blindrec("two-tier", *flags("two-tier"), "--devices-per-actor", 3).code == 2
