"""What a job's log brings: whole, among lines of others, or not at all; how it is followed, and the ends of jobs."""

import io
import random
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.job_submission import JobStatus

from coordinator.protocol.errors import InputError
from scenarios.cluster import job_log
from scenarios.cluster.job_log import RESULT_PREFIX, packed_folder, result_in, result_line, show_lines, unpack
from scenarios.experiment.progress import SNAPSHOT_PREFIX

LARGE = random.Random(0).randbytes(1_000_000)  # A megabyte that cannot be compressed


@pytest.mark.parametrize("content", [b"", b"{}", "é\n".encode() * 9, LARGE], ids=["empty", "small", "text", "large"])
def test_a_result_arrives_as_it_was(content: bytes) -> None:
    assert result_in(f"begun\nhalf a line {result_line(content)}\nover") == content
    assert result_in(f"{result_line(LARGE)}\nmore\n{result_line(content)}") == content, "the last of two counts"


@pytest.mark.parametrize(
    "log", ["", "nothing", f"{RESULT_PREFIX} is what marks results", f"{RESULT_PREFIX} {'0' * 64}"]
)
def test_a_log_without_a_result(log: str) -> None:
    assert result_in(log) is None


def test_what_is_lost_or_changed_is_noticed() -> None:
    line = result_line(b"some result")
    changed = line[:-8] + ("A" if line[-8] != "A" else "B") + line[-7:]
    for damaged in (changed, line[:-4], line[:-5], f"{line[:-8]}\n{line[-8:]}"):
        with pytest.raises(job_log.DamagedError, match="its digest is another one"):
            result_in(f"begun\n{damaged}\n")


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


def test_a_folder_arrives_as_it_was(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpack(result_in(result_line(packed_folder(folder))) or b"", tmp_path / "here") == (2, 200_002)
    for name in ("result.json", "rounds/seed-0/000000.npz"):
        assert (tmp_path / "here" / name).read_bytes() == (folder / name).read_bytes()
    assert len([path for path in (tmp_path / "here").rglob("*") if path.is_file()]) == 2
    monkeypatch.setattr(job_log, "MOST_SENT", 200_001)
    with pytest.raises(InputError, match="200,002 bytes, more than the 200,001 that a job's log brings; copy it by"):
        packed_folder(folder)


def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as held:
        held.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpack(archive.getvalue(), tmp_path / "here")
    assert not (tmp_path / "outside").exists()


LINES = ["begun", "", "seed 0: 5 of 9 devices answered", f"half {result_line(LARGE)}", f'{SNAPSHOT_PREFIX} {{"a": 1}}']
LOG = "\n".join([*LINES, "last, without an end"])
SHOWN = f"begun\n\nseed 0: 5 of 9 devices answered\nhalf \n{LINES[-1]}\nlast, without an end\n"


class Job:
    """A job whose log grows from look to look to these lengths; None is a look at which the head is silent."""

    def __init__(self, *lengths: int | None) -> None:
        self.lengths = list(lengths)

    def details(self, _: str) -> Any:
        if self.lengths and self.lengths[0] is None:
            self.lengths.pop(0)
            raise job_log.SilentHeadError("gone")
        return SimpleNamespace(status=JobStatus.RUNNING if self.lengths else JobStatus.SUCCEEDED)

    def log(self, _: str) -> str:
        return LOG[: self.lengths.pop(0)] if self.lengths else LOG


def shown_of(*lengths: int | None) -> str:
    """What is shown of a job."""
    shown: list[str] = []
    _, log = job_log.follow(Job(*lengths), "job1", lambda text: show_lines(text, shown.append))
    assert (log, result_in(log)) == (LOG, LARGE)
    return "".join(shown)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "PAUSE", 0.0)


def test_every_line_is_shown_once() -> None:
    """Wherever it is cut, and although the head is silent now and then."""
    assert shown_of() == SHOWN
    assert shown_of(*range(0, 60, 7), *range(60, len(LOG), 40_000), len(LOG)) == SHOWN
    assert shown_of(3, None, None, 40, None, len(LOG) - 3) == SHOWN


def test_a_log_that_cannot_be_had_is_given_up() -> None:
    with pytest.raises(job_log.SilentHeadError, match="gone"):
        shown_of(5, *[None] * job_log.TRIES)


@pytest.mark.parametrize(
    ("status", "code", "message", "wanted", "line"),
    [
        ("STOPPED", None, None, 3, "job j was stopped; submitted again it begins anew, for want of an --out"),
        ("FAILED", 7, "what the log said", 7, "job j failed with exit code 7"),
        ("FAILED", 1, "..\nNo module named 'x'", 1, "job j failed with exit code 1; its head needs blindrec's dep"),
        ("FAILED", 127, "python: not found", 127, "job j failed with exit code 127; its head needs blindrec's dep"),
        ("FAILED", -9, "", 137, "job j failed with exit code -9"),
        ("FAILED", None, "runtime_env failed\ntrace", 1, "job j failed before it began (runtime_env failed)"),
    ],
)
def test_ends_in_one_line(status: str, code: int | None, message: str | None, wanted: int, line: str) -> None:
    ended = SimpleNamespace(status=JobStatus(status), driver_exit_code=code, message=message, metadata=None)
    said = job_log.ending(ended, "j")
    assert job_log.exit_code(ended) == wanted
    assert said.startswith(line)
    assert "\n" not in said


def test_what_a_stopped_job_kept_is_told() -> None:
    ended = SimpleNamespace(status=JobStatus.STOPPED, driver_exit_code=None, message="", metadata={"out": "/data/a"})
    assert job_log.ending(ended, "j") == "job j was stopped; submitted again it goes on from what is kept in /data/a"
    assert job_log.exit_code(SimpleNamespace(status=JobStatus.SUCCEEDED, driver_exit_code=0)) == 0
