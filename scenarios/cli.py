"""The command line: `blindrec demo`, `run`, `online`, `adversary`, `data`, `bounds`, `plan`, `sweep`, `submit`."""

from __future__ import annotations

import importlib.metadata
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from coordinator.protocol.budget import as_float, parse_epsilon
from scenarios.app.command import command_of
from scenarios.app.command import report as tell
from scenarios.app.entrance import enter, tightened
from scenarios.app.finishing import finished_run
from scenarios.app.flags import Backend, Json
from scenarios.compare.command import HELP as COMPARE_HELP
from scenarios.compare.command import compare
from scenarios.conformance.check_command import check
from scenarios.data.datasets import read_ratings
from scenarios.data.rating_split import describe
from scenarios.experiments import EXPERIMENTS, MAIN_JOB
from scenarios.given.config import Scenario
from scenarios.given.settings import COLUMNS, LIKE_FROM
from scenarios.given.values import three_columns
from scenarios.online.adversary_command import HELP as ADVERSARY_HELP
from scenarios.online.adversary_command import adversary
from scenarios.places.backends import open_session
from scenarios.planner.plan_command import plan
from scenarios.planner.shape import learnable_of
from scenarios.planner.tables import show_learnable
from scenarios.report import printing as report
from scenarios.report.records import STDOUT, check_target, deliver
from scenarios.resume_command import resume
from scenarios.submission import job_commands as submission
from scenarios.sweep.command import sweep
from scenarios.theory.bounds import all_bounds, bounds_table
from scenarios.theory.bounds_tables import show_bounds

app = typer.Typer(
    rich_markup_mode=None,
    help="What can a recommender learn if nobody has to trust it, and what does that cost? Simulates devices that "
    "keep their ratings to themselves and answer an untrusted server with privatized one-bit sketches.",
)
app.add_typer(sweep, name="sweep")


@app.callback(invoke_without_command=True)
def _told(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Tell the version, and leave.")] = False,
) -> None:
    """See the help of `app`."""
    if version:
        sys.stdout.write(f"blindrec {importlib.metadata.version('blindrec')}\n")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


for experiment in EXPERIMENTS.values():
    app.command(experiment.name, help=experiment.help)(command_of(experiment))
app.command()(resume)


@app.command()
def demo(backend: Backend = "ray", json: Json = None) -> None:
    """Run the main job on an embedded default: 2 million devices, 200 items, two clusters, epsilon 1."""
    check_target(json)
    opening = open_session(backend, address=None, workers=None)
    with finished_run(MAIN_JOB, DEMO, opening, console=Console(stderr=True)) as finished:
        tell(MAIN_JOB, finished.result, json, "demo")


@app.command()
def data(
    file: Annotated[Path, typer.Argument(help="MovieLens, Jester, or any CSV or Parquet file of ratings.")],
    columns: Annotated[str | None, typer.Option(help=COLUMNS)] = None,
    like_from: Annotated[float | None, typer.Option(help=LIKE_FROM)] = None,
    json: Json = None,
) -> None:
    """Tell what is in a file of ratings, and what its users could let a server learn at epsilon 1, 2, 4 and 8."""
    check_target(json)
    table = read_ratings(file, columns=three_columns(columns))
    described = describe(table, like_from)
    rows = learnable_of(table, like_from)
    deliver(json, {**described, "learnable": rows})
    if json != STDOUT:
        report.show_description(Console(), described, f"blindrec data {file.name}")
        show_learnable(Console(), rows)


@app.command()
def bounds(
    items: Annotated[int, typer.Option(help="Items N, up to 10^9 and more.")],
    rated: Annotated[int, typer.Option(help="Items w that a user rated.")],
    epsilon: Annotated[str, typer.Option(help="Privacy of a user's answer in nats; inf for none.")] = "1",
    clusters: Annotated[int, typer.Option(help="Item clusters.")] = 2,
    failure: Annotated[float, typer.Option(help="Probability of failure that is allowed.")] = 0.5,
    mistakes: Annotated[int, typer.Option(help="Wrong items that still count as success.")] = 0,
    ours: Annotated[bool, typer.Option(help="Add two bounds that are not in the paper.")] = False,
    json: Json = None,
) -> None:
    """Tell how many users any epsilon-LDP learner needs: all lower bounds of the Price of Privacy, and which binds."""
    check_target(json)
    found = all_bounds(
        items=items,
        rated=rated,
        epsilon=as_float(parse_epsilon(epsilon)),
        clusters=clusters,
        failure=failure,
        mistakes=mistakes,
        ours=ours,
    )
    rows = [{str(name): value for name, value in row.items()} for row in bounds_table(found).to_dict("records")]
    deliver(json, {"bounds": rows})
    if json != STDOUT:
        show_bounds(Console(), rows)


app.command("compare", help=COMPARE_HELP)(compare)
app.command()(plan)
app.command()(check)
app.command("adversary", help=ADVERSARY_HELP)(adversary)
app.command("submit", help=submission.SUBMIT_HELP, context_settings=submission.PASS_ON)(submission.submit)
app.command()(submission.status)
app.command()(submission.stop)


DEMO = Scenario(items=200, rated=20, users=2_000_000)


@cache
def command_line() -> Any:
    """Return the command line as a tree of commands."""
    return tightened(typer.main.get_command(app))


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; every end but the good one is a line and an exit code, see `endings`."""
    enter(command_line(), sys.argv[1:] if arguments is None else arguments)
