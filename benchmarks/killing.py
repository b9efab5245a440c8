"""Runs of blindrec on a Ray cluster of this machine's own, with one process or node killed in the middle."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import psutil

from actors.charges import read_entry
from actors.keeper import read_book
from benchmarks.victims import actors_below
from coordinator.protocol.errors import LedgerError
from scenarios.store.journal import Journal

LOOK = 0.01
"""Seconds between two looks at how far a run is."""
ATTEMPTS = 5
PATIENCE = 600.0
"""Seconds that a run may take, on a busy machine."""
QUICK = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3, "health_check_timeout_ms": 2000}
"""Settings of the cluster: a node that died is missed after some seconds."""
FLAGS = ["--design", "sign", "--policy", "fixed", "--rounds", "3", "--answers-per-device", "3", "--items", "300"]
FLAGS += ["--rated", "40", "--epsilon", "3"]


T = TypeVar("T")


class Kill(NamedTuple):
    """What is killed, and when: ``kind``, which one of that kind, and the share of all answers that are booked then."""

    kind: str
    pick: int
    share: float


class End(NamedTuple):
    """What a run ends with, as far as nothing that is killed may change it."""

    releases_sha256: str
    model_sha256: str
    spent_max: float | None
    spent_mean: float | None
    answered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survived:
    """A run that was disturbed.

    Attributes
    ----------
    end : End or None
        None where it came to no end.
    victim : str
        What was killed; empty where the run was over before.
    seconds, answers : float, int
        When: since the first answer was booked, and answers that were booked.
    retries, restarts, resumed : int
        Blocks or rounds that were asked again, coordinators that were started anew, and `blindrec resume`.
    complaint : str
        The last line of a run that stopped.
    """

    end: End | None
    victim: str = ""
    seconds: float = 0.0
    answers: int = 0
    retries: int = 0
    restarts: int = 0
    resumed: int = 0
    complaint: str = ""


def _patiently(start: Callable[[], T]) -> T:
    """Start a node; Ray gives it half a minute, which a busy machine may not keep: then it is started again."""
    for _ in range(ATTEMPTS - 1):
        try:
            return start()
        except Exception as error:  # Ray raises no other type
            sys.stderr.write(f"a node did not start ({error}); again\n")
    return start()


def _name(actor: psutil.Process) -> str:
    """Return the class of an actor's process, `ray::Class.method` and blanks."""
    return " ".join(actor.cmdline()).partition("::")[2].partition(".")[0].strip()


def booked(out: Path) -> int:
    """Return how many answers the devices of a run in ``out``, of seed 0, have booked so far."""
    try:
        entries = [read_entry(line) for _, _, line in read_book(Journal(out, seed=0).ledger)]
        return sum(entry.stop - entry.first for entry in entries)
    except LedgerError:  # the run has ended meanwhile
        return 0


