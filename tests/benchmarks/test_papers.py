"""The page of the papers' statements is made from its JSON, whose commands and tests exist and whose figures hold."""

import json
import shlex
from pathlib import Path

import pytest

from benchmarks import papers
from benchmarks.pages import ROOT
from benchmarks.pages import STATEMENTS as PAGE
from scenarios.cli import command_line
from scenarios.cluster.job_request import parsed

RECORD = papers.recorded()
ROWS = list(papers.statements(RECORD))
QUICK = ("blindrec bounds", "blindrec online", "blindrec adversary claim-1", "blindrec two-tier --planted 600")


def test_the_page_and_the_json_are_as_the_command_writes_them() -> None:
    assert (ROOT / papers.DATA).read_text(encoding="utf-8") == papers.text(RECORD)
    assert (ROOT / PAGE).read_text(encoding="utf-8") == papers.page(RECORD)


def test_every_statement_has_a_command_a_test_or_a_reason() -> None:
    assert len(ROWS) == 103
    for row in ROWS:
        assert len({"command", "test", "why"} & set(row)) == 1, row["no"]
        assert row["holds"] in papers.VERDICTS, row["no"]
        assert (row["holds"] == "") == ("why" in row), row["no"]
        assert "why" in row or row["measured"], row["no"]
        assert "command" not in row or row["ran"], row["no"]
        if "test" in row:
            file, _, name = row["test"].partition("::")
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), row["no"]
        if "command" in row and row["command"].startswith("blindrec "):
            parsed(command_line(), shlex.split(row["command"])[1:])


@pytest.mark.few(4)
@pytest.mark.parametrize("no", [row["no"] for row in ROWS if row.get("command", "").startswith(QUICK)])
def test_figures_of_quick_commands_are_those_that_they_measure(no: str) -> None:
    (row,) = (one for one in ROWS if one["no"] == no and one.get("command", "").startswith(QUICK))
    assert papers.measured(row) == row["measured"]


def test_the_constant_of_theorem_16_has_the_units_of_the_theorem(tmp_path: Path) -> None:
    """``c N^2 ln N / (eps delta_min^2 w)`` users at N = 100, eps 2, w 20, delta_min .4852: 4,890 c."""
    row = {"criterion": "exact", "decoder": "paper", "items": 100, "epsilon": 2.0, "rated": 20}
    row |= {"users": 4890.4 / 2, "low": 4890.4 / 4, "high": 4890.4}
    for grid in ("pairwise-rich", "multi-maxsense-items"):
        (tmp_path / grid).mkdir()
        (tmp_path / grid / "result.json").write_text(json.dumps({"settings": [row]}))
    eight, sixteen = papers.constants(tmp_path)
    assert [sixteen[name] for name in ("users", "low", "high")] == pytest.approx([0.5, 0.25, 1], abs=1e-3)
    assert eight["users"] == pytest.approx(4890.4 / 2 / 460.517, rel=1e-3)
