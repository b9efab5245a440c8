"""The command line of the first run that one sees: `blindrec demo`."""

from __future__ import annotations

from scenarios.app.command import report
from scenarios.app.finishing import finished_run
from scenarios.app.flags import Backend, Figure, Json
from scenarios.experiments import MAIN_JOB
from scenarios.given.config import Scenario
from scenarios.log import console
from scenarios.pictures.figures import check_figure, deliver_figure
from scenarios.places.backends import AUTO, open_session
from scenarios.report.records import check_target

DEMO = Scenario(items=200, rated=20, users=2_000_000)


def demo(backend: Backend = AUTO, json: Json = None, figure: Figure = None) -> None:
    """Run the main job on an embedded default: 2 million devices, 200 items, two clusters, epsilon 1."""
    check_target(json)
    check_figure(figure)
    opening = open_session(backend, address=None, workers=None, work=lambda: MAIN_JOB.work(DEMO))
    with finished_run(MAIN_JOB, DEMO, opening, console=console()) as record:
        report(MAIN_JOB, record.values, json, "demo")
        deliver_figure(figure, MAIN_JOB.name, record.values, record.tables)
