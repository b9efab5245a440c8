"""Commands that are loaded when they are called, or when their own help is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand

from scenarios.app.entrance import tightened


class Later(TyperCommand):
    """A command of which only a line is known until it is called; `blindrec --help` shows the line and loads nothing.

    Parameters
    ----------
    name : str
        Of the command.
    line : str
        The first sentence of its help, which lists of commands show.
    find : str or callable
        Where its function is, ``"package.module:name"``, or what returns it. Its docstring is the help.
    **settings
        Of the command-line library's context.
    """

    def __init__(self, name: str, line: str, find: str | Callable[[], Callable[..., None]], **settings: bool) -> None:
        super().__init__(name, help=line)
        self._find, self._settings = find, settings

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command(self.name, context_settings=self._settings)(self._function())
        return tightened(typer.main.get_command(app))

    def _function(self) -> Callable[..., None]:
        if callable(self._find):
            return self._find()
        module, _, name = self._find.partition(":")
        function: Callable[..., None] = getattr(importlib.import_module(module), name)
        return function

    def make_context(self, *args: Any, **told: Any) -> Any:
        """Return the context of the command itself, which is what runs then."""
        return self.loaded.make_context(*args, **told)


def grouped(app: typer.Typer, commands: Iterable[Any]) -> Any:
    """Return the command line of an application that has these commands, in their order."""
    tree: Any = typer.main.get_command(app)
    tree.commands.update({command.name: command for command in commands})
    return tightened(tree)
