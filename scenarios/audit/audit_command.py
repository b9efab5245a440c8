"""The command line of audits: `blindrec audit`."""

from __future__ import annotations

import math
from typing import Annotated

import typer
from rich.console import Console

from scenarios.app.flags import Figure, Json
from scenarios.audit.verdict import Audit, in_words
from scenarios.conformance.check_command import named
from scenarios.given.endings import BAD_INPUT
from scenarios.pictures.writing import check_figure, deliver_figure
from scenarios.report.records import STDOUT, check_target, deliver
from scenarios.report.tables import percent, printed, remark, show_table

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
    from scenarios.audit.audits import all_audits
    from scenarios.audit.audits import audit as audit_one

    check_target(json)
    check_figure(figure)
    told = named(setting or [])

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
        show(printed(), found) if design is None else show_one(printed(), found[0])
    if not held:
        raise typer.Exit(BAD_INPUT)


def nats(value: float | None) -> str:
    """Return an epsilon in words."""
    if value is None:
        return "none"
    return "inf" if math.isinf(value) else f"{value:.4f}"


def show(console: Console, found: list[Audit]) -> None:
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


def show_one(console: Console, found: Audit) -> None:
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
