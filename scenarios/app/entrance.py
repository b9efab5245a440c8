"""The entrance of the command line: every end is one line at most, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from coordinator.protocol.errors import BlindrecError
from scenarios.given.signals import BAD_INPUT, INTERRUPTED, NOTHING, ended_by_signals, ending, say
from scenarios.log import recorded
from scenarios.report.records import typed


class OutputError(BlindrecError):
    """Standard output takes no more."""


class _Output:
    """Standard output, whose failures differ from those of other files."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._stream, name)
        return partial(_passed, attribute) if name in ("write", "flush") else attribute


def _passed(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except OSError as error:
        why = f"standard output cannot be written ({error.strerror}); send it elsewhere, or give --json FILE"
        raise OutputError(why) from None


def enter(tree: Any, arguments: list[str]) -> NoReturn:
    """Run a command line and end the process.

    `scenarios.given.signals` has the rule of exit codes. Exceptions that are faults of ours show their trace.
    """
    with recorded():
        line, code = _run(tree, arguments)
        if line is not None:
            say(line)
        sys.exit(code)


def _run(tree: Any, arguments: list[str]) -> tuple[str | None, int]:
    """Run a command line; return why it ends early, if it does, and its exit code."""
    if sys.stdout is None:
        return "standard output is closed; send it to a file, or to /dev/null", BAD_INPUT
    stream = sys.stdout
    sys.stdout = _Output(stream)
    try:
        with ended_by_signals(), typed(arguments):
            code = tree(args=arguments or ["--help"], standalone_mode=False)
            sys.stdout.flush()
    except OutputError as error:
        stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (what is left goes there as Python ends)
        return str(error), BAD_INPUT
    except KeyboardInterrupt:  # outside of the command-line library
        code = INTERRUPTED
    except Exception as error:
        if exit_code := ending(error):
            return exit_code
        explain = getattr(error, "format_message", None)  # the command-line library's own errors
        if explain is None:
            raise
        return explain(), BAD_INPUT
    finally:
        sys.stdout = stream
    return (NOTHING if code == INTERRUPTED else None), code  # what the command-line library makes of Ctrl-C, too
