"""Tables at 80 columns: no line is longer, nothing is cut off, and every number of a wide table stands there whole."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from runs import Command, planted_ratings, write_movielens

from scenarios.commands import scrutiny_commands as commands
from scenarios.commands.lookup_commands import show_bounds
from scenarios.config.scenario import Scenario
from scenarios.families.online.adversaries import show_rows
from scenarios.show import tables as report
from scenarios.studies.planner import plan_tables as tables
from scenarios.studies.planner.least_users import Candidate, Target
from scenarios.studies.planner.plan import DesignPlan, plan
from scenarios.studies.scrutiny.verdicts import FAILED, HELD, CheckRow, Conformance
from scenarios.theory.bounds import all_bounds, bounds_rows

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
        patch.setattr(
            "scenarios.studies.planner.plan.candidates",
            lambda of, _=None: [Candidate(world=of, settings=s) for s in quick],
        )
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
    row: dict[str, object] = {
        "design": "pairwise",
        "agreement": "rated-equal",
        "rated_items": "private",
        "decoder": "posterior",
    }
    row |= {"accuracy": 0.98765, "holds_for": "a block model of 1,234,567 and 7,654,321 items", "not_for": "no file"}
    tables.show_learnable(console, [row | {"epsilon": one, "users": 852_295_483 * 10**one} for one in (1, 2, 4, 8)])


def checked(console: Console) -> None:
    told = "release 0101010101 of sketch [0, 1, 0, 1] at epsilon 0.1: 0.12345 of 1048576 devices, says 0.23456" * 2
    words = {"meaning": "m", "told": told}
    rows = [
        CheckRow(mechanism="oue:OUE odds=2.0", check=f"check {one}", verdict=one, **words) for one in (HELD, FAILED)
    ]
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


def printed(show: Show, width: int) -> str:
    """What is shown on paper of a width."""
    sheet = io.StringIO()
    show(Console(file=sheet, width=width, color_system=None))
    return sheet.getvalue()


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


@pytest.mark.parametrize(
    "command",
    [
        "plan --items 1000 --rated 30 --epsilon 1 --users 5000000",
        "plan --ratings ratings.csv --accuracy 0.9 --epsilon 4",
        "bounds --items 1000 --rated 30 --epsilon 1 --ours",
        "data ratings.csv",
        "check full-reveal",
        "adversary claim-1 --recommender p-rec-sim,p-rec,p-rec-lean,p-rec-sim",
    ],
)
def test_commands_keep_to_the_columns_of_the_terminal(
    command: str, blindrec: Command, no_pairs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=12, each=5))
    ended = blindrec(*command.split())
    assert (ended.code, ended.err) == (0, "")
    assert 40 < max(map(len, ended.out.splitlines())) <= 80
    assert "…" not in ended.out
