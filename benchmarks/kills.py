"""Runs with one random process killed at a random time, each compared with a run that nothing disturbs.

``python -m benchmarks.kills [--family run|shuffled|two-servers|online|two-tier]`` kills, with SIGKILL, one of the run's
actors (aggregators, a shuffler, two servers, public users' hosts, devices, the coordinator), the driver (then resumes
the run) or a whole node, at a random share of the run. Kind, victim and time follow from the seed. Releases or
recommendations, model and what devices spent must be the same in all runs; else the exit code is 1.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import psutil
import typer

from benchmarks.victims import actors_below
from coordinator.protocol.coins import derive
from scenarios.store.manifest import FOLDER, PROGRESS

End = dict[str, Any]  # The part of a run's result that a kill must not change


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A command whose runs are disturbed."""

    command: tuple[str, ...]  # The command with its flags, except for its size
    size: str  # The flag for its size
    default: int  # The default size
    far: Callable[[Path], int]  # Returns the progress of the run in a folder
    whole: Callable[[dict[str, Any]], int]  # Returns the progress of a finished run, from its result
    lasting: tuple[str, ...]  # Keys of the result that must be the same
    table: str | None = None  # A file in the folder that must be the same as well
    kinds: tuple[str, ...]  # Actors that are killed beside the driver and a node, of `benchmarks.victims.ACTORS`

    def flags(self, size: int) -> list[str]:
        """Return the command's arguments."""
        return [*self.command, self.size, str(size)]

    def end(self, out: Path) -> End:
        """Return how the run in a folder ended. An `OSError` says that it has not ended."""
        result = json.loads((out / "result.json").read_text())
        model = {} if self.table is None else {self.table: hashlib.sha256((out / self.table).read_bytes()).hexdigest()}
        return {name: result[name] for name in self.lasting} | model


def _progress(name: str) -> Callable[[Path], int]:
    """Return what reads one number of the progress that a run reports in its folder."""

    def read(out: Path) -> int:
        try:
            return int(json.loads((out / FOLDER / PROGRESS).read_text())[name])
        except FileNotFoundError:  # the run has not begun, or has ended meanwhile
            return 0

    return read


_answers, _records = _progress("count"), _progress("rounds")


def _queries(*flags: str, users: int, kinds: tuple[str, ...], lasting: tuple[str, ...] = ()) -> Family:
    """Return runs of queries: what they end with, and what they end with beside that."""
    return Family(
        command=("run", "--rated", "40", *flags),
        size="--users",
        default=users,
        far=_answers,
        whole=lambda result: int(result["asked"]),
        lasting=("releases_sha256", "spent_max", "spent_mean", "answered", *lasting),
        table="items.parquet",
        kinds=(*kinds, "devices", "coordinator"),
    )


