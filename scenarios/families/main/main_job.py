"""The main job as an experiment, `blindrec run`: what makes a run the same run, and one seed of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from coordinator.protocol.errors import InputError, PolicyError
from coordinator.server.server_half import TRUST_CURATOR
from scenarios.config.files import file_sha256
from scenarios.config.identity import import_object
from scenarios.config.mechanism_settings import code_digest
from scenarios.config.run_spec import RunSpec, half_in
from scenarios.config.scenario import Scenario
from scenarios.experiment.experiment import NOTHING, Experiment, NamedCode, Record, Running
from scenarios.families.main.main_columns import COLUMNS
from scenarios.store.manifest import FOLDER, MANIFEST, RUN, Manifest
from scenarios.store.run_folder import require_source
from scenarios.store.whole_files import size_of


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


class MainJob(Experiment[Scenario]):
    """Devices that rated items answer an untrusted server in rounds of queries."""

    name = RUN
    kind = Scenario
    columns = COLUMNS
    titled = "design"
    named = ("items", "users", "epsilon", "repeat", "accuracy", "accuracy_predicted", "hit_rate", "seconds")
    own = True
    loads = "scenarios.families.main.one_seed"
    help = """Run one experiment: devices answer, the server learns item clusters and scores, devices take advice.

Speed flags (--backend, --workers, --devices-per-actor) never change an answer. With --out every round is kept: a run
that was killed or interrupted goes on by blindrec resume FOLDER, or by the same command.
"""

    def check(self, scenario: Scenario) -> None:
        """Refuse what the mechanism cannot do, and a policy that cannot be imported."""
        RunSpec(scenario)
        if ":" in scenario.policy:
            import_object(scenario.policy, "policy")

    def warn(self, scenario: Scenario, console: Console) -> None:
        """Warn of clusters that no number of users tells apart, and of what the file of ratings is like."""
        super().warn(scenario, console)
        from scenarios.theory.sufficient_users import (  # noqa: PLC0415 (`--help` need not wait for what runs load)
            warning,
        )

        if line := warning(scenario):
            console.print(line, highlight=False, soft_wrap=True)

    def mark(self, scenario: Scenario, repeat: int) -> Manifest:
        """Return the mark of a run; what is one's own counts by its code."""
        return mark_of_run(scenario, repeat)

    def resumed(self, out: Path, mark: Manifest, named: NamedCode) -> Scenario:
        """Return the scenario of a run that was interrupted, with what is one's own named again."""
        return claimed(out, mark, named)

    def work(self, scenario: Scenario) -> float:
        """Predict it from the number of answers: 0.5 microseconds each, and 25 ns for every item that a device rated.

        Most of our local mechanisms took less, none half as much again; six times as much is assumed for a curator, who
        gets ratings as they are, and ten times for a mechanism of one's own. A file of ratings has a user for every 256
        bytes, and is run twice.
        """
        users = scenario.users or (10**6 if scenario.ratings is None else size_of(scenario.ratings) // 256)
        a_device = scenario.answers_per_device * (0.5e-6 + 25e-9 * (scenario.rated or 20))
        slower = 10 if ":" in scenario.design else 6 if half_in(scenario).trust == TRUST_CURATOR else 1
        return users * a_device * slower * (1 if scenario.ratings is None else 2)

    def once(self, scenario: Scenario, running: Running) -> Record:
        """Run one seed; with a ratings file and finite epsilon the same run without noise follows, to compare with."""
        from scenarios.families.main.one_seed import run_seed  # noqa: PLC0415 (`--help` need not wait for what runs load)

        return run_seed(scenario, running)
