"""Watching a run's folder: what it says while the run goes on, when it was killed and when it is over."""

import json
import math
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from messages import SEED, secrets
from rich.console import Console
from runs import Command, present, refused

from coordinator.protocol.errors import InputError
from coordinator.server.rounds.state import RunProgress
from scenarios.commands import job_commands
from scenarios.experiment import progress
from scenarios.experiment.progress import SNAPSHOT_PREFIX, ProgressSnapshot, read_snapshot, split_snapshot
from scenarios.log import duration, strict
from scenarios.store.manifest import FOLDER, PROGRESS, read_manifest
from scenarios.studies.study import Study, counted

RUN = ["run", "--items", "12", "--rated", "4", "--users", "600", "--design", "sign", "--policy", "fixed"]
RUN += ["--rounds", "3", "--answers-per-device", "3", "--epsilon", "3", "--seed", str(SEED)]
RUN += ["--backend", "inprocess", "--workers", "1"]
FIELDS = {
    "time", "level", "event", "command", "version", "kind", "run", "repeat", "repeats", "backend", "unit", "count",
    "total", "rounds", "planned", "answers", "refused", "epsilon", "undecided", "seconds", "rate", "left", "exit_code",
    "told",
}  # fmt: skip
"""All that a structured log may hold: none of it tells a rating, a secret or a class."""
STANDING = ProgressSnapshot(kind="run", run="ab" * 16, count=5, total=9, rounds=1, epsilon=math.inf, undecided=3)


