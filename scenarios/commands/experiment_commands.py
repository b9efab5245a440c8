"""The commands of experiments: `run`, `online` and `two-tier`, the first run that one sees, and going on with one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator.protocol.errors import InputError
from scenarios.backends.selection import AUTO, check_backend, open_session
from scenarios.commands.flags import (
    Address,
    AllowCode,
    Backend,
    Cohort,
    Figure,
    Given,
    Json,
    Metrics,
    Out,
    Repeat,
    Setting,
    With,
    Workers,
    with_fields,
)
from scenarios.config.identity import read_settings
from scenarios.config.mechanism_settings import all_settings
from scenarios.config.scenario import Scenario
from scenarios.experiment.experiment import NOTHING, Experiment, NamedCode, finished_run
from scenarios.experiments import EXPERIMENTS, MAIN_JOB
from scenarios.log import console
from scenarios.show.figures import check_figure, deliver_figure
from scenarios.show.records import check_target
from scenarios.show.tables import report_record
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
        fields | (all_settings() if experiment.own else {}), left_out | (frozenset() if experiment.own else _OWN)
    )
    def command(
        scenario: Given = None,
        *,
        setting: Setting = None,
        helpers: With = None,
        backend: Backend = AUTO,
        address: Address = None,
        workers: Workers = None,
        devices_per_actor: Cohort = None,
        allow_code: AllowCode = False,
        metrics: Metrics = False,
        repeat: Repeat = 1,
        out: Out = None,
        json: Json = None,
        figure: Figure = None,
        **flags: Any,
    ) -> None:
        own = {**read_settings(setting or ()), "helpers": tuple(helpers) if helpers else None} if experiment.own else {}
        settings = experiment.read(scenario, {**flags, **own}, allow_code=allow_code)
        check_target(json)
        check_figure(figure)
        with finished_run(
            experiment,
            settings,
            open_session(
                backend,
                address=address,
                workers=workers,
                metrics=metrics,
                work=lambda: repeat * experiment.work(settings),
            ),
            repeat=repeat,
            devices_per_actor=devices_per_actor,
            console=console(),
            out=out,
        ) as record:
            report(experiment, record.values, json, experiment.name)
            deliver_figure(figure, experiment.name, record.values, record.tables)

    command.__doc__ = experiment.help
    return command


def report(experiment: Experiment[Any], result: dict[str, Any], json: str | None, command: str) -> None:
    """Tell a result as a table, and as JSON where that was asked for."""
    why = f" ({reason})" if (reason := result.get("backend_reason")) else ""  # folders of earlier versions have none
    title = f"blindrec {command}, {result[experiment.titled]}, {result['backend']}{why}"
    report_record(result, json, title, experiment.columns)


DEMO = Scenario(items=200, rated=20, users=2_000_000)


def demo(backend: Backend = AUTO, json: Json = None, figure: Figure = None) -> None:
    """Run the main job on an embedded default: 2 million devices, 200 items, two clusters, epsilon 1."""
    check_target(json)
    check_figure(figure)
    opening = open_session(backend, address=None, workers=None, work=lambda: MAIN_JOB.work(DEMO))
    with finished_run(MAIN_JOB, DEMO, opening, console=console()) as record:
        report(MAIN_JOB, record.values, json, "demo")
        deliver_figure(figure, MAIN_JOB.name, record.values, record.tables)


def resume(
    folder: Annotated[Path, typer.Argument(help="The --out of a run, online or two-tier that was interrupted.")],
    design: Annotated[
        str | None, typer.Option(help="The run's design, if it is your own: package.module:Name.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The run's policy, if it is your own: package.module:Name.")
    ] = None,
    helpers: With = None,
    backend: Backend = AUTO,
    address: Address = None,
    workers: Workers = None,
    devices_per_actor: Cohort = None,
    metrics: Metrics = False,
    json: Json = None,
    figure: Figure = None,
) -> None:
    """Go on with a run, online or two-tier that was killed or interrupted, after the last that it kept.

    What is kept is every round of a run, every client of an online run, every batch of private devices. It ends as if
    nothing had happened: devices know from their ledgers what they have answered, repeat it where they are asked again,
    and spend nothing twice. Backend and layout may differ from before. A design or policy of your own is named again;
    nothing is imported because a folder says so. Where all was over, its result is told again, and nobody is asked.
    """
    check_backend(backend, workers)
    check_target(json)
    check_figure(figure)
    mark = read_manifest(folder)
    if mark is not None and mark.kind == SWEEP:
        raise InputError(f"output folder {folder} holds a sweep, which goes on by its own command; give that again")
    if (result := finished(folder)) is not None:
        family = experiment_told(folder, result)
        report(family, result, json, "resume")
        deliver_figure(figure, family.name, result, lambda: tables_in(folder))
        return
    if mark is None:
        raise InputError(
            f"output folder {folder} holds no interrupted run: nothing was kept there; blindrec run ... --out {folder} "
            "begins one"
        )
    named = NamedCode(design=design, policy=policy, helpers=tuple(helpers or ()))
    if not EXPERIMENTS[mark.kind].own and named != NOTHING:
        raise InputError(
            f"output folder {folder} holds blindrec {mark.kind}, which has no design or policy; leave --design, "
            "--policy and --with out"
        )
    experiment = EXPERIMENTS[mark.kind]
    settings = experiment.resumed(folder, mark, named)
    with finished_run(
        experiment,
        settings,
        open_session(
            backend,
            address=address,
            workers=workers,
            metrics=metrics,
            work=lambda: mark.repeat * experiment.work(settings),
        ),
        repeat=mark.repeat,
        devices_per_actor=devices_per_actor,
        console=console(),
        out=folder,
    ) as done:
        report(experiment, done.values, json, "resume")
        deliver_figure(figure, experiment.name, done.values, done.tables)


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the result of an experiment that is over, or None; what it kept to go on from is removed.

    A run whose policy went astray told what it had learned until then, and is not over.
    """
    result = read_result(folder)
    if result is None:
        return None
    if (folder / FOLDER / MANIFEST).exists():
        if result.get("policy_error"):
            return None
        with locked_folder(folder):
            drop(folder)
    return result


def experiment_told(folder: Path, result: dict[str, Any]) -> Experiment[Any]:
    """Return which experiment told a result."""
    for experiment in EXPERIMENTS.values():
        if experiment.titled in result and "trust_model" in result:
            return experiment
    raise InputError(
        f"output folder {folder} holds the result of something else than {', '.join(EXPERIMENTS)}; a sweep goes on by "
        "its own command"
    )
