"""The entrance of the command line: it loads a command when called, and turns every error into one line and a code."""

import codecs
import importlib.metadata
import inspect
import io
import os
import pkgutil
import sys
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from coordinator.protocol.errors import BlindrecError
from scenarios.commands.flags import flags_of, is_group
from scenarios.config.signals import BAD_INPUT, INTERRUPTED, NOTHING, ended_by_signals, ending, say
from scenarios.log import be_verbose, event, never_silent, recorded
from scenarios.show.records import typed

_Verbose = Annotated[
    bool, typer.Option("--verbose", help="Report what happens on standard error, an event a line, as JSON.")
]
_SHOWING = {None, "watch", "status"}  # Commands that show a job's progress; None is `submit`


class LazyCommand(TyperCommand):
    """A command that is imported when it is called; `blindrec --help` shows its line and loads nothing.

    ``passes_on``: Whether it accepts any flags and passes them to another command; then it has no ``--verbose``.
    ``group``: The name of its parent command.
    """

    def __init__(
        self,
        name: str,
        line: str,
        find: str | Callable[[], Callable[..., None]],
        *,
        passes_on: bool = False,
        group: str = "",
    ) -> None:
        super().__init__(name, help=line)
        self._find, self._passes_on, self._group = find, passes_on, group

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        function = self._find() if callable(self._find) else pkgutil.resolve_name(self._find)
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        settings = {"allow_extra_args": True, "ignore_unknown_options": True} if self._passes_on else {}
        app.command(self.name, context_settings=settings)(
            _command(function, None if self._passes_on else str(self.name), self._group)
        )
        return typer.main.get_command(app)

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Return the context of the command itself, which is what runs then."""
        return self.loaded.make_context(*args, **options)


def _command(function: Callable[..., None], name: str | None, group: str) -> Callable[..., None]:
    """Return a command whose flags are read strictly; if it has a name in the log, it gets ``--verbose``."""
    signature = inspect.signature(function, eval_str=True)
    groups = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if is_group(parameter.annotation)
    }

    def command(*, verbose: bool = False, **values: Any) -> None:
        if verbose:
            be_verbose()
        if name is not None:
            event("began", command=name, version=importlib.metadata.version("blindrec"))
        grouped_values = {
            group: kind(**{part.name: values.pop(part.name) for part in fields(kind)}) for group, kind in groups.items()
        }
        with nullcontext() if name in _SHOWING else never_silent(f"{group} {name}".strip()):
            function(**values, **grouped_values)

    flag = inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Verbose)
    parameters = [*flags_of(signature), *([] if name is None else [flag])]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # typer reads it
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = function.__doc__
    return command


def grouped(app: typer.Typer, commands: Iterable[Any]) -> Any:
    """Return an application's command line with these commands, in this order."""
    tree: Any = typer.main.get_command(app)
    tree.commands.update({command.name: command for command in commands})
    return tree


class OutputError(BlindrecError):
    """Standard output cannot be written."""


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


def _open_descriptors() -> None:
    """Open closed standard descriptors; otherwise a file opened later would receive what others print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the system gives the lowest number that is free
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (until the process ends)


_PLAIN = {"\u00b1": "+-", "\u2013": "-", "\u2500": "-", "\u2502": "|", "\u2501": "-", "\u00d7": "x"}
"""Replacements for characters that a terminal cannot show, other than letters with accents."""


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Return a plain replacement for characters that a terminal cannot encode; see `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    parts = []
    for letter in error.object[error.start : error.end]:
        letters = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
        parts.append(_PLAIN.get(letter) or letters or "?")
    return "".join(parts), error.end


def _show_everywhere() -> None:
    """Replace characters that a terminal cannot encode; machine-readable output is ASCII anyway."""
    codecs.register_error("plainly", _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plainly")


def enter(tree: Any, arguments: list[str]) -> NoReturn:
    """Run a command line and end the process."""
    _open_descriptors()
    _show_everywhere()
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
        if not hasattr(error, "format_message"):  # as the command-line library's own errors have it
            raise
        return _explained(error), BAD_INPUT
    finally:
        sys.stdout = stream
    return (NOTHING if code == INTERRUPTED else None), code  # what the command-line library makes of Ctrl-C, too


_FILE = ("--dataset", "--data", "--file", "--input")
# What other libraries call what some of our commands take, flags and arguments
_SYNONYMS = {
    "--design": ("--mechanism", "--algorithm", "--protocol"),
    "--ratings": _FILE,
    "file": ("--ratings", *_FILE),
    "--users": ("--n-users", "--num-users", "--people"),
    "--items": ("--n-items", "--num-items"),
    "--epsilon": ("--eps", "--budget", "--privacy-budget"),
    "--seed": ("--random-state", "--random-seed"),
    "--out": ("--output", "--output-dir", "--folder"),
    "--repeat": ("--n-runs", "--repeats", "--trials"),
    "--workers": ("--n-jobs", "--jobs", "--num-workers"),
}


def _explained(error: Any) -> str:
    """Return what an error of the command-line library says; of an unknown flag also what may be meant."""
    line, flag = str(error.format_message()), getattr(error, "option_name", "")
    if not line.startswith("No such option"):
        return line
    from difflib import get_close_matches  # errors alone need it

    names = [name for parameter in error.ctx.command.params for name in parameter.opts]
    near = [name for name in names if flag in _SYNONYMS.get(name, ())] or get_close_matches(flag, names, 1, 0.7)
    guess = f"did you mean {near[0] if near[0][0] == '-' else 'the argument ' + near[0]}? " if near else ""
    path = error.ctx.command_path.removeprefix(error.ctx.find_root().command_path)
    return f"{flag} is no flag of blindrec{path}; {guess}--help lists all"
