"""Which tests are nearest to a module, and which modules depend on it: read off the imports of all files."""

import ast
from collections import defaultdict
from itertools import takewhile
from pathlib import Path
from typing import Final

PACKAGES: Final = ("actors", "benchmarks", "blindrec", "coordinator", "scenarios", "tests")
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
