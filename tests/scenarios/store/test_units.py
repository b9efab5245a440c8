"""A sweep's store, and commands of all kinds: any operation on files may fail or be the last, and they end alike."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faults import Disk
from rich.console import Console
from runs import Command, lines_of_units, present, refused, small, squares_of, tree
from runs import claim as claim_run

from coordinator.protocol.errors import BlindrecError, InputError
from scenarios.backends.selection import InProcess
from scenarios.config.signals import RESUMABLE, ending, resumable
from scenarios.store.manifest import FOLDER, MANIFEST, read_manifest
from scenarios.store.record_log import RUN_FILE, count_records
from scenarios.store.whole_files import locked_folder
from scenarios.studies.study import claim, measure_units

CONTENT = {"base": {"items": 3}, "shares": (0.5, 0.25)}
SQUARES = {unit: unit * unit for unit in range(6)}
HERE = ["--backend", "inprocess"]


def swept(out: Path, units: int = len(SQUARES), content: dict[str, Any] = CONTENT) -> list[int]:
    """Measure squares, as a sweep does; return those units that were measured now."""
    measured: list[int] = []

    def measure(unit: int) -> int:
        measured.append(unit)
        return unit * unit

    with locked_folder(out), resumable(lambda: f"{count_records(out)} are kept" if count_records(out) else None):
        claim(out, content)
        squares = squares_of(range(units), measure, content)
        found = measure_units(squares, InProcess(1), out, Console(quiet=True))
    assert squares.result(found) == {"squares": [unit * unit for unit in range(units)]}
    return measured


def one_fails(out: Path, disk: Disk) -> None:
    """A sweep ends with a line that tells the system's reason, and what is kept."""
    try:
        swept(out)
    except BlindrecError as error:
        line, code = ending(error) or ("", 0)
        assert code == RESUMABLE
        assert os.strerror(disk.number) in line
        known = "cannot be made" not in line  # the folder, before anybody looked into it
        assert f"{count_records(out)} are kept" in line or not (known and count_records(out))
    else:
        assert disk.at == len(disk.done), "it came to its end, and nothing had failed"


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("before", [0, 3])
def test_any_operation_may_fail_and_the_same_sweep_goes_on(
    before: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, in a new sweep and in one that goes on. No unit that was kept before is measured again."""
    swept(tmp_path / "before", before)
    disk = Disk()
    while disk.at < len(disk.done):
        out, disk = tmp_path / str(disk.at + 1), Disk(disk.at + 1, number)
        if before:
            shutil.copytree(tmp_path / "before", out)
        with monkeypatch.context() as patch:
            disk.instead_of_the_system(patch)
            one_fails(out, disk)
        kept_then = count_records(out)
        again = swept(out)
        assert again == list(range(len(SQUARES) - len(again), len(SQUARES)))
        assert len(again) <= len(SQUARES) - kept_then
        assert not swept(out)
    new = set() if before else {"open", "write", "mkdir", "replace"}
    assert set(disk.done) == {"fsync", "commit"} | new
    assert disk.at > (5 if before else 15)


def test_more_units_go_on_and_fewer_are_there(tmp_path: Path) -> None:
    assert swept(tmp_path, 4) == [0, 1, 2, 3]
    assert swept(tmp_path, 7) == [4, 5, 6]
    assert swept(tmp_path, 2) == []
    assert count_records(tmp_path) == 7


def test_a_changed_unit_is_told_and_a_file_that_is_removed_is_measured_again(tmp_path: Path) -> None:
    swept(tmp_path)
    file = tmp_path / FOLDER / RUN_FILE.name
    good = file.read_bytes()
    file.write_bytes(good.replace(b'"found": 16', b'"found": 17'))
    with pytest.raises(InputError, match=r"^file of records .* is damaged in row 4 of table .units., .* or remove it"):
        swept(tmp_path)
    file.unlink()
    assert swept(tmp_path) == list(range(len(SQUARES)))


@pytest.mark.parametrize("content", [CONTENT, {"base": {"items": 4}}])
def test_units_of_another_sweep_are_refused(content: dict[str, Any], tmp_path: Path) -> None:
    """Even of another one of the same settings: a folder is one sweep."""
    swept(tmp_path / "mine", 3)
    swept(tmp_path / "other", 5, content)
    shutil.copy(tmp_path / "other" / FOLDER / RUN_FILE.name, tmp_path / "mine" / FOLDER)
    with pytest.raises(
        InputError, match=r"says that it is of .*; its folder is that of .*: move it to where it belongs"
    ):
        swept(tmp_path / "mine")


def test_units_are_those_of_the_settings_that_stand_in_the_mark(tmp_path: Path) -> None:
    """Even where its digest was made anew."""
    swept(tmp_path)
    mark = present(read_manifest(tmp_path))
    assert (mark.kind, mark.scenario) == ("sweep", {"base": {"items": 3}, "shares": [0.5, 0.25]})
    other = {"base": {"items": 4}}
    replace(mark, scenario=other).write(tmp_path)
    with pytest.raises(InputError, match="is damaged in row 0"):
        swept(tmp_path, content=other)


def test_a_folder_of_another_sweep_or_of_a_run_is_refused(tmp_path: Path) -> None:
    swept(tmp_path / "sweep")
    before = tree(tmp_path / "sweep")
    with pytest.raises(InputError, match="holds part of another sweep; name a new one, or the same settings"):
        swept(tmp_path / "sweep", content={"base": {"items": 4}})
    with pytest.raises(InputError, match="holds part of another sweep"):
        claim_run(tmp_path / "sweep", small())
    assert tree(tmp_path / "sweep") == before
    claim_run(tmp_path / "run", small())
    (tmp_path / "run" / "result.json").write_text("{}")
    with pytest.raises(InputError, match="holds part of another run"):
        swept(tmp_path / "run")


@pytest.mark.parametrize("over", [False, True])
def test_resume_leaves_a_sweep_as_it_is(over: bool, blindrec: Command, tmp_path: Path) -> None:
    """It goes on by its own command, and its units stay when all is over: for more seeds."""
    swept(tmp_path)
    if over:
        (tmp_path / "result.json").write_text("{}")
    before = tree(tmp_path)
    assert "holds a sweep, which goes on by its own command" in refused(blindrec, "resume", tmp_path, *HERE)
    assert tree(tmp_path) == before
    assert len(lines_of_units(tmp_path)) == len(SQUARES)
    assert (tmp_path / FOLDER / MANIFEST).exists()
