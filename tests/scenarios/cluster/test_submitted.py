"""The job's side of a submission, without a cluster: what it refuses, and what it puts into the log."""

import json
import platform
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios import runtime
from scenarios.cluster.job_log import RESULT_PREFIX, SEND, result_in, unpack
from scenarios.experiment.progress import SNAPSHOT_PREFIX as STANDING
from scenarios.job import main

VERSION = runtime()
SMALL = ["run", "--users", "500", "--items", "40", "--rated", "5", "--backend", "inprocess", "--workers", "1"]


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Leave signals as they are: a job has its process to itself."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def run(version: str, words: list[str], log: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    """Exit code, output and errors of a job."""
    with pytest.raises(SystemExit) as ended:
        main(version, words)
    return ended.value.code, *log.readouterr()


@pytest.mark.parametrize("other", ["Python 3.2 with Ray 2.60.0", "Python 3.11 with Ray 2.49.0"])
def test_another_python_or_ray_is_refused(other: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(other, SMALL, capfd)
    assert (code, out) == (2, "")
    assert err == f"blindrec: the cluster runs {VERSION}, the submitting machine {other}; use the same on both\n"
    assert VERSION.startswith(f"Python {'.'.join(platform.python_version_tuple()[:2])} with Ray 2.")


def test_a_folder_is_put_into_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "result.json").write_text("{}")
    code, out, err = run(VERSION, [SEND, str(tmp_path / "out")], capfd)
    assert (code, err) == (0, "")
    assert unpack(result_in(out) or b"", tmp_path / "here") == (1, 2)
    code, out, err = run(VERSION, [SEND, str(tmp_path / "no")], capfd)
    assert (code, out) == (2, "")
    assert err.startswith(f"blindrec: there is no folder {tmp_path / 'no'} on node ")


def test_data_that_is_not_there_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(VERSION, ["run", "--ratings", "/no/such/ratings.csv"], capfd)
    assert (code, out) == (2, "")
    assert err.startswith("blindrec: /no/such/ratings.csv is not on the cluster (node ")
    assert err.endswith("and data is not sent; place the file there, under the same path\n")
    assert run(VERSION, ["run", "--ratings", "ratings.csv"], capfd)[0] == 2


def test_the_result_is_in_the_log_behind_the_table(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(VERSION, SMALL, capfd)
    assert not code
    assert all(message.startswith("seed 0: ") for message in err.splitlines())  # a slow machine prints progress
    shown = [line for line in out.splitlines() if not line.startswith(STANDING)]
    assert shown[0].startswith("blindrec run, maxsense, inprocess")
    assert RESULT_PREFIX in out.splitlines()[-1]
    assert json.loads(result_in(out) or b"")["users"] == 500


def test_a_refused_command_leaves_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(VERSION, [*SMALL, "--epsilon", "-3"], capfd)
    assert (code, out) == (2, "")
    assert err.startswith("blindrec: epsilon is -3; it must be above 0")
