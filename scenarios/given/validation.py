"""Scenario files and flags become checked values, or one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coordinator.protocol.errors import InputError
from scenarios.given.files import read_values
from scenarios.given.values import brief

M = TypeVar("M", bound=BaseModel)
_CODE, _HELPERS = ("design", "policy"), ("helpers", "with")
"""Keys of files under which code can be named, and packages that travel with it."""
_WAYS = ("constrained-", "function-", "literal[")
"""How the checking library calls the ways to read a value of several types; they are no part of a key."""


def validated(kind: type[M], path: Path | None, flags: dict[str, Any], *, allow_code: bool = False) -> M:
    """Read a scenario from a TOML file and flags; flags win."""
    values = read_values(path, "scenario file") if path else {}
    if "settings" in values:
        raise InputError("key 'settings' is unknown: a mechanism's own settings stand among the others; take them out")
    named = {name: value for name, value in flags.items() if value is not None}
    if path is not None and not allow_code:
        refuse_code({name: value for name, value in values.items() if name not in named}, f"scenario file {path}")
    values |= named
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InputError(first_line(error, kind)) from None


def refuse_code(value: Any, what: str, key: str = "") -> None:
    """Refuse a file that names code of somebody's own, which would run with all that its reader may do.

    blindrec's own designs and policies have names; what has an import path, ``package.module:Name``, is code, wherever
    it is, and so are the packages that travel with it.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            refuse_code(inner, what, str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            refuse_code(inner, what, key)
    elif isinstance(value, str) and (key in _HELPERS or (key in _CODE and ":" in value)):
        raise InputError(
            f"{what} names code, {key} = {brief(value)}, which would run here with all that you may do; read that "
            "code, then give --allow-code, or name it by a flag"
        )


def keys_of(kind: type[BaseModel]) -> list[str]:
    """Return the keys that a TOML file may have."""
    flat_names = getattr(kind, "flat_names", None)
    return list(flat_names() if callable(flat_names) else kind.model_fields)


def first_line(error: ValidationError, kind: type[BaseModel]) -> str:
    """Return in one line the first thing that is wrong: the key, its value and the remedy."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if not str(part).startswith(_WAYS)) or "scenario"
    if first["type"] == "extra_forbidden":
        return f"key {brief(name)} is unknown; known are {', '.join(keys_of(kind))}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message if message.startswith(name) or not first["loc"] else f"{name}: {message}"
    return f"{name} is {brief(first['input'])}: {message[0].lower()}{message[1:]}"
