"""Where mutants are tested: copies of the project's tree, and the tests that are nearest to a module."""

import ast
import hashlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("actors", "benchmarks", "blindrec", "coordinator", "scenarios", "tests")
WITH_KERNELS: Final = ("actors", "coordinator", "scenarios")  # The packages whose kernels call each other
FILES, ENOUGH, LONG = 20, 60.0, 15.0
"""Most files of tests for one module, most processor seconds for all, and after how many one is timed again."""
SLOWER, COMPILING, PATIENCE = 3.0, 90.0, 900.0
"""How many times longer tests of a mutant may take, with processor seconds for kernels; most seconds by the clock."""
LOADED: Final = (
    "numba",
    "scipy.stats",
    "scipy.optimize",
    "pandas",
    "pyarrow.parquet",
    "pydantic",
    "rich.console",
    "ray",
)
"""Libraries that all tests' processes get from the one that starts them."""


def run(tree: Path, files: Sequence[str], seconds: float) -> tuple[int, float, str]:
    """Run tests in a tree until one fails; return pytest's exit code, seconds of the processor, and which one failed.

    The exit code is below 0, that of a signal, if they took too long or the process died.
    """
    log, end = tree.with_suffix(".log"), time.monotonic() + PATIENCE
    if not (child := os.fork()):
        os._exit(_inside(tree, files, log, seconds))
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        time.sleep(0.02)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it may have started
    code = os.waitstatus_to_exitcode(ended[1])
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", log.read_text(errors="replace"), re.MULTILINE)
    return code, ended[2].ru_utime + ended[2].ru_stime, failed[0] if failed else ""


def _inside(tree: Path, files: Sequence[str], log: Path, seconds: float) -> int:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]  # they are ROOT's
    os.chdir(tree)
    sys.path[:] = [str(tree), *(entry for entry in sys.path if entry not in {"", str(ROOT)})]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a copy has the bytecode of the clean one
    sys.dont_write_bytecode = False
    os.environ |= {"PYTHONPATH": str(tree), "XDG_CACHE_HOME": str(tree / "build")}
    os.environ["BLINDREC_EVERY_CASE"] = "1"  # a case that `make test` leaves out may be the one that notices
    with log.open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    return int(pytest.main(["-x", "-q", "-m", "not cluster", "-p", "no:cacheprovider", "-p", "no:xdist", *files]))


# Who imports whom: it says which tests are nearest to a module, and which modules depend on it.
FINDING = "coordinator.protocol.finding.declared"  # A room that imports it finds its modules by itself


def _name(path: Path) -> str:
    """Return the dotted name of a module; files of `tests` are known without that, as `tests/conftest.py` has it."""
    parts = path.with_suffix("").parts
    shared = 2 if parts[:2] == ("tests", "support") else int(parts[0] == "tests")
    return ".".join(parts[shared : len(parts) - (parts[-1] == "__init__")])


def _imported(source: str) -> set[str]:
    names = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


class Imports:
    """Who imports whom in a tree."""

    def __init__(self, root: Path) -> None:
        paths = [path.relative_to(root) for package in PACKAGES for path in (root / package).rglob("*.py")]
        self._files = {_name(path): path for path in paths}
        self._by: dict[str, set[str]] = defaultdict(set)
        self._many: dict[str, int] = {}
        for name, path in self._files.items():
            names = _imported((root / path).read_text(encoding="utf-8"))
            if FINDING in names:
                names |= {module for module in self._files if module.startswith(f"{name}.")}
            neighbours = names & self._files.keys() - {name}
            self._many[name] = len(neighbours)
            for other in neighbours:
                self._by[other].add(name)

    def distances(self, module: str) -> dict[str, int]:
        """Return all modules that depend on the one in a file, each with the number of imports in between."""
        distances = {_name(Path(module)): 0}
        for name in (queue := list(distances)):
            fresh = sorted(self._by[name] - distances.keys())
            distances |= dict.fromkeys(fresh, distances[name] + 1)
            queue += fresh
        return distances

    def tests(self, module: str) -> list[str]:
        """Return the files of tests that depend on a module: the nearest first.

        The first one bears its name, as `test_pairwise` does of `pairwise`. Then come those that import it, then those
        of its room, then all others; and among these those with the fewest imports in between, then of their own.
        """
        far, room, namesake = self.distances(module), Path(module).parts, f"test_{Path(module).stem}"

        def order(name: str) -> tuple[object, ...]:
            shared = len(list(takewhile(lambda two: two[0] == two[1], zip(name.split("."), room, strict=False))))
            return name.rpartition(".")[2] != namesake, far[name] > 1, -shared, far[name], self._many[name], name

        tests = [name for name in far if name.rpartition(".")[2].startswith("test_")]
        return [str(self._files[name]) for name in sorted(tests, key=order)]


