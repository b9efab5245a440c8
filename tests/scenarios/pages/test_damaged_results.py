"""Results that somebody has changed or damaged: a page, or one line that names the place; never a trace."""

import copy
import json
import random
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evidence import sample, size
from runs import AUDIT, GOLDEN, LEAK

from coordinator.protocol.errors import InputError
from scenarios.pages.page import report_of
from scenarios.pages.subject import family_of, faults, read_subject

GONE = object()
DAMAGES: tuple[Any, ...] = (
    10**400, -(10**400), "\ud800", "words", "$x^{$", "", None, [], {}, True, 0, -1, 1e308, -1e308, 1e-308, 1e99, "inf",
    "x" * 3000, [1], {"a": 1}, GONE, "\x1b[31m", "1e5", 2**62, [[[]]], "_x", "a\nb", 1e18,
)  # fmt: skip
DRAWN, READ = size(120, 5), size(4000, 200)
"""Damages whose page is made, and those that are read only; of some 180,000."""


@cache
def results() -> dict[str, dict[str, Any]]:
    """Records of every family by their names."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found = {name: case["result"] for name, case in golden.items() if isinstance(case.get("result"), dict)}
    found |= {"audit": AUDIT, "audits": {"held": False, "audits": [AUDIT, {**LEAK, "exact": "inf"}]}}
    return {name: record for name, record in found.items() if _has_family(record)}


def _has_family(record: dict[str, Any]) -> bool:
    try:
        return bool(family_of(record, "a"))
    except InputError:
        return False


def places(value: Any, *before: str | int) -> Iterator[tuple[str | int, ...]]:
    """The places of all leaves and of what holds them; of a list's values the first alone."""
    if before:
        yield before
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, *before, key)


def damaged(record: dict[str, Any], place: tuple[str | int, ...], damage: Any) -> dict[str, Any]:
    """A record that is another one in one place."""
    changed: Any = copy.deepcopy(record)
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    if damage is GONE:
        del holder[place[-1]]
    else:
        holder[place[-1]] = damage
    whole: dict[str, Any] = changed
    return whole


def damages(seed: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """So many damaged records, as many of each family, with what was done to them."""
    draw, every = random.Random(seed), results()
    families: dict[str, list[str]] = {}
    for name, record in every.items():
        family = family_of(record, "a")
        families.setdefault(name if family == "sweep" else family, []).append(name)
    for number in range(count):
        name = draw.choice(families[sorted(families)[number % len(families)]])
        place, damage = draw.choice(list(places(every[name]))), draw.choice(DAMAGES)
        yield f"{name} {place} {str(damage)[:20]!r}", damaged(every[name], place, damage)


def fault(path: Path, make: Any) -> str:
    """What is wrong with how a damaged result is received; nothing if it makes a page, or one line."""
    try:
        make(path)
    except InputError as error:
        line = str(error)
        return "" if "\n" not in line and str(path) in line and len(line) < 1200 else f"says {line[:300]!r}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""


@pytest.mark.parametrize(
    ("count", "make"), [(READ, lambda path: read_subject(path, 1)), (DRAWN, lambda path: report_of([path]))],
    ids=["read", "drawn"],
)  # fmt: skip
def test_whatever_is_damaged_no_trace_leaves(count: int, make: Any, tmp_path: Path) -> None:
    path, wrong = tmp_path / "a.json", list[str]()
    for number, (what, record) in enumerate(damages(count, count)):
        path.write_text(json.dumps(record), encoding="utf-8")
        if told := fault(path, make):
            wrong.append(f"{number} {what}: {told}")
    assert not wrong, "\n".join(wrong)


def test_every_result_of_ours_is_possible() -> None:
    every = results()
    assert len(every) > 100
    for name, record in every.items():
        assert [*faults(record)] == [], name


@pytest.mark.parametrize(
    ("name", "place", "damage", "words"),
    [
        ("plan", ("designs", 0, "users"), "many", "has 'many' at '/designs/0/users', where a number from 0 must"),
        ("plan", ("bounds", 0, "name"), "\x1b[31m", "at '/bounds/0/name', where at most 4000 letters, all printable,"),
        ("data", ("ratings_per_user", "max"), 1e308, "has 1e+308 at '/ratings_per_user/max', where a number up to"),
        ("plan", ("designs", 0, "users"), GONE, 'cannot be shown, for a value is none of such a result ("KeyError'),
        ("maxsense", ("epsilon",), -1, "has -1 at '/epsilon', where a number from 0"),
        ("maxsense", ("users",), 10**400, "holds at '/users' a number beyond 64 bits"),
        ("maxsense", ("policy",), "\ud800", "holds at '/policy' half of a surrogate pair"),
    ],
)
def test_lines_name_the_place(name: str, place: tuple[str | int, ...], damage: Any, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(damaged(results()[name], place, damage)), encoding="utf-8")
    with pytest.raises(InputError, match=r".") as caught:
        report_of([tmp_path / "a.json"])
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["epsilon", "users", "most"])
def test_numbers_of_people_that_no_picture_holds_are_one_line(name: str, tmp_path: Path) -> None:
    path, record = tmp_path / "a.json", {**results()["compare, ladder, by"]}
    for key in ("rows", "people", "who_pays"):  # the golden file has their columns
        columns = record[key]
        record[key] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for row in range(4):
        path.write_text(json.dumps(damaged(record, ("people", row, name), 1e308)), encoding="utf-8")
        assert not fault(path, lambda path: report_of([path]))


def test_damaged_tables_are_one_line(subjects: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(subjects[0], out)
    items = next(out.glob("items.*"))
    whole, table = items.read_bytes(), pd.read_parquet(items) if items.suffix == ".parquet" else pd.read_csv(items)
    wrong = [whole[:-9], b"", b"\0" * 100, whole[:50] + b"x" + whole[51:]]
    for change in (table.drop(columns="score"), table.assign(score="words"), table.assign(score=1e308)):
        target = tmp_path / f"b{items.suffix}"
        change.to_parquet(target) if items.suffix == ".parquet" else change.to_csv(target, index=False)
        wrong.append(target.read_bytes())
    for content in sample(wrong, 3):
        items.write_bytes(content)
        assert not fault(out, lambda path: report_of([path]))
