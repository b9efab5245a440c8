"""What makes a run the same run: the mark of its folder, and its scenario for whoever goes on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError, PolicyError
from scenarios.app.experiment import NOTHING, NamedCode
from scenarios.given.config import Scenario
from scenarios.given.files import file_sha256
from scenarios.given.policies import code_digest
from scenarios.given.run_spec import RunSpec, half_in
from scenarios.store.manifest import FOLDER, MANIFEST, RUN, Manifest
from scenarios.store.run_folder import require_source


def mark_of_run(scenario: Scenario, repeat: int = 1) -> Manifest:
    """Return the mark of a new run."""
    settings, source = _identity(scenario)
    return Manifest(
        kind=RUN, scenario=settings, source_sha256=source, code_sha256=code_digest(scenario.policy), repeat=repeat
    )


def _identity(scenario: Scenario) -> tuple[dict[str, Any], str | None]:
    """Return what makes a run the same run: the scenario as it was given, and the digest of its ratings file.

    A design of one's own counts by the digest of its source and settings, wherever it was imported from.
    """
    settings: dict[str, Any] = {name: scenario.flat()[name] for name in sorted(scenario.given())}
    if ":" in scenario.design:
        settings["design"] = half_in(scenario).query_name(scenario.settings)
    if scenario.ratings is None:
        return settings, None
    settings["ratings"] = str(scenario.ratings.absolute())
    if scenario.features is not None:
        settings["features"] = str(scenario.features.absolute())
    return settings, file_sha256(scenario.ratings, "ratings file")


def _values(out: Path, stored: dict[str, Any], named: NamedCode) -> dict[str, Any]:
    """Return a kept scenario's values, with what is one's own as it was named again."""
    values = {name: value for name, value in stored.items() if name != "helpers"}
    design, policy = str(stored.get("design", "")), str(stored.get("policy", ""))
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


def claimed(out: Path, mark: Manifest, named: NamedCode = NOTHING) -> Scenario:
    """Return the scenario of a run that was interrupted."""
    values = _values(out, mark.scenario, named)
    try:
        scenario = RunSpec(Scenario.model_validate(values)).scenario
    except PolicyError:
        raise
    except ValueError as error:
        why = f" ({error})" if isinstance(error, InputError) and named.design else ""
        raise InputError(
            f"output folder {out}: the scenario in {out / FOLDER / MANIFEST} cannot be run{why}; run it in a new folder"
        ) from None
    if named.design and (design_name := _identity(scenario)[0]["design"]) != mark.scenario["design"]:
        raise InputError(
            f"design {named.design} is {design_name}, the run in {out} began with {mark.scenario['design']}: its "
            "source, its settings or what travels with it has changed; go on with those, or start in a new folder"
        )
    require_source(out, mark, _identity(scenario)[1], scenario.ratings)
    return scenario
