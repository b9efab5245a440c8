"""The main job as an experiment, `blindrec run`: what makes a run the same, and one seed."""

from pathlib import Path
from typing import Any

from rich.console import Console

from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.trust_models import CURATOR
from scenarios.config.compatibility import check
from scenarios.config.custom_kinds import mechanism_with
from scenarios.config.files import file_sha256
from scenarios.config.identity import import_object
from scenarios.config.mechanism_settings import code_digest
from scenarios.config.resolve import ResolvedRun, resolve
from scenarios.config.scenario import Scenario
from scenarios.experiment.experiment import Experiment, NamedCode
from scenarios.log import write_line
from scenarios.store.manifest import FOLDER, MANIFEST, RUN, Manifest
from scenarios.store.run_folder import require_source
from scenarios.store.whole_files import size_of


def _identity(scenario: Scenario) -> tuple[dict[str, Any], str | None]:
    """Return what makes a run the same: the scenario as given, a custom design's digest, and the ratings file's."""
    settings: dict[str, Any] = {name: scenario.flat()[name] for name in sorted(scenario.given())}
    if ":" in scenario.design:
        settings["design"] = mechanism_with(scenario.settings).query_name()
    if scenario.ratings is None:
        return settings, None
    settings["ratings"] = str(scenario.ratings.absolute())
    if scenario.features is not None:
        settings["features"] = str(scenario.features.absolute())
    return settings, file_sha256(scenario.ratings, "ratings file")


def _values(out: Path, stored: dict[str, Any], named: NamedCode) -> dict[str, Any]:
    """Return a stored scenario's values, with custom code as it is named again."""
    values = {name: value for name, value in stored.items() if name != "helpers"}
    design, policy = str(stored.get("design", "")), str(stored.get("policy", ""))
    if "@" in design:
        if named.design is None:
            name = design.partition("@")[0]
            raise InputError(
                f"the run in {out} is of a custom design, {name}; name it again: --design package.module:{name}"
            )
        values |= {"design": named.design} | ({"helpers": named.helpers} if named.helpers else {})
    elif named.design not in {None, design} or named.helpers:
        raise InputError(f"the run in {out} is of no custom design; leave --design and --with out")
    if ":" in policy and named.policy is None:
        raise InputError(f"the run in {out} follows a custom policy; name it again: --policy {policy}")
    if named.policy not in {None, policy}:
        raise InputError(f"the run in {out} follows policy {policy or 'one-round'}, not {named.policy}")
    return values


class MainJob(Experiment[Scenario]):
    """Devices that rated items answer an untrusted server in rounds of queries."""

    name = RUN
    kind = Scenario
    column_list = "scenarios.families.main.main_columns:COLUMNS"
    titled = "design"
    named = ("items", "users", "epsilon", "repeat", "accuracy", "accuracy_predicted", "hit_rate", "seconds")
    accepts_custom = True
    runner = "scenarios.families.main.main_seed:run_seed"
    help = """Run one experiment: devices answer, the server learns item clusters and scores, devices take advice.

Speed flags (--backend, --workers, --devices-per-actor) never change a result. With --out every round is stored:
blindrec resume FOLDER, or the same command, resumes a run that was killed or interrupted.
"""

    def check(self, scenario: Scenario) -> ResolvedRun:
        """Refuse what cannot be run, and a policy that cannot be imported; return the run of the first seed."""
        if ":" in scenario.policy:
            import_object(scenario.policy, "policy")
        if scenario.ratings is None:
            return resolve(scenario)
        check(scenario)  # before the file is read
        from scenarios.data.populations import populate, resolved_run  # noqa: PLC0415 (`--help` need not wait for it)

        population = populate(scenario)  # the file is read once, and kept; before devices start it can still be refused
        return resolved_run(population)

    def warn(self, scenario: Scenario, resolved: ResolvedRun, console: Console) -> None:
        """Warn of clusters that no number of users separates, and of what the file of ratings is like."""
        super().warn(scenario, resolved, console)
        if scenario.ratings is not None and scenario.features is not None:
            from scenarios.data.datasets import read_for, tell  # noqa: PLC0415 (`--help` need not wait for it)
            from scenarios.data.side_tables import descriptions_of  # noqa: PLC0415 (as above)

            if described := descriptions_of(scenario, read_for(scenario).item_labels):
                tell(described.remarks, console)
        from scenarios.theory.sufficient_users import warning  # noqa: PLC0415 (`--help` need not wait for it)

        if line := warning(resolved):
            write_line(console, line)

    def mark(self, scenario: Scenario, repeat: int) -> Manifest:
        """Return the mark of a run; custom code counts by its digest."""
        settings, source = _identity(scenario)
        code = code_digest(scenario.policy)
        return Manifest(kind=RUN, scenario=settings, source_sha256=source, code_sha256=code, repeat=repeat)

    def resumed(self, out: Path, mark: Manifest, named: NamedCode) -> Scenario:
        """Return the scenario of a run that was interrupted, with custom code named again."""
        values = _values(out, mark.scenario, named)
        try:
            check(scenario := Scenario.model_validate(values))
        except PolicyError:
            raise
        except ValueError as error:
            why = f" ({error})" if isinstance(error, InputError) and named.design else ""
            where = f"output folder {out}: the scenario in {out / FOLDER / MANIFEST}"
            raise InputError(f"{where} cannot be run{why}; run it in a new folder") from None
        if named.design and (design_name := _identity(scenario)[0]["design"]) != mark.scenario["design"]:
            raise InputError(
                f"design {named.design} is {design_name}, the run in {out} began with {mark.scenario['design']}: its "
                "source, its settings or what travels with it has changed; go on with those, or start in a new folder"
            )
        require_source(out, mark, _identity(scenario)[1], scenario.ratings)
        return scenario

    def work(self, scenario: Scenario) -> float:
        """Predict it: 0.5 microseconds for an answer, and 25 ns for every item that a device rated."""
        # Most of our local mechanisms took less, none half as much again; six times as much is assumed for a curator,
        # who gets ratings as they are, and ten times for a custom mechanism. A file of ratings has a user for every 256
        # bytes, and is run twice.
        users = scenario.users or (10**6 if scenario.ratings is None else size_of(scenario.ratings) // 256)
        a_device = scenario.answers_per_device * (0.5e-6 + 25e-9 * (scenario.rated or 20))
        slower = 10 if ":" in scenario.design else 6 if scenario.mechanism.trust == CURATOR else 1
        return users * a_device * slower * (1 if scenario.ratings is None else 2)
