"""The source of a class: its modules, and all of the user's modules that these import, anywhere in their code."""

from __future__ import annotations

import ast
import importlib.util
import linecache
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType

from coordinator.protocol.errors import InputError
from coordinator.protocol.own import Mechanism

OURS = frozenset({"actors", "coordinator", "scenarios", "blindrec"})
INSTALLED = frozenset({"site-packages", "dist-packages"})


def bases(kind: type) -> tuple[type, ...]:
    """Return a class and its bases up to `Mechanism`."""
    return kind.__mro__[: kind.__mro__.index(Mechanism)]


def in_file(kind: type) -> bool:
    """Whether a class's source is a module's file, which it is not in a notebook."""
    return kind.__module__ in sys.modules and _file_of(kind.__module__) is not None


def modules_of(kind: type, helpers: Iterable[str] = ()) -> dict[str, str]:
    """Return the source of every module that counts, by name.

    These are the modules of the class and of its bases, and all modules that they import, also inside functions.
    Python's, blindrec's and installed modules do not count, unless they are in the class's own package.
    """
    roots = [one.__module__ for one in bases(kind) if in_file(one)]
    return _reached(roots, [name for one in bases(kind) if not in_file(one) for name in _names_read(one)], helpers)


def modules_with(module: str) -> dict[str, str]:
    """Return the source of a module, and of what it imports that counts, by name; see `modules_of`."""
    return _reached([module])


def _reached(roots: list[str], further: Iterable[str] = (), helpers: Iterable[str] = ()) -> dict[str, str]:
    packages = {_top(name) for name in (*roots, *helpers)} - OURS
    waiting = [*roots, *further]
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name in found or (name not in roots and not _counts(name, packages)):
            continue
        if file := _file_of(name):
            found[name] = file.read_text(encoding="utf-8")
            waiting += _imported(found[name], name, _package_of(name, file))
            if _imports_by_text(found[name]):
                waiting += _all_of(_top(name))
    return found


def source_of_class(kind: type) -> tuple[str, str]:
    """Return the source of a class in a notebook or an interpreter, found by one of its methods, and its whole cell.

    Raises
    ------
    InputError
        If there is none.
    """
    for value in vars(kind).values():
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if code is None or getattr(value, "__module__", "") != kind.__module__:
            continue
        cell = "".join(linecache.getlines(code.co_filename))
        try:
            tree = ast.parse(cell)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                return ast.get_source_segment(cell, node) or "", cell
    raise InputError(
        f"the source of {kind.__name__} cannot be read, so that nobody could tell whether it changed; put it into a "
        "file or a notebook's cell"
    )


def of_package(name: str) -> Iterator[str]:
    """Yield the source of every module of a helper package."""
    module = sys.modules[_top(name)]
    for folder in getattr(module, "__path__", ()):
        for file in sorted(Path(folder).rglob("*.py")):
            yield file.read_text(encoding="utf-8")
    if not hasattr(module, "__path__"):
        file_of_it = _file_of(_top(name))
        yield file_of_it.read_text(encoding="utf-8") if file_of_it else ""


def _top(name: str) -> str:
    return name.partition(".")[0]


def _counts(name: str, packages: set[str]) -> bool:
    top = _top(name)
    if top in packages:
        return True
    file = None if top in sys.stdlib_module_names or top in OURS else _file_of(top)
    return file is not None and not INSTALLED.intersection(file.parts)


def _file_of(name: str) -> Path | None:
    """Return the file of a module's source, whether it is imported or not; None if there is none."""
    module = sys.modules.get(name)
    if module is not None:
        file = getattr(module, "__file__", None)
    elif "." in name:
        parent, _, last = name.rpartition(".")
        base = _file_of(parent)
        folder = base.parent if base and base.name == "__init__.py" else None
        both = (folder / last / "__init__.py", folder / f"{last}.py") if folder else ()
        file = next((one for one in both if one.is_file()), None)
    else:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        file = spec.origin if spec else None
    return Path(file) if file and Path(file).suffix == ".py" and Path(file).is_file() else None


def _package_of(name: str, file: Path) -> str:
    """Return the package that a module's relative imports start from."""
    module = sys.modules.get(name)
    known = getattr(module, "__package__", None)
    if known is not None:
        return str(known)
    return name if file.name == "__init__.py" else name.rpartition(".")[0]


@lru_cache(maxsize=256)
def _imported(text: str, name: str, package: str) -> tuple[str, ...]:
    """Return the names of all modules that a source may import, beginning with its own packages."""
    named = [name]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            named += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    parts = [one.split(".") for one in named if one]
    return tuple(dict.fromkeys(".".join(one[:many]) for one in parts for many in range(1, len(one) + 1)))


def _imports_by_text(text: str) -> bool:
    """Whether a source may import modules without an import statement."""
    return "importlib" in text or "__import__" in text


def _all_of(package: str) -> list[str]:
    """Return the names of all modules of a package."""
    file = _file_of(package)
    if file is None or file.name != "__init__.py":
        return []
    found = (one.relative_to(file.parent.parent).with_suffix("").parts for one in file.parent.rglob("*.py"))
    return [".".join(one[:-1] if one[-1] == "__init__" else one) for one in found]


def _names_read(kind: type) -> Iterator[str]:
    """Yield the modules of the globals that the methods of a class in a notebook read."""
    for function in vars(kind).values():
        if isinstance(function, FunctionType):
            for name in function.__code__.co_names:
                value = function.__globals__.get(name)
                told = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
                if isinstance(told, str) and told != kind.__module__:
                    yield told
