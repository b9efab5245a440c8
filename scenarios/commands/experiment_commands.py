"""The commands of experiments: `run`, `online` and `two-tier`, `demo`, and `resume`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator.protocol.errors import InputError
from scenarios.backends.selection import AUTO
from scenarios.commands.flags import (
    AllowCode,
    BackendFlags,
    BackendName,
    Cohort,
    Given,
    Metrics,
    Out,
    Output,
    Repeat,
    Setting,
    With,
    with_fields,
)
from scenarios.config.identity import read_settings
from scenarios.config.mechanism_settings import all_settings
from scenarios.config.scenario import Scenario
from scenarios.experiment.experiment import NOTHING, Experiment, NamedCode, finished_run
from scenarios.experiments import EXPERIMENTS, MAIN_JOB
from scenarios.log import console
from scenarios.show.tables import printed, show
from scenarios.store.manifest import FOLDER, MANIFEST, SWEEP, read_manifest
from scenarios.store.record_log import drop
from scenarios.store.run_folder import read_result
from scenarios.store.whole_files import locked_folder, tables_in

_OWN = frozenset({"setting", "helpers", "allow_code"})


def command_of(experiment: Experiment[Any]) -> Callable[..., None]:
    """Return the command of an experiment, as the command-line library registers it."""
    fields = {name: field for name, field in experiment.kind.model_fields.items() if name != "settings"}
    left_out = frozenset() if experiment.sized else frozenset({"devices_per_actor"})

    @with_fields(
        fields | (all_settings() if experiment.accepts_custom else {}),
        left_out | (frozenset() if experiment.accepts_custom else _OWN),
    )
    def command(
        scenario: Given = None,
        *,
        setting: Setting = None,
        helpers: With = None,
        backend_flags: BackendFlags,
        devices_per_actor: Cohort = None,
        allow_code: AllowCode = False,
        metrics: Metrics = False,
        repeat: Repeat = 1,
        out: Out = None,
        output: Output,
        **flags: Any,
    ) -> None:
        custom = (
            {**read_settings(setting or ()), "helpers": tuple(helpers) if helpers else None}
            if experiment.accepts_custom
            else {}
        )
        settings = experiment.read(scenario, {**flags, **custom}, allow_code=allow_code)
        options: dict[str, Any] = {"repeat": repeat, "devices_per_actor": devices_per_actor, "out": out}
        _run(experiment, settings, backend_flags, output, experiment.name, metrics=metrics, **options)

    command.__doc__ = experiment.help
    return command


run, online, two_tier = (command_of(EXPERIMENTS[name]) for name in ("run", "online", "two-tier"))
DEMO = Scenario(items=200, rated=20, users=2_000_000)


def demo(output: Output, backend: BackendName = AUTO) -> None:
    """Run the main job with built-in settings: 2 million devices, 200 items, two clusters, epsilon 1."""
    _run(MAIN_JOB, DEMO, BackendFlags(backend=backend), output, "demo")


def _run(
    experiment: Experiment[Any],
    settings: Any,
    backend_flags: BackendFlags,
    output: Output,
    command: str,
    *,
    repeat: int = 1,
    metrics: bool = False,
    **options: Any,
) -> None:
    """Run the seeds of a scenario, and report what came of them; ``options`` are those of `finished_run`."""
    opening = backend_flags.session(lambda: repeat * experiment.work(settings), metrics=metrics)
    with finished_run(experiment, settings, opening, repeat=repeat, console=console(), **options) as record:
        _report(experiment, record.values, record.tables, output, command)


def _report(
    experiment: Experiment[Any],
    result: dict[str, Any],
    tables: Callable[[], Mapping[str, Any]],
    output: Output,
    command: str,
) -> None:
    why = f" ({reason})" if (reason := result.get("backend_reason")) else ""  # folders of earlier versions have none
    title = f"blindrec {command}, {result[experiment.titled]}, {result['backend']}{why}"
    output.deliver(experiment.name, result, lambda: show(printed(), result, title, experiment.columns), tables)


def resume(
    folder: Annotated[Path, typer.Argument(help="The --out of a run, online or two-tier that was interrupted.")],
    backend_flags: BackendFlags,
    output: Output,
    design: Annotated[
        str | None, typer.Option(help="The run's design, if it is your own: package.module:Name.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The run's policy, if it is your own: package.module:Name.")
    ] = None,
    helpers: With = None,
    devices_per_actor: Cohort = None,
    metrics: Metrics = False,
) -> None:
    """Resume a run, online or two-tier that was killed or interrupted, from its last stored round.

    A run stores every round, an online run every client, and a two-tier run every batch of private devices. The result
    is the same as without the interruption: devices find past answers in their ledgers, repeat them when asked again,
    and spend nothing twice. Backend and layout may differ from before. Name a design or policy of your own again:
    a folder cannot make blindrec import code. If the run had finished, its result is shown and no device is asked.
    """
    mark = read_manifest(folder)
    if mark is not None and mark.kind == SWEEP:
        noun = "comparison" if mark.scenario.get("sweep") == "compare" else "sweep"
        how = f": {mark.command}" if mark.command else "; give that again"
        raise InputError(f"output folder {folder} holds a {noun}, which goes on by its own command{how}")
    if (result := finished(folder)) is not None:
        _report(experiment_with(folder, result), result, lambda: tables_in(folder), output, "resume")
        return
    if mark is None:
        raise InputError(
            f"{folder} holds no interrupted run: nothing was kept there; blindrec run ... --out {folder} begins one"
        )
    experiment = EXPERIMENTS[mark.kind]
    named = NamedCode(design=design, policy=policy, helpers=tuple(helpers or ()))
    if not experiment.accepts_custom and named != NOTHING:
        raise InputError(f"{mark.kind} has no design or policy; leave --design, --policy and --with out")
    settings = experiment.resumed(folder, mark, named)
    options: dict[str, Any] = {"repeat": mark.repeat, "devices_per_actor": devices_per_actor, "out": folder}
    _run(experiment, settings, backend_flags, output, "resume", metrics=metrics, **options)


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the result of a finished experiment, or None; its stored rounds are removed."""
    # A run whose policy failed has reported what it had learned until then, but is not finished.
    result = read_result(folder)
    if result is None:
        return None
    if (folder / FOLDER / MANIFEST).exists():
        if result.get("policy_error"):
            return None
        with locked_folder(folder):
            drop(folder)
    return result


def experiment_with(folder: Path, result: dict[str, Any]) -> Experiment[Any]:
    """Return the experiment whose result a folder holds."""
    for experiment in EXPERIMENTS.values():
        if experiment.titled in result and "trust_model" in result:
            return experiment
    raise InputError(f"{folder} holds no result of {', '.join(EXPERIMENTS)}; a sweep goes on by its own command")
