"""The command line of sweeps: `blindrec sweep GRID`, and a command for each kind that takes its grid as flags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from scenarios.backends.selection import choose, open_session
from scenarios.commands.entrance import Later, grouped
from scenarios.commands.flags import AllowCode, BackendFlags, Output, with_fields
from scenarios.log import console
from scenarios.studies.sweep.sweeps import DEFAULT_KIND, built_in_grids, kind_of, load_sweep, sweep_of

if TYPE_CHECKING:
    from scenarios.studies.sweep.sweeps import Sweep

Out = Annotated[Path, typer.Option(help="Folder of the sweep: new, or of the same sweep, to go on.")]
GRID = "sample-complexity"  # The command of grids, which need not be named
BUILT_IN = f"A TOML file, or a built-in grid: {', '.join(built_in_grids())}."


class _Grids(TyperGroup):
    """Commands by their names; what is no command is a grid."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Read the arguments of a sweep."""
        return super().parse_args(context, self.completed(args))

    def completed(self, args: list[str]) -> list[str]:
        """Return the arguments with the command of grids before a grid; submit asks, too."""
        return args if not args or args[0] in {*self.commands, "--help"} else [GRID, *args]


app = typer.Typer(name="sweep", cls=_Grids, rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def _sweeps(context: typer.Context) -> None:
    """Measure over a grid of settings: long, resumable runs. `blindrec sweep GRID` takes a built-in name or a file."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _of_grid() -> Callable[..., None]:
    def command(
        out: Out,
        place: BackendFlags,
        output: Output,
        grid: Annotated[str, typer.Argument(help=BUILT_IN)] = "standard",
        seeds: Annotated[int | None, typer.Option(help="Runs of every setting [the grid's, or 20].")] = None,
        allow_code: AllowCode = False,
    ) -> None:
        _measure(load_sweep(grid, seeds=seeds, allow_code=allow_code), Path(grid).stem, out, place, output)

    command.__doc__ = kind_of(DEFAULT_KIND).help_with_folder()
    return command


def _of_kind(name: str) -> Callable[..., None]:
    kind = kind_of(name)

    @with_fields(kind.fields)
    def command(*, out: Out, place: BackendFlags, output: Output, **settings: Any) -> None:
        _measure(sweep_of({"sweep": name, **settings}), name, out, place, output)

    command.__doc__ = kind.help_with_folder()
    return command


def _measure(sweep: Sweep[Any, Any], name: str, out: Path, place: BackendFlags, output: Output) -> None:
    from scenarios.show.tables import printed
    from scenarios.studies.sweep.sweep_folder import swept

    backend, why = choose(place.backend, address=place.address, work=sweep.work)
    done = swept(sweep, open_session(backend, address=place.address, workers=place.workers), out, console())
    title = f"sweep {name}, {backend} ({why})"
    output.deliver(sweep.family, done.result, lambda: sweep.show(printed(), done.result, title), done.plotted_tables)


_FIRST_SENTENCES = {
    GRID: "Find how many users it takes: the smallest U* with success in at least half of the seeds, a setting each.",
    "adaptive": "Compare how many users it takes to get all labels right: one round against adaptive rounds, over "
    "items N.",
    "online": "Compare online recommenders: their loss and what they leak, beside the bounds; or on clients of a file.",
    "two-tier": "Draw the paper's figures over seeds: errors against public users, and against private devices that "
    "answer.",
}
"""Of every command's help, as lists show them without loading any kind."""
sweep = grouped(
    app,
    (
        Later(name, line, _of_grid if name == GRID else partial(_of_kind, name), group="sweep")
        for name, line in _FIRST_SENTENCES.items()
    ),
)