_ROUNDS = ("--items", "300", "--policy", "fixed", "--rounds", "3", "--answers-per-device", "3", "--epsilon", "3")
_EPSILONS = ("epsilon", "epsilon_local")
FAMILIES: Final = {
    "run": _queries("--design", "sign", *_ROUNDS, users=2_000_000, kinds=("worker",)),
    "shuffled": _queries(
        *("--design", "set", "--trust", "shuffled", *_ROUNDS), users=400_000, kinds=("shuffler",), lasting=_EPSILONS
    ),
    "years": _queries(
        *("--design", "set", "--trust", "shuffled", "--items", "300", "--epsilon", "1"),
        *("--periods", "4", "--schedule", "front", "--drift", "0.02"),
        users=200_000,
        kinds=("shuffler",),
        lasting=(*_EPSILONS, "by_period"),
    ),
    "two-servers": _queries(
        *("--design", "totals", "--trust", "two-servers", "--items", "3000", "--epsilon", "1"),
        users=60_000,
        kinds=("words", "seeds"),
        lasting=("words_server_sha256", "seeds_server_sha256"),
    ),
    "online": Family(
        command=("online", "--rounds", "400", "--voters", "2000", "--peers", "50", "--budget", "1e6"),
        size="--clients",
        default=40,
        far=_records,
        whole=lambda result: int(result["clients"]),
        lasting=("recommendations_sha256", "loss", "voter_loss", "refused", "peers_alive"),
        kinds=("devices", "coordinator"),
    ),
    "two-tier": Family(
        command=(
            *("two-tier", "--planted", "700,500,100000", "--public", "300", "--rank", "5", "--regularisation", "3"),
            *("--mechanism", "pmd", "--batch", "5"),
        ),
        size="--private",
        default=200,
        far=_records,
        whole=lambda result: -(-int(result["private"]) // 5),
        lasting=("releases_sha256", "model_digest", "rmse", "answered", "duplicates"),
        kinds=("devices", "public", "coordinator"),
    ),
}
"""The three families by their commands, runs behind a shuffler, of one also over periods, and one of two servers."""


LOOK = 0.01  # Seconds between two checks of a run's progress
STARTS = 5
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
    for _ in range(STARTS - 1):
        try:
            return start()
        except Exception as error:  # Ray raises no other type
            sys.stderr.write(f"a node did not start ({error}); again\n")
    return start()


def _name(actor: psutil.Process) -> str:
    """Return the class of an actor's process, `ray::Class.method` and blanks."""
    return " ".join(actor.cmdline()).partition("::")[2].partition(".")[0].strip()


class Cluster(ExitStack):
    """A Ray head with two CPUs, and a second node if one is to be killed."""

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self._folder, self._sizes, self._number = folder, sizes, 0
        self._wholes: dict[str, RunRecord] = {}
        (folder / "token").write_text(secrets.token_hex(32))
        key = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        os.environ |= {**key, "RAY_USAGE_STATS_ENABLED": "0"}

    def __enter__(self) -> Cluster:
        from ray.cluster_utils import Cluster as Nodes  # noqa: PLC0415 (Ray reads the environment when it is imported)

        head = {"num_cpus": 2, "include_dashboard": False, "_system_config": QUICK}
        self._nodes: Any = _patiently(lambda: Nodes(initialize_head=True, head_node_args=head))
        self.callback(self._nodes.shutdown)
        os.environ["RAY_ADDRESS"] = self._nodes.address  # nodes then use the compiled code of this folder
        return self

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


ATTEMPTS = 3  # How often a run is repeated that ended before anything was killed
EARLIEST, LATEST = 0.02, 0.95  # Earliest and latest share of a run at which something is killed
COLUMNS = ["family", "kind", "seconds", "answers", "retries", "restarts", "resumed", "identical", "victim", "complaint"]

Row = dict[str, Any]  # A disturbed run; see `rows`


def kinds_of(family: Family) -> tuple[str, ...]:
    """Return the kinds of processes that are killed in runs of a family."""
    return (*family.kinds, "driver", "node")


def plan(names: Sequence[str], runs: int, seed: int) -> list[Kill]:
    """Return what is killed in each run, and when; with more runs, the first ones stay the same.

    Families take turns; within one each kind is killed once before any is killed again.
    """
    return list(islice((next(kills) for kills in cycle([_kills(name, seed) for name in names])), runs))


def _kills(name: str, seed: int) -> Iterator[Kill]:
    """Yield the kills of a family, without end."""
    coins = np.random.default_rng(int.from_bytes(derive(seed, f"kills of {name}"), "little"))
    while True:
        for kind in coins.permutation(kinds_of(FAMILIES[name])):
            yield Kill(name, str(kind), int(coins.integers(1 << 16)), float(coins.uniform(EARLIEST, LATEST)))


def rows(kills: Sequence[Kill], arena: Cluster) -> Iterator[Row]:
    """Run each family once undisturbed, then once for each kill; yield the disturbed runs.

    A run is ``identical`` if something was killed in it and it ended with the same releases, model and privacy
    spent. A `RuntimeError` says that an undisturbed run did not end.
    """
    wholes: dict[str, RunRecord] = {}
    for kill in kills:
        if kill.family not in wholes:
            wholes[kill.family] = whole = arena.undisturbed(kill.family)
            if whole.end is None:
                raise RuntimeError(f"the undisturbed run did not end: {whole.complaint}")
        run = arena.disturbed(kill)
        for _ in range(ATTEMPTS - 1):
            if not run.victim:  # on a busy machine a short run may end before it is checked
                run = arena.disturbed(kill)
        identical = bool(run.victim) and run.end == wholes[kill.family].end
        yield kill._asdict() | asdict(run) | {"identical": identical, "victim": run.victim or "none: the run was over"}


def measure(kills: Sequence[Kill], arena: Cluster) -> pd.DataFrame:
    """Make all runs, print the table as it grows, and how many ended alike by what was killed; return it."""
    table_rows, begin = list[Row](), time.perf_counter()
    print(f"| run | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for row in rows(kills, arena):
        table_rows.append(row | {"seconds": round(row["seconds"], 2)})
        cells = (str(table_rows[-1][name]) for name in COLUMNS)
        print(f"| {len(table_rows)} | {' | '.join(cells)} |", flush=True)
    frame = pd.DataFrame(table_rows)
    print(f"{frame.identical.sum()} of {len(frame)} identical to the undisturbed run,", end=" ")
    print(
        f"{time.perf_counter() - begin:.0f} s\n{pd.crosstab([frame.family, frame.kind], frame.identical).to_string()}"
    )
    return frame


def main(
    runs: Annotated[int, typer.Option(help="Runs in which something is killed.")] = 20,
    seed: Annotated[int, typer.Option(help="What is killed, and when, follows from it.")] = 0,
    family: Annotated[str | None, typer.Option(help=f"{', '.join(FAMILIES)}; by default all, in turns.")] = None,
    size: Annotated[
        int | None, typer.Option(help="Devices, clients or private devices of a run of one family.")
    ] = None,
) -> None:
    """Kill random processes of runs at random times; the exit code is 1 if a run ends with another result."""
    if family is not None and family not in FAMILIES:
        raise typer.BadParameter(f"family is {family!r}; choose one of {', '.join(FAMILIES)}")
    if size is not None and family is None:
        raise typer.BadParameter("--size is that of one family; say which with --family")
    sizes = {name: of.default if size is None else size for name, of in FAMILIES.items()}
    names = list(FAMILIES) if family is None else [family]
    folder = Path(tempfile.mkdtemp(prefix="kills"))
    with Cluster(folder, sizes) as cluster:
        alike = bool(measure(plan(names, runs, seed), cluster).identical.all())
    if alike:
        shutil.rmtree(folder)
    else:
        print(f"not all runs ended alike; folders and logs of those made now are in {folder}")
    sys.exit(not alike)


if __name__ == "__main__":
    typer.run(main)