@pytest.fixture
def killed(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a run that told of each of its rounds, and was interrupted when two were over."""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    tell = progress.SeedProgress.report

    def twice(course: progress.SeedProgress, tally: RunProgress) -> None:
        tell(course, tally)
        if tally.rounds == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(progress.SeedProgress, "report", twice)
        assert blindrec(*RUN, "--out", tmp_path / "out").code == 3
    return tmp_path / "out"


def change(out: Path, **values: object) -> None:
    """Let a folder tell something else."""
    path = out / FOLDER / PROGRESS
    path.write_text(strict({**json.loads(path.read_text()), **values}))


def test_a_run_that_goes_on(killed: Path, blindrec: Command) -> None:
    """This process is the one that told, and lives."""
    before = {path: path.stat().st_mtime_ns for path in killed.rglob("*")}
    found, mark = job_commands.read_status(killed), read_manifest(killed)
    assert (found.state, found.resume_hint, mark is not None) == ("running", "", True)
    assert found.snapshot
    assert (found.snapshot.rounds, found.snapshot.planned, found.snapshot.answers) == (2, 3, 1200)
    assert (found.snapshot.count, found.snapshot.total, found.snapshot.epsilon) == (1200, 1800, 2.0)
    assert mark
    assert found.snapshot.run == mark.run
    rows = dict(line.split("  ", 1) for line in blindrec("status", killed).out.splitlines())
    assert (rows["rounds"].strip(), rows["answers"].strip()) == ("2 of 3 over", "1,200 of 1,800")
    assert rows["kept"].strip() == "1,200 in rounds that are over"
    assert {path: path.stat().st_mtime_ns for path in killed.rglob("*")} == before


@pytest.mark.parametrize("change_", [{"pid": 2**22 + 5}, {"born": 5.0}, {"host": "elsewhere", "at": 5.0}])
def test_a_run_that_was_killed_says_how_to_go_on(killed: Path, change_: dict[str, object], blindrec: Command) -> None:
    change(killed, **change_)
    said = blindrec("watch", killed)
    kept = f"2 rounds are kept in {killed}, the same command or blindrec resume {killed} goes on"
    assert (said.code, said.out) == (3, f"interrupted: {kept}\n")
    assert said.err.startswith("blindrec: the run was killed or interrupted; 2 rounds are kept in")


def test_a_run_on_another_machine_is_known_by_what_it_told_lately(killed: Path) -> None:
    standing = present(job_commands.read_status(killed).snapshot)
    change(killed, host="elsewhere", at=standing.at)
    assert job_commands.read_status(killed).state == "running"


def test_a_run_that_is_over(killed: Path, blindrec: Command) -> None:
    assert blindrec(*RUN, "--out", killed).code == 0
    assert not (killed / FOLDER).exists()
    said = blindrec("watch", killed)
    assert (said.code, said.out) == (0, f"over: {killed / 'result.json'}\n")
    assert "over" in blindrec("status", killed).out


def test_what_is_no_folder_of_a_run(tmp_path: Path, blindrec: Command) -> None:
    assert refused(blindrec, "watch", tmp_path).startswith(f"{tmp_path} holds no run; name the --out of one that has")
    nowhere = tmp_path / "no"
    assert refused(blindrec, "watch", nowhere).startswith(f"there is no folder {nowhere}; name the --out")
    assert "is a folder of this machine" in refused(blindrec, "status", tmp_path, "--follow")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": 3}', '{"kind": "run", "run": "", "count": -1}'])
def test_a_damaged_file_is_named(killed: Path, text: str, blindrec: Command) -> None:
    (killed / FOLDER / PROGRESS).write_text(text)
    assert f"{killed / FOLDER / PROGRESS} cannot be read" in refused(blindrec, "status", killed)


def test_a_standing_that_is_written_is_read() -> None:
    assert read_snapshot(json.loads(strict({"kind": "run", "run": "", "epsilon": math.inf}))).epsilon == math.inf
    line = f"{SNAPSHOT_PREFIX} {strict({**{name: getattr(STANDING, name) for name in ProgressSnapshot.__slots__}})}"
    assert split_snapshot(f"half a line {line}") == ("half a line ", STANDING)
    assert split_snapshot(line[:-3]) == (line[:-3], None)
    words = "run: 1 rounds over, 5 of at most 9 devices, 0.00 a second, 3 items undecided, time left unknown"
    assert STANDING.line() == words
    assert not [name for name in ProgressSnapshot.__slots__ if "seed" in name]


def test_time_left_follows_from_the_rate_and_what_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 10.0, 20.0])
    monkeypatch.setattr("scenarios.experiment.progress.time.monotonic", lambda: next(clock))
    told: list[ProgressSnapshot] = []
    of = progress.ProgressReporter(kind="run", run="", console=None)  # type: ignore[arg-type] # nothing is printed
    monkeypatch.setattr(progress.ProgressReporter, "report", lambda *_, **__: told.append(_[2]))
    course = progress.SeedProgress(of, 1000, "devices")
    for count, planned in ((600, 1), (700, 1), (800, None)):
        course.report(RunProgress(count=count, planned=planned, rounds=count))
    assert [(one.rate, one.left) for one in told] == [(0.0, None), (10.0, 30.0), (10.0, None)]
    assert duration(30.0) == "30 s"


def test_rounds_that_a_resume_reads_from_its_folder_are_not_done_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 devices 600 answered before; ten a second answer now, which leaves 30 s after ten of them."""
    clock = iter([0.0, 0.1, 0.2, 0.3, 10.3])
    monkeypatch.setattr("scenarios.experiment.progress.time.monotonic", lambda: next(clock))
    told: list[ProgressSnapshot] = []
    of = progress.ProgressReporter(kind="run", run="", console=None)  # type: ignore[arg-type] # nothing is printed
    monkeypatch.setattr(progress.ProgressReporter, "report", lambda *_, **__: told.append(_[2]))
    course = progress.SeedProgress(of, 1000, "devices")
    for count, restored in ((300, 0), (600, 300), (600, 600), (700, 600)):
        course.report(RunProgress(count=count, restored=restored, planned=10, rounds=count // 100))
    assert (told[-1].rate, told[-1].left) == (10.0, 30.0)


class Lasting(NamedTuple):
    """A unit that takes so many seconds."""

    long: int
    seed: int


# Of a kind that takes 10 s, and of one that takes 1 s
UNEVEN = [Lasting(long, seed) for seed in range(4) for long in (10, 1)]


def lines_of(
    done: int, times: Sequence[float], monkeypatch: pytest.MonkeyPatch, *, wait: float = 0.0
) -> tuple[list[str], list[Any]]:
    """The lines, and the snapshots, of a sweep of which so many units are done, and others end at these times.

    ``wait``: What the first says that it took longer [s], until it had its files.
    """
    now = [0.0]
    monkeypatch.setattr("scenarios.experiment.progress.time.monotonic", lambda: now[0])
    told: list[ProgressSnapshot] = []
    sheet = StringIO()
    of = progress.ProgressReporter(kind="sweep", run="", console=Console(file=sheet, width=100))
    monkeypatch.setattr(progress.ProgressReporter, "report", lambda *_, **__: told.append(_[2]))
    study: Study[Lasting, Any] = Study(content={}, key=Lasting, units=dict, result=lambda _: {}, show=print)
    stored = {key: {"seconds": float(key.long)} for key in UNEVEN[:done]}
    with counted(of, study, stored, UNEVEN[done:], before=done) as over:
        for now[0], key in zip(times, UNEVEN[done:], strict=False):
            over(key, {"seconds": key.long + (wait if now[0] == times[0] else 0.0)})
    return sheet.getvalue().splitlines(), told


def test_a_sweep_tells_nothing_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its units are whole experiments: no answers and no epsilon of a device, rather than none spent."""
    _, told = lines_of(0, [10.0], monkeypatch)
    assert {*told[0].rows()}.isdisjoint({"answers", "refused", "epsilon spent"})
    assert told[0].rows()["units"] == "1 of 8"
    assert told[0].line().count("1 of 8") == 1


def test_time_left_of_a_sweep_knows_how_long_units_of_each_kind_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of those that are done would say 19 s in the end. Nothing is said after too few."""
    lines, told = lines_of(0, [10.0, 11.0, 21.0, 22.0, 32.0], monkeypatch)
    assert [one.left for one in told] == [None, None, None, None, 12.0]
    assert lines == ["1 of 8 units done", "3 of 8 units done", "5 of 8 units done, about 12 s left"]


def test_units_of_before_a_resume_are_not_done_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what passed before the first began, 20 s until all processes had started, a part of each unit's time."""
    lines, told = lines_of(4, [30.0, 31.0], monkeypatch, wait=15.0)
    assert lines[0] == "4 of 8 units were done before; going on"
    assert [one.left for one in told] == [12.0, 11.0]
    assert lines[1] == "5 of 8 units done, about 12 s left"


def test_watching_that_is_interrupted_says_that_the_run_goes_on(
    killed: Path, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scenarios.commands.job_commands.time.sleep", interrupted)
    said = blindrec("watch", killed)
    line = f"interrupted here, the run in {killed} goes on; the same command watches it again"
    assert (said.code, said.err) == (130, f"blindrec: {line}\n")


def test_a_folder_that_is_not_there_is_no_job() -> None:
    for name in ("./missing", "runs/missing", "missing/"):
        with pytest.raises(InputError, match="there is no folder"):
            job_commands.is_folder(name)
    assert not job_commands.is_folder("raysubmit_1")


def test_the_structured_log_is_json_and_tells_nothing_private(blindrec: Command, tmp_path: Path) -> None:
    said = blindrec(*RUN, "--verbose", "--json", "-", "--out", tmp_path / "out")
    events = [json.loads(line, parse_constant=pytest.fail) for line in said.err.splitlines()]
    assert [one["event"] for one in events] == ["began", "started", "round", "round", "round", "over", "ended"]
    assert set().union(*events) <= FIELDS
    assert [one["rounds"] for one in events[2:6]] == [1, 2, 3, 3]
    assert len({one["run"] for one in events[1:6]}) == 1
    assert events[5]["answers"] == said.result["answered"] == 1800
    assert events[-1]["exit_code"] == 0
    assert not [secret for secret in secrets(SEED) if secret in said.err.encode()]
    assert blindrec("bounds", "--items", 9, "--rated", 1).err == ""  # the next command is silent again


def test_errors_of_a_verbose_command_are_events(blindrec: Command, tmp_path: Path) -> None:
    said = blindrec("data", tmp_path / "missing.csv", "--verbose")
    events = [json.loads(line) for line in said.err.splitlines()]
    levels = {"began": "info", "said": "warning", "ended": "info"}
    assert [(one["event"], one["level"]) for one in events] == [*levels.items()]
    assert (said.code, events[-1]["exit_code"]) == (2, 2)
    assert "missing.csv" in events[1]["told"]
