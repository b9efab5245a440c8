"""One way for all messages to be checked: where they are built, and again where they arrive.

Unpickling runs no constructor, and whoever sends may send anything. A message is therefore of exactly one type, its
fields are of exact types, too (an instance of a subclass could say one thing when it is checked and another one when it
is used), and compiled code, which checks no bounds, gets arrays only whose shape, type, order and range were checked.
"""

from collections.abc import Collection
from dataclasses import fields
from functools import cache
from typing import Any, Self

import numpy as np

from coordinator.protocol.budget import require_epsilon
from coordinator.protocol.errors import BlockError, InputError

MOST_DEVICES = 1 << 40  # Addresses of devices lie below this
MOST_ITEMS = 1 << 24  # Items of a catalogue at most: the server holds two numbers of 64 bits an item
LARGEST = 1e50  # Absolute value of a real number in a message at most: sums of products of some of them stay finite
MOST_LETTERS = 200  # Letters of a name at most
_REAL = (float, np.float64)
_PUBLIC: dict[str, type[np.generic]] = {kind.__name__: kind for kind in (np.int32, np.int64, np.uint64, np.float64)}
"""Types of numbers in the public arrays of a query."""


class Checked:
    """A message that is checked when it is built, and by `arrived` where it arrives; an InputError says why not."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check what was given; its privacy parameter and its real numbers are held as one type each."""
        if "epsilon" in _names(type(self)):  # type: ignore[arg-type] # a class is hashable
            object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))  # type: ignore[attr-defined] # a field
        for name, value in self.reals().items():
            object.__setattr__(self, name, value)
        self.check()

    def reals(self) -> dict[str, object]:
        """Return the fields that hold real numbers, as `as_real` makes them; none where nothing else is said."""
        return {}

    def check(self) -> None:
        """Refuse a message that cannot be meant."""
        raise NotImplementedError

    @classmethod
    def arrived(cls, message: object) -> Self:
        """Return a message that somebody sent, checked, with arrays of its own; see `valid` for errors."""
        # Whoever sent it may still hold its arrays, and change them after the check; nobody else holds these. So what
        # is charged, and known again by its id, is what is answered.
        # Checked before, too: a copy is in C order whatever order it was sent in.
        return cls.valid(_private_copy(cls.valid(message)))

    @classmethod
    def valid(cls, message: object) -> Self:
        """Return a message, checked as it is."""
        if type(message) is not cls:
            raise InputError(f"a {cls.__name__} is expected here, not a {type(message).__name__}")
        for name in _names(cls):  # type: ignore[arg-type] # a class is hashable
            if not hasattr(message, name):
                raise InputError(f"{cls.__name__} lacks {name}; build a whole one")
        message.check()
        return message


def _private_copy(value: Any) -> Any:
    """Return a part of a message that shares nothing with it that can change."""
    if type(value) is np.ndarray:
        return value if _is_fixed(value) else value.copy()
    if type(value) is dict:
        return {name: _private_copy(item) for name, item in value.items()}
    if type(value) is tuple:
        return tuple(map(_private_copy, value))
    if not isinstance(value, Checked):
        return value  # of a type that cannot change, or that no check lets pass
    names = [name for name in _names(type(value)) if hasattr(value, name)]  # type: ignore[arg-type] # as above
    parts = {name: getattr(value, name) for name in names}
    copies = {name: _private_copy(item) for name, item in parts.items()}
    if all(copies[name] is item for name, item in parts.items()):
        return value
    made = object.__new__(type(value))
    for name, item in copies.items():
        object.__setattr__(made, name, item)
    return made


def _is_fixed(array: np.ndarray[Any, Any]) -> bool:
    """Return whether nobody can write to an array: it only looks at a store's memory, which allows reading alone."""
    while type(array.base) is np.ndarray:
        array = array.base
    return array.base is not None and not array.flags.writeable


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def shown(value: object) -> str:
    """Return a value as errors show it: in a few letters, and only where its type is Python's own."""
    if isinstance(value, str | bytes) and type(value) in {str, bytes}:
        return repr(value[:40]) + (" ..." if len(value) > 40 else "")
    if isinstance(value, int) and type(value) is int and value.bit_length() > 60:
        return f"a number of {value.bit_length()} bits"
    if type(value) in {int, float, bool, np.float64}:
        return f"{value:g}" if isinstance(value, float) else str(value)
    return f"a {type(value).__name__}"


def require_whole(name: str, value: object, least: int, most: int) -> int:
    """Return a whole number of Python's own type that lies between ``least`` and ``most``."""
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{name} is {shown(value)}; give a whole number, {least} to {most}")
    return value


