"""The command line of reports: `blindrec report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Make a page to show of results: one HTML file that loads nothing; several results stand side by side.

It tells of runs, two-tier, online, sweeps, plans, comparisons, data and audits: what was asked, who is trusted, what
epsilon means for one person, what was measured beside what was predicted, what it does not protect against, and the
command that repeats it. Every number stands in the result's JSON, and the page says where.

\b
  blindrec report runs/a --out a.html
  blindrec report runs/a runs/b plan.json --out all.html --pdf all.pdf
"""


def report(
    results: Annotated[list[Path], typer.Argument(help="Folders of --out, or files of --json.", show_default=False)],
    *,
    out: Annotated[Path, typer.Option(help="File for the page, .html.")],
    pdf: Annotated[Path | None, typer.Option(help="File for the same page as PDF (extra pdf).")] = None,
) -> None:
    """Make a page to show of results; see `HELP`."""
    from scenarios.pages.page import write_report

    write_report(results, out, pdf)


report.__doc__ = HELP
