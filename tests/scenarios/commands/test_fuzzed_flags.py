"""Every flag of every command with values that nobody means: one short line, exit code 2, no trace, no hang."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evidence import size
from faults import begin_no_run, fault, ratings_file
from runs import Command

from scenarios.cli import command_line

TEXTS = (
    "-1", "0", "nan", "inf", "-inf", "1e308", "1e-308", "1e400", "1/0", "0x10", "", " ", "½", "\u202e☃", "\udcff",
    "a\0b", "\x1b[31m", "1,", "1;2", "1:2:0", "nan,nan", "9" * 19, "9" * 5000, "x" * 100_000, "../..",
    "/dev/null/x", "--",
)  # fmt: skip
"""Values of flags. Processes cannot be given zero bytes; who calls `scenarios.cli.main` can."""


PLANTED = ["--backend", "inprocess", "--planted", "60,30,900"]
COMMANDS: dict[str, list[str]] = {
    "run": ["--backend", "inprocess", "--items", "20", "--rated", "5", "--users", "100"],
    "run --ratings": ["{ratings}", "--backend", "inprocess"],
    "resume": ["--backend", "inprocess"],
    "demo": ["--backend", "inprocess"],
    "data": [],
    "data {ratings}": [],
    "bounds": ["--items", "100", "--rated", "5"],
    "plan": ["--items", "30", "--rated", "4"],
    "online": ["--backend", "inprocess", "--rounds", "5", "--voters", "16"],
    "adversary slow-halving": [],
    "submit": [],
    "submit run": [],
    "status job": [],
    "stop job": [],
    "two-tier": PLANTED,
    "sweep sample-complexity": ["--backend", "inprocess", "--out", "complexity"],
    "sweep adaptive": ["--backend", "inprocess", "--out", "adaptive"],
    "sweep online": ["--backend", "inprocess", "--out", "online"],
    "sweep two-tier": ["--out", "two-tier", *PLANTED],
}
EACH = size(7, 2)  # Values that every flag is tried with, drawn from all


def flags(words: str) -> list[Any]:
    """The parameters of a command that take a value."""
    node = command_line()
    for word in words.split():
        node = getattr(node, "commands", {}).get(word, node)
    return [one for one in node.loaded.params if not getattr(one, "is_flag", False)]


def calls(words: str, ratings: Path) -> Iterator[list[str]]:
    """Calls with one value each that nobody means."""
    draw = random.Random(words)
    begin = [word.replace("{ratings}", str(ratings)) for word in words.split()]
    base = [word.replace("{ratings}", str(ratings)) for word in COMMANDS[words]]
    for flag in flags(words):
        for value in draw.sample(TEXTS, EACH):
            if flag.param_type_name == "argument":
                yield [*begin, *base, value]
            else:
                yield [*begin, *base, f"{flag.opts[0]}={value}"]


@pytest.mark.few(3)
@pytest.mark.parametrize("words", COMMANDS)
def test_flags_with_values_that_nobody_means(
    words: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_no_run(monkeypatch, tmp_path)
    tried = list(calls(words, ratings_file(tmp_path)))
    assert len(tried) >= EACH
    faults = [told for one in tried if (told := fault(blindrec, one))]
    assert not faults, "\n".join(faults)
