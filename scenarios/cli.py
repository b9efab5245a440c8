"""The command line: `blindrec demo`, `run`, `online`, `adversary`, `data`, `bounds`, `plan`, `sweep`, `submit`."""

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from functools import cache
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
def _without_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version, and leave.")] = False,
) -> None:
    """See the help of `app`."""
    if version:
        sys.stdout.write(f"blindrec {importlib.metadata.version('blindrec')}\n")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


# Every command below its module, with the first sentence of its help, which lists show without loading any.
_COMMANDS = """
experiment_commands:
    run       Run one experiment: devices answer, the server learns item clusters and scores, devices take advice.
    online    Serve clients online: voters vote on m new objects a round, one is recommended, the client likes it or
              not.
    two-tier  Public users teach item features; private devices complete their own vectors and answer once.
    resume    Go on with a run, online or two-tier that was killed or interrupted, after the last that it kept.
    demo      Run the main job on an embedded default: 2 million devices, 200 items, two clusters, epsilon 1.
lookup_commands:
    data      Show what is in a file of ratings, what its users could let a server learn, and what recommendations take.
    bounds    Print how many users any epsilon-LDP learner needs: all lower bounds of the Price of Privacy, and which
              binds.
study_commands:
    plan      Compute how many users each design needs, and which to use, from exact moments and before anything is run.
    compare   Compare what recommendations are worth under each trust model, on one split of one file of ratings.
scrutiny_commands:
    check     Check that a mechanism keeps what every mechanism must keep; exit code 2 if something failed.
    audit     Attack a mechanism's real releases: epsilon claimed, exact and measured; exit code 2 if more leaks.
    amplify   Show what a shuffler makes of a mechanism's epsilon, certified: the local epsilon for a central one, or
              back.
    adversary Set an adversary of the p-REC paper against recommenders; print the bound beside the measurement.
lookup_commands:
    report    Make a page to show of results: one HTML file that loads nothing; several results stand side by side.
job_commands:
    submit    Run a command of blindrec on a Ray cluster, as a job: `submit run ...`, `submit sweep ...` and so on.
    status    Show how a job stands, or a run here by its folder; --json fetches the result of a job that is over.
    watch     Watch a run or sweep, here or on a cluster, until it is over: rounds, answers, rate, and time left if
              known.
    fetch     Bring the --out of a job that is over here, whole, with its digest verified.
    stop      Stop a submitted job; rounds that it kept under --out stay.
"""


def _commands() -> Iterator[Later]:
    module = ""
    for line in re.split(r"\n(?! {14})", _COMMANDS.strip()):  # what is indented deeper goes on with the line before it
        if line.endswith(":"):
            module = line.removesuffix(":")
        else:
            name, _, sentence = " ".join(line.split()).partition(" ")
            find = f"scenarios.commands.{module}:{name.replace('-', '_')}"
            yield Later(name, sentence, find, passes_on=name == "submit")


COMMANDS = list(_commands())


@cache
def command_line() -> Any:
    """Return the command line as a tree of commands."""
    return grouped(app, [*COMMANDS, sweep])


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; every end but the good one is a line and an exit code, see `scenarios.config.signals`."""
    enter(command_line(), sys.argv[1:] if arguments is None else arguments)
