"""A folder in pieces: it arrives as it was, or not at all, and never on top of something else."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest

from coordinator.protocol.errors import InputError
from scenarios.submission import pieces
from scenarios.submission.parcel import DamagedError
from scenarios.submission.pieces import Pieces, send, unpack


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE", 50_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder: a result, a large file, one in a folder; a link, and a file that was half written."""
    out = tmp_path / "out"
    (out / "rounds" / "seed-0").mkdir(parents=True)
    (out / "result.json").write_text("{}")
    (out / "rounds" / "seed-0" / "000000.npz").write_bytes(random.Random(1).randbytes(200_000))
    (out / ".x.blindrec-part").write_text("half")
    (out / "link").symlink_to("/etc/hostname")
    return out


def lines_of(folder: Path) -> list[str]:
    """What a job writes into its log."""
    lines: list[str] = []
    send(folder, lines.append)
    return lines


def taken(lines: list[str]) -> tuple[Pieces, io.BytesIO]:
    """What comes of lines."""
    stream = io.BytesIO()
    found = Pieces(stream)
    for line in lines:
        found.take(line)
    return found, stream


def test_a_folder_arrives_as_it_was(folder: Path, tmp_path: Path) -> None:
    found, stream = taken(["begun", *lines_of(folder), "over"])
    told = found.check()
    assert (told.files, told.size) == (2, 200_002)
    assert told.pieces > 3
    unpack(stream, tmp_path / "here")
    for name in ("result.json", "rounds/seed-0/000000.npz"):
        assert (tmp_path / "here" / name).read_bytes() == (folder / name).read_bytes()
    assert len([path for path in (tmp_path / "here").rglob("*") if path.is_file()]) == 2


def test_lines_that_are_lost_changed_or_swapped_are_noticed(folder: Path) -> None:
    lines = lines_of(folder)
    with pytest.raises(DamagedError, match="did not arrive completely"):
        taken(lines[:-1])[0].check()
    with pytest.raises(DamagedError, match="is missing in the job's log"):
        taken(lines[5:])[0].check()
    changed = lines[0][:-9] + ("A" if lines[0][-9] != "A" else "B") + lines[0][-8:]
    with pytest.raises(DamagedError):
        taken([changed, *lines[1:]])[0].check()


def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as held:
        held.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpack(stream, tmp_path / "here")
    assert not (tmp_path / "outside").exists()
