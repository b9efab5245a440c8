"""Finding: the modules of a room declare what they hold, and nobody keeps a list of them."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import TypeVar

from coordinator.protocol.errors import BlindrecError

T = TypeVar("T")


class RoomError(BlindrecError):
    """A module of a room declares nothing, something of another kind, or a name that is taken."""


def declared(package: str, path: Iterable[str], attribute: str, kind: type[T]) -> list[T]:
    """Return what the modules of a package declare, module by module in the order of their names."""
    declarations: list[T] = []
    for module in sorted(pkgutil.iter_modules(path), key=lambda module: module.name):
        where = f"{package}.{module.name}"
        values = getattr(importlib.import_module(where), attribute, None)
        if not isinstance(values, tuple) or not values or not all(isinstance(value, kind) for value in values):
            raise RoomError(f"{where} declares no {attribute}; give it a tuple of {kind.__name__}")
        declarations += values
    return declarations


def by_name(declarations: Iterable[T], names: Callable[[T], Iterable[str]]) -> dict[str, T]:
    """Return what was found by its names, in the order given."""
    table: dict[str, T] = {}
    for declaration in declarations:
        for name in names(declaration):
            if name in table:
                raise RoomError(
                    f"{name!r} is declared by {type(table[name]).__name__} and {type(declaration).__name__}"
                )
            table[name] = declaration
    return table
