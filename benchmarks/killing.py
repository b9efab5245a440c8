"""Runs of blindrec on a Ray cluster of this machine's own, with one process or node killed in the middle."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import psutil

from benchmarks.families import FAMILIES, End
from benchmarks.victims import actors_below

LOOK = 0.01  # Seconds between two checks of a run's progress
ATTEMPTS = 5
PATIENCE = 600.0  # Most seconds that a run may take, even on a busy machine
QUICK = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3, "health_check_timeout_ms": 2000}
"""Settings of the cluster that make it notice a dead node within seconds."""


T = TypeVar("T")


class Kill(NamedTuple):
    """A kill: in which family, the kind of process, which one of that kind, and the share of the run before it."""

    family: str
    kind: str
    pick: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run that was disturbed, or the one that was not."""

    end: End | None  # Result of the run; None if it did not end
    victim: str = ""  # What was killed; empty if the run had ended before
    seconds: float = 0.0  # From the run's first progress to the kill
    answers: int = 0  # Progress at the kill, or of the whole run: answers, clients or batches
    retries: int = 0  # Blocks or rounds asked again
    restarts: int = 0  # New coordinators
    resumed: int = 0  # Calls of `blindrec resume`
    complaint: str = ""  # The last line of a run that stopped


def _patiently(start: Callable[[], T]) -> T:
    """Start a node. Ray allows half a minute for that, so the start is repeated if a busy machine takes longer."""
    for _ in range(ATTEMPTS - 1):
        try:
            return start()
        except Exception as error:  # Ray raises no other type
            sys.stderr.write(f"a node did not start ({error}); again\n")
    return start()


def _name(actor: psutil.Process) -> str:
    """Return the class of an actor's process, `ray::Class.method` and blanks."""
    return " ".join(actor.cmdline()).partition("::")[2].partition(".")[0].strip()


class Cluster:
    """A Ray head with two CPUs, and a second node if one is to be killed."""

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self._folder, self._sizes, self._number = folder, sizes, 0
        self._wholes: dict[str, RunRecord] = {}
        self._stack = ExitStack()
        (folder / "token").write_text(secrets.token_hex(32))
        key = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        os.environ |= {**key, "RAY_USAGE_STATS_ENABLED": "0"}

    def __enter__(self) -> Cluster:
        from ray.cluster_utils import Cluster as Nodes  # noqa: PLC0415 (Ray reads the environment when it is imported)

        head = {"num_cpus": 2, "include_dashboard": False, "_system_config": QUICK}
        self._nodes: Any = _patiently(lambda: Nodes(initialize_head=True, head_node_args=head))
        self._stack.callback(self._nodes.shutdown)
        os.environ["RAY_ADDRESS"] = self._nodes.address  # nodes then use the compiled code of this folder
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def undisturbed(self, family: str) -> RunRecord:
        """Run once without a kill, which also shows how far a run gets."""
        out = self._next()
        with self._blindrec(*self._flags(family), "--out", str(out)):
            pass
        whole = self._read(family, out)
        if whole.end is not None:
            whole = replace(whole, answers=FAMILIES[family].whole(json.loads((out / "result.json").read_text())))
        self._wholes[family] = whole
        return whole

    def disturbed(self, kill: Kill) -> RunRecord:
        """Run once, kill a process or node, and resume the run if it stopped."""
        out = self._next()
        other = _patiently(lambda: self._nodes.add_node(num_cpus=1)) if kill.kind == "node" else None
        try:
            survived = self._disturbed(kill, out, other)
        finally:
            if other in self._nodes.worker_nodes:
                self._nodes.remove_node(other)
            self._settle()
        if survived.end == self._wholes[kill.family].end:
            shutil.rmtree(out)  # of a thousand runs, only those are kept that show something
        return survived

    def _flags(self, family: str) -> list[str]:
        return FAMILIES[family].flags(self._sizes[family])

    def _disturbed(self, kill: Kill, out: Path, other: Any) -> RunRecord:
        with self._blindrec(*self._flags(kill.family), "--out", str(out)) as driver:
            seconds, answers = self._wait_for(kill, out, driver)
            victim = self._kill(kill, driver, other) if driver.poll() is None else ""
        resumed = 0
        if not (out / "result.json").exists():
            resumed = 1
            with self._blindrec("resume", str(out)):
                pass
        return self._read(kill.family, out, victim=victim, seconds=seconds, answers=answers, resumed=resumed)

    def _next(self) -> Path:
        self._number += 1
        return self._folder / f"run-{self._number}"

    @contextmanager
    def _blindrec(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start blindrec on the cluster; at exit wait for its end, and kill it if that takes too long."""
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

    def _wait_for(self, kill: Kill, out: Path, driver: subprocess.Popen[bytes]) -> tuple[float, int]:
        """Wait for the moment of a kill; return the seconds since the run's first progress, and its progress."""
        begin, target = 0.0, kill.share * self._wholes[kill.family].answers
        while driver.poll() is None:
            answers, now = FAMILIES[kill.family].far(out), time.monotonic()
            begin = begin or (now if answers else 0.0)
            if answers >= target:
                return now - begin, answers
            time.sleep(LOOK)
        return 0.0, 0

    def _kill(self, kill: Kill, driver: subprocess.Popen[bytes], other: Any) -> str:
        """Kill the victim; return what it was."""
        if other is not None:
            raylet = psutil.Process(other.all_processes["raylet"][0].process.pid)
            names = [_name(actor) for actor in actors_below(raylet)]
            self._nodes.remove_node(other, allow_graceful=False)
            return f"a node with {', '.join(sorted(names)) or 'no actor'}"
        if kill.kind == "driver":
            driver.send_signal(signal.SIGKILL)
            return f"process {driver.pid}"
        candidates = actors_below(psutil.Process(), kill.kind)
        if not candidates:
            return ""
        victim = candidates[kill.pick % len(candidates)]
        victim.kill()
        return f"process {victim.pid}, {kill.pick % len(candidates) + 1} of {len(candidates)}"

    def _read(self, family: str, out: Path, **when: Any) -> RunRecord:
        try:
            end, result = FAMILIES[family].end(out), json.loads((out / "result.json").read_text())
        except OSError:
            lines = self._said.read_text(errors="replace").splitlines()
            return RunRecord(end=None, complaint=lines[-1] if lines else "it said nothing", **when)
        return RunRecord(end=end, retries=result["retries"], restarts=result["restarts"], **when)

    def _settle(self) -> None:
        """Wait until no actor of the run is left that could occupy the next run's CPUs."""
        end = time.monotonic() + 30
        while actors_below(psutil.Process()) and time.monotonic() < end:
            time.sleep(LOOK)
