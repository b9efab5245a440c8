"""What fails: processes, disks and networks at a point, what is left after them, and commands given nonsense."""

import errno
import functools
import json
import os
import pickle
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pandas as pd
import pytest
import ray
from runs import PROVENANCE, Command, Ended, lasting

from actors import database
from actors.keeper import Keeper, UnreachableError
from coordinator.protocol.errors import BlindrecError, InputError
from scenarios.store import whole_files
from scenarios.store.record_log import RecordLog


# Operations on files, some of which fail: the system's as the store calls them, and SQLite's commits.
class Disk:
    """A disk that fails at the operation of a number, and, as a full one does, at all later ones."""

    def __init__(self, at: int = -1, number: int = errno.ENOSPC, *, later: bool = False) -> None:
        self.at, self.number, self.later, self.done = at, number, later, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _tried(self, what: str) -> None:
        self.done.append(what)
        here = len(self.done) - 1
        if here == self.at or (self.later and 0 <= self.at < here):
            raise OSError(self.number, os.strerror(self.number))

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        """Open a file, or a folder to lock or to synchronize it."""
        if flags & os.O_CREAT:
            self._tried("open")
        return os.open(path, flags, mode)

    def write(self, held: int, content: memoryview) -> int:
        """Write a half of it before it fails."""
        try:
            self._tried("write")
        except OSError:
            os.write(held, content[: len(content) // 2])
            raise
        return os.write(held, content)

    def fsync(self, held: int) -> None:
        self._tried("fsync")
        os.fsync(held)

    @contextmanager
    def commit(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Commit, or roll back where that fails."""
        with _transaction(connection):
            yield
            try:
                self._tried("commit")
            except OSError as error:
                failed = sqlite3.OperationalError(error.strerror)
                full = error.errno == errno.ENOSPC
                failed.sqlite_errorcode = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_IOERR
                raise failed from None

    def instead_of_the_system(self, patch: pytest.MonkeyPatch) -> None:
        """Let the store call these; folders are made and files renamed by `pathlib`, which asks the system itself."""
        for module in (database, whole_files):
            patch.setattr(module, "os", self)
        patch.setattr(database, "_transaction", self.commit)
        for name in ("mkdir", "replace"):
            patch.setattr(os, name, functools.partial(self._called, name, getattr(os, name)))

    def _called(self, name: str, operation: Callable[..., None], *given: Any) -> None:
        if "__pycache__" not in str(given[0]):  # where bytecode and kernels go, in the first of several commands alone
            self._tried(name)
        operation(*given)


_transaction = database._transaction


@contextmanager
def limited(pragma: str = "max_page_count = 1", unlimited: str = "max_page_count = 4294967294") -> Iterator[None]:
    """Let no SQLite file become larger than it is, as on a full disk, or limit them otherwise."""

    @contextmanager
    def transaction(connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute(f"PRAGMA {pragma}")
        try:
            with _transaction(connection):
                yield
        finally:
            connection.execute(f"PRAGMA {unlimited}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_transaction", transaction)
        yield


# Commands that end early, and what becomes of their folders: shared by the tests of all kinds of runs.
TIMED = {"seconds", "seconds_per_iteration", "peak_memory_mb", "devices_per_second"}
LAYOUT = TIMED | {"backend", "backend_reason", "workers", "actors", "devices_per_actor", "bytes_per_answer"}


def stopped(blindrec: Command, after: int, *arguments: object) -> Ended:
    """A command that Ctrl-C ends once it has kept so many records."""
    keep, left = RecordLog.keep, [after]

    def keeping(self: RecordLog[Any], record: Any) -> None:
        keep(self, record)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordLog, "keep", keeping)
        ended = blindrec(*arguments)
    assert (ended.code, ended.out) == (3, ""), ended.err
    return ended


def forget(file: Path, table: str, first: int) -> None:
    with closing(sqlite3.connect(file)) as tool, tool:
        tool.execute(f'DELETE FROM "{table}" WHERE position >= ?', (first,))


def left(folder: Path, without: Set[str]) -> dict[str, Any]:
    """All files of a finished folder, as far as they last."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            found[path.name] = pd.read_parquet(path).drop(columns="seconds", errors="ignore").to_json()
        else:
            found[path.name] = lasting(json.loads(path.read_text()), without | PROVENANCE)
    return found


# Processes that die, without Ray: a stand-in for it runs each call at once, and lets processes die around it.
Fate = Callable[[str], str]
"""What becomes of a process when a method is called: "lives", "dies before", "dies in it" or "dies after"."""
DEATHS = ("dies before", "dies in it", "dies after")


@dataclass(eq=False)
class Reference:
    value: Any = None
    error: Exception | None = None


@dataclass(eq=False)
class Actor:
    """A handle; a process that died is started anew at once, and knows nothing."""

    start: Callable[[], Any]
    fate: Fate = lambda _: "lives"
    deaths: int = 0
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        self.process = self.start()

    def __getattr__(self, name: str) -> Any:
        def method(returns: int) -> Any:
            return SimpleNamespace(remote=lambda *given: self.call(name, given, returns))

        return SimpleNamespace(remote=method(1).remote, options=lambda *, num_returns: method(num_returns))

    def call(self, name: str, given: Sequence[Any], returns: int) -> Any:
        """Call a method of the process that is there now; where it dies in it, nobody gets to know what it did."""
        answers = self._answers(name, given, returns)
        return answers[0] if returns == 1 else answers

    def _answers(self, name: str, given: Sequence[Any], returns: int) -> list[Reference]:
        if failed := [one for one in given if isinstance(one, Reference) and one.error]:
            return failed[:1] * returns
        fate, answers = self.fate(name), [Reference(error=ray.exceptions.RayActorError())] * returns
        if fate != "dies before":
            try:
                values = [one.value if isinstance(one, Reference) else one for one in given]
                value = getattr(self.process, name)(*values)
                done = [Reference(value=one) for one in (value if returns > 1 else [value])]
            except BlindrecError as error:
                done = [Reference(error=pickle.loads(pickle.dumps(error)))] * returns
            answers = answers if fate == "dies in it" else done
        if fate != "lives":
            self.process, self.deaths = self.start(), self.deaths + 1
        return answers


def lives(_: str) -> str:
    return "lives"


def at(name: str, number: int, how: str) -> Fate:
    """Let one call be somebody's last: that of a method, by its number."""
    calls = iter(range(10**6))
    return lambda called: how if called == name and next(calls) == number else "lives"


def stand_in(patch: pytest.MonkeyPatch, *modules: str) -> None:
    """Put the stand-in in Ray's place, in some modules; nobody waits before another attempt."""
    instead = SimpleNamespace(get=_get, put=Reference, wait=_wait, exceptions=ray.exceptions)
    for module in (*modules, *("coordinator.server.fleet." + name for name in ("calls", "querying"))):
        patch.setattr(f"{module}.ray", instead)
    patch.setattr("coordinator.server.fleet.panel.FIRST_PAUSE", 0)


def _get(asked: Any) -> Any:
    if isinstance(asked, list):
        return [_get(one) for one in asked]
    if asked.error:
        raise asked.error
    return asked.value


def _wait(flying: list[Reference], num_returns: int, timeout: float = 0) -> tuple[list[Reference], list[Reference]]:
    """What was called last is over first; of those that are asked for without waiting none is."""
    over = flying[len(flying) - num_returns if timeout != 0 else len(flying) :]
    return over, flying[: len(flying) - len(over)]


# A keeper that some devices cannot reach, and threads that get in each other's way.
class Deaf:
    """Does not answer for cohorts that begin below a device; for others it is the keeper behind it."""

    def __init__(self, keeper: Keeper, below: int = 1 << 40) -> None:
        self._keeper, self.below = keeper, below

    def read(self, first: int, stop: int, since: int = 0) -> tuple[int, list[str]]:
        return self.book(first, stop, since, ())

    def book(self, first: int, stop: int, known: int, lines: Sequence[str], opener: str = "") -> tuple[int, list[str]]:
        if first < self.below:
            raise UnreachableError("it does not answer")
        return self._keeper.book(first, stop, known, lines, opener)


# Input that nobody means, and what must become of it: an exit code, a few short lines, never a trace or a hang.
HANGS = 60  # Seconds after which a call hangs; calls take milliseconds
LINES, LONGEST = 3, 1200  # Of standard error: progress of a small run, or the line that says what is wrong


class HungError(BaseException):
    """A call took too long."""


@contextmanager
def bounded() -> Iterator[None]:
    """Break off what hangs."""

    def late(*_: object) -> NoReturn:
        raise HungError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANGS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fault(blindrec: Command, arguments: list[str]) -> str:
    """What is wrong with how a command ends; nothing, if it ends as it should."""
    try:
        with bounded():
            ended: Ended = blindrec(*arguments)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{_told(arguments)}: {type(error).__name__}: {str(error)[:200]}"
    lines = ended.err.count("\n")
    if ended.code not in (0, 2, 3):
        return f"{_told(arguments)}: exit code {ended.code}"
    if (
        lines > LINES
        or len(ended.err) > LONGEST
        or (ended.code and not ended.err.splitlines()[-1].startswith("blindrec: "))
    ):
        return f"{_told(arguments)}: says {lines} lines, {len(ended.err)} characters: {ended.err[:200]}"
    return ""


def _told(arguments: list[str]) -> str:
    return " ".join(repr(one)[:60] for one in arguments)


def begin_no_run(patch: pytest.MonkeyPatch, scratch: Path) -> None:
    """Stop where a long computation would begin: what is fuzzed is the way there."""

    def begun(*_: object, **__: object) -> NoReturn:
        raise InputError("a run would begin")

    for name in (
        "scenarios.backends.selection.InProcess.run", "scenarios.backends.selection.InProcess.each",
        "scenarios.backends.ray_instance.on_ray",
        "scenarios.experiment.experiment.run_seeds", "scenarios.studies.planner.request.plan",
        "scenarios.commands.job_commands.head_at",
    ):  # fmt: skip
        patch.setattr(name, begun)
    patch.setattr("scenarios.studies.planner.request.learnable_of", lambda *_: [])
    patch.delenv("RAY_ADDRESS", raising=False)
    patch.chdir(scratch)


def ratings_file(folder: Path) -> Path:
    rows = [f"{user},{item},{(user * item) % 5 + 1}\n" for user in range(30) for item in range(12) if (user + item) % 2]
    (folder / "ratings.csv").write_text("user,item,rating\n" + "".join(rows), encoding="utf-8")
    return folder / "ratings.csv"
