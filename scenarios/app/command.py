"""One command for each experiment: its scenario's flags, and those that all experiments share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scenarios.app.experiment import Experiment
from scenarios.app.finishing import finished_run
from scenarios.app.flags import (
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
from scenarios.given.mechanisms import all_settings
from scenarios.log import console
from scenarios.own.importing import read_settings
from scenarios.pictures.figures import check_figure, deliver_figure
from scenarios.places.backends import AUTO, open_session
from scenarios.report.printing import report_record
from scenarios.report.records import check_target

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
