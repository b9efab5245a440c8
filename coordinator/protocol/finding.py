"""Finding: the modules of a room declare what they hold, and nobody keeps a list of them."""

from __future__ import annotations

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
    found: list[T] = []
    for module in sorted(pkgutil.iter_modules(path), key=lambda one: one.name):
        where = f"{package}.{module.name}"
        told = getattr(importlib.import_module(where), attribute, None)
        if not isinstance(told, tuple) or not told or not all(isinstance(one, kind) for one in told):
            raise RoomError(f"{where} declares no {attribute}; give it a tuple of {kind.__name__}")
        found += told
    return found


def by_name(found: Iterable[T], names: Callable[[T], Iterable[str]]) -> dict[str, T]:
    """Return what was found by its names, in the order given."""
    known: dict[str, T] = {}
    for one in found:
        for name in names(one):
            if name in known:
                raise RoomError(f"{name!r} is declared by {type(known[name]).__name__} and {type(one).__name__}")
            known[name] = one
    return known