def as_real(value: Any) -> Any:
    """Return a number as Python's own float, where it is exactly one; everything else as it is, to be refused."""
    if type(value) in {int, *_REAL} and -LARGEST <= value <= LARGEST and (real := float(value)) == value:
        return real
    return value


def require_real(name: str, value: object, least: float, most: float = LARGEST) -> float:
    """Return a finite real number that lies between ``least`` and ``most``; see `require_whole`."""
    # Whole numbers are none: compiled code knows those of 64 bits only, and two large ones may be the same real number.
    if type(value) not in _REAL or not least <= value <= most:  # type: ignore[operator] # it is a number
        raise InputError(f"{name} is {shown(value)}; give a real number, {least:g} to {most:g}")
    return value  # type: ignore[return-value] # it is a number


def require_name(name: str, value: object) -> str:
    """Return a text of at most `MOST_LETTERS` letters that can be written; see `require_whole`."""
    if type(value) is not str or not 1 <= len(value) <= MOST_LETTERS or not value.isprintable():
        raise InputError(f"{name} is {shown(value)}; give a text of 1 to {MOST_LETTERS} printable letters")
    return value


def require_bool(name: str, value: object) -> bool:
    """Return a truth value; see `require_whole`."""
    if type(value) is not bool:
        raise InputError(f"{name} is {shown(value)}; give True or False")
    return value


def require_bytes(name: str, value: object, size: int) -> bytes:
    """Return bytes of a known size; see `require_whole`."""
    if type(value) is not bytes or len(value) != size:
        description = f"{len(value)} bytes" if type(value) is bytes else shown(value)
        raise InputError(f"{name} is {description}; it must be {size} bytes")
    return value


def require_array(
    name: str, value: object, dtype: type[np.generic], shape: Collection[int | None] | None, *bounds: float
) -> Any:
    """Return an array in C order, whose entries lie between the two ``bounds`` where they are given."""
    if type(value) is not np.ndarray or value.dtype != np.dtype(dtype) or not value.dtype.isnative:
        description = f"an array of {value.dtype.name}" if type(value) is np.ndarray else shown(value)
        raise InputError(f"{name}: {description}; give an array of {np.dtype(dtype).name}")
    if shape is None:
        return value
    fits = value.ndim == len(shape) and all(
        expected in {None, size} for expected, size in zip(shape, value.shape, strict=True)
    )
    if not fits or not value.flags.c_contiguous or not value.flags.aligned:
        expected = tuple("any" if size is None else size for size in shape)
        raise InputError(f"{name}: shape {value.shape}; give {expected} in C order")
    if bounds:
        require_range(name, value, *bounds)
    return value


def require_public_array(name: str, value: object) -> Any:
    """Return an array of whole or finite real numbers, of one or two dimensions, in C order; see `require_array`."""
    if type(value) is not np.ndarray or value.dtype.name not in _PUBLIC:
        description = f"an array of {value.dtype.name}" if type(value) is np.ndarray else shown(value)
        raise InputError(f"{name}: {description}; give an array of {', '.join(_PUBLIC)}")
    require_array(name, value, _PUBLIC[value.dtype.name], [None] * (1 + (value.ndim == 2)))
    if value.dtype.name == "float64" and not np.isfinite(value).all():
        raise InputError(f"{name}: some are no finite numbers; give some that are")
    return value


def require_range(name: str, array: np.ndarray[Any, Any], least: float, most: float) -> None:
    """Refuse an array with an entry that is no number, or does not lie between ``least`` and ``most``."""
    if array.size and not (array.min() >= least and array.max() <= most):  # NaN fails both
        raise InputError(f"{name}: some are no numbers from {least:g} to {most:g}")


def require_ascending(name: str, array: np.ndarray[Any, Any], first: int, stop: int) -> None:
    """Refuse whole numbers that do not ascend strictly, or lie outside ``first`` to ``stop - 1``."""
    if array.size and not (first <= array[0] and array[-1] < stop and (array[1:] > array[:-1]).all()):
        raise InputError(f"{name}: not ascending, one twice, or outside {first} to {stop - 1}")


def require_block(first: object, stop: object, low: int, high: int) -> None:
    """Refuse a block of devices ``first`` to ``stop - 1`` that are not all among ``low`` to ``high - 1``."""
    if type(first) is not int or type(stop) is not int:
        raise BlockError(f"devices {shown(first)} to {shown(stop)} are none; give two whole numbers")
    if not low <= first <= stop <= high:
        named = f"{first} to {stop - 1}" if max(abs(first), abs(stop)) < MOST_DEVICES else "beyond all addresses"
        raise BlockError(f"devices {named} are not all among devices {low} to {high - 1} here")
