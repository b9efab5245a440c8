"""Custom mechanisms and policies by import path, ``package.module:Name``, including the working directory."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from coordinator.protocol.custom import Mechanism, methods_missing, require_whole_class
from coordinator.protocol.errors import InputError, PolicyError


def import_object(path: str, what: str) -> Any:
    """Return the object that ``package.module:Name`` names."""
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        remedy = f"modules are looked for in the working directory, {here}, and where Python finds packages"
        if module_name.endswith(".py"):
            remedy = f"name the module without .py, {module_name.removesuffix('.py')}:{name}"
        raise PolicyError(f"{what} {path} cannot be imported: {type(error).__name__}: {error}; {remedy}") from error
    target = getattr(module, name, None)
    if not callable(target):
        complaint = f"{what} {path}: module {module_name} has nothing called {name} that makes a {what}"
        raise PolicyError(complaint + (f"; it has {', '.join(own)}" if (own := _own_names(module)) else ""))
    return target


def _own_names(module: ModuleType) -> list[str]:
    """Return the classes and functions that a module defines itself, for an error about a missing name."""
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def import_helpers(names: Sequence[str]) -> tuple[str, ...]:
    """Import packages that are sent with a mechanism; return their names."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise InputError(f"with is {name}, which cannot be imported: {type(error).__name__}: {error}") from error
    return tuple(names)


def import_class(path: str) -> type[Mechanism]:
    """Return the class of mechanisms that ``package.module:Name`` names."""
    kind = import_object(path, "design")
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        raise InputError(f"design {path} is no mechanism; derive the class from blindrec.Mechanism")
    if missing := methods_missing(kind):
        raise InputError(f"design {path} lacks {', '.join(missing)}; see Mechanism")
    return kind


def settings_fields(kind: type[Mechanism]) -> list[Field[Any]]:
    """Return the settings that a class annotates."""
    return [part for part in fields(kind) if part.init]  # type: ignore[arg-type] # every subclass is a dataclass


_TYPES: dict[type[Mechanism], dict[str, Any]] = {}


def types_of(kind: type[Mechanism], brought: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the types of a class's settings, as it annotates them."""
    if kind not in _TYPES:
        types = get_type_hints(kind) if brought is None else brought
        _TYPES[kind] = {part.name: types[part.name] for part in settings_fields(kind)}
    return _TYPES[kind]


def build_mechanism(kind: type[Mechanism], settings: Mapping[str, object]) -> Mechanism:
    """Return a mechanism of a class, with settings read as it annotates them."""
    names = {part.name for part in settings_fields(kind)}
    if strange := sorted(settings.keys() - names):
        choices = f"it has {', '.join(sorted(names))}" if names else "it has none"
        raise InputError(f"setting {strange[0]} is none of design {kind.__name__}; {choices}")
    try:
        hints = types_of(kind)
        values = {name: _read(kind, name, hints[name], value) for name, value in settings.items()}
        mechanism = kind(**values)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"design {kind.__name__} cannot be made: {type(error).__name__}: {error}") from error
    return require_whole_class(mechanism)


def _read(kind: type[Mechanism], name: str, hint: Any, value: object) -> Any:
    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise InputError(f"setting {name} of design {kind.__name__} is {value!r}: {reason}") from None


def read_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Return settings as the command line writes them, ``name=value`` each."""
    settings: dict[str, str] = {}
    for one in pairs:
        name, equals, value = one.partition("=")
        if not equals or not name.isidentifier() or name in settings:
            raise InputError(f"setting is {one!r}; write name=value, each name once")
        settings[name] = value
    return settings
