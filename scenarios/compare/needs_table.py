"""The recipe that `blindrec data` ends with: which mechanism a file's people could use where nobody is trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

HONEST = (
    "by formulas, within a factor of 3 on MovieLens and Jester: from so many people like these on, a list by the set "
    "mechanism keeps 95 % of what plain popularity is worth, and lists by pairs of items begin to beat it; volunteers' "
    "public ratings or a curator need far fewer; public features of items, weighed on the device, cost "
    "nothing (--features); blindrec compare measures it on this file"
)


def show_needs(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of `scenarios.compare.needs.needs`."""
    if not rows:
        return
    here = f"kept by {rows[0]['people_here']:,}"
    table = Table("epsilon", "people for popularity", here, "people for pairs", "use here")
    table.title, table.title_justify = Text("what recommendations take where nobody is trusted"), "left"
    for row in rows:
        pairs = "" if row["people_for_pairs"] is None else f"{row['people_for_pairs']:,}"
        table.add_row(row["epsilon"], f"{row['people']:,}", f"{100 * row['kept']:.0f} %", pairs, row["use"])
    console.print(table)
    console.print(Text(HONEST))
