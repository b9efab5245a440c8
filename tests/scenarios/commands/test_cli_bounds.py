"""`blindrec bounds`: what it prints, and what it refuses."""

from __future__ import annotations

import json

import pytest

from scenarios.cli import main


def test_the_bound_that_binds_is_the_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bounds", "--items", "1000", "--rated", "30", "--epsilon", "1", "--json", "-"])
    assert not ended.value.code
    rows = json.loads(capsys.readouterr().out)["bounds"]
    assert [row["name"] for row in rows if row["binds"]] == ["capacity"]
    assert {"name", "users", "valid"} <= rows[0].keys()
    assert round(next(row["users"] for row in rows if row["binds"])) == 2802


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "needs to fail with probability 0.5 at most"),
        (["--failure", "0.05"], "needs to fail with probability 0.05 at most"),
        (["--mistakes", "3"], "needs to have more than 3 items wrong with probability 0.5 at most"),
    ],
)
def test_at_which_failure_bounds_hold_is_told(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bounds", "--items", "1000", "--rated", "30", *flags])
    assert words in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("change", [["--items", "1"], ["--epsilon", "0"], ["--failure", "2"], ["--clusters", "1"]])
def test_bad_input_is_one_line(change: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bounds", "--items", "1000", "--rated", "30", *change])
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
