"""Commands that are loaded when they are called, or when their own help is asked for."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from scenarios.app.flags import parsed
from scenarios.log import be_verbose, event

_Verbose = Annotated[
    bool, typer.Option("--verbose", help="Tell what happens on standard error, an event a line, as JSON.")
]


class Later(TyperCommand):
    """A command of which only a line is known until it is called; `blindrec --help` shows it and loads nothing."""

    def __init__(self, name: str, line: str, find: str | Callable[[], Callable[..., None]], **settings: bool) -> None:
        super().__init__(name, help=line)
        self._find, self._settings = find, settings

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        # What submit sends has flags of its own.
        function = _command(self._function(), None if self._settings else str(self.name))
        app.command(self.name, context_settings=self._settings)(function)
        return typer.main.get_command(app)

    def _function(self) -> Callable[..., None]:
        if callable(self._find):
            return self._find()
        module, _, name = self._find.partition(":")
        function: Callable[..., None] = getattr(importlib.import_module(module), name)
        return function

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Return the context of the command itself, which is what runs then."""
        return self.loaded.make_context(*args, **options)


def _command(function: Callable[..., None], name: str | None) -> Callable[..., None]:
    """Return a command whose flags are read strictly, and, if it has a name in the log, the flag that all have."""
    signature = inspect.signature(function, eval_str=True)

    def command(*, verbose: bool = False, **values: Any) -> None:
        if verbose:
            be_verbose()
        if name is not None:
            event("began", command=name, version=importlib.metadata.version("blindrec"))
        function(**values)

    flag = inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Verbose)
    parameters = [*map(parsed, signature.parameters.values()), *([] if name is None else [flag])]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # typer reads it
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = function.__doc__
    return command


def grouped(app: typer.Typer, commands: Iterable[Any]) -> Any:
    """Return the command line of an application that has these commands, in their order."""
    tree: Any = typer.main.get_command(app)
    tree.commands.update({command.name: command for command in commands})
    return tree
