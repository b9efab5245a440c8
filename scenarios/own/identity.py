"""The identity of a mechanism: a digest of its source and its settings, independent of the place of its files."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

from coordinator.protocol.errors import InputError
from coordinator.protocol.own import Mechanism
from scenarios.own.importing import import_helpers
from scenarios.own.running import Running
from scenarios.own.sources import bases, in_file, modules_of, of_package, source_of_class

DIGEST = 16


def identity(mechanism: Mechanism, helpers: Iterable[str] = ()) -> str:
    """Return thirty-two hexadecimal digits: the digest of a mechanism's source and settings.

    The source is that of the modules of its class and of the classes that it derives from, and of all that these
    import, see `sources.modules_of`; in a notebook, of the class alone, and the modules that it reads. The numbers,
    texts and arrays of these modules that its methods read count with the values that they have. Import paths and
    folders do not count.

    Parameters
    ----------
    mechanism : Mechanism
        The class with its settings.
    helpers : iterable of str
        Names of further packages that are sent with it; all of their source counts.

    Raises
    ------
    InputError
        If a class's source does not determine what it does, or a setting has no text form.
    """
    told = [type(mechanism).__name__, settings_of(mechanism), code_of(type(mechanism), tuple(helpers))]
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=DIGEST).hexdigest()


_BROUGHT: dict[tuple[type[Mechanism], tuple[str, ...]], str] = {}


def code_of(kind: type[Mechanism], helpers: tuple[str, ...] = ()) -> str:
    """Return the digest of the source of a class and of the packages that are sent with it.

    The source is read once, because the imported code does not change with its file.
    """
    if came_by_value(kind) and (found := _BROUGHT.get((kind, helpers))):
        return found
    sources, modules, cells = _read(kind, helpers)  # type: ignore[arg-type] # a class can be hashed
    values = Running(kind, modules, cells).values
    return _digest("\n".join([*sources, *([_digest("\n".join(values))] if values else [])]))


def came_by_value(kind: type[Mechanism]) -> bool:
    """Whether a class was sent by another process, so that its module need not be here."""
    found: object = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not kind


@lru_cache(maxsize=256)
def _read(kind: type[Mechanism], helpers: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """Return the digests of a class's sources, the modules that count, and a notebook's cells."""
    for one in bases(kind):
        if "<locals>" in one.__qualname__:
            raise InputError(
                f"design {one.__name__} is made in a function, so that its source does not tell what it does; define "
                "it in a module, and make what the function is given a setting"
            )
    import_helpers(helpers)
    cells = [source_of_class(one) for one in bases(kind) if not in_file(one)]
    modules = modules_of(kind, helpers)
    whole = [text for name in helpers for text in of_package(name)]
    told = sorted(_digest(text) for text in (*modules.values(), *(one for one, _ in cells)) if text.strip())
    told += sorted(map(_digest, whole))
    return tuple(told), modules, tuple(cell for _, cell in cells)


def bring(kind: type[Mechanism], helpers: tuple[str, ...], code: str) -> None:
    """Note the digest of a class that the experimenter's process sent by value, because its source is not here."""
    _BROUGHT[kind, helpers] = code


def settings_of(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism's settings as JSON values.

    Raises
    ------
    InputError
        If one is not a number, a text, a truth value or a tuple of these.
    """
    return {part.name: _as_json(part.name, getattr(mechanism, part.name)) for part in fields(mechanism)}  # type: ignore[arg-type] # every subclass is a dataclass


def _as_json(name: str, value: object) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Fraction):
        return f"{value}" if isinstance(value, Fraction) else value.hex()
    if isinstance(value, tuple):
        return [_as_json(name, one) for one in value]
    raise InputError(f"setting {name} is a {type(value).__name__}; give a number, a text, or a tuple of them")


def _digest(source: str) -> str:
    return hashlib.sha256("\n".join(source.splitlines()).encode()).hexdigest()
