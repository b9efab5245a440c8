"""The command lines of scrutiny: `blindrec audit` and `blindrec check`."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.app.flags import Figure, Json
from scenarios.given.endings import BAD_INPUT
from scenarios.pictures.writing import check_figure, deliver_figure
from scenarios.report.records import STDOUT, check_target, deliver
from scenarios.report.tables import percent, printed, remark, show_table
from scenarios.scrutiny.verdicts import FAILED, HELD, Audit, Conformance, in_words

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
    from scenarios.scrutiny.checks import check as check_all

    check_target(json)
    found = check_all(mechanism, settings=parse_settings(setting or []), epsilon=_finite(epsilon))
    deliver(json, found.as_json())
    if json != STDOUT:
        show_conformance(Console(), found)
    if not found.held:
        raise typer.Exit(BAD_INPUT)


def parse_settings(told: list[str]) -> dict[str, str]:
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


def _finite(epsilon: str | None) -> Epsilon:
    if epsilon is None:
        return None
    if (told := parse_epsilon(epsilon)) is None:
        raise InputError("epsilon is inf; a channel is checked at a finite one")
    return told


def show_conformance(console: Console, found: Conformance) -> None:
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


NATS = "epsilon in nats of one release"


def audit(
    design: Annotated[
        str | None, typer.Option(help="A mechanism's name, or your own package.module:Name [all that are found].")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="What one release may cost, in nats.")] = "1",
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of it, name=value; repeat for several [its default].")
    ] = None,
    releases: Annotated[int, typer.Option(help="Releases that each attack looks at.")] = 1_000_000,
    rounds: Annotated[int, typer.Option(help="Queries that the attacks over several rounds look at.")] = 4,
    items: Annotated[int, typer.Option(help="Items of the catalogue.")] = 5,
    rated: Annotated[int, typer.Option(help="Items that a device rated at most.")] = 3,
    confidence: Annotated[float, typer.Option(help="Probability that all lower bounds of a mechanism hold.")] = 0.999,
    json: Json = None,
    figure: Figure = None,
) -> None:
    """Attack a mechanism's real releases: epsilon claimed, exact and measured; exit code 2 if more leaks.

    Two inputs that are told apart best are given to devices by a fair coin; what they release, also asked again, beside
    devices whose inputs are known, and over several rounds, is held against what is claimed.
    """
    from scenarios.scrutiny.audit import all_audits
    from scenarios.scrutiny.audit import audit as audit_one

    check_target(json)
    check_figure(figure)
    told = parse_settings(setting or [])

    def made(name: str) -> Audit:
        return audit_one(
            name,
            epsilon=epsilon,
            settings=told,
            releases=releases,
            rounds=rounds,
            items=items,
            rated=rated,
            confidence=confidence,
        )

    found = list(all_audits(made)) if design is None else [made(design)]
    held = all(one.held for one in found)
    every = {"held": held, "audits": [one.as_json() for one in found]}
    record = every if design is None else found[0].as_json()
    deliver(json, record)
    deliver_figure(figure, "audit", record)
    if json != STDOUT:
        show_audits(printed(), found) if design is None else show_audit(printed(), found[0])
    if not held:
        raise typer.Exit(BAD_INPUT)


def nats(value: float | None) -> str:
    """Return an epsilon in words."""
    if value is None:
        return "none"
    return "inf" if math.isinf(value) else f"{value:.4f}"


def show_audits(console: Console, found: list[Audit]) -> None:
    """Print a table with a row for each mechanism."""
    rows = [
        [
            one.design,
            nats(one.claimed),
            nats(one.exact),
            nats(one.measured),
            _strongest(one),
            "yes" if one.held else "NO",
        ]
        for one in found
    ]
    columns = ["mechanism", "claimed", "exact", "measured, at least", "by attack", "held"]
    title = f"{NATS}, bounds of each mechanism hold together with probability {found[0].confidence:g}"
    show_table(console, columns, rows, title=title, words=["mechanism", "by attack", "held"])
    remark(console, *(f"{one.design}: {line}" for one in found for line in one.failures), *_power(found))


def show_audit(console: Console, found: Audit) -> None:
    """Print one audit: the three epsilons, and a row for each attack."""
    title = f"{found.design}: claimed {nats(found.claimed)}, exact {nats(found.exact)}, measured {nats(found.measured)}"
    title += f"; {NATS}, bounds hold together with probability {found.confidence:g}"
    rows = [
        [one.name, one.meaning, nats(one.claimed), nats(one.measured), percent(one.right), _most(one.right_at_most)]
        for one in found.attacks
    ]
    columns = ["attack", "what is told apart", "claimed", "measured, at least", "guessed right", "at most"]
    show_table(console, columns, rows, title=title, words=["attack", "what is told apart"])
    verdict = found.failures or ["nothing contradicts the claim"]
    remark(console, f"promised: {found.guarantee}", *verdict, *_power([found]))


def _power(found: list[Audit]) -> list[str]:
    """Return which leaks would have been found, a line; none where nothing is claimed."""
    powers = [one.power for one in found if one.power is not None]
    return [in_words(powers)] if powers else []


def _strongest(found: Audit) -> str:
    return max(found.attacks, key=lambda one: one.measured / one.times).name


def _most(share: float | None) -> str:
    return "" if share is None else percent(share)
