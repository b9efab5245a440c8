"""Checking that methods are the code of their source, and listing the plain data that they read."""

from __future__ import annotations

import ast
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from coordinator.protocol.errors import InputError
from scenarios.own.sources import INSTALLED, bases

_PLAIN = (bool, int, float, complex, str, bytes, Fraction, np.generic, type(None))


class Running:
    """The global values that a class's methods, and the functions that they call, read when they run.

    Parameters
    ----------
    kind : type
        The class.
    modules : mapping of str to str
        The source of every module that counts, by name.
    more : iterable of str
        Further sources: a notebook's cells.

    Raises
    ------
    InputError
        If a method is not the code of the source, or holds values of an enclosing function.
    """

    def __init__(self, kind: type, modules: Mapping[str, str], more: Iterable[str]) -> None:
        self._name, self._modules = kind.__name__, modules
        self._codes: set[object] = set()
        self._states: set[str] = set()
        for text in (*modules.values(), *more):
            codes, states, _ = _compiled(text)
            self._codes |= codes
            self._states |= states
        self._seen: set[int] = set()
        self._told: set[str] = set()
        for one in bases(kind):
            self._class(one)

    @property
    def values(self) -> list[str]:
        """Names and values of the plain data, in order."""
        return sorted(self._told)

    def _class(self, kind: type) -> None:
        if id(kind) in self._seen:
            return
        self._seen.add(id(kind))
        settings = vars(kind).get("__dataclass_fields__", {})
        for name, value in vars(kind).items():
            functions = list(_functions(value))
            by_dataclass = name.startswith("__") and any(one.__code__.co_filename == "<string>" for one in functions)
            for function in () if by_dataclass else functions:
                self._function(function)
            if not name.startswith("__") and name not in settings:
                self._value(name, value)

    def _function(self, function: FunctionType) -> None:
        if id(function) in self._seen or self._is_of_others(function):
            return
        self._seen.add(id(function))
        code = function.__code__
        if not self._is_of_the_source(function):
            raise InputError(
                f"design {self._name}: {code.co_name} is not the code of its source; write it there, and start Python "
                "again if the file has changed"
            )
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            held = cell.cell_contents
            if name != "__class__" and not isinstance(held, FunctionType):
                raise InputError(
                    f"design {self._name}: {code.co_name} holds {name} of the function that made it, which its source "
                    "does not tell; make it a setting"
                )
            if isinstance(held, FunctionType):
                self._function(held)
        names = set(_names(code))
        self._space(function.__globals__, names)

    def _space(self, space: Mapping[str, Any], names: set[str], within: tuple[str, ...] = ()) -> None:
        """Look these names up in a module."""
        text = self._modules.get(space.get("__name__", ""))
        defined = _compiled(text)[2] if text else frozenset()
        for name in names & space.keys():
            value = space[name]
            if isinstance(value, ModuleType):
                if value.__name__ in self._modules and value.__name__ not in within:
                    self._space(vars(value), names, (*within, value.__name__))
            else:
                self._read(name, value, defined)

    def _read(self, name: str, value: object, defined: frozenset[str]) -> None:
        if isinstance(value, type):
            if value.__module__ in self._modules:
                self._class(value)
        elif isinstance(value, FunctionType):
            if name in defined or value.__module__ in self._modules:
                self._function(inspect.unwrap(value))
        else:
            self._value(name, value)

    def _value(self, name: str, value: object) -> None:
        if not name.startswith("__") and name not in self._states and (told := plain(value)) is not None:
            self._told.add(f"{name} = {told}")

    def _is_of_others(self, function: FunctionType) -> bool:
        """Whether a function belongs to Python or an installed package, so that its name in the source is enough."""
        file = Path(function.__code__.co_filename)
        installed = INSTALLED.intersection(file.parts) or file.is_relative_to(sysconfig.get_paths()["stdlib"])
        return bool(installed) and function.__globals__.get("__name__") not in self._modules

    def _is_of_the_source(self, function: FunctionType) -> bool:
        if _key(function.__code__) in self._codes:
            return True
        loader = getattr(sys.modules.get(function.__module__), "__loader__", None)
        compiled_as_it_stands = loader is None or isinstance(loader, SourceFileLoader) or inspect.isclass(loader)
        return (
            not compiled_as_it_stands  # pytest rewrites what is asserted
            and function.__module__ in self._modules
            and any(isinstance(one, tuple) and one[0] == function.__code__.co_qualname for one in self._codes)
        )


def plain(value: object) -> str | None:
    """Return a number, a text, an array or a tuple of them as text that is the same in every process; else None."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype.str}{value.shape}{value.tobytes().hex()}"
    if isinstance(value, tuple):
        told = [plain(one) for one in value]
        return None if None in told else f"({', '.join(map(str, told))})"
    return f"{type(value).__name__} {value!r}" if isinstance(value, _PLAIN) else None


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield the functions behind an attribute of a class, without decorators and descriptors."""
    if isinstance(value, property):
        inner = [value.fget, value.fset, value.fdel]
    elif isinstance(value, cached_property):
        inner = [value.func]
    else:
        inner = [getattr(value, "__func__", value)]
    for one in inner:
        found = inspect.unwrap(one) if callable(one) and not isinstance(one, type) else one
        for function in {id(each): each for each in (one, found)}.values():
            if isinstance(function, FunctionType):
                yield function


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)


def _key(code: CodeType) -> tuple[object, ...]:
    """Return a value that identifies a function's code, independent of its place in the file."""
    consts = tuple(_key(one) if isinstance(one, CodeType) else _const(one) for one in code.co_consts)
    return code.co_qualname, code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts


def _const(value: object) -> object:
    return value if isinstance(value, frozenset) else f"{type(value).__name__} {value!r}"


@lru_cache(maxsize=256)
def _compiled(text: str) -> tuple[frozenset[object], frozenset[str], frozenset[str]]:
    """Return a source's codes, the globals that its functions set as they run, and the functions that it defines."""
    tree = ast.parse(text)
    states = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list}
    found: set[object] = set()
    waiting = [compile(tree, "<source>", "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        found.add(_key(code))
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
    return frozenset(found), frozenset(states), frozenset(defined)
