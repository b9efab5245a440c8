"""Scenario files and flags become checked values, or one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coordinator.protocol.errors import InputError
from scenarios.given import brief, read_toml

M = TypeVar("M", bound=BaseModel)


def validated(kind: type[M], path: Path | None, flags: dict[str, Any]) -> M:
    """Read a scenario from a TOML file and flags; flags win.

    Parameters
    ----------
    kind : type
        What to read, e.g. `scenarios.config.Scenario`.
    path : Path or None
        TOML file whose keys are the attributes of ``kind``.
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
    values = read_toml(path, "scenario file") if path else {}
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InputError(_first_line(error, kind)) from None


def _first_line(error: ValidationError, kind: type[BaseModel]) -> str:
    first = error.errors()[0]
    parts = [str(part) for part in first["loc"] if str(part) not in ("constrained-int", "literal['ceil','auto']")]
    name = ".".join(parts) or "scenario"
    if first["type"] == "extra_forbidden":
        return f"key {brief(name)} is unknown; known are {', '.join(kind.model_fields)}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message if message.startswith(name) or not first["loc"] else f"{name}: {message}"
    return f"{name} is {brief(first['input'])}: {message[0].lower()}{message[1:]}"
