"""Runs with one random process killed at a random time, each compared with a run that nothing disturbs.

``python -m benchmarks.kills [--family run|shuffled|two-servers|online|two-tier]`` kills, with SIGKILL, one of the run's
actors (aggregators, a shuffler, two servers, public users' hosts, devices, the coordinator), the driver (then resumes
the run) or a whole node, at a random share of the run. Kind, victim and time follow from the seed. Releases or
recommendations, model and what devices spent must be the same in all runs; else the exit code is 1. With ``--json
FILE`` each run is kept as soon as it has ended, and the same command goes on after the last one.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import numpy as np
import psutil
import typer

from benchmarks import pages
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


ATTEMPTS = 3  # How often a run is repeated that ended before anything was killed
EARLIEST, LATEST = 0.02, 0.95  # Earliest and latest share of a run at which something is killed
MOMENTS = 5  # A run is divided into so many equal parts in the table
COLUMNS = ("family", "kind", "seconds", "answers", "retries", "restarts", "resumed", "identical", "victim")

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


def rows(kills: Sequence[Kill], arena: Cluster, previous: Sequence[Row] = ()) -> Iterator[Row]:
    """Run each family once undisturbed, then once for each kill that is not among the kept rows; yield the results.

    A run is ``identical`` if something was killed in it and it ended with the same releases, model and privacy
    spent. A `RuntimeError` says that an undisturbed run did not end, or not as the kept rows say of it.
    """
    done = {tuple(row[name] for name in Kill._fields) for row in previous}
    wholes: dict[str, RunRecord] = {}
    for kill in kills:
        if kill in done:
            continue
        if kill.family not in wholes:
            wholes[kill.family] = _whole(kill.family, arena, previous)
        yield _row(kill, arena, wholes[kill.family])


def _whole(family: str, arena: Cluster, previous: Sequence[Row]) -> RunRecord:
    whole = arena.undisturbed(family)
    if whole.end is None:
        raise RuntimeError(f"the undisturbed run did not end: {whole.complaint}")
    if any(row["undisturbed"] != whole.end for row in previous if row["family"] == family):
        raise RuntimeError(f"undisturbed, {family} ends otherwise than in the kept rows; begin a new file with --json")
    return whole


def _row(kill: Kill, arena: Cluster, whole: RunRecord) -> Row:
    run = arena.disturbed(kill)
    for _ in range(ATTEMPTS - 1):
        if not run.victim:  # on a busy machine a short run may end before it is checked
            run = arena.disturbed(kill)
    return kill._asdict() | {
        "victim": run.victim or "none: the run was over",
        "killed": bool(run.victim),
        "seconds": run.seconds,
        "answers": run.answers,
        "moment": run.answers / whole.answers,
        "retries": run.retries,
        "restarts": run.restarts,
        "resumed": run.resumed,
        "identical": bool(run.victim) and run.end == whole.end,
        "complaint": run.complaint,
        "undisturbed": whole.end,
        "end": run.end,
    }


def line(number: int, row: Row) -> str:
    """Return a row of the table."""
    cells = [row["family"], row["kind"], f"{row['seconds']:.2f}", f"{row['answers']:,}", row["retries"]]
    cells += [row["restarts"], "yes" if row["resumed"] else "no", "yes" if row["identical"] else "NO", row["victim"]]
    return f"| {number} | {' | '.join(str(cell) for cell in cells)} | {row['complaint']}".rstrip()


def read(file: Path | None) -> list[Row]:
    """Return the rows in a file, none if there is no file. What a crash left of a last line is removed from it."""
    if file is None or not file.exists():
        return []
    content = file.read_bytes()
    if torn := content[content.rfind(b"\n") + 1 :]:
        with file.open("r+b") as opened:
            opened.truncate(len(content) - len(torn))
    return [json.loads(line) for line in content.splitlines()[: content.count(b"\n")]]


def keep(file: Path | None, row: Row) -> None:
    """Add a row to a file, if there is one."""
    if file is not None:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(row) + "\n")


def table(rows: Iterable[Row]) -> list[str]:
    """Return a table of runs by victim and moment: how many were identical, of how many in which something was killed.

    The moment of a kill is the run's progress just before it, as a share of the whole run. Runs that were over before
    anything could be killed stand in the last column, and only there.
    """
    groups: dict[tuple[str, str], list[list[bool]]] = {}
    for row in rows:
        cells = groups.setdefault((row["family"], row["kind"]), [[] for _ in range(MOMENTS + 1)])
        cell = min(int(MOMENTS * row["moment"]), MOMENTS - 1) if row["killed"] else MOMENTS
        cells[cell].append(row["identical"])
    bounds = [f"{100 * part // MOMENTS} to {100 * (part + 1) // MOMENTS} %" for part in range(MOMENTS)]
    lines = []
    for (family, kind), cells in sorted(groups.items()):
        killed = [*cells[:MOMENTS], [outcome for cell in cells[:MOMENTS] for outcome in cell]]
        shares = [f"{sum(cell)} of {len(cell)}" if cell else "" for cell in killed]
        lines.append([family, kind, *shares, str(len(cells[MOMENTS]) or "")])
    return pages.table(["family", "victim", *bounds, "all", "over before"], lines).splitlines()


def measure(kills: Sequence[Kill], arena: Cluster, file: Path | None) -> list[Row]:
    """Run all that a file does not have yet, print the table as it grows, and return all rows of the file."""
    table_rows, begin = read(file), time.perf_counter()
    if table_rows:
        print(f"{len(table_rows)} runs are kept in {file}")
    print(f"| run | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for row in rows(kills, arena, tuple(table_rows)):
        keep(file, row)
        table_rows.append(row)
        print(line(len(table_rows), row), flush=True)
    same = sum(row["identical"] for row in table_rows)
    print(f"{same} of {len(table_rows)} identical to the undisturbed run, {time.perf_counter() - begin:.0f} s\n")
    print("\n".join(table(table_rows)))
    return table_rows


def main(
    runs: Annotated[int, typer.Option(help="Runs in which something is killed.")] = 20,
    seed: Annotated[int, typer.Option(help="What is killed, and when, follows from it.")] = 0,
    family: Annotated[str | None, typer.Option(help=f"{', '.join(FAMILIES)}; by default all, in turns.")] = None,
    size: Annotated[
        int | None, typer.Option(help="Devices, clients or private devices of a run of one family.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Keep each run here, a line each, and go on.")
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
        all_rows = measure(plan(names, runs, seed), cluster, json_file)
    alike = all(row["identical"] for row in all_rows)
    if alike:
        shutil.rmtree(folder)
    else:
        print(f"not all runs ended alike; folders and logs of those made now are in {folder}")
    sys.exit(not alike)


if __name__ == "__main__":
    typer.run(main)
