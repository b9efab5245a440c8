"""What users give: the one place that reads their values and repeats them in a line."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError

MOST_ECHOED = 80
"""Characters of a value that an error repeats."""
MOST_TOLD = 900
"""Characters of an error's whole line: what is wrong stands at its beginning, the remedy at its end."""
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
    return cut_short(printable(" ".join(words)), MOST_TOLD)


def printable(text: str) -> str:
    """Return a text in which what is no sign, such as what tells a terminal to do something, is written out.

    >>> printable("red" + chr(27) + "[31m") == "red" + chr(92) + "x1b[31m"
    True
    """
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def nameable(path: str | Path, what: str) -> Path:
    """Return a path that a file may have, whether there is one or not."""
    try:
        os.stat(path)  # noqa: PTH116 (the path may be no string that Path takes)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise InputError(f"{what} {brief(str(path))} cannot be named so ({error.strerror}); name another") from None
    except ValueError as error:  # a zero byte, or half of a surrogate pair
        raise InputError(f"{what} {brief(str(path))} cannot be named so ({error}); name another") from None
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
