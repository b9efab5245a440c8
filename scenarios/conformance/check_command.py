"""The command line of conformance: `blindrec check`."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.conformance.verdicts import FAILED, HELD, Conformance
from scenarios.given.endings import BAD_INPUT
from scenarios.report.records import STDOUT, check_target, deliver

STYLES = {HELD: "green", FAILED: "bold red"}


def check(
    mechanism: Annotated[str, typer.Argument(help="A mechanism's name, or your own package.module:Name.")],
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of it, name=value; repeat for several [all it has].")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Enumerate its channel at this epsilon alone [0.1, 1 and 3].")
    ] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """Check that a mechanism keeps what every mechanism must keep; exit code 2 if something failed.

    Its exact channel is enumerated over all that a device of a tiny catalogue can have rated, its sampler counted, its
    queries asked on several layouts, its ledger read, and wrong queries tried.
    """
    from scenarios.conformance.checks import check as check_all

    check_target(json)
    found = check_all(mechanism, settings=named(setting or []), epsilon=_given(epsilon))
    deliver(json, found.as_json())
    if json != STDOUT:
        show(Console(), found)
    if not found.held:
        raise typer.Exit(BAD_INPUT)


def named(told: list[str]) -> dict[str, str]:
    """Return settings by name, as they were told.

    Raises
    ------
    InputError
        If one is no ``name=value``.
    """
    settings = {}
    for one in told:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise InputError(f"setting is {one!r}; give name=value")
        settings[name] = value
    return settings


def _given(epsilon: str | None) -> Epsilon:
    if epsilon is None:
        return None
    if (told := parse_epsilon(epsilon)) is None:
        raise InputError("epsilon is inf; a channel is checked at a finite one")
    return told


def show(console: Console, found: Conformance) -> None:
    """Print what was checked: a table a choice of settings, a row a check."""
    for label, rows in groupby(found.rows, key=lambda row: row.mechanism):
        table = Table("check", "verdict", "what was found")
        table.title, table.title_justify, table.box, table.pad_edge = Text(label), "left", box.SIMPLE_HEAD, False
        table.columns[0].no_wrap = table.columns[1].no_wrap = True
        table.columns[2].overflow = "fold"
        for row in rows:
            table.add_row(row.check, Text(row.verdict, style=STYLES.get(row.verdict, "")), Text(row.told))
        console.print(table)
    failed = f"{len(found.failures)} of {len(found.rows)} checks failed"
    console.print("nothing failed" if found.held else failed, highlight=False)
