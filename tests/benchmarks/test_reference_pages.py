"""Pages that the site makes from the code leave nothing out: no command, no mechanism, no key of a result."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.reference_pages import (
    columns,
    columns_page,
    commands_page,
    mechanisms,
    mechanisms_page,
    sections,
)
from coordinator.protocol.second_order import two_tier_mechanisms
from scenarios.cli import command_line
from scenarios.config.mechanism_settings import all_settings, designs
from scenarios.config.scenario import Scenario
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.two_tier.two_tier_scenario import TwoTierScenario
from scenarios.studies.compare.comparison_settings import Comparison

ROOT = Path(__file__).parents[2]
COMMANDS = ("run", "online", "two-tier", "plan", "sweep")


_ENDS = ("low", "high", "error", "least", "mean", "median", "most")  # Of keys that the page of columns explains at once


def settings() -> dict[str, str]:
    """Return what every setting of an experiment or a comparison is, as the command line says it."""
    fields = [kind.model_fields for kind in (Comparison, OnlineScenario, TwoTierScenario)]
    every = {name: field for some in (*fields, all_settings(), Scenario.model_fields) for name, field in some.items()}
    return {name: field.description for name, field in every.items() if field.description}


def unexplained(names: Iterable[str]) -> list[str]:
    """Return the keys of results of which nobody says what they mean."""
    meanings = {name for section in sections().values() for name in section} | {*settings()}
    stems = meanings - {"low", "high"}
    every = meanings | {"low", "high"} | {f"{name}_{end}" for name in stems for end in _ENDS}
    return [name for name in dict.fromkeys(names) if name not in every]


def keys(result: Mapping[str, Any]) -> Iterator[str]:
    """The keys of a result, and of the rows of its tables."""
    for name, value in result.items():
        yield name
        for row in value if isinstance(value, list) else []:
            yield from row if isinstance(row, dict) else ()


def test_every_key_of_a_result_has_a_meaning() -> None:
    golden = json.loads((ROOT / "tests/golden/golden.json").read_text(encoding="utf-8"))
    results = [one["result"] for one in golden.values() if str(one.get("command")).split()[0] in COMMANDS]
    results += json.loads((ROOT / "docs/worth.json").read_text(encoding="utf-8")).values()
    names = {name for result in results for name in keys(result)}
    assert len(names) > 300
    assert unexplained(names | {column.name for column in columns()}) == []


def test_a_key_without_a_meaning_is_missed_and_none_has_two() -> None:
    assert unexplained(["accuracy", "rmse_low", "nobody_says", "nobody_says_low"]) == ["nobody_says", "nobody_says_low"]
    every = [name for section in sections().values() for name in section]
    assert len(every) == len(set(every)) > 200
    assert all(len(words.split()) > 1 for section in sections().values() for words in section.values())
    assert all(f"| `{name}` |" in columns_page() for name in every)


def test_every_mechanism_stands_in_the_table() -> None:
    every = {*designs(), *two_tier_mechanisms()}
    assert set(mechanisms()) == every
    assert all(f"| `{name}` |" in mechanisms_page() for name in every)


def test_every_command_and_flag_stands_on_the_page() -> None:
    page = commands_page()
    for name, command in command_line().commands.items():
        assert f"\n## blindrec {name}\n" in page
        section = page.partition(f"\n## blindrec {name}\n")[2].partition("\n## ")[0]
        for one in getattr(command, "loaded", command).params:
            assert one.opts[0] in section
