"""A run's folder: claimed by a run before it begins, and found again by whoever goes on with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from actors.durable import make_folder
from actors.keeper import SUFFIX
from coordinator.protocol.errors import InputError, LostError, PolicyError
from scenarios.config import Scenario
from scenarios.files import left_over, try_folder
from scenarios.given import ratings_sha256
from scenarios.journal import kept_rounds
from scenarios.mark import FOLDER, MARK, Mark, new_name, read_mark
from scenarios.policies import code_digest


def claim(out: Path, scenario: Scenario, repeat: int = 1) -> None:
    """Make a folder the place of a run, or of the rest of one that was interrupted.

    A run that goes on keeps its name, even where nothing of it is found here.

    Parameters
    ----------
    out : Path
        Held by `scenarios.locking.sole`.
    scenario : Scenario
        As asked for.
    repeat : int
        Seeds; kept for whoever resumes.

    Raises
    ------
    InputError
        If the folder holds anything else, or its mark was changed.
    LostError
        If it cannot be written, as on a full disk.
    """
    given, ratings = _identity(scenario)
    if not _used(out):
        try_folder(out)
        _require_empty(out)
        before = read_mark(out)
        run = before.run if before is not None and before.identity == (given, ratings) else new_name()
        code = code_digest(scenario.policy)
        _write(Mark(run=run, scenario=given, ratings_sha256=ratings, code_sha256=code, repeat=repeat), out)
        return
    if (held := read_mark(out)) is None:
        raise InputError(f"output folder {out} holds another run; name a new one")
    if held.identity != (given, ratings):
        raise InputError(f"output folder {out} holds part of another run; name a new one, or the same scenario")
    if held.repeat != repeat:
        _write(replace(held, repeat=repeat), out)


def _write(mark: Mark, out: Path) -> None:
    try:
        make_folder(out / FOLDER)
        mark.write(out)
    except OSError as error:
        raise LostError(f"output folder {out} cannot be written ({error.strerror}); free space there") from None


def _used(out: Path) -> bool:
    """Return whether devices have booked anything there, or a round is kept."""
    return bool(kept_rounds(out)) or (out / "result.json").exists() or any((out / FOLDER).rglob(f"*{SUFFIX}"))


def _require_empty(out: Path) -> None:
    """Refuse a folder that holds more than a run leaves which was killed before anything was booked."""
    own = {out / FOLDER, out / FOLDER / MARK}
    for one in (*out.iterdir(), *out.glob(f"{FOLDER}/**/*")):
        inside = one.is_dir() and (out / FOLDER) in one.parents
        if not (one in own or inside or left_over(one)):
            raise InputError(f"output folder {out} holds another run ({one.name}); name a new one")


def _identity(scenario: Scenario) -> tuple[dict[str, Any], str | None]:
    """Return what makes a run the same run: the scenario as it was given, and the digest of its ratings file.

    A design of one's own counts by the digest of its source and settings, wherever it was imported from.
    """
    given: dict[str, Any] = {name: scenario.flat()[name] for name in sorted(scenario.given())}
    if ":" in scenario.design:
        given["design"] = scenario.half.query_name(scenario.settings)
    if scenario.ratings is None:
        return given, None
    given["ratings"] = str(scenario.ratings.absolute())
    return given, ratings_sha256(scenario.ratings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What whoever resumes a run names again, because nothing is imported since a folder says so.

    Attributes
    ----------
    design, policy : str or None
        Import paths of one's own; None where not given.
    helpers : tuple of str
        Packages that travel with the design.
    """

    design: str | None = None
    policy: str | None = None
    helpers: tuple[str, ...] = ()


def _values(out: Path, kept: dict[str, Any], named: Named) -> dict[str, Any]:
    """Return a kept scenario's values, with what is one's own as it was named again.

    Raises
    ------
    InputError
        If something of one's own was not named, or is another one's.
    """
    values = {name: value for name, value in kept.items() if name != "helpers"}
    design, policy = str(kept.get("design", "")), str(kept.get("policy", ""))
    if "@" in design:
        if named.design is None:
            own = design.partition("@")[0]
            raise InputError(
                f"the run in {out} is of a design of one's own, {own}; name it again: --design package.module:{own}"
            )
        values |= {"design": named.design} | ({"helpers": named.helpers} if named.helpers else {})
    elif named.design not in {None, design} or named.helpers:
        raise InputError(f"the run in {out} is of no design of one's own; leave --design and --with out")
    if ":" in policy and named.policy is None:
        raise InputError(f"the run in {out} follows a policy of one's own; name it again: --policy {policy}")
    if named.policy not in {None, policy}:
        raise InputError(f"the run in {out} follows policy {policy or 'one-round'}, not {named.policy}")
    return values


def claimed(out: Path, named: Named = Named()) -> tuple[Scenario, int]:
    """Return the scenario that an interrupted run's folder holds, and its number of seeds.

    Parameters
    ----------
    out : Path
        The folder.
    named : Named
        What is one's own, named again.

    Raises
    ------
    InputError
        If there is nothing to resume, another version kept it, or its mark was changed; or what is one's own was not
        named again, or has changed since.
    """
    mark = read_mark(out)
    if mark is None and (out / "result.json").is_file():
        raise InputError(f"output folder {out} holds a finished run; there is nothing to resume")
    if mark is None:
        raise InputError(
            f"output folder {out} holds no interrupted run: nothing was kept there; blindrec run ... --out {out} "
            "begins one"
        )
    values = _values(out, mark.scenario, named)
    try:
        scenario = Scenario.model_validate(values)
    except PolicyError:
        raise
    except ValueError as error:
        why = f" ({error})" if isinstance(error, InputError) and named.design else ""
        raise InputError(
            f"output folder {out}: the scenario in {out / FOLDER / MARK} cannot be run{why}; run it in a new folder"
        ) from None
    if named.design and (found := _identity(scenario)[0]["design"]) != mark.scenario["design"]:
        raise InputError(
            f"design {named.design} is {found}, the run in {out} began with {mark.scenario['design']}: its source, its "
            "settings or what travels with it has changed; go on with those, or start in a new folder"
        )
    if _identity(scenario)[1] != mark.ratings_sha256:
        raise InputError(f"{scenario.ratings} has changed since the run in {out} began; run it in a new folder")
    return scenario, mark.repeat
