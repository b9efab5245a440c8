"""The command line: `blindrec demo`, `run`, `online`, `adversary`, `data`, `bounds`, `plan`, `sweep`, `submit`."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, NoReturn

import typer

from scenarios.commands.entrance import Later, enter, grouped
from scenarios.commands.sweep_command import sweep

app = typer.Typer(
    rich_markup_mode=None,
    help="What can a recommender learn if nobody has to trust it, and what does that cost? Simulates devices that "
    "keep their ratings to themselves and answer an untrusted server with privatized one-bit sketches.",
)


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


def _experiment(name: str) -> Callable[..., None]:
    from scenarios.commands.experiment_commands import (  # noqa: PLC0415 (other commands need not wait for experiments)
        command_of,
    )
    from scenarios.experiments import EXPERIMENTS  # noqa: PLC0415 (as above)

    return command_of(EXPERIMENTS[name])


COMMANDS = (
    Later(
        "run",
        "Run one experiment: devices answer, the server learns item clusters and scores, devices take advice.",
        partial(_experiment, "run"),
    ),
    Later(
        "online",
        "Serve clients online: voters vote on m new objects a round, one is recommended, the client likes it or not.",
        partial(_experiment, "online"),
    ),
    Later(
        "two-tier",
        "Public users teach item features; private devices complete their own vectors and answer once.",
        partial(_experiment, "two-tier"),
    ),
    Later(
        "resume",
        "Go on with a run, online or two-tier that was killed or interrupted, after the last that it kept.",
        "scenarios.commands.experiment_commands:resume",
    ),
    Later(
        "demo",
        "Run the main job on an embedded default: 2 million devices, 200 items, two clusters, epsilon 1.",
        "scenarios.commands.experiment_commands:demo",
    ),
    Later(
        "data",
        "Tell what is in a file of ratings, what its users could let a server learn, and what recommendations take.",
        "scenarios.commands.lookup_commands:data",
    ),
    Later(
        "bounds",
        "Tell how many users any epsilon-LDP learner needs: all lower bounds of the Price of Privacy, and which binds.",
        "scenarios.commands.lookup_commands:bounds",
    ),
    Later(
        "plan",
        "Tell how many users each design needs, and which to use, from exact moments and before anything is run.",
        "scenarios.commands.plan_command:plan",
    ),
    Later(
        "compare",
        "Compare what recommendations are worth under each trust model, on one split of one file of ratings.",
        "scenarios.commands.compare_command:compare",
    ),
    Later(
        "check",
        "Check that a mechanism keeps what every mechanism must keep; exit code 2 if something failed.",
        "scenarios.commands.scrutiny_commands:check",
    ),
    Later(
        "audit",
        "Attack a mechanism's real releases: epsilon claimed, exact and measured; exit code 2 if more leaks.",
        "scenarios.commands.scrutiny_commands:audit",
    ),
    Later(
        "adversary",
        "Set an adversary of the p-REC paper against recommenders; print the bound beside the measurement.",
        "scenarios.commands.adversary_command:adversary",
    ),
    Later(
        "report",
        "Make a page to show of results: one HTML file that loads nothing; several results stand side by side.",
        "scenarios.commands.lookup_commands:report",
    ),
    Later(
        "submit",
        "Run a command of blindrec on a Ray cluster, as a job: `submit run ...`, `submit sweep ...` and so on.",
        "scenarios.commands.job_commands:submit",
        allow_extra_args=True,
        ignore_unknown_options=True,
    ),
    Later(
        "status",
        "Tell how a job stands, or a run here by its folder; --json fetches the result of a job that is over.",
        "scenarios.commands.job_commands:status",
    ),
    Later(
        "watch",
        "Watch a run or sweep, here or on a cluster, until it is over: rounds, answers, rate, and time left if known.",
        "scenarios.commands.job_commands:watch",
    ),
    Later(
        "fetch",
        "Bring the --out of a job that is over here, whole, with its digest verified.",
        "scenarios.commands.job_commands:fetch",
    ),
    Later(
        "stop",
        "Stop a submitted job; rounds that it kept under --out stay.",
        "scenarios.commands.job_commands:stop",
    ),
    sweep,
)


@cache
def command_line() -> Any:
    """Return the command line as a tree of commands."""
    return grouped(app, COMMANDS)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; every end but the good one is a line and an exit code, see `scenarios.config.signals`."""
    enter(command_line(), sys.argv[1:] if arguments is None else arguments)