class Cluster:
    """A Ray head with two CPUs, and another node where one is to be killed.

    Parameters
    ----------
    folder : Path
        For the runs' folders.
    users : int
        Devices of a run; each answers three times.
    """

    def __init__(self, folder: Path, users: int) -> None:
        self._folder, self._users, self._number, self._answers = folder, users, 0, 0
        self._stack = ExitStack()
        (folder / "token").write_text(secrets.token_hex(32))
        key = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        os.environ |= {**key, "RAY_USAGE_STATS_ENABLED": "0"}

    def __enter__(self) -> Cluster:
        from ray.cluster_utils import Cluster as Nodes  # noqa: PLC0415 (Ray reads the environment when it is imported)

        head = {"num_cpus": 2, "include_dashboard": False, "_system_config": QUICK}
        self._nodes: Any = _patiently(lambda: Nodes(initialize_head=True, head_node_args=head))
        self._stack.callback(self._nodes.shutdown)
        os.environ["RAY_ADDRESS"] = self._nodes.address  # joined so, nodes use the code that lies here, compiled
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def undisturbed(self) -> Survived:
        """Run once with nothing killed; how many answers there are is known from then on."""
        out = self._next()
        with self._blindrec("run", *FLAGS, "--users", str(self._users), "--out", str(out)):
            pass
        survived = self._read(out)
        self._answers = json.loads((out / "result.json").read_text())["asked"] if survived.end else 0
        return survived

    def disturbed(self, kill: Kill) -> Survived:
        """Run once, kill what is to be killed, and resume the run where it stopped."""
        out = self._next()
        other = _patiently(lambda: self._nodes.add_node(num_cpus=1)) if kill.kind == "node" else None
        try:
            return self._disturbed(kill, out, other)
        finally:
            if other in self._nodes.worker_nodes:
                self._nodes.remove_node(other)
            self._settle()

    def _disturbed(self, kill: Kill, out: Path, other: Any) -> Survived:
        with self._blindrec("run", *FLAGS, "--users", str(self._users), "--out", str(out)) as driver:
            seconds, answers = self._wait_for(out, driver, kill.share * self._answers)
            victim = self._kill(kill, driver, other) if driver.poll() is None else ""
        resumed = 0
        if not (out / "result.json").exists():
            resumed = 1
            with self._blindrec("resume", str(out)):
                pass
        return self._read(out, victim=victim, seconds=seconds, answers=answers, resumed=resumed)

    def _next(self) -> Path:
        self._number += 1
        return self._folder / f"run-{self._number}"

    @contextmanager
    def _blindrec(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start blindrec on the cluster, and wait at exit until it ends; it is killed where that takes too long."""
        command = [sys.executable, "-m", "scenarios", *arguments, "--workers", "2"]
        self._said = self._folder / f"run-{self._number}.log"
        with self._said.open("ab") as said, subprocess.Popen(command, stdout=said, stderr=said) as driver:
            try:
                yield driver
                driver.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                driver.kill()
            except BaseException:
                driver.kill()
                raise

    def _wait_for(self, out: Path, driver: subprocess.Popen[bytes], wanted: float) -> tuple[float, int]:
        """Wait until so many answers are booked; return the seconds since the first one, and the number."""
        begin = 0.0
        while driver.poll() is None:
            answers, now = booked(out), time.monotonic()
            begin = begin or (now if answers else 0.0)
            if answers >= wanted:
                return now - begin, answers
            time.sleep(LOOK)
        return 0.0, 0

    def _kill(self, kill: Kill, driver: subprocess.Popen[bytes], other: Any) -> str:
        """Kill it; tell what it was."""
        if other is not None:
            raylet = psutil.Process(other.all_processes["raylet"][0].process.pid)
            held = [_name(one) for one in actors_below(raylet)]
            self._nodes.remove_node(other, allow_graceful=False)
            return f"a node with {', '.join(sorted(held)) or 'no actor'}"
        if kill.kind == "driver":
            driver.send_signal(signal.SIGKILL)
            return f"process {driver.pid}"
        found = actors_below(psutil.Process(), kill.kind)
        if not found:
            return ""
        victim = found[kill.pick % len(found)]
        victim.kill()
        return f"process {victim.pid}, {kill.pick % len(found) + 1} of {len(found)}"

    def _read(self, out: Path, **when: Any) -> Survived:
        try:
            result = json.loads((out / "result.json").read_text())
            model = hashlib.sha256((out / "items.parquet").read_bytes()).hexdigest()
        except OSError:
            lines = self._said.read_text(errors="replace").splitlines()
            return Survived(end=None, complaint=lines[-1] if lines else "it said nothing", **when)
        end = End(**{name: result[name] for name in End._fields if name in result}, model_sha256=model)
        return Survived(end=end, retries=result["retries"], restarts=result["restarts"], **when)

    def _settle(self) -> None:
        """Wait until no actor of the run is left that could take the next one's place."""
        end = time.monotonic() + 30
        while actors_below(psutil.Process()) and time.monotonic() < end:
            time.sleep(LOOK)
