"""The command line of what goes on: `blindrec resume`."""

from __future__ import annotations

import json as strict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios import report
from scenarios.claiming import Named, claimed
from scenarios.keeping import finished_run
from scenarios.places.backends import check_backend, open_session
from scenarios.places.session import Session
from scenarios.records import check_target
from scenarios.store.chain import drop
from scenarios.store.locking import sole
from scenarios.store.mark import FOLDER, MARK, ONLINE, RUN, SWEEP, TWO_TIER, Mark, read_mark
from scenarios.store.taking import scenario_of

With = Annotated[
    list[str] | None, typer.Option("--with", help="Your own design: a package that it imports, which travels with it.")
]


def resume(
    folder: Annotated[Path, typer.Argument(help="The --out of a run, online or two-tier that was interrupted.")],
    design: Annotated[
        str | None, typer.Option(help="The run's design, if it is your own: package.module:Name.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The run's policy, if it is your own: package.module:Name.")
    ] = None,
    helpers: With = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Blocks of devices at the same time [all CPUs].")] = None,
    devices_per_actor: Annotated[
        int | None, typer.Option(help="Size of a cohort, not for two-tier [users / workers].")
    ] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """Go on with a run, online or two-tier that was killed or interrupted, after the last that it kept.

    What is kept is every round of a run, every client of an online run, every batch of private devices. It ends as if
    nothing had happened: devices know from their ledgers what they have answered, repeat it where they are asked again,
    and spend nothing twice. Backend and layout may differ from before. A design or policy of your own is named again;
    nothing is imported because a folder says so. Where all was over, its result is told again, and nobody is asked.
    """
    check_backend(backend, workers)
    check_target(json)
    mark = read_mark(folder)
    if mark is not None and mark.kind == SWEEP:
        raise InputError(f"output folder {folder} holds a sweep, which goes on by its own command; give that again")
    if (result := finished(folder)) is not None:
        _TOLD[kind_of(folder, result)](result, json)
        return
    if mark is None:
        raise InputError(
            f"output folder {folder} holds no interrupted run: nothing was kept there; blindrec run ... --out {folder} "
            "begins one"
        )
    named = Named(design=design, policy=policy, helpers=tuple(helpers or ()))
    if mark.kind != RUN and named != Named():
        raise InputError(
            f"output folder {folder} holds blindrec {mark.kind}, which has no design or policy; leave --design, "
            "--policy and --with out"
        )
    opening = open_session(backend, address=address, workers=workers)
    _GOES_ON[mark.kind](_Rest(folder, mark, named, opening, devices_per_actor), json)


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the result of an experiment that is over, or None; what it kept to go on from is removed.

    A run whose policy went astray told what it had learned until then, and is not over.

    Raises
    ------
    InputError
        If the result cannot be read, or somebody is at work in the folder.
    """
    path = folder / "result.json"
    if not path.is_file():
        return None
    try:
        result = strict.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "it is no JSON"
        raise InputError(f"{path} cannot be read ({why}); put it back as it was, or run it in a new folder") from None
    if not isinstance(result, dict):
        raise InputError(f"{path} holds no result; put it back as it was, or run it in a new folder")
    if (folder / FOLDER / MARK).exists():
        if result.get("policy_error"):
            return None
        with sole(folder):
            drop(folder)
    return result


def kind_of(folder: Path, result: dict[str, Any]) -> str:
    """Return which experiment told a result.

    Raises
    ------
    InputError
        If none did, as in a sweep's folder.
    """
    for kind, name in ((RUN, "design"), (ONLINE, "recommender"), (TWO_TIER, "mechanism")):
        if name in result and "trust_model" in result:
            return kind
    raise InputError(
        f"output folder {folder} holds the result of something else than run, online or two-tier; a sweep goes on by "
        "its own command"
    )


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is gone on with, and where."""

    folder: Path
    mark: Mark
    named: Named
    opening: AbstractContextManager[Session]
    devices_per_actor: int | None


def _run(rest: _Rest, json: str | None) -> None:
    wanted = claimed(rest.folder, rest.mark, rest.named)
    with finished_run(
        wanted,
        rest.opening,
        repeat=rest.mark.repeat,
        devices_per_actor=rest.devices_per_actor,
        console=Console(stderr=True),
        out=rest.folder,
    ) as done:
        _tell_run(done.result, json)


def _online(rest: _Rest, json: str | None) -> None:
    # other commands need not wait for what this one loads
    from scenarios.online.config import OnlineScenario  # noqa: PLC0415
    from scenarios.online.keeping import FILES, served_in  # noqa: PLC0415

    wanted = scenario_of(rest.folder, rest.mark, OnlineScenario, *FILES)
    with served_in(
        wanted,
        rest.opening,
        repeat=rest.mark.repeat,
        devices_per_actor=rest.devices_per_actor,
        console=Console(stderr=True),
        out=rest.folder,
    ) as (_, result):
        _tell_online(result, json)


def _two_tier(rest: _Rest, json: str | None) -> None:
    from scenarios.two_tier.config import TwoTier  # noqa: PLC0415 (as above)
    from scenarios.two_tier.keeping import FILES, taught_in  # noqa: PLC0415 (as above)

    if rest.devices_per_actor is not None:
        raise InputError(
            f"devices_per_actor is {rest.devices_per_actor}, but {rest.folder} holds blindrec two-tier, whose cohorts "
            "have one size; leave it out"
        )
    wanted = scenario_of(rest.folder, rest.mark, TwoTier, *FILES)
    with taught_in(wanted, rest.opening, console=Console(stderr=True), out=rest.folder) as result:
        _tell_two_tier(result, json)


def _tell_run(result: dict[str, Any], json: str | None) -> None:
    report.report_run(result, json, "resume")


def _tell_online(result: dict[str, Any], json: str | None) -> None:
    from scenarios.online.report import report_online  # noqa: PLC0415 (as above)

    report_online(result, json, "resume")


def _tell_two_tier(result: dict[str, Any], json: str | None) -> None:
    from scenarios.two_tier.tables import report_two_tier  # noqa: PLC0415 (as above)

    report_two_tier(result, json, "resume")


_GOES_ON: dict[str, Callable[[_Rest, str | None], None]] = {RUN: _run, ONLINE: _online, TWO_TIER: _two_tier}
_TOLD: dict[str, Callable[[dict[str, Any], str | None], None]] = {
    RUN: _tell_run,
    ONLINE: _tell_online,
    TWO_TIER: _tell_two_tier,
}
