"""Commands that are loaded when they are called: lists show the same line that their own help begins with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scenarios.cli import command_line
from scenarios.commands.entrance import Later
from scenarios.commands.sweep_command import GRID, sweep
from scenarios.studies.sweep.sweeps import KINDS, kind_of


def commands(tree: Any) -> Iterator[Later]:
    """All commands of a command line."""
    for command in tree.commands.values():
        if isinstance(command, Later):
            yield command
        else:
            yield from commands(command)


@pytest.mark.parametrize("command", list(commands(command_line())), ids=lambda command: command.name)
def test_lists_show_the_first_sentence_of_a_commands_own_help(command: Later) -> None:
    assert command.help == command.loaded.get_short_help_str(10_000)
    assert command.loaded.params


def test_a_kind_that_flags_can_tell_is_a_command() -> None:
    told = {name for name in KINDS if "grid" not in kind_of(name).fields}
    assert told == {*sweep.commands} - {GRID}
