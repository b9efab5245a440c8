"""Commands of all kinds, cut off at any operation on files: they go on to the same end."""

import functools
import gc
import hashlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest import mock

import pandas as pd
import pytest
from evidence import THOROUGH, size
from rich.console import Console
from runs import PROVENANCE, lasting, squares_of
from typer.main import get_command

from actors import database
from scenarios import cli
from scenarios.backends.selection import InProcess
from scenarios.experiment import progress
from scenarios.store import whole_files
from scenarios.store.manifest import FOLDER, MANIFEST, read_manifest
from scenarios.store.record_log import RUN_FILE, Units
from scenarios.store.whole_files import locked_folder
from scenarios.studies.study import claim, measure_units
from scenarios.theory import emulated_runs

SUPPORT = Path(__file__).parents[2] / "support"

# What a kill leaves of a folder at each of a command's file operations: for tests of what survives that.
WRITES = os.O_WRONLY | os.O_RDWR
NAMED = {f"os.{name}" for name in ("mkdir", "rmdir", "remove", "rename", "truncate", "chmod", "link", "symlink")}
"""Python's audit events of operations on names, which include those of `pathlib`."""
HELD = ("write", "fsync", "ftruncate", "fdatasync")  # Operations on files that are open, which have no events


@dataclass
class Cutting:
    """Notes the operations of this process in a folder, and keeps what a kill at each of them would leave."""

    folder: Path
    kept: Path | None = None  # where copies go, named by their order
    cuts: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    copying: bool = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch until the end."""
        with ExitStack() as patches:
            for name in HELD:
                patches.enter_context(mock.patch.object(os, name, self._on_held(name, getattr(os, name))))
            counted = self._committed(database._transaction)
            patches.enter_context(mock.patch.object(database, "_transaction", counted))
            hear_events()
            WATCHING.append(self)
            patches.callback(WATCHING.remove, self)
            yield

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count what is about to be done."""
        if not self.copying and (event in NAMED or (event == "open" and arguments[2] & WRITES)):
            self._count(event.removeprefix("os."), arguments[0], arguments[-1] if event in NAMED else -1)

    def _count(self, what: str, path: Any, base: int = -1) -> str:
        """Count an operation on a path within the folder, which a folder that is open may begin; return the path."""
        held = Path(f"/proc/self/fd/{path if isinstance(path, int) else base}")
        folder = held.readlink() if held.is_symlink() else Path.cwd()
        place = folder if isinstance(path, int) else folder / os.fsdecode(path)
        if not place.is_relative_to(self.folder):
            return ""
        self.done.append(f"{what} {place}")
        self.keep(f"before {what} {place}")
        return str(place)

    def keep(self, cut: str) -> None:
        if self.kept is not None:
            self.copying = True
            if self.folder.exists():
                shutil.copytree(self.folder, self.kept / str(len(self.cuts)), symlinks=True)
            self.copying = False
            self.cuts.append(cut)

    def _on_held(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def replaced(held: int, *rest: Any) -> Any:
            place = "" if self.copying else self._count(name, held)
            if not place or name != "write":
                return operation(held, *rest)
            begun: int = operation(held, rest[0][: len(rest[0]) // 2])
            self.keep(f"in write {place}")
            more: int = operation(held, rest[0][begun:])
            return begun + more

        return replaced

    def _committed(self, transaction: Callable[..., Any]) -> Callable[..., Any]:
        """Count commits of SQLite, whose files are opened and written where Python does not see it."""

        @contextmanager
        def counted(connection: sqlite3.Connection) -> Iterator[None]:
            file = Path(connection.execute("PRAGMA database_list").fetchone()[2])
            if not self._count("commit", file):
                with transaction(connection):
                    yield
                return
            log = file.with_name(f"{file.name}-wal")
            before = log.stat().st_size
            with transaction(connection):
                yield
            self.keep(f"in commit {file}")
            if self.kept is not None:
                torn = self.kept / str(len(self.cuts) - 1) / log.relative_to(self.folder)
                os.truncate(torn, (before + log.stat().st_size) // 2)

        return counted


WATCHING: list[Cutting] = []


@functools.cache
def hear_events() -> None:
    """Hear Python's audit events from now on, for those who watch; there is no way back."""

    def heard(event: str, arguments: tuple[Any, ...], watching: list[Cutting] = WATCHING) -> None:
        for cutting in watching:  # not by its name, which is gone when Python ends
            cutting.heard(event, arguments)

    sys.addaudithook(heard)


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, what it printed as error, its operations, and of which cuts copies are kept."""

    code: int
    err: str
    operations: list[str]
    cuts: list[str]


def cut_off(act: Callable[[], int], folder: Path, kept: Path | None = None) -> Ended:
    """Run something, by default in this process, where modules are loaded; keep copies of a folder outside of it."""
    if THOROUGH:
        return forked(act, folder, kept)
    cutting, code = Cutting(folder, kept), 1
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err, cutting.watching():
        try:
            code, told = act(), err.getvalue()
            cutting.keep("after the last operation")
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
    return Ended(code, told, cutting.done, cutting.cuts)


def forked(act: Callable[[], int], folder: Path, kept: Path | None) -> Ended:
    """Run something in a child process, which remembers nothing of what was run before."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        _child(act, Cutting(folder, kept), theirs)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as said:
        err, operations, cuts = said.read().split("\0")
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), err, operations.splitlines(), cuts.splitlines())


def _child(act: Callable[[], int], cutting: Cutting, theirs: int) -> NoReturn:
    code = 1
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err, cutting.watching():
            code, told = act(), err.getvalue()
            cutting.keep("after the last operation")
    except BaseException as error:  # told to the parent, who fails
        told = f"{type(error).__name__}: {error}"
    with os.fdopen(theirs, "w", encoding="utf-8") as says:
        says.write("\0".join((told, "\n".join(cutting.done), "\n".join(cutting.cuts))))
        says.flush()
    os._exit(code)


# Goes on from what a kill at any file operation of a command leaves.
SCENARIO = ["--items", "12", "--rated", "4", "--users", "60", "--design", "sign", "--policy", "fixed", "--rounds", "3"]
SCENARIO += ["--answers-per-device", "3", "--epsilon", "3", "--backend", "inprocess", "--workers", "1"]
LAYOUT = ["--backend", "inprocess", "--workers", "1", "--devices-per-actor", "40"]
RUN = ["run", *SCENARIO, "--devices-per-actor", "40"]
TWICE = [*RUN, "--repeat", "2"]
ONLINE = ["online", "--rounds", "12", "--voters", "8", "--clients", "2", *LAYOUT]
TAUGHT = ["two-tier", "--planted", "40,20,500", "--public", "10", "--private", "4", "--batch", "2", "--holdout", "3"]
TAUGHT += ["--iterations", "2", "--rank", "2", "--regularisation", "2", "--backend", "inprocess", "--workers", "1"]
TIMED = {"seconds", "seconds_per_iteration", "devices_per_second", "rounds_per_second", "peak_memory_mb"}
TIMED |= {"retries", "restarts", "actors"}


def command(*arguments: str) -> Callable[[], int]:
    def act() -> int:
        try:
            cli.main(list(arguments))
        except SystemExit as ended:
            return int(ended.code or 0)

    return act


def left(folder: Path) -> dict[str, Any]:
    """Return all files and folders below a folder: results and tables as far as they last, others byte by byte.

    Of a sweep's units it is told which there are; of its mark, which sweep it is.
    """
    found = {str(path.relative_to(folder)): content(path) for path in folder.rglob("*") if path.name != RUN_FILE.name}
    if (folder / FOLDER / RUN_FILE.name).exists():
        mark = read_manifest(folder)
        found[f"{FOLDER}/{MANIFEST}"] = mark and mark.identity
        squares = squares_of((), abs, {})
        with closing(Units(folder, squares.from_line, squares.line)) as units:
            found["units"] = sorted((key, square.found) for key, square in units)
    return found


def content(path: Path) -> Any:
    if path.is_dir():
        return None
    if path.suffix == ".parquet":
        return repr(pd.read_parquet(path).drop(columns="seconds", errors="ignore").to_dict("list"))
    if path.name == "versions.json":
        return lasting(json.loads(path.read_text()), PROVENANCE)
    return lasting(json.loads(path.read_text()), TIMED) if path.name == "result.json" else path.read_bytes()


def raw(folder: Path) -> str:
    paths = sorted(folder.rglob("*"))
    found = [(str(path.relative_to(folder)), path.is_file() and path.read_bytes()) for path in paths]
    return hashlib.sha256(repr((folder.exists(), found)).encode()).hexdigest()


class State(NamedTuple):
    """What a cut leaves: where it cuts, and a copy of the folder, unless there was none."""

    where: str
    copy: Path


class Family:
    """Commands that are cut off in folders of their own, and what came of it."""

    def __init__(self, place: Path) -> None:
        self.out = place / "out"
        self.kept = place / "kept"
        self.tried = 0
        self.wrong: list[str] = []
        self.whole: dict[str, Any] = {}
        self.operations: list[str] = []

    def undisturbed(self, act: Callable[[], int]) -> list[State]:
        """Run to the end; what is left then is what must be left always. Return what cuts leave before."""
        with redirect_stdout(io.StringIO()):
            act()  # what this loads and compiles is there in every process that is forked from here
        self.clean()
        if THOROUGH:
            gc.freeze()  # and is not copied there
        ended, states = self.cut(act, "undisturbed")
        self.whole, self.operations = left(self.out), ended.operations
        self.require(ended.code == 0, f"the undisturbed run ended with {ended.code}: {ended.err}")
        return states

    def cut(self, act: Callable[[], int], name: str) -> tuple[Ended, list[State]]:
        """Run something to the end, and return the different states that cuts leave, in order."""
        kept = self.kept / name
        ended = cut_off(act, self.out, kept)
        found = [State(where, kept / str(number)) for number, where in enumerate(ended.cuts)]
        return ended, list({raw(state.copy): state for state in reversed(found)}.values())[::-1]

    def begin(self, state: State) -> None:
        self.tried += 1
        self.clean()
        if state.copy.exists():
            shutil.copytree(state.copy, self.out, symlinks=True)

    def ends_whole(self, after: str, ended: Ended) -> None:
        """Require that a command came to the end that the undisturbed run came to."""
        self.require(ended.code == 0, f"{after}: exit code {ended.code}: {ended.err}")
        found = left(self.out)
        every = found.keys() | self.whole.keys()
        differ = {name for name in every if found.get(name, "none") != self.whole.get(name, "none")}
        self.require(not differ, f"{after}: {sorted(differ)} are not those of the undisturbed run")

    def require(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)

    def clean(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)


def finish(family: Family, run: list[str], after: str, *, again: bool) -> None:
    """Go on by `resume`, or by the same command, and look at what is left.

    Where nothing was kept `resume` must say so in a line, and the same command must begin; where all was over the same
    command must tell its result.
    """
    out, kept = family.out, family.out / "rounds" / "scenario.json"
    over = (out / "result.json").exists() and not kept.exists()
    resume = ["resume", str(out), *(LAYOUT[:-2] if run[0] == "two-tier" else LAYOUT)]
    if over and again:
        ended = cut_off(command(*run), out)
        told = ended.code == 0 and "is over: this is its result" in " ".join(ended.err.split())
        family.require(told, f"{after}: {ended.err}")
        again = False
    if not (over or again or kept.exists()):
        ended = cut_off(command(*resume), out)
        said = f"nothing was kept there; blindrec run ... --out {out} begins one"
        family.require((ended.code, ended.err.count("\n")) == (2, 1) and said in ended.err, f"{after}: {ended.err}")
        again = True
    ended = cut_off(command(*(run if again else resume)), out)
    if over and (out / "rounds").exists():
        (out / "rounds").rmdir()  # empty, the one thing that may be left
    family.ends_whole(f"{after}, then {'run' if again else 'resume'}", ended)


def runs(family: Family, run: list[str], *, last: int | None = None, every: int = 1) -> None:
    """Cut a run off everywhere, or somewhere, and go on in both ways in turn."""
    run = [*run, "--out", str(family.out)]
    for number, state in enumerate(family.undisturbed(command(*run))[:last:every]):
        family.begin(state)
        finish(family, run, f"run cut {state.where}", again=number % 2 == 0)


def resumed(family: Family, run: list[str]) -> None:
    """Cut a run off at some of its operations, then its resumption at some of its own, and go on."""
    run = [*run, "--out", str(family.out)]
    for first in family.undisturbed(command(*run))[4 :: size(8, 48)]:
        family.begin(first)
        _, states = family.cut(command("resume", str(family.out), *LAYOUT), first.copy.name)
        for number, second in enumerate(states[1 :: size(4, 30)]):
            family.begin(second)
            finish(family, run, f"run cut {first.where}, resume {second.where}", again=number % 3 == 0)


def sweep(family: Family) -> None:
    """Cut a sweep's store off everywhere, and give the same command again."""

    def act() -> int:
        squares = squares_of(range(5), lambda unit: unit * unit, {"base": {}})
        with locked_folder(family.out):
            claim(family.out, squares.content)
            found = measure_units(squares, InProcess(1), family.out, Console(quiet=True))
        return 0 if squares.result(found) == {"squares": [0, 1, 4, 9, 16]} else 1

    for state in family.undisturbed(act)[:: size(1, 5)]:
        family.begin(state)
        family.ends_whole(f"sweep cut {state.where}", cut_off(act, family.out))


def planted(family: Family) -> None:
    """Cut a run off in its first moments that writes files in place, not beside: some of it must go wrong."""

    def in_place(target: Path, content: bytes) -> None:
        target.unlink(missing_ok=True)
        whole_files._write_new(target, content)

    with mock.patch.object(whole_files, "write_whole", in_place):
        runs(family, RUN, last=9, every=size(1, 3))


FAMILIES: dict[str, Callable[[Family], None]] = {
    "run": lambda family: runs(family, RUN, every=size(1, 20)),
    "repeat": lambda family: runs(family, TWICE, every=size(5, 45)),
    "resume": lambda family: resumed(family, RUN),
    "sweep": sweep,
    "online": lambda family: runs(family, ONLINE, every=size(3, 26)),
    "two-tier": lambda family: runs(family, TAUGHT, every=size(5, 26)),
    "planted": planted,
}


def main(place: str, *names: str) -> dict[str, Any]:
    """Try families, each in a folder of its own, and return what came of them."""
    told = dict[str, Any]()
    with ExitStack() as patches:
        # How far a run has come is written by the clock, which must not move the cuts
        patches.enter_context(mock.patch.object(progress, "EVERY", 1e9))
        patches.enter_context(mock.patch("typer.main.get_command", functools.cache(get_command)))  # a third of a run
        for waits in ("fsync", "fdatasync"):  # a kill loses nothing that the system holds; they count all the same
            patches.enter_context(mock.patch.object(os, waits, return_value=None))
        patches.enter_context(mock.patch.multiple(emulated_runs, MOST=16, PATIENCE=1))  # two thirds of a run
        for name in names:
            family = Family(Path(place).resolve() / name)
            FAMILIES[name](family)
            told[name] = {"tried": family.tried, "wrong": family.wrong}
            told[name]["kinds"] = sorted({what.partition(" ")[0] for what in family.operations})
    return told


TRIED = {"run": 50, "repeat": 17, "resume": 50, "sweep": 18, "online": 17, "two-tier": 10}
"""Different states at least: all that cuts of a run and of a sweep leave, and some of the others."""


def told_of(folder: str, *families: str) -> dict[str, Any]:
    """What `main` tells of families, in a process of its own that has no threads."""
    environment = os.environ | dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    paths = os.pathsep.join([str(SUPPORT), str(SUPPORT.parents[1])])
    call = [sys.executable, __file__, folder, *families]
    ended = subprocess.run(
        call,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment | {"PYTHONPATH": paths},
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


@pytest.mark.slow
@pytest.mark.parametrize(
    "families",
    [
        ("run", "resume", "planted"),
        # by default a repeat goes on in `test_journal`, others in `test_resumed`; sweeps fail at any operation above
        pytest.param(("sweep", "online", "two-tier", "repeat"), marks=pytest.mark.thorough),
    ],
)
def test_whatever_is_cut_off_goes_on_to_the_same_end(families: tuple[str, ...], tmp_path: Path) -> None:
    """Killed before, after and in the middle of operations on files; marks that are written in place are found."""
    for family, told in (told_of if THOROUGH else main)(str(tmp_path), *families).items():
        if family == "planted":
            assert any("is damaged" in line for line in told["wrong"])
            continue
        assert told["wrong"] == [], family
        assert told["tried"] >= (TRIED[family] if THOROUGH else 3), family
        assert {*told["kinds"]} >= {"open", "write", "fsync", "mkdir", "rename", "commit"}, family
        assert {*told["kinds"]} >= {"remove", "rmdir"} or family == "sweep", family


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
