"""The command line: `blindrec demo`, `run`, `online`, `adversary`, `data`, `bounds`, `plan`, `sweep`, `submit`."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.server.mechanisms import found
from scenarios import report
from scenarios.bounds import all_bounds, bounds_table
from scenarios.check_command import check
from scenarios.config import Scenario, load_scenario
from scenarios.datasets import read_ratings, three_columns
from scenarios.entrance import enter, tightened
from scenarios.flags import with_settings
from scenarios.keeping import finished_run
from scenarios.online.adversary_command import HELP as ADVERSARY_HELP
from scenarios.online.adversary_command import adversary
from scenarios.online.online_command import HELP as ONLINE_HELP
from scenarios.online.online_command import online
from scenarios.own.importing import read_settings
from scenarios.places.backends import open_session
from scenarios.planner.plan_command import plan
from scenarios.planner.shape import learnable_of
from scenarios.planner.tables import show_learnable
from scenarios.rating_split import describe
from scenarios.records import STDOUT, check_target, deliver
from scenarios.resume_command import With, resume
from scenarios.submission import job_commands as submission
from scenarios.sweep.command import sweep
from scenarios.two_tier.two_tier_command import two_tier

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="What can a recommender learn if nobody has to trust it, and what does that cost? Simulates devices that "
    "keep their ratings to themselves and answer an untrusted server with privatized one-bit sketches.",
)
app.add_typer(sweep, name="sweep")


@app.command()
@with_settings()
def run(
    scenario: Annotated[Path | None, typer.Argument(help="TOML file with the same names; flags win.")] = None,
    design: Annotated[
        str | None,
        typer.Option(help=f"What is asked: {', '.join(found())}, or your own package.module:Name [maxsense]."),
    ] = None,
    setting: Annotated[list[str] | None, typer.Option(help="Your own design: name=value of a setting.")] = None,
    helpers: With = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Which query comes next: one-round, fixed, eliminate, item-by-item, or your own package.module:Name "
            "[one-round]."
        ),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Adaptive: P(all labels right) at which to stop [0.95].")
    ] = None,
    answers_per_device: Annotated[
        int | None, typer.Option(help="Queries m a device answers at most, at epsilon / m each [1].")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Policy fixed: number of rounds [2].")] = None,
    most_rounds: Annotated[int | None, typer.Option(help="Stop a policy that goes on after so many [10000].")] = None,
    decoder: Annotated[str | None, typer.Option(help="centred (ours) or paper, where a design has both.")] = None,
    items: Annotated[int | None, typer.Option(help="Items N of the catalogue [200].")] = None,
    users: Annotated[int | None, typer.Option(help="Users, one device each [1000000; of a file: its users].")] = None,
    rated: Annotated[int | None, typer.Option(help="Items w that a user rated [20; of a file: the median].")] = None,
    clusters: Annotated[int | None, typer.Option(help="Item clusters to look for [columns of --like, or 2].")] = None,
    like: Annotated[str | None, typer.Option(help="P(like): clusters by ',', user classes by ';' [0.9,0.1].")] = None,
    class_shares: Annotated[str | None, typer.Option(help="Shares of user classes [equal].")] = None,
    cluster_shares: Annotated[str | None, typer.Option(help="Shares of item clusters [equal].")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Privacy of an answer in nats; inf for no noise [1].")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it [0].")] = None,
    ratings: Annotated[Path | None, typer.Option(help="A file of real ratings instead of the block model.")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the file's user, item and rating columns.")] = None,
    like_from: Annotated[float | None, typer.Option(help="Ratings from here on are likes [above own mean].")] = None,
    held_out: Annotated[int | None, typer.Option(help="Likes held out a user, to score advice [1].")] = None,
    dropout: Annotated[float | None, typer.Option(help="P(a device does not answer a query) [0].")] = None,
    straggler_share: Annotated[float | None, typer.Option(help="P(one of the others is slow) [0].")] = None,
    straggler_delay: Annotated[float | None, typer.Option(help="Mean delay of a slow device, in seconds [60].")] = None,
    deadline: Annotated[
        float | None, typer.Option(help="Answers that take longer are missing, in seconds [all are waited for].")
    ] = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Blocks of devices at the same time [all CPUs].")] = None,
    devices_per_actor: Annotated[int | None, typer.Option(help="Size of a cohort [users / workers].")] = None,
    repeat: Annotated[int, typer.Option(help="Run this many seeds from --seed on; report means.")] = 1,
    out: Annotated[Path | None, typer.Option(help="New folder for result, scenario, versions, items table.")] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
    **settings: Any,
) -> None:
    """Run one experiment: devices answer, the server learns item clusters, devices take advice from them.

    Speed flags (--backend, --workers, --devices-per-actor) never change an answer.
    """
    names = set(Scenario.model_fields) - {"columns", "settings"}
    flags = {name: value for name, value in locals().items() if name in names}
    own = {**read_settings(setting or ()), "helpers": tuple(helpers) if helpers else None}
    wanted = load_scenario(scenario, {**flags, **settings, **own, "columns": three_columns(columns)})
    check_target(json)
    opening = open_session(backend, address=address, workers=workers)
    with finished_run(
        wanted, opening, repeat=repeat, devices_per_actor=devices_per_actor, console=_stderr(), out=out
    ) as finished:
        report.report_run(finished.result, json, "run")


app.command()(resume)


@app.command()
def demo(
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """Run the main job on an embedded default: 2 million devices, 200 items, two clusters, epsilon 1."""
    check_target(json)
    opening = open_session(backend, address=None, workers=None)
    with finished_run(DEMO, opening, repeat=1, devices_per_actor=None, console=_stderr(), out=None) as finished:
        report.report_run(finished.result, json, "demo")


@app.command()
def data(
    file: Annotated[Path, typer.Argument(help="MovieLens, Jester, or any CSV or Parquet file of ratings.")],
    columns: Annotated[str | None, typer.Option(help="Names of the file's user, item and rating columns.")] = None,
    like_from: Annotated[float | None, typer.Option(help="Ratings from here on are likes [above own mean].")] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
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
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
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
        report.show_bounds(Console(), rows)


app.command()(plan)
app.command()(check)
app.command("online", help=ONLINE_HELP)(online)
app.command("adversary", help=ADVERSARY_HELP)(adversary)
app.command("submit", help=submission.SUBMIT_HELP, context_settings=submission.PASS_ON)(submission.submit)
app.command()(submission.status)
app.command()(submission.stop)
app.command("two-tier")(two_tier)


DEMO = Scenario(items=200, rated=20, users=2_000_000)


def _stderr() -> Console:
    return Console(stderr=True)


@cache
def command_line() -> Any:
    """Return the command line as a tree of commands."""
    return tightened(typer.main.get_command(app))


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; every end but the good one is a line and an exit code, see `endings`."""
    enter(command_line(), sys.argv[1:] if arguments is None else arguments)
