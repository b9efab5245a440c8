"""What users give, files and values: the one place that opens and reads them, and that repeats them in a line."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError

MOST_ECHOED = 80
"""Characters of a value that an error repeats."""
MOST_TOLD = 900
"""Characters of an error's whole line: what is wrong stands at its beginning, the remedy at its end."""
MOST_SETTINGS = 16 * 2**20
"""Bytes of a TOML file; a world written down by hand is the largest that anybody has."""
LARGEST_WHOLE = (1 << 63) - 1
"""Whole numbers beyond it, on either side, are refused wherever they are given; TOML promises no more either."""


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
    line = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in " ".join(words))
    return cut_short(line, MOST_TOLD)


def nameable(path: str | Path, what: str) -> Path:
    """Return a path that a file may have, whether there is one or not.

    Raises
    ------
    InputError
        If no file can be called so.
    """
    try:
        os.stat(path)  # noqa: PTH116 (the path may be no string that Path takes)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise InputError(f"{what} {brief(str(path))} cannot be named so ({error.strerror}); name another") from None
    except ValueError as error:  # a zero byte, or half of a surrogate pair
        raise InputError(f"{what} {brief(str(path))} cannot be named so ({error}); name another") from None
    return Path(path)


def a_file(path: Path, what: str, remedy: str) -> Path:
    """Return the path of a regular file; a pipe, on which a reader would wait for ever, or a device is none.

    Raises
    ------
    InputError
        If there is no such file.
    """
    try:
        mode = nameable(path, what).stat().st_mode
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read ({error.strerror}); {remedy}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{what} {path} cannot be read (Is a directory); {remedy}")
    if not stat.S_ISREG(mode):
        raise InputError(f"{what} {path} is a pipe, a socket or a device; {remedy}, saved on a disk")
    return path


def file_sha256(path: Path, what: str) -> str:
    """Return the digest of a file, by which runs and sweeps know it again.

    Parameters
    ----------
    path : Path
    what : str
        What the file is, e.g. ``"ratings file"``.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    remedy = "name another one"
    try:
        return hashlib.sha256(a_file(path, what, remedy).read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read ({error.strerror}); {remedy}") from None


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read a TOML file.

    Parameters
    ----------
    path : Path
    what : str
        What the file is, e.g. ``"scenario file"``.

    Raises
    ------
    InputError
        If it cannot be read, is larger than `MOST_SETTINGS`, is no TOML, or holds a whole number beyond
        `LARGEST_WHOLE`.
    """
    try:
        values = tomllib.loads(_bounded(path, what).decode())
        _check_numbers(values)
    except RecursionError:
        raise InputError(f"{what} {path} is no TOML: its lists or tables are nested too deep") from None
    except InputError:
        raise
    except ValueError as error:  # of the syntax, of UTF-8, of numbers with thousands of digits
        if "set_int_max_str_digits" in str(error):
            raise InputError(f"{what} {path} holds a whole number of thousands of digits; give a shorter one") from None
        raise InputError(f"{what} {path} is no TOML: {cut_short(str(error), 2 * MOST_ECHOED)}") from None
    return values


def read_values(path: Path, what: str) -> dict[str, Any]:
    """Read a file of settings: TOML, or JSON where its name says so; see `read_toml`, also for errors."""
    if path.suffix != ".json":
        return read_toml(path, what)
    try:
        values = json.loads(_bounded(path, what))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what} {path} is no JSON: {cut_short(str(error), 2 * MOST_ECHOED)}") from None
    if not isinstance(values, dict):
        raise InputError(f"{what} {path} holds no object of names and values; name another one")
    return values


def _bounded(path: Path, what: str) -> bytes:
    remedy = "name a TOML file"
    try:
        with a_file(path, what, remedy).open("rb") as file:
            content = file.read(MOST_SETTINGS + 1)
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read ({error.strerror}); {remedy}") from None
    if len(content) > MOST_SETTINGS:
        raise InputError(f"{what} {path} is larger than {MOST_SETTINGS >> 20} MB; {remedy}")
    return content


def _check_numbers(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check_numbers(one)
    elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise ValueError(f"it holds a whole number of {value.bit_length()} bits; give at most 63")


def names_of_columns(value: Any) -> Any:
    """Read ``"user,item,rating"``, or a list: the names of a file's columns; None for None.

    Raises
    ------
    InputError
        If it does not name two, three or four.
    """
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
    if not 2 <= len(names) <= 4 or not all(isinstance(name, (str, int)) for name in names):
        raise InputError(
            f"columns is {brief(value)}; name three, like user,item,rating; two where nobody rates, or four with times"
        )
    return tuple(str(name).strip() for name in names)


def _path(value: Any) -> Any:
    if not isinstance(value, (str, Path)):
        raise ValueError(f"{brief(value)} is no path; write it in quotes")  # noqa: TRY004 (pydantic tells of it)
    return nameable(value, "file")


Exact = Annotated[Epsilon, BeforeValidator(lambda value: None if value is None else parse_epsilon(value))]
"""A privacy parameter, read exactly; None for no noise."""
GivenColumns = Annotated[tuple[str, ...] | None, BeforeValidator(names_of_columns)]
"""Columns of a ratings file among a model's values, as a list or as one text with commas."""
GivenPath = Annotated[Path, BeforeValidator(_path)]
"""A path among a model's values."""
