"""Scenario files and flags become checked values, or one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coordinator.protocol.errors import InputError
from scenarios.given.files import read_values
from scenarios.given.values import brief

M = TypeVar("M", bound=BaseModel)
_WAYS = ("constrained-", "function-", "literal[")
"""How the checking library calls the ways to read a value of several types; they are no part of a key."""


def validated(kind: type[M], path: Path | None, flags: dict[str, Any]) -> M:
    """Read a scenario from a TOML file and flags; flags win.

    Parameters
    ----------
    kind : type
        What to read, e.g. `scenarios.given.config.Scenario`.
    path : Path or None
        TOML file whose keys are the attributes of ``kind``, or the scenario.json of a finished run.
    flags : dict
        What the command line set; None where it did not.

    Returns
    -------
    kind

    Raises
    ------
    InputError
        One line for the first thing that is wrong: the key, its value and the remedy.
    """
    values = read_values(path, "scenario file") if path else {}
    if "settings" in values:
        raise InputError("key 'settings' is unknown: a mechanism's own settings stand among the others; take them out")
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InputError(first_line(error, kind)) from None


def keys_of(kind: type[BaseModel]) -> list[str]:
    """Return the keys that a TOML file may have."""
    flat_names = getattr(kind, "flat_names", None)
    return list(flat_names() if callable(flat_names) else kind.model_fields)


def first_line(error: ValidationError, kind: type[BaseModel]) -> str:
    """Return in one line the first thing that is wrong: the key, its value and the remedy.

    Parameters
    ----------
    error : ValidationError
    kind : type
        What could not be read; known keys are its own.
    """
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if not str(part).startswith(_WAYS)) or "scenario"
    if first["type"] == "extra_forbidden":
        return f"key {brief(name)} is unknown; known are {', '.join(keys_of(kind))}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message if message.startswith(name) or not first["loc"] else f"{name}: {message}"
    return f"{name} is {brief(first['input'])}: {message[0].lower()}{message[1:]}"
