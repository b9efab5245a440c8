"""Goes on from what a kill at any file operation of a command leaves; run by ``test_crash_points``.

Many operations leave the same behind, such as those on files that have no name yet: each state is tried once.
"""

import functools
import gc
import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pandas as pd
from cutting import Ended, forked
from lasting import PROVENANCE, lasting
from squares import Squares
from thoroughness import size
from typer.main import get_command

from actors import durable_log
from scenarios import cli
from scenarios.backends.selection import InProcess
from scenarios.experiment import progress
from scenarios.store import whole_files
from scenarios.store.manifest import FOLDER, MANIFEST, read_manifest
from scenarios.store.record_log import UNIT, UNITS, Units
from scenarios.store.whole_files import locked_folder
from scenarios.studies.sweep.sweep_folder import claim, measure_units
from scenarios.theory import emulated_runs

progress.EVERY = 1e9  # how far a run has come is written by the clock, which must not move the cuts

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
    """Return what runs a command and returns its exit code."""

    def act() -> int:
        try:
            cli.main(list(arguments))
        except SystemExit as ended:
            return int(ended.code or 0)

    return act


def left(folder: Path) -> dict[str, Any]:
    """Return all files and folders below a folder: results and tables as far as they last, others byte by byte.

    Of a sweep's units it is told which there are, not in which files; of its mark, which sweep it is.
    """
    found = {str(path.relative_to(folder)): content(path) for path in folder.rglob("*") if path.suffix != UNIT.suffix}
    if (folder / FOLDER / UNITS).exists():
        mark = read_manifest(folder)
        found[f"{FOLDER}/{MANIFEST}"] = mark and mark.identity
        squares = Squares((), abs, {})
        found["units"] = sorted((key, square.found) for key, square in Units(folder, squares.from_line, squares.line))
    return found


def content(path: Path) -> Any:
    """Return what lasts of a file."""
    if path.is_dir():
        return None
    if path.suffix == ".parquet":
        return repr(pd.read_parquet(path).drop(columns="seconds", errors="ignore").to_dict("list"))
    if path.name == "versions.json":
        return lasting(json.loads(path.read_text()), PROVENANCE)
    return lasting(json.loads(path.read_text()), TIMED) if path.name == "result.json" else path.read_bytes()


def raw(folder: Path) -> str:
    """Return a digest of all names and bytes below a folder, which need not be there."""
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
        gc.freeze()  # and is not copied there
        ended, states = self.cut(act, "undisturbed")
        self.whole, self.operations = left(self.out), ended.operations
        self.require(ended.code == 0, f"the undisturbed run ended with {ended.code}: {ended.err}")
        return states

    def cut(self, act: Callable[[], int], name: str) -> tuple[Ended, list[State]]:
        """Run something to the end, and return the different states that cuts leave, in order."""
        kept = self.kept / name
        ended = forked(act, self.out, kept)
        found = [State(where, kept / str(number)) for number, where in enumerate(ended.cuts)]
        return ended, list({raw(state.copy): state for state in reversed(found)}.values())[::-1]

    def begin(self, state: State) -> None:
        """Let the folder be as a cut left it."""
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
        """Note what does not hold."""
        if not holds:
            self.wrong.append(what)

    def clean(self) -> None:
        """Remove the folder."""
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
        ended = forked(command(*run), out)
        told = (ended.code, ended.err.count("\n")) == (0, 1) and "is over: this is its result" in ended.err
        family.require(told, f"{after}: {ended.err}")
        again = False
    if not (over or again or kept.exists()):
        ended = forked(command(*resume), out)
        said = f"nothing was kept there; blindrec run ... --out {out} begins one"
        family.require((ended.code, ended.err.count("\n")) == (2, 1) and said in ended.err, f"{after}: {ended.err}")
        again = True
    ended = forked(command(*(run if again else resume)), out)
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
    from rich.console import Console  # noqa: PLC0415 (this family only)

    def act() -> int:
        squares = Squares(range(5), lambda unit: unit * unit, {"base": {}})
        with locked_folder(family.out):
            claim(family.out, squares.content())
            found = measure_units(squares, InProcess(1), family.out, Console(quiet=True))
        return 0 if squares.result(found) == {"squares": [0, 1, 4, 9, 16]} else 1

    for state in family.undisturbed(act)[:: size(1, 5)]:
        family.begin(state)
        family.ends_whole(f"sweep cut {state.where}", forked(act, family.out))


def planted(family: Family) -> None:
    """Cut a run off in its first moments that writes files in place, not beside: some of it must go wrong."""

    def in_place(target: Path, content: bytes) -> None:
        target.unlink(missing_ok=True)
        durable_log.add(target, content, new=True)

    with mock.patch.object(whole_files, "write_whole", in_place):
        runs(family, RUN, last=9, every=size(1, 3))


FAMILIES: dict[str, Callable[[Family], None]] = {
    "run": lambda family: runs(family, RUN, every=size(1, 30)),
    "repeat": lambda family: runs(family, TWICE, every=size(5, 45)),
    "resume": lambda family: resumed(family, RUN),
    "sweep": sweep,
    "online": lambda family: runs(family, ONLINE, every=size(3, 26)),
    "two-tier": lambda family: runs(family, TAUGHT, every=size(5, 26)),
    "planted": planted,
}


def main(place: str, *names: str) -> None:
    """Try families, each in a folder of its own, and print what came of them."""
    told = dict[str, Any]()
    with ExitStack() as patches:
        patches.enter_context(mock.patch("typer.main.get_command", functools.cache(get_command)))  # a third of a run
        for waits in ("fsync", "fdatasync"):  # a kill loses nothing that the system holds; they count all the same
            patches.enter_context(mock.patch.object(os, waits, return_value=None))
        patches.enter_context(mock.patch.multiple(emulated_runs, MOST=16, PATIENCE=1))  # two thirds of a run
        for name in names:
            family = Family(Path(place).resolve() / name)
            FAMILIES[name](family)
            told[name] = {"tried": family.tried, "wrong": family.wrong}
            told[name]["kinds"] = sorted({what.partition(" ")[0] for what in family.operations})
    sys.stdout.write(json.dumps(told))
