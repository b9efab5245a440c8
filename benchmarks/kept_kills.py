"""The file of rows of `benchmarks.kills`, one a line, and the table that sums them up."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]  # A disturbed run; see `benchmarks.kills.rows`
MOMENTS: Final = 5  # A run is divided into so many equal parts in the table


def read(file: Path | None) -> list[Row]:
    """Return the rows in a file, none if there is no file. What a crash left of a last line is removed from it."""
    if file is None or not file.exists():
        return []
    content = file.read_bytes()
    if torn := content[content.rfind(b"\n") + 1 :]:
        with file.open("r+b") as opened:
            opened.truncate(len(content) - len(torn))
    return [json.loads(line) for line in content.splitlines()[: content.count(b"\n")]]


def keep(file: Path | None, row: Row) -> None:
    """Add a row to a file, if there is one."""
    if file is not None:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(row) + "\n")


def table(rows: Iterable[Row]) -> list[str]:
    """Return a table of runs by victim and moment: how many were identical, of how many in which something was killed.

    The moment of a kill is the run's progress just before it, as a share of the whole run. Runs that were over before
    anything could be killed stand in the last column, and only there.
    """
    groups: dict[tuple[str, str], list[list[bool]]] = {}
    for row in rows:
        cells = groups.setdefault((row["family"], row["kind"]), [[] for _ in range(MOMENTS + 1)])
        place = min(int(MOMENTS * row["moment"]), MOMENTS - 1) if row["killed"] else MOMENTS
        cells[place].append(row["identical"])
    bounds = [f"{100 * part // MOMENTS} to {100 * (part + 1) // MOMENTS} %" for part in range(MOMENTS)]
    heads = ["family", "victim", *bounds, "all", "over before"]
    lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
    for (family, kind), cells in sorted(groups.items()):
        killed = [*cells[:MOMENTS], [one for cell in cells[:MOMENTS] for one in cell]]
        shares = [f"{sum(cell)} of {len(cell)}" if cell else "" for cell in killed]
        lines.append(" | ".join([family, kind, *shares, str(len(cells[MOMENTS]) or "")]))
    return [f"| {line} |" for line in lines]
