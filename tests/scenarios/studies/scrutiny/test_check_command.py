"""`blindrec check`: a table and an exit code, and one line where it cannot begin."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import Command, refused
from thoroughness import size

from scenarios.config.mechanism_settings import server_half
from scenarios.studies.scrutiny.checks import CHECKS, check
from scenarios.studies.scrutiny.mechanism import choices, omissions, subjects
from scenarios.studies.scrutiny.verdicts import FAILED, UNCHECKED, Conformance

HALVED = """
from foreign_mechanisms import OUE
from coordinator.protocol.channels import independent_bits


class Halved(OUE):
    one: float = 0.5
    shift: int = 3

    def channel(self, question):
        if self.one < 1:
            return super().channel(question)
        raise ValueError(f"one is {self.one}; give a probability below 1")
"""


@pytest.fixture(autouse=True)
def fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default a sampler draws a fourth as often."""
    monkeypatch.setattr("scenarios.studies.scrutiny.checks.SAMPLED", size(1 << 20, 1 << 18))


@pytest.mark.statistical
def test_a_table_with_a_row_a_check_and_a_choice(blindrec: Command, tmp_path: Path) -> None:
    """False alarm: 2e-6 of two samplers, 1e-5 of a prediction."""
    ended = blindrec("check", "maxsense", "--setting", "theta=2", "--epsilon", "1/2", "--json", tmp_path / "held.json")
    assert (ended.code, ended.err) == (0, "")
    assert "maxsense theta=2 pool=some" in ended.out
    assert "largest 0.5 of 0.5" in ended.out
    assert ended.out.count("held") == 2 * len(CHECKS) - 2
    assert ended.out.strip().endswith("nothing failed")
    assert (tmp_path / "held.json").read_text(encoding="utf-8").count('"held"') == 2 * len(CHECKS) - 1


def test_json_alone_where_it_goes_to_standard_output(blindrec: Command) -> None:
    result = blindrec("check", "full-reveal", "--json", "-").result
    assert result["held"]
    assert [row["check"] for row in result["rows"]] == [one.name for one in CHECKS]
    assert result["rows"][0]["verdict"] == UNCHECKED
    assert result["rows"][0]["told"] == "it is not private: there is no channel, and no query with an epsilon"


def test_the_same_from_python() -> None:
    found = check("curator-items")
    assert found.held
    assert found.frame().columns.tolist() == ["mechanism", "check", "meaning", "verdict", "told"]
    assert repr(found) == "<curator-items: 7 held, 5 not checked>"


def test_a_number_that_twice_is_refused_is_left_out_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halved.py").write_text(HALVED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    labels = [one.label for one in subjects("halved:Halved")]
    assert labels == ["halved:Halved", "halved:Halved shift=6"]
    ((label, reason),) = omissions("halved:Halved")
    assert label == "halved:Halved one=1.0"
    assert "one is 1.0; give a probability below 1" in reason
    monkeypatch.setattr("scenarios.studies.scrutiny.checks.conformance", lambda _: Conformance(()))
    (row,) = check("halved:Halved").rows
    assert (row.mechanism, row.verdict) == ("halved:Halved one=1.0", UNCHECKED)


def test_every_choice_that_can_be_listed_is_made() -> None:
    assert [one.label for one in subjects("sign")] == [
        *(("sign", "sign signs=plain", "sign vectors=2")),
        *(("sign pool=some", "sign signs=plain pool=some", "sign vectors=2 pool=some")),
    ]
    assert {} in choices(server_half("pairwise"))
    assert len(list(choices(server_half("pairwise")))) == 6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nonsense"], ["design is 'nonsense'", "maxsense"]),
        (["maxsense", "--setting", "theta"], ["setting is 'theta'", "name=value"]),
        (["maxsense", "--setting", "theta=-1"], ["theta", "-1"]),
        (["maxsense", "--setting", "vectors=2"], ["vectors is 2", "sign"]),
        (["sign", "--setting", "vectors=3"], ["vectors is 3", "power of two"]),
        (["maxsense", "--epsilon", "inf"], ["epsilon is inf", "finite"]),
        (["maxsense", "--epsilon", "x"], ["epsilon", "x"]),
        (["maxsense", "--json", "/nowhere/at/all"], ["json file /nowhere/at/all cannot be written"]),
    ],
)
def test_what_cannot_be_checked_ends_with_one_line(arguments: list[str], told: list[str], blindrec: Command) -> None:
    line = refused(blindrec, "check", *arguments)
    assert all(part in line for part in told), line


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("LocalHashing", set()),
        ("Crooked", {"sampler", "estimates"}),
        pytest.param("Liar", {"log-ratio", "run's size"}, marks=pytest.mark.thorough),
        pytest.param("Shy", {"log-ratio", "run's size"}, marks=pytest.mark.thorough),
    ],
)
def test_ones_own_is_checked_alike(name: str, failed: set[str], blindrec: Command) -> None:
    """False alarm: 1e-6 of a sampler."""
    ended = blindrec("check", f"foreign_mechanisms:{name}", "--json", "-")
    assert ended.code == (2 if failed else 0)
    found = {row["check"] for row in ended.result["rows"] if row["verdict"] == FAILED}
    assert found >= failed
    assert found == failed or name == "Liar"  # whose questions nobody answers
