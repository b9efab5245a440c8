"""The command line of sweeps: `blindrec sweep GRID`, and a command for each kind that takes its grid as flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from scenarios.app.flags import Address, Backend, Json, Workers, with_fields
from scenarios.places.backends import check_backend, open_session
from scenarios.report.records import STDOUT, check_target, deliver
from scenarios.report.tables import printed
from scenarios.sweep.folder import swept
from scenarios.sweep.kind import Kind, Sweep
from scenarios.sweep.kinds import KINDS, load_sweep, sweep_of
from scenarios.sweep.users import USERS

Out = Annotated[Path, typer.Option(help="Folder of the sweep: new, or of the same sweep, to go on.")]
GRID = "sample-complexity"
"""The command of grids, which need not be named."""


class _Grids(TyperGroup):
    """Commands by their names; what is no command is a grid."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Read the arguments of a sweep."""
        return super().parse_args(context, self.completed(args))

    def completed(self, args: list[str]) -> list[str]:
        """Return the arguments with the command of grids before a grid."""
        return args if not args or args[0] in {*self.commands, "--help"} else [GRID, *args]


sweep = typer.Typer(cls=_Grids)


@sweep.callback(invoke_without_command=True)
def _sweeps(context: typer.Context) -> None:
    """Measure over a grid of settings: long, resumable runs. `blindrec sweep GRID` takes a built-in name or a file."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@sweep.command(GRID, help=USERS.help)
def of_grid(
    out: Out,
    grid: Annotated[str, typer.Argument(help="A TOML file, or the name of a built-in grid.")] = "standard",
    seeds: Annotated[int | None, typer.Option(help="Runs of every setting [the grid's, or 20].")] = None,
    backend: Backend = "ray",
    address: Address = None,
    workers: Workers = None,
    json: Json = None,
) -> None:
    """Measure a grid; see `USERS.help`."""
    _measure(load_sweep(grid, seeds=seeds), Path(grid).stem, out, backend, address, workers, json)


def _measure(
    wanted: Sweep[Any, Any, Any],
    name: str,
    out: Path,
    backend: str,
    address: str | None,
    workers: int | None,
    json: str | None,
) -> None:
    check_backend(backend, workers)
    check_target(json)
    opening = open_session(backend, address=address, workers=workers)
    result = swept(wanted, opening, out, Console(stderr=True)).result
    deliver(json, result)
    if json != STDOUT:
        wanted.show(printed(), result, f"sweep {name}, {backend}")


def _add(kind: Kind) -> None:
    @sweep.command(kind.name, help=kind.help)
    @with_fields(kind.fields)
    def command(
        *,
        out: Out,
        backend: Backend = "ray",
        address: Address = None,
        workers: Workers = None,
        json: Json = None,
        **told: Any,
    ) -> None:
        wanted = sweep_of({"sweep": kind.name, **told})
        _measure(wanted, kind.name, out, backend, address, workers, json)


for one in KINDS.values():
    if "grid" not in one.fields:  # tables are written in files
        _add(one)
