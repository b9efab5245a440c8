"""The entrance of the command line: what is given is checked in one place, and every end is one line at most."""

from __future__ import annotations

import os
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from coordinator.protocol.errors import BlindrecError, InputError
from scenarios.given.endings import BAD_INPUT, INTERRUPTED, NOTHING, ended_by_signals, ending, say
from scenarios.given.values import LARGEST_WHOLE, brief, nameable
from scenarios.log import recorded
from scenarios.report.records import typed

_FILES = {"json", "grid"}
"""Parameters of type str that may name a file."""
_WRITTEN = re.compile(r"[+-]?(\d{1,20}|\d{1,3}(,\d{3})+)(\.\d{1,20})?([eE][+-]?\d{1,2})?")
"""A number as people write it."""
_RUNS = {"repeat", "seeds"}
MOST_RUNS = 10**6
"""Seeds of a command; sweeps hold a list of all that they run."""


class OutputError(BlindrecError):
    """Standard output takes no more."""


class _Output:
    """Standard output, whose failures are told from those of other files."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text."""
        return int(self._tried(self._stream.write, text))

    def flush(self) -> None:
        """Hand on all that was written."""
        self._tried(self._stream.flush)

    @staticmethod
    def _tried(function: Any, *arguments: str) -> Any:
        try:
            return function(*arguments)
        except OSError as error:
            raise OutputError(
                f"standard output cannot be written ({error.strerror}); send it elsewhere, or give --json FILE"
            ) from None


def stop(line: str, code: int) -> NoReturn:
    """Say on standard error in one line why the command ends, and end it."""
    say(line)
    sys.exit(code)


def enter(tree: Any, arguments: list[str]) -> NoReturn:
    """Run a command line and end the process.

    What the user gave and cannot be used ends with one line and exit code 2. Ctrl-C, SIGTERM and SIGHUP end with 3
    where something is kept that can be gone on with, else with 130; a full disk, and what was lost but can be gone on
    with, with 3. `scenarios.given.endings` has the rule. Other exceptions are faults of ours and show their trace.
    """
    with recorded():
        _entered(tree, arguments)


def _entered(tree: Any, arguments: list[str]) -> NoReturn:
    if sys.stdout is None:
        stop("standard output is closed; send it to a file, or to /dev/null", BAD_INPUT)
    stream = sys.stdout
    sys.stdout = _Output(stream)
    try:
        with ended_by_signals(), typed(arguments):
            code = tree(args=arguments or ["--help"], standalone_mode=False)
            sys.stdout.flush()
    except OutputError as error:
        stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (what is left goes there as Python ends)
        stop(str(error), BAD_INPUT)
    except KeyboardInterrupt:  # outside of the command-line library
        code = INTERRUPTED
    except Exception as error:
        if told := ending(error):
            stop(*told)
        explain = getattr(error, "format_message", None)  # the command-line library's own errors
        if explain is None:
            raise
        stop(explain() + _value(error), BAD_INPUT)
    finally:
        sys.stdout = stream
    if code == INTERRUPTED:  # what the command-line library makes of Ctrl-C
        stop(NOTHING, INTERRUPTED)
    sys.exit(code)


def tightened(tree: Any) -> Any:
    """Return a command line that refuses, whatever the command, what no command can use.

    These are whole numbers beyond `scenarios.given.values.LARGEST_WHOLE`, more seeds than `MOST_RUNS`, texts with a
    zero byte or not in UTF-8, and names too long for a file.
    """
    for command in getattr(tree, "commands", {}).values():
        tightened(command)
    for parameter in tree.params:
        parameter.callback = _checking(parameter.callback)
        parameter.process_value = _reading(parameter.process_value)
    return tree


def _reading(process: Any) -> Any:
    """Read a number that is refused as it stands as people write it: 1e6 and 1,000,000 are the whole number 1000000."""

    def read(context: Any, value: Any) -> Any:
        try:
            return process(context, value)
        except InputError:
            raise
        except Exception:
            if (number := _whole(value)) is None:
                raise
            return process(context, number)

    return read


def _whole(text: Any) -> str | None:
    """Return a whole number without commas between thousands and without an exponent, others without those commas.

    None where nothing can be taken away.
    """
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text):
        return None
    exact = Fraction(text.replace(",", ""))
    if exact.denominator == 1:
        return str(exact.numerator)
    return text.replace(",", "") if "," in text else None


def _checking(before: Any) -> Any:
    def checked(context: Any, parameter: Any, value: Any) -> Any:
        found = before(context, parameter, value) if before else value
        for one in found if isinstance(found, (list, tuple)) else (found,):
            _check(parameter.name, one)
        return found

    return checked


def _check(name: str, value: Any) -> None:
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise InputError(f"{name} is {brief(value)}; whole numbers must be smaller than 2^63")
    if name in _RUNS and isinstance(value, int) and value > MOST_RUNS:
        raise InputError(f"{name} is {brief(value)}; give at most {MOST_RUNS}")
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"{name} is {brief(value)}; leave out the zero byte")
    if isinstance(value, Path) or (name in _FILES and isinstance(value, str)):
        nameable(value, name)
    elif isinstance(value, str) and not _is_text(value):
        raise InputError(f"{name} is {brief(value)}, which is no text in UTF-8; write it anew")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: what Python makes of bytes that are no UTF-8
        return False
    return True


def _value(error: Exception) -> str:
    """Return the value that could not be read as a number, where the command-line library leaves it out."""
    cause = error.__cause__
    return f" (it is {brief(cause.errors()[0]['input'])})" if isinstance(cause, ValidationError) else ""
