"""The commands that run nothing: `bounds`, `data` (describes a ratings file) and `report` (a page of results)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.table import Table

from coordinator.protocol.budget import as_float, as_json, parse_epsilon
from scenarios.backends.selection import InProcess, opened
from scenarios.commands.flags import Output, with_fields
from scenarios.log import console
from scenarios.show.tables import failing, printed, remark, show_description
from scenarios.studies.compare.comparison_settings import Comparison


def show_bounds(console: Console, record: Mapping[str, Any]) -> None:
    """Print a table of lower bounds with the binding one marked, and below it the range of each."""
    rows: Sequence[Mapping[str, Any]] = record["bounds"]
    title = f"users that any epsilon-LDP learner needs\n{failing(record['failure'], record['mistakes'])}"
    table = Table("bound", "users", "source", title=title, title_justify="left")
    table.columns[1].no_wrap = True
    holds: dict[str, list[str]] = {}
    for row in rows:
        users = f"{row['users']:,.0f}" if row["valid"] else "out of range"
        table.add_row(row["name"] + (" *" if row["binds"] else ""), users, row["source"])
        holds.setdefault(row["range"], []).append(row["name"])
    console.print(table)
    console.print("* the one that binds")
    for statement, names in holds.items():
        console.print(f"{', '.join(names)}: {'hold' if len(names) > 1 else 'holds'} for {statement}", highlight=False)


def bounds(
    items: Annotated[int, typer.Option(help="Items N, up to 10^9 and more.")],
    rated: Annotated[int, typer.Option(help="Items w that a user rated.")],
    epsilon: Annotated[str, typer.Option(help="Epsilon of a user's answer in nats; inf for no privacy.")] = "1",
    clusters: Annotated[int, typer.Option(help="Item clusters.")] = 2,
    failure: Annotated[float, typer.Option(help="Allowed probability of failure [0.5].")] = 0.5,
    mistakes: Annotated[int, typer.Option(help="How many wrong items still count as success.")] = 0,
    ours: Annotated[bool, typer.Option(help="Add two bounds that are not in the paper.")] = False,
    *,
    output: Output,
) -> None:
    """Print how many users any epsilon-LDP learner needs: all lower bounds of the Price of Privacy, and which binds."""
    from scenarios.theory.bounds import all_bounds, bounds_rows

    nats = parse_epsilon(epsilon)
    shape: dict[str, Any] = {"items": items, "rated": rated, "clusters": clusters}
    target: dict[str, Any] = {"failure": failure, "mistakes": mistakes}
    rows = bounds_rows(all_bounds(**shape, **target, epsilon=as_float(nats), ours=ours))
    record = {**shape, "epsilon": as_json(nats), **target, "bounds": rows}
    output.deliver("bounds", record, lambda: show_bounds(printed(), record))


_READ = (
    *("columns", "duplicates", "bad_lines", "unrated", "min_ratings", "like_from", "held_out", "split_by"),
    *("features", "feature_columns", "epsilon", "people", "worth", "of"),
)
_DEFAULTS = {
    "worth": "The target: reach this share of the quality of --of [0.95].",
    "of": "Non-private reference of the target: popularity, or best (the best list) [popularity].",
}


@with_fields(
    {name: Comparison.model_fields[name] for name in _READ}
    | {
        name: FieldInfo(annotation=Comparison.model_fields[name].annotation, description=line)
        for name, line in _DEFAULTS.items()
    }
)
def data(
    file: Annotated[Path, typer.Argument(help="MovieLens, Jester, or any CSV or Parquet file of ratings.")],
    *,
    block_model: Annotated[
        bool, typer.Option("--block-model", help="Add what a server could learn from a block model of the file's size.")
    ] = False,
    details: Annotated[bool, typer.Option("--details", help="Print all rows, too.")] = False,
    output: Output,
    **read: Any,
) -> None:
    """Describe a file of ratings, and show how good lists for its people would be on each rung of trust.

    The answer is that of `blindrec compare`, restricted to rows that take seconds.
    """
    from scenarios.data.datasets import tell
    from scenarios.studies.plan_of_file import describe_file
    from scenarios.studies.planner.plan import show_learnable

    opening = partial(opened, InProcess())
    described, answer, record = describe_file({"ratings": file, **read}, opening, block_model=block_model)

    def show() -> None:
        show_description(printed(), described, f"blindrec data {file.name}")
        repeats = () if answer.result is None else answer.result["about_answer"]  # which stand beside the answer
        tell((line for line in record["remarks"] if line not in repeats), printed())
        if block_model:
            show_learnable(printed(), record["learnable"])
        answer.show(printed(), details=details)

    output.deliver("data", record, show)


HELP = """Make a report of results: one self-contained HTML file that shows several results side by side.

It shows runs, two-tier, online, sweeps, plans, comparisons (their answer first), data and audits: the settings, whom
devices trust, how surely an attacker can tell two histories of a person apart, measurements beside predictions, what is
not protected, and the command that repeats the result.

\b
  blindrec report runs/a --out a.html
  blindrec report runs/a runs/b plan.json --out all.html
"""


def report(
    results: Annotated[list[Path], typer.Argument(help="Folders of --out, or files of --json.", show_default=False)],
    *,
    out: Annotated[Path, typer.Option(help="File for the page, .html.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Make a report of results; see `HELP`."""
    from scenarios.pages.page import write_report

    write_report(results, out, force=force)
    remark(console(), f"{out} is written, {out.stat().st_size:,} bytes")


report.__doc__ = HELP
