"""Messages as an attacker sends them: made without their constructor, as unpickling makes them."""

from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def forged(message: T, **changes: object) -> T:
    """A copy of a message with other fields, which nothing has checked."""
    made: Any = object.__new__(type(message))
    names = {field.name for field in fields(message)}  # type: ignore[arg-type] # messages are dataclasses
    assert changes.keys() <= names
    for name in names:
        object.__setattr__(made, name, changes.get(name, getattr(message, name)))
    return made  # type: ignore[no-any-return] # of the same type
