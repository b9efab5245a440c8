"""Where one number is expected, it is read as people write it."""

from __future__ import annotations

import pytest
from runs import Command

RUN = ("run", "--items", 20, "--rated", 5, "--backend", "inprocess", "--json", "-", "--seed", 7)


@pytest.mark.parametrize("written", ["2e3", "2E+3", "2,000", "2.0e3", "+2000"])
def test_a_whole_number_is_the_same_however_it_is_written(written: str, blindrec: Command) -> None:
    assert blindrec(*RUN, "--users", written).result["users"] == 2000


def test_a_number_with_a_part_behind_the_point_keeps_it(blindrec: Command) -> None:
    told = blindrec(*RUN, "--users", 100, "--deadline", "1,000.5", "--straggler-delay", "1e1")
    assert (told.result["deadline"], told.result["straggler_delay"]) == (1000.5, 10.0)


def test_lists_are_not_taken_for_numbers(blindrec: Command) -> None:
    told = blindrec("sweep", "adaptive", "--items", "100,300", "--seeds", 0, "--out", "never", "--backend", "inprocess")
    assert told.err.strip() == "blindrec: seeds is 0: input should be greater than or equal to 1"


def test_the_version_is_told(blindrec: Command) -> None:
    assert blindrec("--version").out.startswith("blindrec 0.")


def test_a_shell_can_complete_commands(blindrec: Command) -> None:
    assert "--install-completion" in blindrec("--help").out