def read(file: Path) -> list[dict[str, Any]]:
    """Return the rows in a file, none if there is no file. What a crash left of a last line is removed from it."""
    content = file.read_bytes() if file.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        file.write_bytes(whole)
    return [json.loads(line) for line in whole.splitlines()]


def keep(file: Path, row: dict[str, Any]) -> None:
    """Add a row to a file."""
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(row) + "\n")


class Laboratory:
    """A copy of the project's tree with its compiled kernels, from which a mutant's copy is made each time."""

    def __init__(self, folder: Path) -> None:
        self._clean, self._copy, self._known = folder / "clean", folder / "copy", folder / "tests.jsonl"
        for loaded in LOADED:
            importlib.import_module(loaded)
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        )
        changed = self._update([ROOT / name for name in names.stdout.decode().splitlines()])
        self.imports = Imports(self._clean)
        _forget(self._clean, set().union(*map(self._dependents, changed)))
        self._times: dict[tuple[str, str], float | None] = {
            (row["file"], row["digest"]): row["seconds"] for row in read(self._known)
        }

    def _update(self, paths: Sequence[Path]) -> list[str]:
        """Bring the clean copy up to date; return the modules that changed, on which kernels may depend."""
        changed = list[str]()
        for path in filter(Path.is_file, paths):
            copy = self._clean / path.relative_to(ROOT)
            if copy.exists() and copy.read_bytes() == path.read_bytes():
                continue
            if copy.suffix == ".py" and copy.exists() and path.relative_to(ROOT).parts[0] in WITH_KERNELS:
                changed.append(str(path.relative_to(ROOT)))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            shutil.copy2(path, copy)
        return changed

    def _dependents(self, module: str) -> set[str]:
        """Return the last parts of the names of a module and of all that depend on it."""
        return {name.rpartition(".")[2] for name in self.imports.distances(module)}

    def tests(self, module: str) -> list[str]:
        """Return files whose tests are the nearest of a module's: its own, if it shows examples, and others."""
        own_tests = [module] if b">>>" in (self._clean / module).read_bytes() else []
        return own_tests + self.imports.tests(module)[:FILES]

    def digest(self, files: Sequence[str]) -> str:
        """Return the digest of some files."""
        return hashlib.sha256(b"".join((self._clean / file).read_bytes() for file in files)).hexdigest()[:12]

    def _seconds(self, file: str) -> float | None:
        """Return the processor seconds of a file of tests where nothing is changed, if they pass."""
        key = (file, self.digest([file]))
        if key not in self._times:
            code, seconds, _ = run(self._clean, [file], ENOUGH)
            if seconds > LONG:  # it compiled
                code, seconds, _ = run(self._clean, [file], ENOUGH)
            self._times[key] = None if code else seconds
            keep(self._known, {"file": key[0], "digest": key[1], "seconds": self._times[key], "code": code})
        return self._times[key]

    def test(self, module: str, source: str, files: Sequence[str]) -> tuple[int, float, str]:
        """Run tests, file by file until one fails, where a module has another source, in a copy made for that.

        Tests that fail without any change, and those that take long, are left out.
        """
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._clean, self._copy, copy_function=os.link)
        _forget(self._copy, dependents := self._dependents(module))
        (self._copy / module).unlink()  # the file in the clean copy stays as it is
        (self._copy / module).write_text(source, encoding="utf-8")
        planned, spent = 0.0, 0.0
        for file in files:
            seconds = self._seconds(file)
            if seconds is None or planned + seconds > ENOUGH:
                continue
            planned += seconds
            code, took, by = run(self._copy, [file], SLOWER * seconds + COMPILING)
            spent += took
            hand_over(self._copy, self._clean, dependents)
            if code:
                return code, spent, by
        return 0, spent, ""


def hand_over(copy: Path, clean: Path, dependents: set[str]) -> None:
    """Give a tree the kernels that a copy of it compiled, but for those of modules that depend on what differs."""
    for kernel in copy.rglob("*.nb[ic]"):
        target = clean / kernel.relative_to(copy)
        if kernel.name.partition(".")[0] not in dependents and not (target.exists() and target.samefile(kernel)):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            os.link(kernel, target)


def _forget(tree: Path, modules: set[str]) -> None:
    """Remove the compiled kernels of some modules, by the last part of their names."""
    for kernel in tree.rglob("*.nb[ic]"):
        if kernel.name.partition(".")[0] in modules:
            kernel.unlink()
