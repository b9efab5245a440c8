"""Parsers for what pydantic and Typer lack: values as people write them, and errors that repeat them in a line."""

from __future__ import annotations

import errno
import math
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, ValidationInfo

from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError

MOST_ECHOED = 80  # Characters of a value that an error repeats
MOST_TOLD = 900  # Characters of an error's whole line: what is wrong stands at its beginning, the remedy at its end
LARGEST_WHOLE = (1 << 63) - 1  # Whole numbers beyond it, on either side, are refused; TOML promises no more either
MOST_RUNS = 10**6  # Seeds of a command; sweeps hold a list of all that they run
SEEDS = ("repeat", "seeds")  # Flags that say how many there are
_WRITTEN = re.compile(r"[+-]?(\d{1,20}|\d{1,3}(,\d{3})+)(\.\d{1,20})?([eE][+-]?\d{1,2})?")  # A number, by people
_WAYS = ("constrained-", "function-", "literal[")  # Pydantic's names of ways to read a value; they are no part of a key


def brief(value: object, most: int = MOST_ECHOED) -> str:
    """Return a value as an error repeats it: its `repr`, a path's that of its text, without its middle if it is long.

    >>> brief("0.9,0.1"), brief(Path("a.csv")), brief("9" * 1000, 40)
    ("'0.9,0.1'", "'a.csv'", "'9999999 ... (1,002 characters) ... 999'")
    """
    try:
        text = repr(str(value) if isinstance(value, Path) else value)
    except (ValueError, RecursionError):  # a number of more digits than Python writes, lists in lists in lists
        text = f"<{type(value).__name__}>"
    return cut_short(text, most)


def cut_short(text: str, most: int) -> str:
    """Return a text that has at most ``most`` characters, as far as its length can be told in them."""
    if len(text) <= most:
        return text
    gap = f" ... ({len(text):,} characters) ... "
    room = max(most - len(gap), 0)
    end = room // 3
    return text[: room - end] + gap + (text[-end:] if end else "")


def one_line(text: str) -> str:
    """Return what an error says as one line of bearable length: long words first lose their middle, then the line."""
    words = (cut_short(word, 2 * MOST_ECHOED) if len(word) > 3 * MOST_ECHOED else word for word in text.split())
    return cut_short(printable(" ".join(words)), MOST_TOLD)


def printable(text: str) -> str:
    """Return a text in which what is no sign, such as what tells a terminal to do something, is written out."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def first_line(error: ValidationError, kind: type[BaseModel]) -> str:
    """Return in one line the first thing that is wrong: the key, its value and the remedy."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if not str(part).startswith(_WAYS)) or "scenario"
    if first["type"] == "extra_forbidden":
        flat_names = getattr(kind, "flat_names", kind.model_fields.keys)
        return f"key {brief(name)} is unknown; known are {', '.join(flat_names())}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message if message.startswith(name) or not first["loc"] else f"{name}: {message}"
    return f"{name} is {brief(first['input'])}: {message[0].lower()}{message[1:]}"


def nameable(path: str | Path, what: str) -> Path:
    """Return a path that a file may have, whether there is one or not."""
    try:
        os.stat(path)  # noqa: PTH116 (the path may be no string that Path takes)
    except (OSError, ValueError) as error:  # a zero byte, or half of a surrogate pair, is a ValueError
        if not isinstance(error, OSError) or error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            why = getattr(error, "strerror", error)
            raise InputError(f"{what} {brief(str(path))} cannot be named so ({why}); name another") from None
    return Path(path)


def names_of_columns(value: Any) -> Any:
    """Read ``"user,item,rating"``, or a list: the names of a file's columns; None for None."""
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
    if not 2 <= len(names) <= 4 or not all(isinstance(name, (str, int)) for name in names):
        raise InputError(
            f"columns is {brief(value)}; name three, like user,item,rating; two where nobody rates, or four with times"
        )
    return tuple(str(name).strip() for name in names)


def plain_number(text: Any) -> Any:
    """Return a number as machines write it; 1e6 and 1,000,000 are 1000000, and what is no such text stays as it is."""
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text):
        return text
    exact = Fraction(text.replace(",", ""))
    return str(exact.numerator) if exact.denominator == 1 else text.replace(",", "")


def _numbers(value: Any) -> Any:
    try:
        return tuple(float(part) for part in value.split(",")) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"{brief(value)} is no list of numbers; write it like 0.9,0.1") from None


def _matrix(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and all(isinstance(part, (int, float)) for part in value):
        return (tuple(value),)
    return tuple(_numbers(row) for row in value.split(";")) if isinstance(value, str) else value


def _path(value: Any, info: ValidationInfo) -> Path:
    if not isinstance(value, (str, Path)):
        raise ValueError(f"{brief(value)} is no path; write it in quotes")  # noqa: TRY004 (pydantic tells of it)
    return nameable(value, info.context or "file")


def _small(value: int, info: ValidationInfo) -> int:
    if abs(value) > LARGEST_WHOLE:
        raise ValueError(f"{info.context} is {brief(value)}; whole numbers must be smaller than 2^63")
    if info.context in SEEDS and value > MOST_RUNS:
        raise ValueError(f"{info.context} is {value}; give at most {MOST_RUNS}")
    return value


def _encodable(value: str, info: ValidationInfo) -> str:
    try:
        if b"\0" in value.encode():
            raise ValueError(f"{info.context} is {brief(value)}; leave out the zero byte")
    except UnicodeEncodeError:  # half of a surrogate pair: what Python makes of bytes that are no UTF-8
        raise ValueError(f"{info.context} is {brief(value)}, which is no text in UTF-8; write it anew") from None
    return value


# Values of scenarios: epsilon, exactly, or None for no noise; names by ','; numbers by ',' and their rows by ';'.
Exact = Annotated[Epsilon, BeforeValidator(lambda value: None if value is None else parse_epsilon(value))]
ColumnNames = Annotated[tuple[str, ...] | None, BeforeValidator(names_of_columns)]
NamedPath = Annotated[Path, BeforeValidator(_path)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Row = Annotated[tuple[Probability, ...], BeforeValidator(_numbers)]
Matrix = Annotated[tuple[tuple[Probability, ...], ...], BeforeValidator(_matrix)]
# Values of flags, whose names are the context.
Whole = Annotated[int, BeforeValidator(plain_number), AfterValidator(_small)]
Number = Annotated[float, BeforeValidator(plain_number)]
PlainText = Annotated[str, AfterValidator(_encodable)]
FileName = Annotated[str, AfterValidator(lambda value, info: str(nameable(value, info.context)))]


def check_shares(name: str, shares: tuple[float, ...] | None, expected: int) -> None:
    """Refuse shares that are not as many as expected, or do not sum to 1."""
    if shares is not None and len(shares) != expected:
        raise ValueError(f"{name} has {len(shares)} numbers, like has {expected}; give as many")
    if shares is not None and not math.isclose(sum(shares), 1, rel_tol=0, abs_tol=1e-9):
        raise ValueError(f"{name} sum to {sum(shares):g}; they must sum to 1")
