"""The command line: a line for each command, with the first sentence of its help and its module."""

import importlib.metadata
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from scenarios.backends.selection import choose, open_session
from scenarios.commands.entrance import LazyCommand, enter, grouped
from scenarios.commands.flags import AllowCode, BackendFlags, Output, with_fields
from scenarios.log import console
from scenarios.studies.sweep.sweeps import DEFAULT_KIND, KINDS, OF_FILES, built_in_grids, kind_of, load_sweep, sweep_of

app = typer.Typer(
    rich_markup_mode=None,
    help="What can a recommender learn if nobody has to trust it, and what does that cost? Simulates devices that "
    "keep their ratings to themselves and answer an untrusted server with privatized one-bit sketches.",
)


@app.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """See the help of `app`."""
    if version:
        sys.stdout.write(f"blindrec {importlib.metadata.version('blindrec')}\n")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


Out = Annotated[Path, typer.Option(help="Folder of the sweep: a new one, or that of this sweep to resume it.")]
GRID = "sample-complexity"  # The command of grids, which need not be named
BUILT_IN = f"A TOML file, or a built-in grid: {', '.join(built_in_grids())}."


class _Grids(TyperGroup):
    """Commands by their names; any other word names a grid."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Read the arguments of a sweep."""
        return super().parse_args(context, self.completed(args))

    def completed(self, args: list[str]) -> list[str]:
        """Return the arguments with the command of grids before a grid; submit asks, too."""
        return args if not args or args[0] in {*self.commands, "--help"} else [GRID, *args]


sweeps = typer.Typer(name="sweep", cls=_Grids, rich_markup_mode=None, add_completion=False)


@sweeps.callback(invoke_without_command=True)
def _sweeps(context: typer.Context) -> None:
    """Measure over a grid of settings: long, resumable runs. GRID is a built-in name or a file."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _of_grid() -> Callable[..., None]:
    def command(
        out: Out,
        backend_flags: BackendFlags,
        output: Output,
        grid: Annotated[str, typer.Argument(help=BUILT_IN)] = "standard",
        seeds: Annotated[int | None, typer.Option(help="Seeds per setting [the grid's, or 20].")] = None,
        allow_code: AllowCode = False,
    ) -> None:
        _measure(load_sweep(grid, seeds=seeds, allow_code=allow_code), Path(grid).stem, out, backend_flags, output)

    command.__doc__ = f"{KINDS[DEFAULT_KIND]}\n\n{kind_of(DEFAULT_KIND).help_with_folder()}"
    return command


def _of_kind(name: str) -> Callable[..., None]:
    kind = kind_of(name)

    @with_fields(kind.fields)
    def command(*, out: Out, backend_flags: BackendFlags, output: Output, **settings: Any) -> None:
        _measure(sweep_of({"sweep": name, **settings}), name, out, backend_flags, output)

    command.__doc__ = f"{KINDS[name]}\n\n{kind.help_with_folder()}"
    return command


def _measure(study: Any, name: str, out: Path, backend_flags: BackendFlags, output: Output) -> None:
    from scenarios.show.tables import printed  # noqa: PLC0415 (`--help` need not wait for them)
    from scenarios.studies.study import run_study  # noqa: PLC0415 (as above)

    backend, why = choose(backend_flags.backend, address=backend_flags.address, work=study.work)
    opening = open_session(backend, address=backend_flags.address, workers=backend_flags.workers)
    done, title = run_study(study, opening, out, console()), f"sweep {name}, {backend} ({why})"
    output.deliver(study.family, done.result, lambda: study.show(printed(), done.result, title), done.plotted)


sweep = grouped(
    sweeps,
    [
        LazyCommand(GRID, KINDS[DEFAULT_KIND], _of_grid, group="sweep"),
        *(
            LazyCommand(name, KINDS[name], partial(_of_kind, name), group="sweep")
            for name in KINDS
            if name not in OF_FILES
        ),
    ],
)


# Every command below its module, with the first sentence of its help, which lists show without loading any.
_COMMANDS: list[tuple[str, dict[str, str]]] = [
    ("experiment_commands", {
        "run": "Run one experiment: devices answer, the server learns item clusters and scores, devices take advice.",
        "online": "Serve clients online: voters vote on m new objects a round, one is recommended, the client "
        "likes it or not.",
        "two-tier": "Public users teach item features; private devices complete their own vectors and answer once.",
        "resume": "Resume a run, online or two-tier that was killed or interrupted, from its last stored round.",
        "demo": "Run the main job with built-in settings: 2 million devices, 200 items, two clusters, epsilon 1.",
    }),
    ("lookup_commands", {
        "data": "Describe a file of ratings, and show how good lists for its people would be on each rung of trust.",
        "bounds": "Print how many users any epsilon-LDP learner needs: all lower bounds of the Price of Privacy, "
        "and which binds.",
    }),
    ("study_commands", {
        "plan": "Compute from exact moments, without a run, how many users each design needs and which design to use.",
        "compare": "Compare the quality of recommendations under each trust model, on one split of one ratings file.",
        "risk": "Show how often the best attack guesses right on each rung, beside the bound that epsilon gives.",
        "years": "Show the price of asking every period: people that each schedule needs on each rung, at one epsilon.",
    }),
    ("scrutiny_commands", {
        "check": "Check a mechanism against the rules that every mechanism must keep; exit code 2 if a check fails.",
        "audit": "Attack a mechanism's real releases: claimed, exact and measured epsilon; exit code 2 if it leaks too "
        "much.",
        "amplify": "Convert between a mechanism's local epsilon and its central epsilon behind a shuffler, by a "
        "certified bound.",
        "compose": "Compose epsilon exactly over periods in which the same people answer: a year's from a month's, "
        "or back.",
        "adversary": "Run an adversary of the p-REC paper against recommenders; print the bound beside the "
        "measurement.",
    }),
    ("lookup_commands", {
        "report": "Make a report of results: one self-contained HTML file that shows several results side by side.",
    }),
    ("job_commands", {
        "submit": "Run a command of blindrec on a Ray cluster, as a job: `submit run ...`, `submit sweep ...` and "
        "so on.",
        "status": "Show the state of a job, or of a run on this machine; --json fetches the result of a finished job.",
        "watch": "Watch a run or sweep, here or on a cluster, until it is over: rounds, answers, rate, and time "
        "left if known.",
        "fetch": "Copy the whole --out of a finished job to this machine, and verify its digest.",
        "stop": "Stop a submitted job; the rounds stored under its --out stay.",
    }),
]  # fmt: skip
COMMANDS = [
    LazyCommand(name, line, f"scenarios.commands.{module}:{name.replace('-', '_')}", passes_on=name == "submit")
    for module, lines in _COMMANDS
    for name, line in lines.items()
]


@cache
def command_line() -> Any:
    """Return the command line as a tree of commands."""
    return grouped(app, [*COMMANDS, sweep])


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; every end but the good one is a line and an exit code, see `scenarios.config.signals`."""
    enter(command_line(), sys.argv[1:] if arguments is None else arguments)
